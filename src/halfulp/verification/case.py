"""What the steps share about one run: its folder, what its records say, and what the auditor brought along."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from securesystemslib.signer import SSlibKey

from halfulp.errors import HalfulpError
from halfulp.registration.digests import LARGEST_JSON, canonical_json, parse_json, read_json, sha256_bytes, sha256_file
from halfulp.registration.receipts import Receipt
from halfulp.training.tables import file_contents
from halfulp.verification.expected import Jobs
from halfulp.verification.folder import Folder


@dataclass(frozen=True)
class Auditor:
    """What an auditor holds apart from the folder."""

    #: The project's folder: registrations, committed frozen files, code.
    project: Path
    #: Public keys that the auditor trusts, by the name of their file.
    keys: dict[str, SSlibKey] = field(default_factory=dict)
    #: Digest of the frozen file that was kept elsewhere.
    expect: str | None = None
    #: Timestamp token for the frozen file; else ``frozen.tsr`` in the folder.
    token: Path | None = None
    #: Certificates of the timestamp authorities that are trusted.
    authority: Path | None = None


@dataclass
class Case:
    """One run under verification; the steps fill in what they establish."""

    folder: Folder
    auditor: Auditor
    #: Parsed and checked by step 1.
    frozen: dict[str, Any] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)
    registration: Any = None
    #: The registration's file.
    path: Path = Path()
    jobs: Jobs = field(default_factory=dict)
    #: Parsed and checked by step 3, by name.
    receipts: dict[str, Receipt] = field(default_factory=dict)
    signed: bool = False

    @property
    def name(self) -> str:
        """Name of the registration's file, without ending."""
        return self.path.stem

    def record(self, name: str, schema: str) -> dict[str, Any]:
        """Read one of the run's JSON records from its canonical bytes.

        Raises:
            HalfulpError: it is missing, not JSON, of another schema, or not in canonical form.
        """
        path = self.folder.files.get(name)
        if name in self.folder.strange:
            raise HalfulpError(f"{name}: {self.folder.strange[name]}")
        if path is None:
            raise MissingError(f"{name}: missing")
        if path.stat().st_size > LARGEST_JSON:
            raise HalfulpError(f"{name}: {path.stat().st_size} bytes, no record is larger than {LARGEST_JSON}")
        raw = path.read_bytes()
        content = parse_json(raw, name)
        if not isinstance(content, dict) or content.get("schema") != schema:
            raise HalfulpError(f"{name}: not a record of {schema}")
        if canonical_json(content) != raw:
            raise HalfulpError(f"{name}: not in canonical form: line endings, spaces or order changed")
        return content

    def committed(self) -> Path:
        """Return where the registration's frozen file is committed."""
        return self.path.with_suffix(".frozen.json")


class MissingError(HalfulpError):
    """Something is not there, which is ``incomplete`` and not ``tampered``."""


def how_it_differs(path: Path, receipt: Receipt, name: str) -> str:
    """Say whether a file that is not the receipt's has its contents all the same: re-serialised, or changed data."""
    try:
        if path.suffix == ".parquet":
            stated = receipt.contents.get(name)
            if stated is None:
                return "bytes differ from its receipt, which has no digest of contents"
            same = file_contents(path) == stated
        elif path.suffix == ".json":
            same = sha256_bytes(canonical_json(read_json(path))) == receipt.outputs[name]
        else:
            same = False
    except (HalfulpError, OSError, ValueError) as error:
        return f"bytes differ from its receipt, and it can't be read ({error})"
    return (
        "re-serialised: bytes differ from its receipt, contents are equal"
        if same
        else "contents differ from its receipt"
    )


def source_digest(project: Path, name: str) -> str | None:
    """Return the digest of a source file of the project; None if it is not there."""
    path = project / name
    return sha256_file(path) if path.is_file() else None
