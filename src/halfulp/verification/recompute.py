"""Steps 6 to 8: forecasts, scores and tables made again from the counts, in a copy of the folder."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError
from halfulp.registration.deviations import Deviation, deviations_for
from halfulp.registration.digests import read_json, sha256_bytes
from halfulp.report import mechanism_tables, tables, writeback_tables
from halfulp.studies import audit, audit_rules, catalogue, jobs, mechanism_rules, writeback_rules
from halfulp.studies.audit_registration import AuditRegistration
from halfulp.studies.tasks import Task
from halfulp.training.tables import read_table
from halfulp.verification.case import Case
from halfulp.verification.findings import Finding

#: Relative difference that another machine's arithmetic may make.
TOLERANCE = 1e-9


def forecasts(case: Case, found: Finding, copy: Path) -> None:
    """Step 6: the sealed forecasts are what the predictors make of the references and the historical outcomes."""
    if not isinstance(case.registration, AuditRegistration):
        found.say("no sealed forecasts in this study; crossings of its forecast counts are recomputed in step 7")
        return
    new = {"forecasts": copy / "new" / "forecasts.parquet", "ranking": copy / "new" / "ranking.json"}
    audit_rules.make_forecasts(task(case, "predict", copy, new))
    old, again = (
        read_table(path, audit.FORECASTS).to_pandas() for path in (copy / "forecasts.parquet", new["forecasts"])
    )
    keys = ["predictor", "seed", "group", "step"]
    if not old[keys].equals(again[keys]):
        found.tampered("forecasts.parquet: has other rows than the predictors make")
        return
    largest = float(np.max(np.abs(old["value"].to_numpy() - again["value"].to_numpy()), initial=0.0))
    if not largest <= TOLERANCE:
        found.tampered(f"forecasts.parquet: differs from what the predictors make, by up to {largest:.3g}")
    difference = differing(read_json(copy / "ranking.json"), read_json(new["ranking"]))
    if difference:
        found.tampered(f"ranking.json: differs from what the left-out historical seeds give at {difference}")
    if found.status == "ok":
        how = "exactly" if largest == 0.0 else f"to {largest:.1g}"
        found.say(f"forecasts.parquet: {len(old)} values by {old['predictor'].nunique()} predictors, recomputed {how}")


def scores(case: Case, found: Finding, copy: Path) -> None:
    """Step 7: scores, gates and verdict follow from the counts."""
    rule = scoring_rule(case.registration)
    new = {"scores": copy / "new" / "scores.json"}
    jobs.RULES[rule](task(case, rule, copy, new))
    old, again = read_json(copy / "scores.json"), read_json(new["scores"])
    if not isinstance(old, dict):
        found.tampered("scores.json: not a record of scores")
        return
    named = [gate["name"] for gate in again["gates"]]
    if [gate.get("name") for gate in old.get("gates", [])] != named:
        found.tampered("scores.json: its gates are not those that were registered")
    difference = differing(old, again)
    if difference:
        found.tampered(f"scores.json: differs from what the counts give at {difference}")
    else:
        outcomes = ", ".join(f"{gate['name']} {gate['outcome']}" for gate in again["gates"])
        found.say(f"scores.json: recomputed from the counts; verdict {again['verdict']} ({outcomes})")


def scoring_rule(registration: Any) -> str:
    """Return the rule that makes a study's scores."""
    if isinstance(registration, AuditRegistration):
        return "score"
    return "judge" if registration.study in catalogue.MECHANISMS else "conclude"


def differing(old: Any, again: Any, where: str = "") -> str:
    """Return where two JSON values differ by more than the tolerance; empty if nowhere."""
    if isinstance(old, dict) and isinstance(again, dict):
        odd = sorted(old.keys() ^ again.keys())
        if odd:
            return f"{where}.{odd[0]}".lstrip(".")
        parts = (differing(old[key], again[key], f"{where}.{key}".lstrip(".")) for key in sorted(old))
        return next((part for part in parts if part), "")
    if isinstance(old, list) and isinstance(again, list):
        if len(old) != len(again):
            return f"{where} (length)"
        parts = (differing(a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(old, again, strict=True)))
        return next((part for part in parts if part), "")
    if isinstance(old, float) and isinstance(again, float):
        return "" if math.isclose(old, again, rel_tol=TOLERANCE, abs_tol=TOLERANCE) else where
    return "" if type(old) is type(again) and old == again else where


def printed(case: Case, found: Finding, copy: Path) -> None:
    """Step 8: tables are those that the scores give, byte for byte."""
    again = write_tables(case.registration, copy, copy / "new", deviations_then(case, copy), case.auditor.project)
    for path in again:
        name = path.relative_to(copy / "new").as_posix()
        if not (copy / name).is_file():
            found.incomplete(f"{name}: missing")
        elif (copy / name).read_bytes() != path.read_bytes():
            found.tampered(f"{name}: differs from the table that the scores give")
    if found.status == "ok":
        found.say(f"{len(again)} files of tables and captions regenerated, byte for byte")


def write_tables(registration: Any, run: Path, out: Path, deviations: list[Deviation], project: Path) -> list[Path]:
    """Write a run's tables (and an audit's captions) from its scores; return the files."""
    scores, identity = read_json(run / "scores.json"), read_json(run / "run.json")
    if isinstance(registration, AuditRegistration):
        context = tables.ReportContext(registration, scores, identity, deviations)
        tables.write_tables(tables.TABLES, context, out / "tables")
        tables.write_captions(context, project / "workflow" / "report", out / "captions")
    else:
        made = mechanism_tables if registration.study in catalogue.MECHANISMS else writeback_tables
        tables.write_tables(made.TABLES, tables.Context(registration, scores, identity, deviations), out / "tables")
    return sorted(path for part in ("tables", "captions") for path in (out / part).glob("*.*"))


def deviations_then(case: Case, copy: Path) -> list[Deviation]:
    """Return the run's deviations as they were when its tables were made.

    The list is append-only, so what it was then is its beginning now; the receipt has the digest.
    """
    last = next(receipt for name, receipt in case.receipts.items() if name in ("report", "present", "tabulate"))
    digest = last.inputs.get("preregistration/deviations.yaml")
    path = case.auditor.project / "preregistration" / "deviations.yaml"
    text = path.read_bytes()
    ends = [len(text), *(i + 1 for i in range(len(text)) if text.startswith(b"\n  - date:", i))]
    for end in ends:
        if sha256_bytes(text[:end]) == digest:
            (copy / "deviations.yaml").write_bytes(text[:end])
            return deviations_for(copy / "deviations.yaml", case.registration)
    raise HalfulpError(f"{path.name}: is not a continuation of the list that the tables were made with")


def task(case: Case, rule: str, copy: Path, outputs: dict[str, Path]) -> Task:
    """Return a task of a rule in the copy of the folder."""
    for path in outputs.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    wildcards = case.jobs[rule].wildcards if rule in case.jobs else {}
    return Task(rule, case.path, case.registration, copy, wildcards, [], outputs)


def draw(registration: Any, path: Path, run: Path) -> None:
    """Draw a run's figure into its folder, which is a copy."""
    from halfulp.report import figures, mechanism_figures, writeback_figures  # matplotlib takes a second

    here = Task("draw", path, registration, run, {}, [], {})
    scores, identity = read_json(run / "scores.json"), read_json(run / "run.json")
    if isinstance(registration, AuditRegistration):
        seen = read_table(run / "forecasts.parquet", audit.FORECASTS).to_pandas()
        counts = {seed: audit_rules.read_counts(here, "targets", seed) for seed in registration.seeds.targets}
        figures.draw_curves(
            tables.ReportContext(registration, scores, identity, []), seen, counts, run / "figures/curves"
        )
        return
    context = tables.Context(registration, scores, identity, [])
    if registration.study in catalogue.MECHANISMS:
        parts = [mechanism_rules.read(here, part) for part in ("forecast", "measured")]
        mechanism_figures.draw(context, [p.cells for p in parts], [p.metrics for p in parts], run)
    else:
        writeback_figures.draw(context, writeback_rules.read(here).tables, run)
