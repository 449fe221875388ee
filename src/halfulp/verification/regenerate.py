"""Tables and figures of a run made again from its published counts, scores first."""

import shutil
import tempfile
from pathlib import Path

from halfulp.errors import InputError
from halfulp.registration.deviations import deviations_for
from halfulp.registration.digests import read_json
from halfulp.studies import jobs
from halfulp.studies.tasks import Task
from halfulp.verification import recompute
from halfulp.verification.case import Auditor, Case
from halfulp.verification.verify import check_integrity, copy_evidence


def untampered(run: Path, project: Path) -> Case:
    """Return a run whose files are what its records say; what is missing is not held against it.

    Raises:
        InputError: it was tampered with, or its registration is not at hand.
    """
    case, found = check_integrity(run, Auditor(project))
    worst = next((step for step in found if step.status == "tampered"), None)
    if worst is None and case.registration is None:
        worst = found[0]
    if worst is not None:
        raise InputError(f"{run}: {worst.status} ({worst.messages[-1]}); see `halfulp verify {run}`")
    return case


def regenerate(run: Path, out: Path, project: Path, *, figures: bool) -> list[Path]:
    """Recompute a run's scores from its counts, and write tables, and figures if asked, into another folder.

    Args:
        run: the run's folder; nothing in it is changed.
        out: where to write; a folder ``tables``, and ``captions`` and ``figures``, appear in it.
        project: the project's folder.
        figures: whether to draw the figure, too.

    Returns:
        The files that were written.

    Raises:
        InputError: the output is the run's own folder, or the run was tampered with.
        IncompleteError: a file is missing.
    """
    if out.resolve().is_relative_to(run.resolve()):
        raise InputError(f"{out}: lies in the run's own folder; give another --output")
    case = untampered(run, project)
    with tempfile.TemporaryDirectory(prefix="halfulp-tables-") as scratch:
        copy = copy_evidence(case, Path(scratch))
        rule = recompute.scoring_rule(case.registration)
        jobs.RULES[rule](Task(rule, case.path, case.registration, copy, {}, [], {"scores": copy / "scores.json"}))
        deviations = deviations_for(project / "preregistration" / "deviations.yaml", case.registration)
        written = recompute.write_tables(case.registration, copy, out, deviations, project)
        if figures:
            shutil.rmtree(copy / "figures", ignore_errors=True)
            recompute.draw(case.registration, case.path, copy)
            (out / "figures").mkdir(parents=True, exist_ok=True)
            for figure in sorted((copy / "figures").iterdir()):
                written.append(Path(shutil.copy(figure, out / "figures")))
    return written


def publish(run: Path, target: Path, project: Path) -> int:
    """Copy a run's evidence, without logs, timings and keys, to a folder that is not there yet; return the files.

    Raises:
        InputError: the target is there already or lies in the run, or the run was tampered with.
    """
    if target.exists() or target.is_symlink():
        raise InputError(f"{target}: is there already; what was published is not overwritten")
    if target.resolve().is_relative_to(run.resolve()):
        raise InputError(f"{target}: lies in the run's own folder; give another")
    case = untampered(run, project)
    case.folder.copy_to(target)
    return len(case.folder.files)


def page(run: Path, out: Path, files: list[Path]) -> Path:
    """Write ``report.md`` beside regenerated tables and figures: all of them on one page."""
    scores = read_json(run / "scores.json")
    lines = [f"# {scores['study']}, scale {scores['scale']}", "", f"Regenerated from the counts in `{run}`.", ""]
    lines += [f"![{p.stem}](figures/{p.name})\n" for p in files if p.suffix == ".png"]
    for table in (p for p in files if p.suffix == ".md" and p.parent.name == "tables"):
        lines += [f"## {table.stem}", "", table.read_text("utf-8")]
    target = out / "report.md"
    target.write_text("\n".join(lines), "utf-8")
    return target
