"""The write-back studies' rules as functions of a task; one set of rules serves them all."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
from torch import nn

from halfulp.errors import HalfulpError
from halfulp.registration.deviations import deviations_for
from halfulp.registration.digests import read_record, write_json
from halfulp.registration.identity import Identity, process_identity
from halfulp.registration.receipts import RUN_SCHEMA
from halfulp.studies import catalogue, checkpoints, study3, writeback
from halfulp.studies.tasks import Task, Workspace
from halfulp.studies.writeback import SCHEMA, TABLES, Outcomes
from halfulp.training.data import Blocks, load_text
from halfulp.training.hooks import WriteBack
from halfulp.training.tables import read_table, write_table

#: Files of a cell besides its checkpoints.
CELL_FILES = (*(f"{name}.parquet" for name in TABLES), "summary.json")
#: The rules' wildcard for the registration's name.
WILDCARD = "cohort"
CELL_SCHEMA = "halfulp.cell/1"


def cell(task: Task) -> None:
    """Train a cell's runs, one after the other, in this process."""
    name = task.wildcards["cell"]
    runs = catalogue.write_back_study(task.registration.study).cells(task.registration)[name]
    workspace = task.workspace(sum(plan.training.steps for plan in runs.values()))
    train_into(task.registration, name, task.outputs["summary"].parent, workspace)
    for checkpoint in workspace.checkpoints.glob("*.pt"):
        checkpoint.unlink()


def train_into(
    registration: writeback.WriteBackRegistration, cell: str, folder: Path, workspace: Workspace | None = None
) -> None:
    """Train a cell and write its files into a folder."""
    runs = catalogue.write_back_study(registration.study).cells(registration)[cell]
    quiet = Workspace(lambda step, line: None, folder / "resume")
    data = registration.training.data
    blocks = Blocks.from_text(load_text(data), data)
    tables, status = writeback.train_cell(runs, blocks, workspace or quiet, _snapshot(registration, folder, blocks))
    for table, content in tables.items():
        write_table(content, folder / f"{table}.parquet")
    write_json(folder / "summary.json", {"schema": CELL_SCHEMA, "cell": cell, "runs": status})


def _snapshot(registration: writeback.WriteBackRegistration, folder: Path, blocks: Blocks) -> writeback.Snapshot:
    if not isinstance(registration, study3.Study3Registration):
        return lambda run, step, model, hook: None
    files = {(run, step): name for run, step, name in study3.checkpoint_files(registration)}

    def keep(run: str, step: int, model: nn.Module, hook: WriteBack) -> None:
        checkpoints.save(folder / files[run, step], step, model, hook, blocks)

    return keep


def replay(task: Task) -> None:
    """Replay the checkpoints of Study 3; train nothing."""
    (name,) = study3.cells(task.registration)
    folder = writeback.cell_folder(task.run, name)
    write_json(task.outputs["replay"], study3.replay(task.registration, folder, partial(print, flush=True)))


def conclude(task: Task) -> None:
    """Judge the cells' identities, then the study."""
    study = catalogue.write_back_study(task.registration.study)
    write_json(task.outputs["scores"], writeback.score(study, task.registration, read(task)))


def tabulate(task: Task) -> None:
    """Write tables and the figure."""
    from halfulp.report import tables, writeback_figures, writeback_tables  # matplotlib takes a second

    scores, identity = read_record(task.run / "scores.json", SCHEMA), read_record(task.run / "run.json", RUN_SCHEMA)
    deviations = deviations_for(task.path.parent.parent / "deviations.yaml", task.registration)
    context = tables.Context(task.registration, scores, identity, deviations)
    tables.write_tables(writeback_tables.TABLES, context, task.run / "tables")
    writeback_figures.draw(context, read(task).tables, task.run)


def read(task: Task) -> Outcomes:
    """Read the tables of all cells, and judge the identity of each."""
    registration = task.registration
    names = catalogue.write_back_study(registration.study).cells(registration)
    folders = {name: writeback.cell_folder(task.run, name) for name in names}
    identities = {}
    for name, folder in folders.items():
        files = [folder / file for file in cell_files(registration)]
        wildcards = {WILDCARD: task.run.name, "cell": name}
        identities[name] = process_identity(task.run, cell_rule(registration), wildcards, files)
    outcomes = read_cells(registration, folders, identities)
    if registration.study != "study3":
        return outcomes
    return replace(outcomes, replay=read_record(task.run / "replay.json", "halfulp.replay/1"))


def read_cells(
    registration: writeback.WriteBackRegistration, folders: dict[str, Path], identities: dict[str, Identity]
) -> Outcomes:
    """Read the tables of all cells from their folders."""
    study = catalogue.write_back_study(registration.study)
    parts: dict[str, list[pd.DataFrame]] = {name: [] for name in TABLES}
    diverged: dict[tuple[str, str], str] = {}
    for name, runs in study.cells(registration).items():
        strict = not study.IDENTITY_DECIDES or identities[name].canonical
        found, gone = _read_cell(folders[name], name, list(runs), strict=strict)
        diverged |= gone
        for table, frame in found.items():
            parts[table].append(frame)
    tables = {table: pd.concat(frames, ignore_index=True) for table, frames in parts.items()}
    return Outcomes(tables, diverged, identities)


def _read_cell(
    folder: Path, cell: str, runs: list[str], *, strict: bool
) -> tuple[dict[str, pd.DataFrame], dict[tuple[str, str], str]]:
    """Read one cell; unless strict, one that can't be read has no rows."""
    try:
        summary = read_record(folder / "summary.json", CELL_SCHEMA)
        frames = {name: read_table(folder / f"{name}.parquet", schema).to_pandas() for name, schema in TABLES.items()}
        status = summary["runs"]
        gone = {(cell, run): status[run]["detail"] for run in runs if status[run]["status"] != "completed"}
    except (HalfulpError, KeyError, TypeError):
        if strict:
            raise
        frames = {name: schema.empty_table().to_pandas() for name, schema in TABLES.items()}
        gone = {}
    return {name: _in_front(frame, cell) for name, frame in frames.items()}, gone


def _in_front(frame: pd.DataFrame, cell: str) -> pd.DataFrame:
    frame.insert(0, "cell", cell)
    return frame


def cell_rule(registration: writeback.WriteBackRegistration) -> str:
    """Return the rule that makes a study's cells."""
    return "checkpointed_cell" if registration.study == "study3" else "cell"


def cell_files(registration: writeback.WriteBackRegistration) -> list[str]:
    """Return the names of the files that a cell's job writes."""
    if not isinstance(registration, study3.Study3Registration):
        return list(CELL_FILES)
    return [*CELL_FILES, *(name for _, _, name in study3.checkpoint_files(registration))]


def judged_apart(task: Task) -> list[Path]:
    """Return the inputs whose identity the rule judges by itself, so that a bad one is a result and not an error."""
    module = catalogue.WRITE_BACK.get(task.registration.study)
    if module is None or not module.IDENTITY_DECIDES:
        return []
    receipts = task.run / "receipts"
    own = [path for path in task.inputs if path.is_relative_to(task.run / "cells")]
    return own + [path for path in task.inputs if path.parent == receipts and path.name.startswith("cell.")]


RULES: dict[str, Callable[[Task], None]] = {
    "cell": cell,
    "checkpointed_cell": cell,
    "replay": replay,
    "conclude": conclude,
    "tabulate": tabulate,
}
