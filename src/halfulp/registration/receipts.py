"""Receipts: what each job read, wrote, ran on and belonged to. Seals: forecasts fixed before outcomes exist."""

import os
import socket
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from halfulp.determinism import environment
from halfulp.errors import FrozenError
from halfulp.registration.digests import digest_all, read_json, sha256_bytes, write_json
from halfulp.registration.freeze import PACKAGE

RECEIPT_SCHEMA = "halfulp.receipt/1"
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
    """Return one SHA-256 over every source file of the package."""
    digests = digest_all(sorted(PACKAGE.rglob("*.py")), PACKAGE)
    return sha256_bytes("\n".join(f"{digest}  {name}" for name, digest in digests.items()).encode())


def write_receipt(path: Path, job: Job, *, inputs: list[Path], outputs: list[Path], seed: int | None) -> None:
    """Write a job's receipt; every digest is of the bytes as they lie on the disk now."""
    frozen = job.run / "frozen.json"
    identity = read_json(job.run / "run.json")
    write_json(
        path,
        {
            "schema": RECEIPT_SCHEMA,
            "rule": job.rule,
            "wildcards": job.wildcards,
            "run_id": identity["run_id"],
            "label": identity["label"],
            "frozen_sha256": digest_all([frozen], job.run)["frozen.json"],
            "registration_sha256": read_json(frozen)["registration"]["sha256"],
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


def write_seal(path: Path, run: Path, forecasts: list[Path], outcomes: Path) -> None:
    """Seal the forecasts: fix their digests, before any unseen outcome exists.

    Args:
        path: the seal to write. It holds no time, so equal forecasts give equal seals; the receipt has the time.
        run: the run's folder.
        forecasts: the files to seal.
        outcomes: the folder of unseen outcomes, which must not exist yet.

    Raises:
        FrozenError: an outcome exists already.
    """
    existing = sorted(item for item in outcomes.rglob("*") if item.is_file()) if outcomes.exists() else []
    if existing:
        raise FrozenError(f"{existing[0]}: exists before the seal; forecasts can't be sealed now: start a new folder")
    sealed = digest_all([run / "frozen.json", *forecasts], run)
    write_json(path, {"schema": SEAL_SCHEMA, "sealed": sealed})


def check_seal(path: Path, run: Path) -> dict[str, Any]:
    """Insist that every sealed file is still what it was; return the seal.

    Raises:
        FrozenError: a sealed file changed.
    """
    seal: dict[str, Any] = read_json(path)
    for name, digest in seal["sealed"].items():
        current = digest_all([run / name], run)[name]
        if current != digest:
            raise FrozenError(f"{run / name}: changed after it was sealed; restore it or start a new results folder")
    return seal
