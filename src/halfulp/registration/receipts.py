"""Receipts: what each job read, wrote, ran on and belonged to. Seals: forecasts fixed before outcomes exist."""

import os
import socket
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from halfulp.determinism import environment
from halfulp.errors import FrozenError, IncompleteError
from halfulp.registration.digests import digest_all, read_record, sha256_bytes, sha256_file, write_json
from halfulp.registration.freeze import ENFORCING, FROZEN_SCHEMA, PACKAGE, PROJECT

RECEIPT_SCHEMA = "halfulp.receipt/1"
RUN_SCHEMA = "halfulp.run/1"
SEAL_SCHEMA = "halfulp.seal/1"


@dataclass(frozen=True, kw_only=True)
class Job:
    """Who is writing: a rule of the workflow with its wildcards, in one run."""

    #: Rule name.
    rule: str
    #: Wildcards by name.
    wildcards: dict[str, str]
    #: The run's folder.
    run: Path
    #: When the job began.
    started: datetime


def now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


def code_digest() -> str:
    """Return one SHA-256 over every source file of the package and of the workflow."""
    workflow = [path for pattern in ENFORCING[:-1] for path in PROJECT.glob(pattern)]
    digests = digest_all(sorted({*PACKAGE.rglob("*.py"), *workflow}), PROJECT)
    return sha256_bytes("\n".join(f"{digest}  {name}" for name, digest in digests.items()).encode())


def write_receipt(path: Path, job: Job, *, inputs: list[Path], outputs: list[Path], seed: int | None) -> None:
    """Write a job's receipt; every digest is of the bytes as they lie on the disk now."""
    frozen = job.run / "frozen.json"
    identity = read_record(job.run / "run.json", RUN_SCHEMA)
    write_json(
        path,
        {
            "schema": RECEIPT_SCHEMA,
            "rule": job.rule,
            "wildcards": job.wildcards,
            "run_id": identity["run_id"],
            "label": identity["label"],
            "frozen_sha256": digest_all([frozen], job.run)["frozen.json"],
            "registration_sha256": read_record(frozen, FROZEN_SCHEMA)["registration"]["sha256"],
            "code_sha256": code_digest(),
            "seed": seed,
            "inputs": digest_all(inputs, job.run),
            "outputs": digest_all(outputs, job.run),
            "environment": environment(),
            "job": {
                "id": str(uuid.uuid4()),
                "host": socket.gethostname(),
                "process": os.getpid(),
                "scheduler": os.environ.get("SLURM_JOB_ID"),
            },
            "started": job.started.isoformat(),
            "finished": now().isoformat(),
        },
    )


def check_receipts(run: Path, inputs: list[Path]) -> None:
    """Insist that every input from the run's folder is what the receipt of its rule says, byte for byte.

    Args:
        run: the run's folder.
        inputs: a job's inputs; the receipts of the rules that made the others are among them.

    Raises:
        FrozenError: a file differs from its receipt, has none, or a receipt belongs to another run.
    """
    folder = run / "receipts"
    written: dict[str, str] = {}
    for path in (path for path in inputs if path.parent == folder):
        receipt = read_record(path, RECEIPT_SCHEMA)
        if receipt["frozen_sha256"] != digest_all([run / "frozen.json"], run)["frozen.json"]:
            raise FrozenError(f"{path}: belongs to another freeze; restore it, or start a new results folder")
        written |= receipt["outputs"]
    for path in inputs:
        if path.is_relative_to(run) and path.parent != folder:
            name = path.relative_to(run).as_posix()
            if written.get(name) != sha256_file(path):
                known = "differs from its receipt" if name in written else "has no receipt"
                raise FrozenError(f"{path}: {known}; restore it, or start a new results folder")


def check_present(run: Path, remade: tuple[str, ...]) -> None:
    """Insist that whatever the run's receipts list is there.

    Args:
        run: the run's folder.
        remade: rules whose outputs may be made again at any time.

    Raises:
        IncompleteError: a file that a receipt lists is missing.
    """
    for path in sorted((run / "receipts").glob("*.json")):
        receipt = read_record(path, RECEIPT_SCHEMA)
        missing = [name for name in receipt["outputs"] if not (run / name).is_file()]
        if missing and receipt["rule"] not in remade:
            raise IncompleteError(
                f"{run / missing[0]}: missing, but {path} lists it; restore it, or start a new folder"
            )


def write_seal(path: Path, run: Path, forecasts: list[Path], outcomes: list[Path]) -> None:
    """Seal the forecasts: fix their digests, before any unseen outcome exists.

    Args:
        path: the seal to write. It holds no time, so equal forecasts give equal seals; the receipt has the time.
        run: the run's folder.
        forecasts: the files to seal.
        outcomes: outcomes that exist already, finished or not; there must be none.

    Raises:
        FrozenError: an outcome exists already.
    """
    if outcomes:
        raise FrozenError(f"{outcomes[0]}: exists before the seal; forecasts can't be sealed now: start a new folder")
    write_json(path, {"schema": SEAL_SCHEMA, "sealed": digest_all([run / "frozen.json", *forecasts], run)})


def check_seal(path: Path, run: Path, forecasts: tuple[str, ...]) -> dict[str, Any]:
    """Insist that the seal covers the freeze and the forecasts, and that each is still what it was; return the seal.

    Raises:
        FrozenError: a sealed file changed, or the seal covers other files than it should.
    """
    seal = read_record(path, SEAL_SCHEMA)
    if set(seal["sealed"]) != {"frozen.json", *forecasts}:
        covered = ", ".join(sorted(seal["sealed"])) or "nothing"
        raise FrozenError(f"{path}: seals {covered}; restore it or start a new results folder")
    for name, digest in seal["sealed"].items():
        current = digest_all([run / name], run)[name]
        if current != digest:
            raise FrozenError(f"{run / name}: changed after it was sealed; restore it or start a new results folder")
    return seal
