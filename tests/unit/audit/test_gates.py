"""Claim: a gate passes only on a finite score on the right side of a finite threshold. Nothing else is."""

import math
from typing import Any

import pytest

from halfulp.audit.gates import judge, verdict


@pytest.mark.parametrize(
    ("comparator", "below", "at", "above"),
    [
        ("<", "pass", "fail", "fail"),
        ("<=", "pass", "pass", "fail"),
        (">", "fail", "fail", "pass"),
        (">=", "fail", "pass", "pass"),
    ],
)
def test_each_comparator_at_and_around_its_threshold(comparator: str, below: str, at: str, above: str) -> None:
    values = (math.nextafter(0.5, 0), 0.5, math.nextafter(0.5, 1))
    assert [judge("g", "s", comparator, 0.5, {"s": v}).outcome for v in values] == [below, at, above]


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("comparator", ["<", "<=", ">", ">="])
def test_missing_nan_and_infinite_are_invalid(value: float | None, comparator: str) -> None:
    assert judge("g", "s", comparator, 0.5, {"s": value}).outcome == "invalid"
    assert judge("g", "s", comparator, 0.5, {}).outcome == "invalid"
    assert judge("g", "s", comparator, math.nan, {"s": 0.5}).outcome == "invalid"


def test_unknown_comparator_is_an_error() -> None:
    with pytest.raises(ValueError, match="use one of <"):
        judge("g", "s", "!=", 0.5, {"s": 0.1})


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["pass", "pass"], "pass"),
        (["pass", "fail"], "fail"),
        (["fail", "invalid"], "invalid"),
        (["pass", "invalid"], "invalid"),
        ([], "invalid"),
    ],
)
def test_verdict(outcomes: list[Any], expected: str) -> None:
    scores = {"pass": 0.0, "fail": 1.0, "invalid": math.nan}
    judged = [judge(str(i), "s", "<", 0.5, {"s": scores[outcome]}) for i, outcome in enumerate(outcomes)]
    assert verdict(judged) == expected
