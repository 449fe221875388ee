"""Figures: vector PDF for papers, PNG for screens. Colours are those of Okabe & Ito, safe for colour-blind readers."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd

from halfulp.report.number import number
from halfulp.report.tables import ReportContext

SEED_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
#: Nothing in the files may depend on the day they were drawn.
PDF_METADATA = {"CreationDate": None}
STYLE: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "halfulp",
    "legend.frameon": False,
}


def draw_curves(context: ReportContext, forecasts: pd.DataFrame, counts: dict[int, pd.DataFrame], stem: Path) -> None:
    """Draw forecast and outcome of the erased fraction, one panel a group, one colour a seed.

    Args:
        context: the run.
        forecasts: sealed forecasts (columns predictor, seed, group, step, value).
        counts: counts by target seed (columns step, group, erased, moved).
        stem: path without suffix; ``.pdf`` and ``.png`` are written.
    """
    declared = next(row["predictor"] for row in context.scores["predictors"] if row["part"] == "declared")
    groups = list(dict.fromkeys(forecasts["group"]))
    columns = min(4, len(groups))
    rows = -(-len(groups) // columns)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            rows,
            columns,
            figsize=(2.1 * columns, 1.5 * rows + 0.8),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for axis, group in zip(axes.flat, groups, strict=False):
            _panel(axis, group, declared, forecasts, counts)
        for axis in axes.flat[len(groups) :]:
            axis.set_visible(False)
        for axis in axes[-1]:
            axis.set_xlabel("optimizer step")
        figure.supylabel("erased fraction of proposed updates")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.suptitle(_title(context), fontsize=8)
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        save(figure, stem)


def save(figure: Any, stem: Path) -> None:
    """Write a figure as PDF and PNG, and close it."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(stem.with_suffix(".pdf"), metadata=PDF_METADATA, bbox_inches="tight")
    figure.savefig(stem.with_suffix(".png"), dpi=160, metadata={"Software": None}, bbox_inches="tight")
    plt.close(figure)


def _panel(axis: Any, group: str, declared: str, forecasts: pd.DataFrame, counts: dict[int, pd.DataFrame]) -> None:
    for colour, (seed, table) in zip(SEED_COLOURS * len(counts), counts.items(), strict=False):
        rows = table[table["group"] == group].sort_values("step")
        share = rows["erased"] / (rows["erased"] + rows["moved"])
        axis.plot(rows["step"], share, color=colour, lw=0.8, label=f"outcome, seed {seed}")
    forecast = forecasts[(forecasts["group"] == group) & (forecasts["predictor"] == declared)]
    one = forecast[forecast["seed"] == forecast["seed"].iloc[0]].sort_values("step")
    axis.plot(one["step"], one["value"], color="black", lw=0.8, ls=(0, (3, 1)), label="sealed forecast")
    axis.set_title(group, fontsize=7)


def _title(context: ReportContext) -> str:
    rmse = number(context.scores["scores"]["macro_rmse"])
    return f"{context.registration.title}: macro RMSE {rmse}; {context.identity['label']} run"
