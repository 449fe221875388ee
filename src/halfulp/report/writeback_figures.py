"""Figures of the write-back studies: validation curves, erased fractions, recoveries, paired differences, replays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

from halfulp.report.figures import SEED_COLOURS, STYLE, save
from halfulp.report.tables import Context
from halfulp.report.writeback_tables import rows_of

Frames = dict[str, pd.DataFrame]
Panel = Callable[[Any, Context, Frames], None]
RUN_COLOURS = (*SEED_COLOURS, "#999999")
STYLES = ("-", (0, (3, 1)), (0, (1, 1)), (0, (4, 1, 1, 1)))


def draw(context: Context, frames: Frames, run: Path) -> None:
    """Draw a study's figure to ``figures/results.pdf`` and ``.png``.

    Args:
        context: the run.
        frames: ``counts``, ``losses`` and ``validation`` of all cells, with the columns ``cell`` and ``run``.
        run: the run's folder.
    """
    panels = PANELS[context.registration.study]
    with plt.rc_context(STYLE):
        size = (3.4 * len(panels), 3.0)
        figure, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
        for axis, panel in zip(axes[0], panels, strict=True):
            panel(axis, context, frames)
        title = f"{context.registration.title}; {context.identity['label']} run"
        figure.suptitle(f"{title}; {context.scores['verdict']}", fontsize=8)
        save(figure, run / "figures" / "results")


def validation(axis: Any, context: Context, frames: Frames) -> None:
    """Plot mean validation loss by run; seeds share a colour, runs with another schedule have another line."""
    losses = frames["losses"]
    losses = losses[losses["split"] == "validation"]
    _curves(axis, context, losses.rename(columns={"loss": "value"}))
    _zoom(axis, losses["step"], losses["loss"])
    axis.set(xlabel="optimizer step", ylabel="validation loss (nats per token)")
    axis.legend(fontsize=6)


def erased(axis: Any, context: Context, frames: Frames) -> None:
    """Plot the erased fraction of all groups together through time."""
    counts = frames["counts"].groupby(["cell", "run", "step"], sort=False)[["erased", "moved"]].sum().reset_index()
    _curves(axis, context, counts.assign(value=counts["erased"] / (counts["erased"] + counts["moved"])))
    axis.set(xlabel="optimizer step", ylabel="erased fraction of proposed updates", ylim=(-0.02, 1.02))
    axis.legend(fontsize=6)


def moved(axis: Any, context: Context, frames: Frames) -> None:
    """Plot how many coordinates moved at each step."""
    counts = frames["counts"].groupby(["cell", "run", "step"], sort=False)["moved"].sum().reset_index()
    _curves(axis, context, counts.rename(columns={"moved": "value"}))
    axis.set(xlabel="optimizer step", ylabel="coordinates moved", yscale="symlog")
    axis.legend(fontsize=6)


def recoveries(axis: Any, context: Context, frames: Frames) -> None:
    """Plot the recoveries by seed with their intervals."""
    rows = [row for row in _results(context) if row["quantity"].startswith("recovery, ") and pd.notna(row["value"])]
    policies = list(dict.fromkeys(row["quantity"].removeprefix("recovery, ") for row in rows))
    cells = list(dict.fromkeys(row["of"] for row in rows))
    for index, (colour, policy) in enumerate(zip(SEED_COLOURS, policies, strict=False)):
        some = [row for row in rows if row["quantity"].endswith(policy)]
        places = [cells.index(row["of"]) + 0.2 * index - 0.1 for row in some]
        _bars(axis, places, some, ("value", "lower", "upper"), colour, policy)
    axis.axhline(1.0, color="black", lw=0.6, ls=":")
    axis.set_xticks(range(len(cells)), cells)
    axis.set(ylabel="recovery (1: as good as fp32)")
    axis.legend(fontsize=6)


def pairs(axis: Any, context: Context, frames: Frames) -> None:
    """Plot the paired differences of penalties by seed, and their mean where there is a registered result."""
    names = ("difference, value", "difference, lower", "difference, upper")
    rows = [row for row in _results(context) if pd.notna(row[names[0]])]
    _bars(axis, list(range(len(rows))), rows, names, SEED_COLOURS[0], "95 % interval")
    axis.axhline(0.0, color="black", lw=0.6, ls=":")
    axis.set_xticks(range(len(rows)), [row["seed"] for row in rows])
    axis.set(xlabel="seed", ylabel="penalty, first schedule − second (nats)")


def replays(axis: Any, context: Context, frames: Frames) -> None:
    """Plot the replayed losses at every checkpoint."""
    rows = rows_of(context, "results")
    for colour, policy in zip(SEED_COLOURS, ("nearest", "full_sr"), strict=False):
        axis.plot(rows["step"], rows[f"loss {policy}"], marker="o", ms=3, lw=0.8, color=colour, label=policy)
    _zoom(axis, pd.concat([rows["step"]] * 2), pd.concat([rows["loss nearest"], rows["loss full_sr"]]))
    axis.set(xlabel="checkpoint (steps done)", ylabel="replayed validation loss (nats per token)")
    axis.legend(fontsize=6)


def _results(context: Context) -> list[Any]:
    return rows_of(context, "results").to_dict("records")


def _bars(axis: Any, x: list[float], rows: list[Any], names: tuple[str, str, str], colour: str, label: str) -> None:
    middle, low, high = ([row[name] for row in rows] for name in names)
    below = [0.0 if pd.isna(a) else m - a for m, a in zip(middle, low, strict=True)]
    above = [0.0 if pd.isna(b) else b - m for m, b in zip(middle, high, strict=True)]
    axis.errorbar(x, middle, yerr=[below, above], fmt="o", ms=3, lw=0.8, capsize=2, color=colour, label=label)


def _zoom(axis: Any, steps: "pd.Series[int]", losses: "pd.Series[float]") -> None:
    """Leave out the loss at initialization, beside which all the others look alike."""
    later = losses[steps > steps.min()]
    if len(later) and later.notna().all():
        margin = 0.05 * float(later.max() - later.min())
        axis.set(xlim=(0, float(steps.max())), ylim=(float(later.min()) - margin, float(later.max()) + margin))


def _curves(axis: Any, context: Context, frame: pd.DataFrame) -> None:
    """Draw one line for each cell and run: colours are those of runs, line styles those of the cells' first part."""
    runs = [run for run in dict.fromkeys(rows_of(context, "runs")["run"]) if run != "fp32"]
    kinds = list(dict.fromkeys(str(cell).split(".")[0] if "." in str(cell) else "" for cell in frame["cell"]))
    labelled = set()
    for (cell, run), rows in frame.groupby(["cell", "run"], sort=False):
        kind = str(cell).split(".")[0] if "." in str(cell) else ""
        label = f"{run} {kind}".strip()
        some = rows.sort_values("step")
        axis.plot(
            some["step"],
            some["value"],
            lw=0.8,
            color="black" if run == "fp32" else RUN_COLOURS[runs.index(str(run)) % len(RUN_COLOURS)],
            ls=STYLES[kinds.index(kind) % len(STYLES)],
            label=None if label in labelled else label,
        )
        labelled.add(label)


PANELS: dict[str, tuple[Panel, ...]] = {
    "decoders": (validation, erased, moved),
    "study1": (validation, erased, pairs),
    "study2": (validation, erased, recoveries),
    "study3": (replays, erased, moved),
}
