"""Canonical process identity: was a job's result written by the workflow's own rule, in this registered run?

A result is canonical only if every check below holds; the first that does not is the reason that gets reported.
"""

from dataclasses import dataclass
from pathlib import Path

from halfulp.errors import FrozenError, HalfulpError, IncompleteError
from halfulp.registration.digests import read_record, sha256_file
from halfulp.registration.freeze import FROZEN_SCHEMA
from halfulp.registration.receipts import ATTEMPTS_SCHEMA, RUN_SCHEMA, Receipt, job_name, read_receipt, run_key


@dataclass(frozen=True)
class Identity:
    """Whether a job's result is canonical, and if not, why."""

    canonical: bool
    #: What the checks found; never empty.
    reason: str


def process_identity(run: Path, rule: str, wildcards: dict[str, str], files: list[Path]) -> Identity:
    """Judge one job's process identity.

    Args:
        run: the run's folder.
        rule: the rule that should have made the files.
        wildcards: its wildcards.
        files: the files that it should have made, no more and no fewer.
    """
    label = read_record(run / "run.json", RUN_SCHEMA)["label"]
    if label != "registered":
        return Identity(False, f"the run is {'a replication' if label == 'replication' else label}, not registered")
    try:
        reason = _fault(run, rule, wildcards, files)
    except (HalfulpError, KeyError, TypeError, IndexError, AttributeError) as error:
        reason = str(error) if isinstance(error, HalfulpError) else f"its records can't be read ({error!r})"
    return Identity(reason is None, reason or "written by the workflow in this registered run")


def _fault(run: Path, rule: str, wildcards: dict[str, str], files: list[Path]) -> str | None:
    """Return what is wrong with a job's receipt; None if nothing is."""
    name, key = job_name(rule, wildcards), run_key(run)
    try:
        receipt = read_receipt(run / "receipts" / f"{name}.json", [] if key is None else [key])
    except IncompleteError:
        return "it has no receipt: made outside the workflow"
    except FrozenError:
        return "its receipt was edited: the signature does not match"
    foreign = _foreign(run, rule, wildcards, receipt)
    if foreign is not None:
        return foreign
    if key is None or key.keyid not in receipt.signers:
        return "its receipt is not signed by this run's key: made outside the workflow"
    return _stale(run, name, receipt) or _differing(run, files, receipt)


def _foreign(run: Path, rule: str, wildcards: dict[str, str], receipt: Receipt) -> str | None:
    identity, frozen = read_record(run / "run.json", RUN_SCHEMA), run / "frozen.json"
    if receipt.run_id != identity["run_id"]:
        return "its receipt is of another run"
    registration = read_record(frozen, FROZEN_SCHEMA)["registration"]["sha256"]
    if (receipt.frozen_sha256, receipt.registration_sha256) != (sha256_file(frozen), registration):
        return "its receipt is of another registration or freeze"
    if receipt.label != identity["label"]:
        return f"its receipt is of a run labelled {receipt.label}"
    if (receipt.rule, receipt.wildcards) != (rule, wildcards):
        return f"its receipt is of another job: {job_name(receipt.rule, receipt.wildcards)}"
    for name in ("frozen.json", "run.json", "receipts/freeze.json"):
        if receipt.inputs.get(name) != sha256_file(run / name):
            return f"its receipt does not lead back to the freeze: {name} differs"
    return None


def _stale(run: Path, name: str, receipt: Receipt) -> str | None:
    ledger = run / "attempts" / f"{name}.json"
    if not ledger.is_file():
        return "the workflow has no attempt at it on record"
    ids = [entry["id"] for entry in read_record(ledger, ATTEMPTS_SCHEMA)["attempts"]]
    if ids != [*receipt.job.get("earlier", ids[:-1]), receipt.job["id"]]:
        return "its receipt is of an earlier attempt, or of none on record"
    return None


def _differing(run: Path, files: list[Path], receipt: Receipt) -> str | None:
    expected = {path.relative_to(run).as_posix(): path for path in files}
    if set(receipt.outputs) != set(expected):
        return "its receipt lists other files than the job writes"
    for name, path in sorted(expected.items()):
        if not path.is_file() or path.is_symlink():
            return f"{name} is {'a link' if path.is_symlink() else 'missing'}"
        if sha256_file(path) != receipt.outputs[name]:
            return f"{name} differs from its receipt"
    return None
