"""Claim: a statement reads back as it was signed, in public formats; an edit, another key or a forgery is refused."""

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.signer import SSlibKey

from halfulp.errors import FrozenError, HalfulpError, InputError
from halfulp.registration import attestation
from halfulp.registration.digests import canonical_json, parse_json, read_json

SUBJECT = {"counts.parquet": "a" * 64, "losses.parquet": "b" * 64}


def key(folder: Path, name: str = "key") -> tuple[Path, SSlibKey]:
    public = attestation.make_key(folder / name)
    return folder / name, attestation.load_public(public.read_text(), str(public))


def statement(folder: Path, *names: str) -> Path:
    signers = [attestation.load_signer(folder / name) for name in names]
    attestation.write_statement(folder / "s.json", SUBJECT, "urn:test:1", {"seed": 3}, signers)
    return folder / "s.json"


def test_a_statement_reads_back_with_its_signers(tmp_path: Path) -> None:
    (_, run), (_, author), (_, stranger) = key(tmp_path), key(tmp_path, "author"), key(tmp_path, "stranger")
    read = attestation.read_statement(statement(tmp_path, "key", "author"), [run, author, stranger])
    assert read.statement["subject"] == [{"name": n, "digest": {"sha256": d}} for n, d in SUBJECT.items()]
    assert read.statement["predicate"] == {"seed": 3}
    assert read.signers == {run.keyid, author.keyid} == read.named


def test_the_envelope_is_dsse_as_specified(tmp_path: Path) -> None:
    """The signature is checked from the specification's own formula, without the library that made it."""
    key(tmp_path)
    envelope = json.loads(statement(tmp_path, "key").read_bytes())
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    assert kind == "application/vnd.in-toto+json"
    assert json.loads(payload)["_type"] == "https://in-toto.io/Statement/v1"
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
    verifier = load_pem_public_key((tmp_path / "key.pub").read_bytes())
    assert isinstance(verifier, Ed25519PublicKey)
    verifier.verify(base64.b64decode(envelope["signatures"][0]["sig"]), signed)


def edited(path: Path, **changes: Any) -> None:
    envelope = json.loads(path.read_bytes())
    content = json.loads(base64.b64decode(envelope["payload"])) | changes
    path.write_bytes(canonical_json({**envelope, "payload": base64.b64encode(canonical_json(content)).decode()}))


def test_an_edited_statement_is_refused(tmp_path: Path) -> None:
    _, public = key(tmp_path)
    path = statement(tmp_path, "key")
    attestation.read_statement(path, [public])  # control
    edited(path, predicate={"seed": 4})
    with pytest.raises(FrozenError, match=r"s\.json: its signature by key \w{8} does not match"):
        attestation.read_statement(path, [public])


def test_another_key_is_no_signer(tmp_path: Path) -> None:
    _, public = key(tmp_path)
    key(tmp_path, "other")
    assert attestation.read_statement(statement(tmp_path, "other"), [public]).signers == frozenset()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"[]", b"null", b'"x"', b'{"payload": 1}', b"\xff\xfe", b"[" * 100_000,
        b'{"payload": "e30=", "payloadType": "text/plain", "signatures": []}',
        b'{"payload": "e30=", "payloadType": "application/vnd.in-toto+json", "signatures": []}',
        b'{"payload": "W10=", "payloadType": "application/vnd.in-toto+json", "signatures": []}',
        b'{"payload": "e30=", "payloadType": "application/vnd.in-toto+json", "signatures": [{"keyid": "a"}]}',
        b'{"payload": "!", "payloadType": "application/vnd.in-toto+json", "signatures": 3}',
    ],
)  # fmt: skip
def test_what_is_no_envelope_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(content)
    with pytest.raises(HalfulpError) as caught:
        attestation.read_statement(path, [])
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_keys_are_private_and_never_overwritten(tmp_path: Path) -> None:
    path, _ = key(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(FrozenError, match="a key is never overwritten"):
        attestation.make_key(path)
    assert path.read_bytes() == before


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    for path in (tmp_path / "bad", tmp_path / "absent"):
        with pytest.raises(InputError, match="halfulp keygen"):
            attestation.load_signer(path)
    with pytest.raises(InputError, match="not a public key"):
        attestation.load_public((tmp_path / "bad").read_text(), "bad")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a": -Infinity}', "-Infinity is not a number"),
        (b"[" * 200_000, "not JSON"),
        (b"1" * 5000, "not JSON"),
        (b'{"a": 1e999}', "not JSON"),
        (b'{"a": "\\ud800"}', "not JSON"),
    ],
)
def test_ambiguous_json_is_refused(text: bytes, reason: str) -> None:
    assert parse_json(b'{"a": [1, 2.5, null]}', "x") == {"a": [1, 2.5, None]}  # control
    with pytest.raises(InputError, match=reason):
        parse_json(text, "x")


def test_a_gigantic_record_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        file.truncate(9 << 20)
    with pytest.raises(InputError, match="no record is larger"):
        read_json(path)
