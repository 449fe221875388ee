"""The audit's rules as functions of a task: read declared inputs, compute, write declared outputs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd

from halfulp.audit.gates import finite
from halfulp.errors import FrozenError
from halfulp.registration import blind, seals
from halfulp.registration import freeze as freezing
from halfulp.registration.deviations import deviations_for
from halfulp.registration.digests import digest_all, read_json, read_record, sha256_file, write_json
from halfulp.registration.receipts import RUN_SCHEMA
from halfulp.studies import audit
from halfulp.studies.tasks import Task
from halfulp.training.data import Blocks, load_text
from halfulp.training.runner import train
from halfulp.training.tables import COUNTS, TRACE, make_table, read_table, write_table

#: What the seal covers besides the freeze.
SEALED = ("forecasts.parquet", "ranking.json")
OPENED_SCHEMA = "halfulp.opened/1"


def read_trace(task: Task, part: str, seed: int) -> pd.DataFrame:
    """Read the trace of an fp32 run; ``part`` is ``references`` or ``matched``."""
    return read_table(task.run / part / f"seed{seed}" / "trace.parquet", TRACE).to_pandas()


def read_counts(task: Task, part: str, seed: int) -> pd.DataFrame:
    """Read the counts of a write-back run; ``part`` is ``historical`` or ``targets``."""
    return read_table(task.run / part / f"seed{seed}" / "counts.parquet", COUNTS).to_pandas()


def reference(task: Task) -> None:
    """Train in fp32 and trace every registered format."""
    _train(task, traced=True)


def write_back_run(task: Task) -> None:
    """Train with the registered write-back; count exact events."""
    if task.rule == "target":
        seals.check_seal(task.run / "seal.json", task.run, SEALED)
    _train(task, traced=False)


def _train(task: Task, *, traced: bool) -> None:
    assert task.seed is not None
    config = task.registration.training
    blocks = Blocks.from_text(load_text(config.data), config.data)
    checkpoint = task.run / "checkpoints" / f"{task.name}.pt"
    plan = audit.plan(task.registration, task.seed, traced=traced)
    result = train(plan, blocks, checkpoint=checkpoint, report=task.reporter(config.steps))
    for name in ("counts", "trace", "losses"):
        table = getattr(result, name)
        if table is not None:
            write_table(table, task.outputs[name])
    validation = [row["loss"] for row in result.losses.to_pylist() if row["split"] == "validation"]
    write_json(
        task.outputs["summary"],
        {
            "schema": "halfulp.training/1",
            "seed": task.seed,
            "status": result.status,
            "detail": result.detail,
            "validation_loss": {"first": finite(validation[0]), "last": finite(validation[-1])},
        },
    )
    checkpoint.unlink(missing_ok=True)


def predict(task: Task) -> None:
    """Forecast every target seed, and rank the candidates, from the references and the historical outcomes alone.

    Predictors run in a process that has given up everything but the rule's declared inputs.
    """
    folders = sorted({path.parent for path in task.outputs.values()})
    blind.run_isolated(partial(make_forecasts, task), task.inputs, folders)


def make_forecasts(task: Task) -> None:
    """Write the forecasts and the blind ranking; a pure function of references and historical outcomes."""
    evidence, axes = audit.build_evidence(
        task.registration, partial(read_trace, task), partial(read_counts, task), opened=False
    )
    names, seeds = task.registration.predictors.blind, task.registration.seeds.targets
    rows = audit.forecast_rows(names, evidence, axes, seeds)
    write_table(make_table(rows, audit.FORECASTS), task.outputs["forecasts"])
    write_json(task.outputs["ranking"], audit.blind_ranking(task.registration, evidence))


def seal(task: Task) -> None:
    """Fix the forecasts before any unseen target has started. A seal in the vault is put back, not remade."""
    path, kept = task.outputs["seal"], freezing.vault(task.run) / "seal.json"
    if kept.exists():
        freezing.restore(task.run)
        seals.check_seal(path, task.run, SEALED)
        return
    outcomes = [item for item in task.run.glob("targets/**/*") if item.is_file()]
    outcomes += task.run.glob("checkpoints/target.*")
    seals.write_seal(path, task.run, [task.run / name for name in SEALED], sorted(outcomes))
    freezing.keep(task.run, [path])


def open_seal(task: Task) -> None:
    """Open the seal: every sealed file is what it was, and every target has its outcome."""
    sealed = seals.check_seal(task.run / "seal.json", task.run, SEALED)
    outcomes = [path for path in task.inputs if path.name == "counts.parquet"]
    record = {"schema": OPENED_SCHEMA, "sealed": sealed["sealed"], "outcomes": digest_all(outcomes, task.run)}
    write_json(task.outputs["opened"], record)


def score(task: Task) -> None:
    """Score the sealed forecasts against the outcomes with which the seal was opened."""
    opened = read_record(task.run / "opened.json", OPENED_SCHEMA)
    for name, digest in opened["outcomes"].items():
        if sha256_file(task.run / name) != digest:
            raise FrozenError(f"{task.run / name}: changed after the seal was opened; restore it or start a new folder")
    seals.check_seal(task.run / "seal.json", task.run, SEALED)
    evidence, axes = audit.build_evidence(
        task.registration, partial(read_trace, task), partial(read_counts, task), opened=True
    )
    sealed = read_table(task.run / "forecasts.parquet", audit.FORECASTS).to_pandas()
    ranking = read_json(task.run / "ranking.json")
    record = audit.score(task.registration, evidence, axes, sealed, ranking, partial(read_counts, task))
    write_json(task.outputs["scores"], record)


def report(task: Task) -> None:
    """Write tables, figures and captions from the scores and the sealed forecasts."""
    from halfulp.report import figures, tables  # matplotlib and jinja2 take a second that no other rule needs

    scores = read_record(task.run / "scores.json", "halfulp.scores/1")
    identity = read_record(task.run / "run.json", RUN_SCHEMA)
    forecasts = read_table(task.run / "forecasts.parquet", audit.FORECASTS).to_pandas()
    counts = {seed: read_counts(task, "targets", seed) for seed in task.registration.seeds.targets}
    deviations = deviations_for(task.path.parent.parent / "deviations.yaml", task.registration)
    context = tables.ReportContext(task.registration, scores, identity, deviations)
    tables.write_tables(tables.TABLES, context, task.run / "tables")
    figures.draw_curves(context, forecasts, counts, task.run / "figures" / "curves")
    tables.write_captions(context, Path("workflow/report"), task.run / "captions")


RULES: dict[str, Callable[[Task], None]] = {
    "reference": reference,
    "historical": write_back_run,
    "predict": predict,
    "seal": seal,
    "target": write_back_run,
    "open": open_seal,
    "matched": reference,
    "score": score,
    "report": report,
}
