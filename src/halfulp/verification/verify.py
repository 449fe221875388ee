"""Verifying a run's folder in eight numbered steps, each of which fails closed."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from halfulp.verification import chain, integrity, recompute
from halfulp.verification.case import Auditor, Case
from halfulp.verification.findings import NOT_PROVED, UNSIGNED, Finding, Report
from halfulp.verification.folder import Folder

INTEGRITY: tuple[Callable[[Case, Finding], None], ...] = (
    integrity.freeze,
    integrity.sources,
    chain.receipts,
    chain.chain,
    chain.order,
)
RECOMPUTED: tuple[Callable[[Case, Finding, Path], None], ...] = (
    recompute.forecasts,
    recompute.scores,
    recompute.printed,
)
#: Steps that make sense without a registration.
WITHOUT_REGISTRATION = (1, 3, 4)


def check_integrity(folder: Path, auditor: Auditor) -> tuple[Case, list[Finding]]:
    """Take the first five steps, which look at digests, signatures and times, and compute no score."""
    case, found = Case(Folder(folder), auditor), []
    for number, step in enumerate(INTEGRITY, 1):
        finding = Finding(number)
        if number == 1:
            _guarded(finding, case.folder.scan)
        if number > 1 and case.registration is None and number not in WITHOUT_REGISTRATION:
            finding.status = "not reached"
        elif finding.status == "ok":
            _guarded(finding, lambda step=step, finding=finding: step(case, finding))  # type: ignore[misc]
        found.append(finding)
    return case, found


def verify_run(folder: Path, auditor: Auditor) -> Report:
    """Verify one run's folder; nothing in it is changed, and nothing outside is read but what the auditor brought.

    Scores are only recomputed from files that are what their receipts say: steps 6 to 8 are not reached otherwise.
    """
    case, found = check_integrity(folder, auditor)
    sound = all(finding.status == "ok" for finding in found)
    found += _recomputed(case) if sound else [Finding(n, "not reached") for n in (6, 7, 8)]
    return Report(str(folder), tuple(found), NOT_PROVED if case.signed else (UNSIGNED, *NOT_PROVED))


def copy_evidence(case: Case, scratch: Path) -> Path:
    """Copy a run's evidence, under its registration's name, whatever its own folder is called; return the copy."""
    copy = scratch / case.name
    case.folder.copy_to(copy)
    return copy


def _recomputed(case: Case) -> list[Finding]:
    findings = []
    with tempfile.TemporaryDirectory(prefix="halfulp-verify-") as scratch:
        copy = copy_evidence(case, Path(scratch))
        for number, step in enumerate(RECOMPUTED, len(INTEGRITY) + 1):
            finding = Finding(number)
            _guarded(finding, lambda step=step, finding=finding: step(case, finding, copy))  # type: ignore[misc]
            findings.append(finding)
    return findings


def _guarded(finding: Finding, step: Callable[[], object]) -> None:
    """Take a step; whatever goes wrong in it is a finding, since the folder may hold anything."""
    try:
        step()
    except PermissionError as error:
        finding.incomplete(f"{error.filename}: can't be read ({error.strerror})")
    except Exception as error:
        finding.tampered(f"can't be checked: {type(error).__name__}: {error}")
