"""Tables of the write-back studies: beside the paper, gates, results, the cells' identities, every run."""

import pandas as pd

from halfulp.report.mechanism_tables import paper_table
from halfulp.report.tables import Context, Tables, gate_table


def rows_of(context: Context, name: str) -> pd.DataFrame:
    """Return ``results``, ``cells`` or ``runs`` of the scores."""
    return pd.DataFrame(context.scores[name]["rows"], columns=context.scores[name]["columns"])


def result_table(context: Context) -> pd.DataFrame:
    """The study's own results; a retrospective analysis, if there is one, stands below them and says so."""
    frame = rows_of(context, "results")
    recovered = context.scores["retrospective"].get("recovered", [])
    if not recovered:
        return frame
    conclusion = context.scores["retrospective"]["conclusion"]
    rows = [
        {
            "seed": str(row["seed"]),
            "canonical": f"retrospective, not registered: {conclusion}",
            **{f"difference, {key}": row[key] for key in ("value", "lower", "upper")},
        }
        for row in recovered
    ]
    return pd.concat([frame, pd.DataFrame(rows)], ignore_index=True)


def cell_table(context: Context) -> pd.DataFrame:
    """Every cell's process identity."""
    return rows_of(context, "cells")


def run_table(context: Context) -> pd.DataFrame:
    """Every run's final loss and exact event counts, over all groups and recorded steps."""
    frame = rows_of(context, "runs")
    return frame.astype(dict.fromkeys(("no_update", "erased", "moved", "saturated"), "Int64"))


TABLES: Tables[Context] = {
    "paper": paper_table,
    "gates": gate_table,
    "results": result_table,
    "cells": cell_table,
    "runs": run_table,
}
