"""The write-back studies' rules as functions of a task; one set of rules serves them all."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from torch import nn

from halfulp.errors import HalfulpError
from halfulp.registration.deviations import deviations_for
from halfulp.registration.digests import read_record, write_json
from halfulp.registration.identity import Identity, process_identity
from halfulp.registration.receipts import RUN_SCHEMA
from halfulp.studies import catalogue, checkpoints, study3, writeback
from halfulp.studies.tasks import Task
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
    study, name = catalogue.write_back_study(task.registration.study), task.wildcards["cell"]
    runs = study.cells(task.registration)[name]
    workspace = task.workspace(sum(plan.training.steps for plan in runs.values()))
    folder = task.outputs["summary"].parent
    snapshot = _keep(task, folder) if task.registration.study == "study3" else writeback.empty_snapshot
    tables, status = writeback.train_cell(runs, workspace, snapshot)
    for table, content in tables.items():
        write_table(content, task.outputs[table])
    write_json(task.outputs["summary"], {"schema": CELL_SCHEMA, "cell": name, "runs": status})
    for checkpoint in workspace.checkpoints.glob("*.pt"):
        checkpoint.unlink()


def _keep(task: Task, folder: Path) -> writeback.Snapshot:
    data = task.registration.training.data
    blocks = Blocks.from_text(load_text(data), data)
    files = {(run, step): name for run, step, name in study3.checkpoint_files(task.registration)}

    def keep(run: str, step: int, model: nn.Module, hook: WriteBack) -> None:
        checkpoints.save(folder / files[run, step], step, model, hook, blocks)

    return keep


def replay(task: Task) -> None:
    """Replay the checkpoints of Study 3; train nothing."""
    (name,) = study3.cells(task.registration)
    folder = writeback.cell_folder(task.run, name)
    workspace = task.workspace(len(study3.checkpoint_files(task.registration)))
    write_json(task.outputs["replay"], study3.replay(task.registration, folder, workspace))


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
    study, registration = catalogue.write_back_study(task.registration.study), task.registration
    parts: dict[str, list[pd.DataFrame]] = {name: [] for name in TABLES}
    diverged: dict[tuple[str, str], str] = {}
    identities: dict[str, Identity] = {}
    for name, runs in study.cells(registration).items():
        folder = writeback.cell_folder(task.run, name)
        files = [folder / file for file in cell_files(registration)]
        wildcards = {WILDCARD: task.run.name, "cell": name}
        identities[name] = process_identity(task.run, cell_rule(registration), wildcards, files)
        found, gone = _read_cell(folder, name, list(runs), identities[name], strict=not study.IDENTITY_DECIDES)
        diverged |= gone
        for table, frame in found.items():
            parts[table].append(frame)
    replayed = task.run / "replay.json"
    return Outcomes(
        tables={table: pd.concat(frames, ignore_index=True) for table, frames in parts.items()},
        diverged=diverged,
        identities=identities,
        replay=read_record(replayed, "halfulp.replay/1") if registration.study == "study3" else None,
    )


def _read_cell(
    folder: Path, cell: str, runs: list[str], identity: Identity, *, strict: bool
) -> tuple[dict[str, pd.DataFrame], dict[tuple[str, str], str]]:
    """Read one cell; where identity decides, one that is not canonical may also be unreadable, and then has no rows."""
    try:
        summary = read_record(folder / "summary.json", CELL_SCHEMA)
        frames = {name: read_table(folder / f"{name}.parquet", schema).to_pandas() for name, schema in TABLES.items()}
        status = summary["runs"]
        gone = {(cell, run): status[run]["detail"] for run in runs if status[run]["status"] != "completed"}
    except (HalfulpError, KeyError, TypeError):
        if strict or identity.canonical:
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
