"""Verifying a run's folder in eight numbered steps, each of which fails closed."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from halfulp.errors import HalfulpError, InputError
from halfulp.verification import integrity, recompute
from halfulp.verification.case import Auditor, Case
from halfulp.verification.findings import NOT_PROVED, UNSIGNED, Finding, Report
from halfulp.verification.folder import Folder

INTEGRITY: tuple[Callable[[Case, Finding], None], ...] = (
    integrity.freeze,
    integrity.sources,
    integrity.receipts,
    integrity.chain,
    integrity.order,
)
RECOMPUTED: tuple[Callable[[Case, Finding, Path], None], ...] = (
    recompute.forecasts,
    recompute.scores,
    recompute.printed,
)
#: A folder with one of these is that of a run, whole or not.
MARKS = ("frozen.json", "run.json", "scores.json", "receipts")


def find_runs(folder: Path) -> list[Path]:
    """Return the folders of runs in a folder, itself included; links are not followed.

    Raises:
        InputError: there is no such folder, or it holds no run.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a run's folder, or one that holds some")
    candidates = [folder, *(p for p in sorted(folder.rglob("*")) if p.is_dir() and not p.is_symlink())]
    runs: list[Path] = []
    for path in candidates:
        inside = any(path.is_relative_to(run) for run in runs)
        if not inside and any((path / mark).exists() or (path / mark).is_symlink() for mark in MARKS):
            runs.append(path)
    if not runs:
        raise InputError(f"{folder}: holds no run; give a run's folder, e.g. results/published/desk/audit-2")
    return runs


def verify_run(folder: Path, auditor: Auditor) -> Report:
    """Verify one run's folder; nothing in it is changed, and nothing outside is read but what the auditor brought.

    Scores are only recomputed from files that are what their receipts say: steps 6 to 8 are not reached otherwise.
    """
    case = Case(Folder.scan(folder), auditor)
    found = []
    for number, step in enumerate(INTEGRITY, 1):
        finding = Finding(number)
        if number > 1 and case.registration is None:
            finding.status = "not reached"
        else:
            step(case, finding)
        found.append(finding)
    sound = all(finding.status == "ok" for finding in found)
    found += _recomputed(case) if sound else [Finding(n, "not reached") for n in (6, 7, 8)]
    return Report(str(folder), tuple(found), NOT_PROVED if case.signed else (UNSIGNED, *NOT_PROVED))


def _recomputed(case: Case) -> list[Finding]:
    findings = []
    with tempfile.TemporaryDirectory(prefix="halfulp-verify-") as scratch:
        copy = Path(scratch, case.folder.root.resolve().name)
        for name, path in case.folder.files.items():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy / name, follow_symlinks=False)
        for number, step in enumerate(RECOMPUTED, len(INTEGRITY) + 1):
            finding = Finding(number)
            try:
                step(case, finding, copy)
            except (HalfulpError, ValueError, KeyError, TypeError, AttributeError) as error:
                finding.tampered(f"can't be recomputed from what lies there: {type(error).__name__}: {error}")
            findings.append(finding)
    return findings
