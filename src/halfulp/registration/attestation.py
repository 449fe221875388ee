"""Signed statements: in-toto Statements (v1) in DSSE envelopes, signed with Ed25519.

Every run has a key of its own, made when it is frozen and kept in its folder: its public half stands in ``run.json``,
so a receipt that was edited later, or copied from another run, no longer verifies. Who holds the folder holds that
key, so it says nothing of who ran what. That is what an author's key is for: with ``HALFULP_SIGNING_KEY`` every
receipt carries its signature, too.

Formats: https://github.com/in-toto/attestation/tree/main/spec/v1 and https://github.com/secure-systems-lab/dsse
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import CryptoSigner, SSlibKey

from halfulp.errors import FrozenError, InputError
from halfulp.registration.digests import canonical_json, parse_json, read_json, write_json

STATEMENT = "https://in-toto.io/Statement/v1"
PAYLOAD = "application/vnd.in-toto+json"
#: Environment variable with the path of the author's private key.
AUTHOR_KEY = "HALFULP_SIGNING_KEY"


@dataclass(frozen=True)
class Attestation:
    """A statement as it was read, with the keys whose signatures on it are good."""

    #: The in-toto Statement.
    statement: dict[str, Any]
    #: Identifiers of the given keys that signed it.
    signers: frozenset[str]
    #: Identifiers that the envelope names, checked or not.
    named: frozenset[str]


def make_key(path: Path) -> Path:
    """Write a new Ed25519 key pair, ``path`` (PKCS #8, for its owner alone) and ``path``.pub; return the latter.

    Raises:
        FrozenError: a key is there already; keys are never overwritten.
    """
    public = path.with_name(path.name + ".pub")
    for existing in (path, public):
        if existing.exists():
            raise FrozenError(f"{existing}: exists; a key is never overwritten: give another name")
    key = Ed25519PrivateKey.generate()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    public.write_text(_pem(key.public_key()), "utf-8")
    return public


def load_signer(path: Path) -> CryptoSigner:
    """Read a private key.

    Raises:
        InputError: it can't be read, or is not an Ed25519 key in PEM without a passphrase.
    """
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; make a key with `halfulp keygen`") from error
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: not a private key in PEM; make one with `halfulp keygen`") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path}: not an Ed25519 key; make one with `halfulp keygen`")
    return CryptoSigner(key, SSlibKey.from_crypto(key.public_key()))


def public_pem(signer: CryptoSigner) -> str:
    """Return a signer's public key as PEM."""
    return _pem(Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer.public_key.keyval["public"])))


def load_public(pem: str | bytes, origin: str) -> SSlibKey:
    """Read a public key from PEM; ``origin`` names it in errors.

    Raises:
        InputError: it is not an Ed25519 public key in PEM.
    """
    try:
        key = serialization.load_pem_public_key(pem.encode() if isinstance(pem, str) else pem)
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{origin}: not a public key in PEM; give a file that `halfulp keygen` wrote") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{origin}: not an Ed25519 public key; give a file that `halfulp keygen` wrote")
    return SSlibKey.from_crypto(key)


def author() -> CryptoSigner | None:
    """Return the author's key that the environment names, if any."""
    path = os.environ.get(AUTHOR_KEY)
    return load_signer(Path(path)) if path else None


def write_statement(
    path: Path, subject: dict[str, str], predicate_type: str, predicate: dict[str, Any], signers: list[CryptoSigner]
) -> None:
    """Write a signed statement.

    Args:
        path: the envelope's file.
        subject: what the statement is about, name → SHA-256.
        predicate_type: URI of the kind of statement.
        predicate: what is stated.
        signers: the keys to sign with.
    """
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subject.items())],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    envelope = Envelope(canonical_json(statement), PAYLOAD, {})
    for signer in signers:
        envelope.sign(signer)
    write_json(path, envelope.to_dict())


def read_statement(path: Path, keys: list[SSlibKey]) -> Attestation:
    """Read an envelope, and say which of some keys signed it. A bad signature of a known key is not overlooked.

    Raises:
        IncompleteError: there is no such file.
        InputError: it is no DSSE envelope with an in-toto Statement.
        FrozenError: a known key's signature does not match the statement.
    """
    content = read_json(path)
    try:
        envelope = Envelope.from_dict(json.loads(json.dumps(content)))
        if envelope.to_dict() != content:
            raise ValueError("it holds more than payload, payloadType and signatures with keyid and sig")
        if envelope.payload_type != PAYLOAD:
            raise ValueError(f"payload type {envelope.payload_type!r}")
        statement = parse_json(envelope.payload, str(path))
        if statement["_type"] != STATEMENT:
            raise ValueError(f"statement type {statement['_type']!r}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: not a DSSE envelope with an in-toto Statement ({error}); restore it") from error
    good = set()
    for key in keys:
        if key.keyid not in envelope.signatures:
            continue
        try:
            key.verify_signature(envelope.signatures[key.keyid], envelope.pae())
        except UnverifiedSignatureError as error:
            raise FrozenError(f"{path}: its signature by key {key.keyid[:8]} does not match; restore it") from error
        good.add(key.keyid)
    return Attestation(statement, frozenset(good), frozenset(envelope.signatures))


def _pem(key: Ed25519PublicKey) -> str:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
