"""Tables and figures of a run made again from its published counts, scores first."""

import shutil
import tempfile
from pathlib import Path

from halfulp.errors import InputError
from halfulp.registration.deviations import deviations_for
from halfulp.registration.digests import read_json, read_record
from halfulp.registration.freeze import FROZEN_SCHEMA
from halfulp.studies import audit_rules, catalogue, mechanism_rules, writeback_rules
from halfulp.studies.audit_registration import AuditRegistration
from halfulp.studies.tasks import Task
from halfulp.verification import recompute

#: What a copy for recomputing leaves behind.
_LEFT = shutil.ignore_patterns("logs", "benchmarks", "progress", "checkpoints", ".vault", ".run-key.pem")


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
        InputError: the output is the run's own folder, or the registration is not at hand.
        IncompleteError: a file is missing.
    """
    if out.resolve().is_relative_to(run.resolve()):
        raise InputError(f"{out}: lies in the run's own folder; give another --output")
    frozen = read_record(run / "frozen.json", FROZEN_SCHEMA)
    path = project / frozen["registration"]["path"]
    registration = catalogue.load(path)
    with tempfile.TemporaryDirectory(prefix="halfulp-tables-") as scratch:
        copy = Path(scratch, run.resolve().name)
        shutil.copytree(run, copy, ignore=_LEFT, symlinks=True)
        rules = audit_rules.RULES | mechanism_rules.RULES | writeback_rules.RULES
        if isinstance(registration, AuditRegistration):
            score = "score"
        elif registration.study in catalogue.MECHANISMS:
            score = "judge"
        else:
            score = "conclude"
        rules[score](Task(score, path, registration, copy, {}, [], {"scores": copy / "scores.json"}))
        deviations = deviations_for(project / "preregistration" / "deviations.yaml", registration)
        written = recompute.write_tables(registration, copy, out, deviations, project)
        if figures:
            shutil.rmtree(copy / "figures", ignore_errors=True)
            recompute.draw(registration, path, copy)
            (out / "figures").mkdir(parents=True, exist_ok=True)
            for figure in sorted((copy / "figures").iterdir()):
                written.append(Path(shutil.copy(figure, out / "figures")))
    return written


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
