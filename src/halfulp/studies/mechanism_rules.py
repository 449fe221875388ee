"""The mechanism systems' rules as functions of a task; one set of rules serves them all."""

from collections.abc import Callable

from halfulp.errors import InputError
from halfulp.registration.deviations import deviations_for
from halfulp.registration.digests import read_record, write_json
from halfulp.registration.receipts import RUN_SCHEMA
from halfulp.studies import catalogue, mechanism
from halfulp.studies.mechanism import CELLS, METRICS, Evidence, Tables
from halfulp.studies.tasks import Task
from halfulp.training.tables import read_table, write_table


def forecast(task: Task) -> None:
    """Forecast every cell from fp32 alone."""
    module = catalogue.mechanism(task.registration.study)
    _write(task, module.forecast(task.registration, task.workspace(module.workload(task.registration)[0])))


def measure(task: Task) -> None:
    """Run every cell in low precision; the forecast stands by now."""
    module = catalogue.mechanism(task.registration.study)
    _write(task, module.measure(task.registration, task.workspace(module.workload(task.registration)[1])))


def judge(task: Task) -> None:
    """Compare forecast and measurement; judge the gates."""
    module = catalogue.mechanism(task.registration.study)
    try:
        record = mechanism.score(module, task.registration, read(task, "forecast"), read(task, "measured"))
    except ValueError as error:
        raise InputError(f"{task.run}: {error}; rerun both in a new results folder") from error
    write_json(task.outputs["scores"], record)


def present(task: Task) -> None:
    """Write tables and the figure."""
    from halfulp.report import (
        mechanism_figures,
        mechanism_tables,
        tables,
    )  # matplotlib takes a second no other rule needs

    scores = read_record(task.run / "scores.json", "halfulp.mechanism/1")
    identity = read_record(task.run / "run.json", RUN_SCHEMA)
    deviations = deviations_for(task.path.parent.parent / "deviations.yaml", task.registration)
    context = tables.Context(task.registration, scores, identity, deviations)
    tables.write_tables(mechanism_tables.TABLES, context, task.run / "tables")
    parts = [read(task, part) for part in ("forecast", "measured")]
    mechanism_figures.draw(context, [part.cells for part in parts], [part.metrics for part in parts], task.run)


def read(task: Task, part: str) -> Evidence:
    """Read the tables of ``forecast`` or ``measured``."""
    folder = task.run / part
    return Evidence(
        cells=read_table(folder / "cells.parquet", CELLS).to_pandas(),
        metrics=read_table(folder / "metrics.parquet", METRICS).to_pandas(),
        diverged=read_record(folder / "summary.json", "halfulp.cells/1")["diverged"],
    )


def _write(task: Task, filled: Tables) -> None:
    cells, metrics = filled.arrow()
    write_table(cells, task.outputs["cells"])
    write_table(metrics, task.outputs["metrics"])
    names = sorted({row[1] for row in filled.cells})
    write_json(task.outputs["summary"], {"schema": "halfulp.cells/1", "cells": names, "diverged": filled.diverged})
    for checkpoint in (task.run / "checkpoints" / task.name).glob("*.pt"):
        checkpoint.unlink()


RULES: dict[str, Callable[[Task], None]] = {
    "forecast": forecast,
    "measure": measure,
    "judge": judge,
    "present": present,
}
