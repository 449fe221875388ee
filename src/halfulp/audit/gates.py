"""Gates: a score on one side of a registered threshold. Missing, NaN and infinite are ``invalid``, never ``pass``."""

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["pass", "fail", "invalid"]
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Judged:
    """A gate with the score that was measured and its outcome."""

    name: str
    score: str
    comparator: str
    threshold: float
    #: Measured value; None where it is missing or not finite.
    value: float | None
    outcome: Outcome


def judge(name: str, score: str, comparator: str, threshold: float, scores: Mapping[str, float | None]) -> Judged:
    """Judge one gate. A score that is absent, None, NaN or infinite is invalid; so are such thresholds.

    Raises:
        ValueError: the comparator is not one of ``<``, ``<=``, ``>``, ``>=``.
    """
    if comparator not in _COMPARE:
        raise ValueError(f"gate {name}: comparator {comparator!r}: use one of {', '.join(_COMPARE)}")
    value = scores.get(score)
    if value is None or not math.isfinite(value) or not math.isfinite(threshold):
        return Judged(name, score, comparator, threshold, None, "invalid")
    outcome: Outcome = "pass" if _COMPARE[comparator](value, threshold) else "fail"
    return Judged(name, score, comparator, threshold, value, outcome)


def finite(value: float) -> float | None:
    """Return a number fit for JSON and for a gate: None where it is NaN or infinite."""
    return float(value) if math.isfinite(value) else None


def verdict(judged: Iterable[Judged]) -> Outcome:
    """Return ``invalid`` if any gate is (or there is none), else ``fail`` if any failed, else ``pass``."""
    outcomes = [gate.outcome for gate in judged]
    if not outcomes or "invalid" in outcomes:
        return "invalid"
    return "fail" if "fail" in outcomes else "pass"
