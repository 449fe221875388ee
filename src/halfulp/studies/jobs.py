"""The workflow's rules as functions: read declared inputs, compute, write declared outputs and a receipt.

Every job first insists that the run's ``frozen.json`` still describes the registration and the code at hand. Paths are
relative to the working directory, so that a rule in a shadow directory sees its declared inputs and nothing else.
"""

import os
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from halfulp.errors import FrozenError, HalfulpError, InputError
from halfulp.registration import freeze as freezing
from halfulp.registration import receipts
from halfulp.registration.deviations import deviations_for
from halfulp.registration.digests import canonical_json, digest_all, read_json, write_json
from halfulp.studies import audit, catalogue
from halfulp.training.data import Blocks, load_text
from halfulp.training.runner import train
from halfulp.training.tables import COUNTS, TRACE, make_table, read_table, write_table

#: Seconds between updates of a job's progress file.
PROGRESS_SECONDS = 0.5


@dataclass(frozen=True)
class Task:
    """One job: its registration, its run's folder, and its declared files by name."""

    rule: str
    path: Path
    registration: audit.AuditRegistration
    run: Path
    wildcards: dict[str, str]
    inputs: list[Path]
    outputs: dict[str, Path]

    @property
    def seed(self) -> int | None:
        """The job's seed, if it is one of training."""
        return int(self.wildcards["seed"]) if "seed" in self.wildcards else None

    @property
    def name(self) -> str:
        """Name of the job in receipts, progress and checkpoints: the rule, and the seed if there is one."""
        return self.rule if self.seed is None else f"{self.rule}.seed{self.seed}"

    def trace(self, part: str, seed: int) -> pd.DataFrame:
        """Read a reference's trace table."""
        return read_table(self.run / part / f"seed{seed}" / "trace.parquet", TRACE).to_pandas()

    def counts(self, part: str, seed: int) -> pd.DataFrame:
        """Read a write-back run's counts."""
        return read_table(self.run / part / f"seed{seed}" / "counts.parquet", COUNTS).to_pandas()


def freeze(task: Task) -> None:
    """Freeze the run: digests of the registration and its sources, the run's identity and its label."""
    earlier = sorted(path for path in task.run.glob("receipts/*.json") if path != task.outputs["receipt"])
    if earlier:
        raise FrozenError(
            f"{earlier[0]}: this run was frozen before, and is never re-frozen; start a new results folder"
        )
    content = canonical_json(freezing.build_frozen(task.path, task.registration))
    labelled = freezing.label_run(task.path, task.registration)
    task.outputs["frozen"].parent.mkdir(parents=True, exist_ok=True)
    task.outputs["frozen"].write_bytes(content)
    identity = {
        "schema": "halfulp.run/1",
        "run_id": str(uuid.uuid4()),
        "label": labelled.label,
        "label_detail": labelled.detail,
        "changed_sources": list(labelled.changed),
        "created": receipts.now().isoformat(),
    }
    write_json(task.outputs["run"], identity)


def reference(task: Task) -> None:
    """Train in fp32 and trace every registered format."""
    _train(task, traced=True)


def write_back_run(task: Task) -> None:
    """Train with the registered write-back; count exact events."""
    if task.rule == "target":
        receipts.check_seal(task.run / "seal.json", task.run)
    _train(task, traced=False)


def _train(task: Task, *, traced: bool) -> None:
    assert task.seed is not None
    config = task.registration.training
    blocks = Blocks.from_text(load_text(config.data), config.data)
    checkpoint = task.run / "checkpoints" / f"{task.name}.pt"
    progress = task.run / "progress" / f"{task.name}.json"
    written = 0.0

    def report(step: int, line: str) -> None:
        nonlocal written
        print(line, flush=True)
        if step == config.steps or time.monotonic() - written > PROGRESS_SECONDS:
            write_json(progress, {"step": step, "steps": config.steps})
            written = time.monotonic()

    result = train(
        audit.plan(task.registration, task.seed, traced=traced), blocks, checkpoint=checkpoint, report=report
    )
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
            "validation_loss": {"first": audit.finite(validation[0]), "last": audit.finite(validation[-1])},
        },
    )
    checkpoint.unlink(missing_ok=True)


def predict(task: Task) -> None:
    """Forecast every target seed, and rank the candidates, from the references and the historical outcomes alone."""
    evidence, axes = audit.build_evidence(task.registration, task.trace, task.counts, opened=False)
    names, seeds = task.registration.predictors.blind, task.registration.seeds.targets
    rows = audit.forecast_rows(names, evidence, axes, seeds)
    write_table(make_table(rows, audit.FORECASTS), task.outputs["forecasts"])
    write_json(task.outputs["ranking"], audit.blind_ranking(task.registration, evidence))


def seal(task: Task) -> None:
    """Fix the forecasts before any unseen target has started."""
    forecasts = [task.run / "forecasts.parquet", task.run / "ranking.json"]
    receipts.write_seal(task.outputs["seal"], task.run, forecasts, task.run / "targets")


def open_seal(task: Task) -> None:
    """Open the seal: every sealed file is what it was, and every target has its outcome."""
    sealed = receipts.check_seal(task.run / "seal.json", task.run)
    outcomes = [path for path in task.inputs if path.name == "counts.parquet"]
    record = {"schema": "halfulp.opened/1", "sealed": sealed["sealed"], "outcomes": digest_all(outcomes, task.run)}
    write_json(task.outputs["opened"], record)


def score(task: Task) -> None:
    """Score the sealed forecasts, judge the gates, decompose the outcomes."""
    receipts.check_seal(task.run / "seal.json", task.run)
    evidence, axes = audit.build_evidence(task.registration, task.trace, task.counts, opened=True)
    sealed = read_table(task.run / "forecasts.parquet", audit.FORECASTS).to_pandas()
    ranking = read_json(task.run / "ranking.json")
    record = audit.score(task.registration, evidence, axes, sealed, ranking, task.counts)
    write_json(task.outputs["scores"], record)


def report(task: Task) -> None:
    """Write tables, figures and captions from the scores and the sealed forecasts."""
    from halfulp.report import figures, tables  # matplotlib and jinja2 take a second that no other rule needs

    scores = read_json(task.run / "scores.json")
    identity = read_json(task.run / "run.json")
    forecasts = read_table(task.run / "forecasts.parquet", audit.FORECASTS).to_pandas()
    counts = {seed: task.counts("targets", seed) for seed in task.registration.seeds.targets}
    deviations = deviations_for(task.path.parent.parent / "deviations.yaml", task.registration)
    context = tables.ReportContext(task.registration, scores, identity, deviations)
    tables.write_all(context, task.run / "tables")
    figures.draw_curves(context, forecasts, counts, task.run / "figures" / "curves")
    tables.write_captions(context, Path("workflow/report"), task.run / "captions")


RULES: dict[str, Callable[[Task], None]] = {
    "freeze": freeze,
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


def run(snakemake: Any) -> None:
    """Run one job of the workflow; the log gets everything, the terminal one line if it fails.

    Args:
        snakemake: the object that Snakemake hands to a script.
    """
    terminal = os.dup(2)
    Path(snakemake.log[0]).parent.mkdir(parents=True, exist_ok=True)
    with Path(snakemake.log[0]).open("a", buffering=1) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            execute(snakemake)
        except HalfulpError as error:
            print(f"error: {error}", file=sys.stderr)
            os.write(terminal, f"halfulp: error: {error}\n".encode())
            sys.exit(2)
        except Exception:
            traceback.print_exc()
            os.write(terminal, f"halfulp: {snakemake.rule} failed unexpectedly; see {snakemake.log[0]}\n".encode())
            sys.exit(1)


def execute(snakemake: Any) -> None:
    """Do a job's work: check the freeze, run its rule's function, write its receipt."""
    started = receipts.now()
    path = Path(snakemake.config["registration"])
    registration = catalogue.load(path)
    if not isinstance(registration, audit.AuditRegistration):
        raise InputError(f"{path}: not a registration of the audit")
    outputs = {name: Path(str(value)) for name, value in snakemake.output.items()}
    task = Task(
        rule=snakemake.rule,
        path=path,
        registration=registration,
        run=Path(snakemake.config["run"]),
        wildcards={name: str(value) for name, value in snakemake.wildcards.items()},
        inputs=[Path(str(item)) for item in snakemake.input],
        outputs=outputs,
    )
    if task.rule != "freeze":
        freezing.check_frozen(task.run, path, registration)
    RULES[task.rule](task)
    receipt = outputs["receipt"]
    written = [path for path in map(Path, map(str, snakemake.output)) if path != receipt]
    job = receipts.Job(rule=task.rule, wildcards=task.wildcards, run=task.run, started=started)
    receipts.write_receipt(receipt, job, inputs=task.inputs, outputs=written, seed=task.seed)
