"""Tables of the mechanism systems: beside the paper, gates, crossings, their comparison, exact counts, last metrics."""

import pandas as pd

from halfulp.audit.crossings import CATEGORIES
from halfulp.report import paper
from halfulp.report.tables import PAPER_COLUMNS, Context, Tables, gate_table


def paper_table(context: Context) -> pd.DataFrame:
    """This run beside the paper."""
    rows = []
    for claim in (*paper.MECHANISMS, *paper.WRITE_BACK):
        if claim.system == context.registration.study:
            value = context.scores["claims"].get(claim.key[1])
            verdict = "missing" if value is None else "reported"
            rows.append((claim.system, claim.quantity, claim.paper, value, claim.unit, verdict))
    return pd.DataFrame(rows, columns=PAPER_COLUMNS, dtype=object)


def crossing_table(context: Context) -> pd.DataFrame:
    """Every unit's category and step, forecast and measured."""
    return pd.DataFrame(context.scores["units"]).astype({"forecast_step": "Int64", "measured_step": "Int64"})


def comparison_table(context: Context) -> pd.DataFrame:
    """How forecast and measured crossings agree, at every threshold; the contingency of categories in columns."""
    rows = []
    for name, result in context.scores["comparisons"].items():
        summary = {key: value for key, value in result.items() if key != "contingency"}
        table = {f"{f} → {m}": result["contingency"][f][m] for f in CATEGORIES for m in CATEGORIES}
        rows.append({"comparison": name} | summary | table)
    return pd.DataFrame(rows)


def event_table(context: Context) -> pd.DataFrame:
    """Exact event counts of every cell, over all groups and recorded steps."""
    return pd.DataFrame(context.scores["totals"])


def metric_table(context: Context) -> pd.DataFrame:
    """Last value of every metric in every cell."""
    rows = [{"cell": cell} | metrics for cell, metrics in context.scores["last"].items()]
    return pd.DataFrame(rows)


TABLES: Tables[Context] = {
    "paper": paper_table,
    "gates": gate_table,
    "crossings": crossing_table,
    "comparison": comparison_table,
    "events": event_table,
    "metrics": metric_table,
}
