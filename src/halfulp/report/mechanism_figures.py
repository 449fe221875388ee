"""Figures of the mechanism systems: dates against dates, curves through time, losses with the freeze, a heat map."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from halfulp.report.figures import SEED_COLOURS, STYLE, save
from halfulp.report.tables import Context

#: Curves in one panel; further cells are left to the tables.
MOST_CURVES = 8
Panel = Callable[[Any, Context, list[pd.DataFrame], list[pd.DataFrame]], None]


def draw(context: Context, cells: list[pd.DataFrame], metrics: list[pd.DataFrame], run: Path) -> None:
    """Draw a system's figure to ``figures/crossings.pdf`` and ``.png``; frames are (forecast, measured)."""
    panels = PANELS[context.registration.study]
    with plt.rc_context(STYLE):
        size = (3.4 * len(panels), 3.0)
        figure, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
        for axis, panel in zip(axes[0], panels, strict=True):
            panel(axis, context, cells, metrics)
        figure.suptitle(f"{context.registration.title}; {context.identity['label']} run", fontsize=8)
        save(figure, run / "figures" / "crossings")


def scatter(axis: Any, context: Context, cells: list[pd.DataFrame], metrics: list[pd.DataFrame]) -> None:
    """Plot measured against forecast times, log–log, with a band of 15 %."""
    units = pd.DataFrame(context.scores["units"])
    dated = units[(units["forecast"] == "post_init") & (units["measured"] == "post_init")]
    markers = {"trace": "o", "analytic": "x"}
    times = [1.0, 10.0]
    for colour, (threshold, rows) in zip(SEED_COLOURS, dated.groupby("threshold"), strict=False):
        for kind, some in rows.groupby("kind"):
            x, y = some["forecast_step"].astype(float) + 1, some["measured_step"].astype(float) + 1
            label = f"{kind}, θ = {threshold:g}"
            axis.plot(x, y, markers.get(str(kind), "s"), ms=3.5, mfc="none", color=colour, label=label)
            times += [*x, *y]
    line = np.geomspace(min(times), max(times), 50)
    axis.plot(line, line, color="black", lw=0.7)
    axis.fill_between(line, line / 1.15, line * 1.15, color="black", alpha=0.08, lw=0)
    axis.set(xscale="log", yscale="log", xlabel="forecast crossing (updates)", ylabel="measured crossing (updates)")
    axis.legend(fontsize=6)


def curves(axis: Any, context: Context, cells: list[pd.DataFrame], metrics: list[pd.DataFrame]) -> None:
    """Plot the erased fraction of whole cells through time: measured solid, forecast dashed."""
    names = list(dict.fromkeys(cells[1]["cell"]))
    chosen = names if len(names) <= MOST_CURVES else names[:: -(-len(names) // MOST_CURVES)]
    forecast = cells[0][cells[0]["kind"] == "trace"]
    shades = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(chosen)))  # neighbouring widths, neighbouring colours
    for colour, name in zip(shades, chosen, strict=True):
        for frame, style in ((cells[1], "-"), (forecast, (0, (3, 1)))):
            total = frame[frame["cell"] == name].groupby("step")[["erased", "moved"]].sum()
            share = total["erased"] / (total["erased"] + total["moved"])
            axis.plot(total.index + 1, share, ls=style, lw=0.8, color=colour, label=name if style == "-" else None)
    axis.set(xlabel="updates", ylabel="erased fraction (dashed: forecast)", ylim=(-0.02, 1.02))
    if cells[1]["step"].max() > 500:
        axis.set_xscale("log")
    axis.legend(fontsize=6)


def losses(axis: Any, context: Context, cells: list[pd.DataFrame], metrics: list[pd.DataFrame]) -> None:
    """Plot validation loss by cell, with the measured freeze at the first threshold marked."""
    frame = pd.concat(metrics)
    frame = frame[frame["metric"] == "validation_loss"]
    frozen = {u["cell"]: u["measured_step"] for u in context.scores["units"] if u["threshold"] == _first(context)}
    for colour, (name, rows) in zip(SEED_COLOURS * 2, frame.groupby("cell", sort=False), strict=False):
        axis.plot(rows["step"], rows["value"], marker=".", ms=3, lw=0.8, color=colour, label=name)
        if frozen.get(str(name)) is not None:
            axis.axvline(frozen[str(name)], color=colour, lw=0.6, ls=":")
    axis.set(xlabel="optimizer step (dotted: freeze)", ylabel="validation loss (nats)")
    axis.legend(fontsize=6)


def heat_map(axis: Any, context: Context, cells: list[pd.DataFrame], metrics: list[pd.DataFrame]) -> None:
    """Show the measured crossing of every cell of the grid; a cross marks a category that was not forecast."""
    r, first = context.registration, _first(context)
    units = {u["cell"]: u for u in context.scores["units"] if u["threshold"] == first and u["kind"] == "trace"}
    columns = [(rate, seed) for rate in r.rates for seed in r.seeds]
    names = [[f"m{width} rate {rate:g} seed {seed}" for rate, seed in columns] for width in r.widths]
    steps = np.array([[units[name]["measured_step"] for name in row] for row in names], dtype=float)
    image = axis.imshow(np.log10(steps + 1), aspect="auto", cmap="viridis", origin="lower")
    for (y, x), name in np.ndenumerate(np.array(names)):
        if units[name]["forecast"] != units[name]["measured"]:
            axis.plot(x, y, "x", color="red", ms=5)
    axis.set_xticks(range(len(columns)), [f"{rate:g}\n{seed}" for rate, seed in columns], fontsize=5)
    axis.set_yticks(range(len(r.widths)), r.widths)
    axis.set(xlabel="rate and seed", ylabel="mantissa bits")
    axis.figure.colorbar(image, ax=axis, label="log10 of measured crossing (blank: never)")


def accuracies(axis: Any, context: Context, cells: list[pd.DataFrame], metrics: list[pd.DataFrame]) -> None:
    """Show the last accuracy of every run."""
    last = {cell: values["accuracy"] for cell, values in context.scores["last"].items() if "accuracy" in values}
    axis.barh(list(last), list(last.values()), color=SEED_COLOURS[0], height=0.6)
    axis.tick_params(axis="y", labelsize=6)
    axis.set(xlabel="accuracy on held-out digits", xlim=(0, 1))


def _first(context: Context) -> float:
    threshold: float = context.registration.crossing.thresholds[0]
    return threshold


PANELS: dict[str, tuple[Panel, ...]] = {
    "grid": (scatter, heat_map, curves),
    "features": (scatter, curves),
    "emulator": (scatter, curves, losses),
    "cnn": (scatter, curves, accuracies),
    "gpt_bf16": (scatter, curves, losses),
    "gpt2_fp8": (curves, losses),
}
