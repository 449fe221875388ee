"""What the mechanism systems share: tables of events by cell, freeze crossings, scores.

A *cell* is one run in one storage format, e.g. one width of the emulator. Every system forecasts its cells from fp32
alone, is then measured in low precision, and is judged by comparing the two sets of crossings. Its module has:

- ``REGISTRATION``, the class of its registration;
- ``forecast(registration, workspace)`` and ``measure(registration, workspace)``, which return :class:`Tables`;
- ``workload(registration)``, the training steps of each;
- ``conclude(registration, forecast, measured)``, scores and claims beyond the crossings.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pandas as pd
import pyarrow as pa
from pydantic import Field

from halfulp.audit.crossings import Crossing, compare, find_crossing
from halfulp.audit.gates import finite, judge, verdict
from halfulp.numerics import EventCounts
from halfulp.registration.document import Registration
from halfulp.strict import Strict
from halfulp.studies.tasks import Workspace
from halfulp.training.config import Count
from halfulp.training.runner import Result
from halfulp.training.tables import make_table

#: One row per kind of forecast or measurement, cell, group and recorded step: exact event counts.
#: ``erasing_words / 2**32`` is the expected number of updates that stochastic rounding erases, where it was traced.
CELLS = pa.schema(
    [
        ("kind", pa.string()),
        ("cell", pa.string()),
        ("group", pa.string()),
        ("step", pa.int64()),
        ("no_update", pa.int64()),
        ("erased", pa.int64()),
        ("moved", pa.int64()),
        ("saturated", pa.int64()),
        ("erasing_words", pa.int64()),
    ]
)
#: One row per cell, step and metric: losses (nats or squared error), accuracy, stalled fraction.
METRICS = pa.schema([("cell", pa.string()), ("step", pa.int64()), ("metric", pa.string()), ("value", pa.float64())])

#: Kinds of rows in ``CELLS``.
TRACE, ANALYTIC, MEASURED = "trace", "analytic", "measured"
#: Scores that every mechanism system has, at its first threshold.
SCORES = ("agreement", "both_post_init", "share_within_15_percent", "relative_error", "span")


class CrossingConfig(Strict):
    """The rule by which a freeze is dated."""

    thresholds: tuple[float, ...] = Field(min_length=1, description="erased fractions θ; the first is the one judged")
    window: Count = Field(description="recorded steps W for which the fraction must stay at θ or above")
    unit: Literal["cell", "group"] = Field(
        description="`cell`: counts of all groups are pooled before the fraction is taken; `group`: one crossing each"
    )


class MechanismRegistration(Registration):
    """What the registrations of all mechanism systems hold."""

    crossing: CrossingConfig = Field(description="the rule by which a freeze is dated")


@dataclass
class Tables:
    """What a forecast or a measurement leaves behind, while it is being filled."""

    cells: list[tuple[Any, ...]] = field(default_factory=list)
    metrics: list[tuple[Any, ...]] = field(default_factory=list)
    #: Cells that diverged, with the reason.
    diverged: dict[str, str] = field(default_factory=dict)

    def events(
        self, kind: str, cell: str, group: str, step: int, events: EventCounts, words: int | None = None
    ) -> None:
        """Add one row of counts."""
        row = (kind, cell, group, step, events.no_update, events.erased, events.moved, events.saturated, words)
        self.cells.append(row)

    def counts(self, cell: str, table: pa.Table) -> None:
        """Add the rows of a write-back hook's table."""
        self.cells += [(MEASURED, cell, r["group"], r["step"], *_events(r), None) for r in table.to_pylist()]

    def trace(self, name: Callable[[str], str], table: pa.Table, *, stochastic: bool = False) -> None:
        """Add the ``local`` rows of a reference trace; ``name`` maps a format to its cell.

        For a stochastic cell the erased count is the expected one, to the nearest whole coordinate.
        """
        for row in table.to_pylist():
            if row["kind"] != "local":
                continue
            proposals, words = row["erased"] + row["moved"], row["erasing_words"]
            if stochastic:
                expected = (words + 2**31) >> 32
                row |= {"erased": expected, "moved": proposals - expected}
            self.cells.append((TRACE, name(row["format"]), row["group"], row["step"], *_events(row), words))

    def metric(self, cell: str, step: int, name: str, value: float) -> None:
        """Add one value of a metric."""
        self.metrics.append((cell, step, name, value))

    def losses(self, cell: str, table: pa.Table) -> None:
        """Add a runner's losses as ``train_loss`` and ``validation_loss``."""
        self.metrics += [(cell, r["step"], f"{r['split']}_loss", r["loss"]) for r in table.to_pylist()]

    def outcome(self, cell: str, result: Result) -> None:
        """Add a low-precision run: its counts, its losses, and whether it diverged."""
        assert result.counts is not None
        self.counts(cell, result.counts)
        self.losses(cell, result.losses)
        if result.status == "diverged":
            self.diverged[cell] = result.detail

    def arrow(self) -> tuple[pa.Table, pa.Table]:
        """Return (cells, metrics) as Arrow tables."""
        return make_table(self.cells, CELLS), make_table(self.metrics, METRICS)


def _events(row: dict[str, Any]) -> tuple[int, int, int, int]:
    return row["no_update"], row["erased"], row["moved"], row["saturated"]


@dataclass(frozen=True)
class Evidence:
    """Tables as they are read back for judging."""

    cells: pd.DataFrame
    metrics: pd.DataFrame
    diverged: dict[str, str]

    def values(self, cell: str, metric: str) -> list[float]:
        """Return a metric's values in a cell, by step."""
        rows = self.metrics[(self.metrics["cell"] == cell) & (self.metrics["metric"] == metric)]
        values: list[float] = rows.sort_values("step")["value"].tolist()
        return values

    def last(self, cell: str, metric: str) -> float:
        """Return a metric's last value in a cell; NaN if it has none."""
        values = self.values(cell, metric)
        return values[-1] if values else float("nan")

    def largest(self, cell: str, metric: str) -> float:
        """Return a metric's largest value in a cell; NaN if it has none."""
        return max(self.values(cell, metric), default=float("nan"))


@dataclass(frozen=True)
class Conclusion:
    """What a system concludes beyond its crossings."""

    #: Further scores that gates may judge; NaN is missing.
    scores: dict[str, float]
    #: Figures that stand beside the paper's, by the claim's identifier.
    claims: dict[str, str | float]


class Mechanism(Protocol):
    """The shape of a system's module."""

    REGISTRATION: type[Any]

    def forecast(self, registration: Any, workspace: Workspace) -> Tables:
        """Forecast every cell from fp32 alone."""

    def measure(self, registration: Any, workspace: Workspace) -> Tables:
        """Run every cell in low precision."""

    def workload(self, registration: Any) -> tuple[int, int]:
        """Return the training steps of forecast and measurement."""

    def conclude(self, registration: Any, forecast: Evidence, measured: Evidence, judged: dict[str, Any]) -> Conclusion:
        """Return further scores, and what stands beside the paper's figures."""


Unit = tuple[str, str]


def crossings(evidence: Evidence, kind: str, config: CrossingConfig, threshold: float) -> dict[Unit, Crossing]:
    """Return the crossing of every unit, ``(cell, group)`` with an empty group where groups are pooled."""
    rows = evidence.cells[evidence.cells["kind"] == kind]
    keys = ["cell", "group"] if config.unit == "group" else ["cell"]
    found = {}
    for name, table in rows.groupby(keys, sort=False):
        pooled = table.groupby("step")[["erased", "moved"]].sum()
        proposals = pooled["erased"] + pooled["moved"]
        fraction = (pooled["erased"] / proposals.where(proposals > 0)).to_numpy(float)
        unit = (str(name[0]), str(name[1]) if len(name) > 1 else "")
        steps = [int(step) for step in pooled.index]
        gone = unit[0] in evidence.diverged
        found[unit] = find_crossing(fraction, steps, threshold=threshold, window=config.window, diverged=gone)
    return found


def score(
    module: Mechanism, registration: MechanismRegistration, forecast: Evidence, measured: Evidence
) -> dict[str, Any]:
    """Compare forecast and measured crossings at every threshold, judge the gates; return ``scores.json``."""
    config = registration.crossing
    kinds = list(dict.fromkeys(forecast.cells["kind"]))
    comparisons, units = {}, []
    for threshold in config.thresholds:
        actual = crossings(measured, MEASURED, config, threshold)
        for kind in kinds:
            expected = crossings(forecast, kind, config, threshold)
            comparisons[f"{kind} at {threshold:g}"] = compare(*_aligned(expected, actual))
            units += [_unit_row(kind, threshold, unit, expected[unit], actual[unit]) for unit in actual]
    judged = comparisons[f"{TRACE} at {config.thresholds[0]:g}"]
    conclusion = module.conclude(registration, forecast, measured, {"comparisons": comparisons, "units": units})
    scores = {name: judged[name] for name in SCORES} | {k: finite(v) for k, v in conclusion.scores.items()}
    gates = [judge(**gate.model_dump(), scores=scores) for gate in registration.gates]
    return {
        "schema": "halfulp.mechanism/1",
        "study": registration.study,
        "scale": registration.scale,
        "scores": scores,
        "claims": {k: finite(v) if isinstance(v, float) else v for k, v in conclusion.claims.items()},
        "comparisons": comparisons,
        "units": units,
        "totals": _totals(forecast, measured),
        "diverged": {"forecast": forecast.diverged, "measured": measured.diverged},
        "last": _last_metrics(forecast, measured),
        "gates": [vars(gate) for gate in gates],
        "verdict": verdict(gates),
    }


def _aligned(expected: dict[Unit, Crossing], actual: dict[Unit, Crossing]) -> tuple[list[Crossing], list[Crossing]]:
    missing = sorted(expected.keys() ^ actual.keys())
    if missing:
        raise ValueError(f"{missing[0]}: has a forecast or a measurement, but not both")
    return [expected[unit] for unit in actual], list(actual.values())


def _unit_row(kind: str, threshold: float, unit: Unit, expected: Crossing, actual: Crossing) -> dict[str, Any]:
    return {
        "kind": kind,
        "threshold": threshold,
        "cell": unit[0],
        "group": unit[1],
        "forecast": expected.category,
        "forecast_step": expected.step,
        "measured": actual.category,
        "measured_step": actual.step,
    }


def _totals(*evidence: Evidence) -> list[dict[str, Any]]:
    """Exact event counts of every cell, summed over groups and recorded steps."""
    cells = pd.concat([item.cells for item in evidence])
    columns = ["no_update", "erased", "moved", "saturated"]
    totals = cells.groupby(["kind", "cell"], sort=False)[columns].sum().reset_index()
    return [dict(zip(totals.columns, row, strict=True)) for row in totals.astype(object).itertuples(index=False)]


def _last_metrics(*evidence: Evidence) -> dict[str, dict[str, float | None]]:
    metrics = pd.concat([item.metrics for item in evidence]).sort_values("step", kind="stable")
    last = metrics.drop_duplicates(["cell", "metric"], keep="last").sort_values(["cell", "metric"])
    named: dict[str, dict[str, float | None]] = {}
    for cell, metric, value in zip(last["cell"], last["metric"], last["value"], strict=True):
        named.setdefault(cell, {})[metric] = finite(float(value))
    return named
