"""Two runs of the same registration side by side: which differences are within the tolerance, and which are not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from halfulp.errors import InputError
from halfulp.registration.digests import read_json, read_record, sha256_file
from halfulp.registration.freeze import FROZEN_SCHEMA
from halfulp.studies import catalogue
from halfulp.training.tables import file_contents
from halfulp.verification.folder import Folder


@dataclass(frozen=True)
class Difference:
    """One thing that differs between two runs."""

    what: str
    first: Any
    second: Any
    within: bool


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side."""

    #: Files of equal bytes, and of equal contents in other bytes.
    equal_bytes: int
    equal_contents: int
    #: Relative difference of scores that was let pass.
    tolerance: float
    differences: tuple[Difference, ...]

    @property
    def within(self) -> bool:
        """Whether every difference is within the tolerance."""
        return all(difference.within for difference in self.differences)


def compare(first: Path, second: Path, project: Path, tolerance: float | None = None) -> Comparison:
    """Compare two runs: tables of counts and forecasts by contents, scores by value, gates and verdicts by outcome.

    Counts are integers, and losses follow them, so that a run on the same kind of CPU is equal bit for bit; elsewhere
    training itself departs.

    Args:
        first: a run's folder.
        second: another's.
        project: the project's folder, with the registration.
        tolerance: relative difference of a score that is let pass; by default the registered one.

    Raises:
        InputError: the runs are of different registrations.
        IncompleteError: a record is missing.
    """
    frozen = [read_record(run / "frozen.json", FROZEN_SCHEMA) for run in (first, second)]
    texts = [record.get("registration") for record in frozen]
    if texts[0] != texts[1] or texts[0] is None:
        raise InputError(f"{second}: of {texts[1]}, but {first} is of {texts[0]}; give two runs of one registration")
    if tolerance is None:
        tolerance = catalogue.load(project / texts[0]["path"]).reproduction_tolerance
    folders = [Folder(run).scan() for run in (first, second)]
    names = sorted({name for folder in folders for name in folder.files if name.endswith(".parquet")})
    same_bytes = same_contents = 0
    differences: list[Difference] = []
    for name in names:
        a, b = first / name, second / name
        if any(name not in folder.files for folder in folders):
            there, there_too = ("there" if name in folder.files else "missing" for folder in folders)
            differences.append(Difference(name, there, there_too, within=False))
        elif sha256_file(a) == sha256_file(b):
            same_bytes += 1
        elif file_contents(a) == file_contents(b):
            same_contents += 1
        else:
            differences.append(_tables(name, a, b, tolerance))
    scores = [read_json(run / "scores.json") for run in (first, second)]
    for run, record in zip((first, second), scores, strict=True):
        if not isinstance(record, dict):
            raise InputError(f"{run / 'scores.json'}: not a record of scores; restore it")
    a_scores, b_scores = (_without_identity(record) for record in scores)
    differences += _values("", a_scores, b_scores, tolerance)
    return Comparison(same_bytes, same_contents, tolerance, tuple(differences))


def _without_identity(scores: dict[str, Any]) -> dict[str, Any]:
    """Leave out whether the cells are canonical: that is of a run, and a repetition never has it."""
    return {key: value for key, value in scores.items() if key != "cells"}


def _tables(name: str, first: Path, second: Path, tolerance: float) -> Difference:
    """Compare two tables of other contents: only floating-point columns may differ, by no more than the tolerance."""
    a, b = (pd.read_parquet(path) for path in (first, second))
    exact = [column for column in a if column not in b or not pd.api.types.is_float_dtype(a[column])]
    if list(a) != list(b) or len(a) != len(b) or not a[exact].equals(b[exact]):
        return Difference(name, "contents", "other contents", within=False)
    real = [column for column in a if column not in exact]
    x, y = a[real].to_numpy(float), b[real].to_numpy(float)
    if (np.isnan(x) != np.isnan(y)).any():
        return Difference(name, "contents", "other contents", within=False)
    scale = np.maximum(np.abs(x), np.abs(y))
    largest = float(np.nanmax(np.abs(x - y) / np.where(scale > 0, scale, 1.0), initial=0.0))
    return Difference(
        name, "values", f"values that differ by up to {largest:.1e}, relative", within=largest <= tolerance
    )


def _values(where: str, a: Any, b: Any, tolerance: float) -> list[Difference]:
    if isinstance(a, dict) and isinstance(b, dict):
        found = []
        for key in sorted(a.keys() | b.keys()):
            found += _values(f"{where}.{key}".lstrip("."), a.get(key), b.get(key), tolerance)
        return found
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in _values(f"{where}[{i}]", x, y, tolerance)]
    if a == b and type(a) is type(b):
        return []
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (a, b))
    within = numbers and abs(a - b) <= tolerance * max(abs(a), abs(b))
    return [Difference(f"scores.json: {where}", a, b, within)]
