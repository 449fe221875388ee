"""What the write-back studies share: matched runs, their tables, the identity of the jobs that made them, and scores.

A *cell* is one initialization and one data order; its *runs* differ in nothing but format and policy, and share a
process. Every study's module has:

- ``REGISTRATION``, the class of its registration;
- ``cells(registration)``, which returns the plans of every cell's runs;
- ``conclude(registration, outcomes)``, which returns a :class:`Conclusion`;
- ``IDENTITY_DECIDES``: whether its registered result needs canonical process identity in all cells.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import Field, model_validator
from torch import nn

from halfulp.audit.curves import Array
from halfulp.audit.gates import finite, judge, verdict
from halfulp.audit.recovery import Estimate, Losses
from halfulp.numerics import POLICIES, Policy
from halfulp.registration.document import Registration
from halfulp.registration.identity import Identity
from halfulp.strict import Strict
from halfulp.studies.tasks import Workspace
from halfulp.training.config import Count, Fraction, Seed, TrainingConfig, WriteBackConfig
from halfulp.training.data import Blocks
from halfulp.training.hooks import WriteBack
from halfulp.training.runner import Plan, Result, train
from halfulp.training.tables import COUNTS, LOSSES, VALIDATION, make_table

_RUN = ("run", pa.string())
#: Tables of a cell by name: those of the runner with the run in front. ``contrasts`` has the coordinates, of ``size``,
#: that another policy would have written differently.
TABLES = {
    "counts": pa.schema([_RUN, *COUNTS]),
    "losses": pa.schema([_RUN, *LOSSES]),
    "validation": pa.schema([_RUN, *VALIDATION]),
    "contrasts": pa.schema(
        [_RUN, ("step", pa.int64()), ("group", pa.string()), ("different", pa.int64()), ("size", pa.int64())]
    ),
}
SCHEMA = "halfulp.writeback/1"
#: Name of a cell's run without write-back.
FP32 = "fp32"
#: Cells by name; each has its runs' plans by name.
Cells = dict[str, dict[str, Plan]]
Row = dict[str, Any]
Snapshot = Callable[[str, int, nn.Module, WriteBack], None]


class BootstrapConfig(Strict):
    """Intervals: a paired bootstrap over validation blocks."""

    resamples: Count = Field(description="resamples")
    confidence: Fraction = Field(description="coverage of every interval")
    seed: Seed = Field(description="seed of the resamples")

    def arguments(self) -> dict[str, Any]:
        """Return the fields as keyword arguments of ``paired_bootstrap``."""
        return self.model_dump()


class WriteBackRegistration(Registration):
    """What the registrations of all write-back studies hold."""

    training: TrainingConfig = Field(description="the model and how every run is trained")
    pilot: tuple[Seed, ...] = Field(
        min_length=1,
        description="seeds of rehearsals, from which rates and thresholds were chosen; none is its own",
    )

    @model_validator(mode="after")
    def _unseen(self) -> Self:
        seen = set(self.pilot) & set(self.own_seeds())
        if seen:
            raise ValueError(f"pilot: seed {min(seen)} is one of the study's; a rehearsal must not see it")
        return self

    def own_seeds(self) -> tuple[int, ...]:
        """Return the study's seeds."""
        return self.seeds if hasattr(self, "seeds") else (self.seed,)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Outcomes:
    """The cells' tables as they are read back for judging."""

    #: ``TABLES`` by name, with the cell in front.
    tables: dict[str, pd.DataFrame]
    #: Runs that diverged: (cell, run) → reason.
    diverged: dict[tuple[str, str], str]
    #: Identity of the job that made each cell.
    identities: dict[str, Identity]
    #: What the replay job found; None for a study without one.
    replay: Row | None = None

    def blocks(self, cell: str, run: str, step: int) -> Array:
        """Return a run's validation losses by block after ``step`` steps; one NaN if it has none."""
        table = self.tables["validation"]
        rows = table[(table["cell"] == cell) & (table["run"] == run) & (table["step"] == step)]
        found = rows.sort_values("block")["loss"].to_numpy(float)
        return found if len(found) and (cell, run) not in self.diverged else np.full(1, np.nan)

    def final(self, cell: str, runs: list[str], steps: int) -> Losses:
        """Return the runs' final losses by block; if one has none, one NaN for each, so that nothing passes."""
        losses = {run: self.blocks(cell, run, steps) for run in runs}
        complete = all(np.isfinite(values).all() for values in losses.values())
        return losses if complete else {run: np.full(1, np.nan) for run in runs}

    def erased(self, cell: str, run: str, last: int | None = None) -> float:
        """Return a run's erased fraction over all groups and its recorded steps, or the last of them; NaN if none."""
        table = self.tables["counts"]
        rows = table[(table["cell"] == cell) & (table["run"] == run)]
        if last is not None:
            rows = rows[rows["step"].isin(sorted(rows["step"].unique())[-last:])]
        proposals = int((rows["erased"] + rows["moved"]).sum())
        return int(rows["erased"].sum()) / proposals if proposals else float("nan")


@dataclass(frozen=True)
class Conclusion:
    """What a study concludes."""

    #: Scores that gates may judge; NaN is missing.
    scores: dict[str, float]
    #: Figures that stand beside the paper's, by the claim's identifier.
    claims: dict[str, str | float]
    #: Rows of the study's main table.
    results: list[Row]
    #: A sentence that stands under every table.
    note: str = ""
    #: Why there is no registered result, whatever the numbers; empty if there is one.
    inconclusive: str = ""
    #: Analyses that were not registered, labelled as such.
    retrospective: Row = field(default_factory=dict)


class WriteBackStudy(Protocol):
    """The shape of a study's module."""

    REGISTRATION: type[Any]
    IDENTITY_DECIDES: bool

    def cells(self, registration: Any) -> Cells:
        """Return the plans of every cell's runs."""

    def conclude(self, registration: Any, outcomes: Outcomes) -> Conclusion:
        """Return scores, claims and the study's main table."""


def run_name(format: str, policy: Policy) -> str:
    """Return the name of a run in a cell, e.g. ``e4m3.nearest``."""
    return f"{format}.{policy}"


def plans(
    training: TrainingConfig, seed: int, specs: list[WriteBackConfig], contrasts: dict[Policy, Policy] | None = None
) -> dict[str, Plan]:
    """Return one plan for fp32 and one for each write-back, from one initialization and one data order."""
    named = {FP32: Plan(training=training, seed=seed)}
    for spec in specs:
        other = (contrasts or {}).get(spec.policy)
        name = run_name(spec.format, spec.policy)
        named[name] = Plan(training=training, seed=seed, write_back=spec, contrast=other)
    return named


def written_back(policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
    """Refuse a list of policies that holds ``fp32``, which every cell has anyway, or holds one twice."""
    if "fp32" in policies or len(set(policies)) != len(policies):
        raise ValueError(f"list each of {', '.join(p for p in POLICIES if p != 'fp32')} once at most")
    return policies


def train_cell(
    runs: dict[str, Plan], blocks: Blocks, workspace: Workspace, snapshot: Snapshot
) -> tuple[dict[str, pa.Table], Row]:
    """Train a cell's runs one after the other; return its tables and the status of each run."""
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    status, done = {}, 0
    for name, plan in runs.items():

        def keep(step: int, model: nn.Module, hook: WriteBack, name: str = name) -> None:
            snapshot(name, step, model, hook)

        path = workspace.checkpoints / f"{name}.pt"
        result = train(plan, blocks, checkpoint=path, report=workspace.counted(done, name), snapshot=keep)
        done += plan.training.steps
        for table, some in _rows(result).items():
            rows[table] += [(name, *row) for row in some]
        status[name] = {"status": result.status, "detail": result.detail}
    return {name: make_table(found, TABLES[name]) for name, found in rows.items()}, status


def _rows(result: Result) -> dict[str, list[tuple[Any, ...]]]:
    tables = {"counts": result.counts, "losses": result.losses, "validation": result.validation}
    listed = {name: [] if t is None else [tuple(r.values()) for r in t.to_pylist()] for name, t in tables.items()}
    return {**listed, "contrasts": result.contrasts}


def score(study: WriteBackStudy, registration: WriteBackRegistration, outcomes: Outcomes) -> Row:
    """Conclude, judge the gates; return ``scores.json``.

    Without the canonical identities that a registered result needs, its scores are withheld: the gates are ``invalid``
    and the verdict is ``inconclusive``.
    """
    found = study.conclude(registration, outcomes)
    withheld = bool(found.inconclusive)
    scores = {name: None if withheld else finite(value) for name, value in found.scores.items()}
    gates = [judge(**gate.model_dump(), scores=scores) for gate in registration.gates]
    return {
        "schema": SCHEMA,
        "study": registration.study,
        "scale": registration.scale,
        "scores": scores,
        "claims": _plain(found.claims),
        "results": _table(found.results),
        "cells": _table([{"cell": cell, **asdict(identity)} for cell, identity in outcomes.identities.items()]),
        "runs": _table(_runs(outcomes, registration.training.steps)),
        "retrospective": _plain(found.retrospective),
        "note": found.note,
        "gates": [vars(gate) for gate in gates],
        "inconclusive": found.inconclusive,
        "verdict": "inconclusive" if withheld else verdict(gates),
    }


def _runs(outcomes: Outcomes, steps: int) -> list[Row]:
    """What became of every run: final loss, exact counts over all groups and recorded steps."""
    columns = ["no_update", "erased", "moved", "saturated"]
    totals = outcomes.tables["counts"].groupby(["cell", "run"])[columns].sum().astype(object)
    rows = []
    for cell, run in outcomes.tables["losses"][["cell", "run"]].drop_duplicates().itertuples(index=False):
        counted = dict(totals.loc[(cell, run)]) if (cell, run) in totals.index else dict.fromkeys(columns)
        row = {
            "cell": cell,
            "run": run,
            "status": "diverged" if (cell, run) in outcomes.diverged else "completed",
            "validation loss": float(outcomes.blocks(cell, run, steps).mean()),
            **counted,
            "erased fraction": outcomes.erased(cell, run),
        }
        rows.append(row)
    return rows


def score_columns(name: str, estimate: Estimate) -> dict[str, float]:
    """Return an estimate as three scores: ``name``, ``name_lower`` and ``name_upper``."""
    return {name: estimate.value, f"{name}_lower": estimate.lower, f"{name}_upper": estimate.upper}


def _table(rows: list[Row]) -> Row:
    """Return rows as JSON that keeps the order of the columns."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    plain = [_plain(row) for row in rows]
    return {"columns": columns, "rows": [[row.get(column) for column in columns] for row in plain]}


def _plain(row: Row) -> Row:
    """Return a row fit for JSON: NaN and infinity become null, numpy's numbers Python's."""
    return {key: _plain_value(value) for key, value in row.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return finite(float(value))
    return int(value) if isinstance(value, np.integer) else value


def cell_folder(run: Path, cell: str) -> Path:
    """Return the folder of a cell's files."""
    return run / "cells" / cell
