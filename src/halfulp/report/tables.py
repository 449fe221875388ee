"""Tables for people and papers: CSV with full precision, Markdown and LaTeX rounded, each with its label."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import jinja2
import pandas as pd

from halfulp.audit.decomposition import NAMES
from halfulp.registration.deviations import Deviation
from halfulp.report import paper
from halfulp.report.number import number


@dataclass(frozen=True)
class Context:
    """What the tables and figures of any study are made from."""

    registration: Any
    #: Contents of ``scores.json``.
    scores: dict[str, Any]
    #: Contents of ``run.json``.
    identity: dict[str, Any]
    deviations: list[Deviation]

    @property
    def note(self) -> str:
        """The line that stands under every table."""
        return (
            f"{self.registration.study}, scale {self.registration.scale}; {self.identity['label']} run "
            f"({self.identity['label_detail']}); deviations: {len(self.deviations) or 'none'}."
            + (f" {self.scores['note']}" if self.scores.get("note") else "")
        )


@dataclass(frozen=True)
class ReportContext(Context):
    """The audit's context."""

    @property
    def predictors(self) -> dict[str, dict[str, Any]]:
        """Rows of the predictor table by predictor."""
        return {row["predictor"]: row for row in self.scores["predictors"]}

    def measured(self, claim: paper.Claim) -> float | str | None:
        """Return this run's figure for one of the paper's claims."""
        kind, name = claim.key
        if kind == "gate":
            return next((gate["outcome"] for gate in self.scores["gates"] if gate["name"] == name), None)
        if kind == "predictor":
            return self.predictors[name]["macro_rmse"] if name in self.predictors else None
        value: float | None = self.scores["decomposition" if kind == "share" else kind].get(name)
        return value * 100 if value is not None and claim.unit == "%" else value


#: Columns of every study's table beside the paper.
PAPER_COLUMNS = ["system", "quantity", "paper", "this run", "unit", "verdict"]


def paper_table(context: ReportContext) -> pd.DataFrame:
    """This run beside the paper. A verdict stands where the paper's claim is one, else ``reported``."""
    rows = []
    for claim in paper.AUDIT:
        value = context.measured(claim)
        verdict = "missing" if value is None else "reported"
        if value is not None and claim.key[0] == "gate":
            verdict = "as the paper" if value == claim.paper else "differs"
        rows.append((claim.system, claim.quantity, claim.paper, value, claim.unit, verdict))
    return pd.DataFrame(rows, columns=PAPER_COLUMNS)


def gate_table(context: Context) -> pd.DataFrame:
    """The registered gates with what was measured."""
    columns = ["name", "score", "value", "comparator", "threshold", "outcome"]
    frame = pd.DataFrame(context.scores["gates"], columns=columns)
    return frame.rename(columns={"name": "gate", "comparator": "must be"})


def predictor_table(context: ReportContext) -> pd.DataFrame:
    """Every predictor's scores, overall and by seed and group, beside its blind rank."""
    ranks = {row["predictor"]: (i, row["blind_rmse"]) for i, row in enumerate(context.scores["ranking"]["order"], 1)}
    rows = []
    for row in sorted(context.scores["predictors"], key=lambda r: (r["macro_rmse"] is None, r["macro_rmse"])):
        rank, blind = ranks.get(row["predictor"], (None, None))
        entry = {
            "predictor": row["predictor"],
            "part": row["part"],
            "RMSE": row["macro_rmse"],
            "skill": row["skill"],
            "sign agreement": row["agreement"],
            "lower": row["lower"],
            "upper": row["upper"],
            "cells": row["cells"],
            "blind rank": rank,
            "blind RMSE": blind,
        }
        entry |= {f"RMSE seed {seed}": value for seed, value in row["rmse_by_seed"].items()}
        entry |= {f"RMSE {group}": value for group, value in row["rmse_by_group"].items()}
        rows.append(entry)
    frame = pd.DataFrame(rows)
    return frame.astype({"blind rank": "Int64"})


def decomposition_table(context: ReportContext) -> pd.DataFrame:
    """Shares of the outcomes' variation about their grand mean, in per cent."""
    shares = context.scores["decomposition"]
    rows = [(name, None if shares[name] is None else 100 * shares[name]) for name in NAMES.values()]
    return pd.DataFrame(rows, columns=["source of variation", "share of variation (%)"])


ContextT = TypeVar("ContextT", bound=Context)
Tables = dict[str, Callable[[ContextT], pd.DataFrame]]

#: Tables by file name. Markdown and LaTeX show at most this many columns; the CSV has them all.
TABLES: Tables[ReportContext] = {
    "paper": paper_table,
    "gates": gate_table,
    "predictors": predictor_table,
    "decomposition": decomposition_table,
}
PRINTED_COLUMNS = 10


def printed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table's leading columns as text."""
    leading = frame.iloc[:, :PRINTED_COLUMNS]
    return leading.astype(object).map(number)


def write_tables(tables: Tables[ContextT], context: ContextT, folder: Path) -> None:
    """Write every table as CSV, Markdown and LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in tables.items():
        frame = make(context).assign(label=context.identity["label"])
        write_table(frame, f"{context.registration.title}: {name}", context.note, folder / name)


def write_table(frame: pd.DataFrame, title: str, note: str, stem: Path) -> None:
    """Write one table, whose last column is the label, as ``.csv``, ``.md`` and ``.tex``."""
    text = printed(frame.drop(columns="label"))
    _write(stem.with_suffix(".csv"), frame.to_csv(index=False, lineterminator="\n"))
    markdown = text.to_markdown(index=False, disable_numparse=True)
    _write(stem.with_suffix(".md"), f"{markdown}\n\n{note}\n")
    _write(stem.with_suffix(".tex"), _latex(text, title, note, stem.name))


def combine(papers: list[Path], scale: str, stem: Path) -> None:
    """Put the ``paper`` tables of several studies into one; each row keeps its study's label."""
    frame = pd.concat([pd.read_csv(path, dtype=str, keep_default_na=False) for path in papers])
    frame["this run"] = frame["this run"].map(_parsed)
    label = frame.pop("label")
    note = f"Scale {scale}. Labels stand in the last column: registered, replication or unregistered."
    stem.parent.mkdir(parents=True, exist_ok=True)
    write_table(frame.assign(run=label, label=label), f"This project beside the paper, scale {scale}", note, stem)


def _parsed(text: str) -> float | str | None:
    """Read a number with a decimal point back from a CSV cell; leave everything else as text."""
    try:
        return float(text) if "." in text else text or None
    except ValueError:
        return text


def _latex(text: pd.DataFrame, title: str, note: str, name: str) -> str:
    escaped = text.rename(columns=_escape).map(_escape)
    body = escaped.to_latex(index=False, column_format="l" * len(text.columns))
    caption = f"{_escape(title)}. {_escape(note)}"
    table = f"\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n\\label{{tab:{name}}}\n{body}\\end{{table}}\n"
    return f"% needs \\usepackage{{booktabs}}\n{table}"


def _escape(text: str) -> str:
    for character in "&%$#_":
        text = text.replace(character, f"\\{character}")
    return text.replace("<", "$<$").replace(">", "$>$").replace("–", "--")


def write_captions(context: ReportContext, templates: Path, folder: Path) -> None:
    """Fill the caption templates of the HTML report with this run's numbers."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.filters["number"] = number
    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "registration": context.registration,
        "scores": context.scores,
        "predictors": context.predictors,
        "gates": {gate["name"]: gate for gate in context.scores["gates"]},
        "note": context.note,
        "deviations": context.deviations,
    }
    for template in sorted(templates.glob("*.rst.jinja")):
        _write(folder / template.stem, environment.from_string(template.read_text("utf-8")).render(values))


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))
