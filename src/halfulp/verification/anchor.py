"""A timestamp for the frozen file: an RFC 3161 token by an authority that the auditor trusts."""

from typing import TYPE_CHECKING

from cryptography import x509
from rfc3161_client import VerifierBuilder, decode_timestamp_response
from rfc3161_client.errors import VerificationError

from halfulp.verification.findings import Finding

if TYPE_CHECKING:
    from halfulp.verification.case import Case

#: Name of a token that travels with the run.
TOKEN = "frozen.tsr"


def check(case: "Case", found: Finding) -> None:
    """Say when the frozen file is known to have existed; without a token that can be checked it is ``unanchored``.

    A token that was made for other contents contradicts the record; one that can't be checked proves nothing.
    """
    beside = case.folder.root / TOKEN
    token = case.auditor.token or (beside if beside.is_file() and not beside.is_symlink() else None)
    if token is None:
        found.say("frozen.json: unanchored, no timestamp token was given")
        return
    if case.auditor.authority is None:
        found.say(f"frozen.json: unanchored, {token.name} can't be checked without its authority (--authority)")
        return
    frozen = (case.folder.root / "frozen.json").read_bytes()
    try:
        response = decode_timestamp_response(token.read_bytes())
        certificates = x509.load_pem_x509_certificates(case.auditor.authority.read_bytes())
    except (ValueError, OSError) as error:
        found.say(f"frozen.json: unanchored, {token.name} or its authority can't be read ({_first_line(error)})")
        return
    builder = VerifierBuilder()
    for certificate in certificates:
        builder = builder.add_root_certificate(certificate)
    try:
        builder.build().verify_message(response, frozen)
    except (VerificationError, ValueError) as error:
        if "Mismatch between messages" in str(error):
            found.tampered(f"frozen.json: {token.name} was made for other contents")
        else:
            found.say(f"frozen.json: unanchored, {token.name} does not verify ({_first_line(error)})")
        return
    found.say(
        f"frozen.json: anchored, existed at {response.tst_info.gen_time.isoformat()} by {case.auditor.authority.name}"
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
