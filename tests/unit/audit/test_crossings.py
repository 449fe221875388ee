"""Claim: a crossing is the first step of the first stretch that lasts, and no cell is dropped from a comparison."""

import numpy as np
import pytest

from halfulp.audit.crossings import CATEGORIES, Crossing, compare, find_crossing

NAN = float("nan")


@pytest.mark.parametrize(
    ("fraction", "expected"),
    [
        ([0.5, 0.9, 0.2, 0.9, 0.9, 0.9, 0.1], Crossing("post_init", 30)),  # a lone 0.9 does not last
        ([0.9, 0.9, 0.9, 0.0, 0.0, 0.0, 0.0], Crossing("at_init", 0)),  # what happens afterwards does not matter
        ([0.1, 0.1, 0.1, 0.1, 0.1, 0.9, 0.9], Crossing("never", None)),  # the horizon ends too soon to tell
        ([0.1, 0.8, 0.8, 0.8, 0.1, 0.1, 0.1], Crossing("post_init", 10)),  # reaching the threshold counts
        ([0.9, NAN, 0.9, 0.9, NAN, 0.9, 0.9], Crossing("never", None)),  # a missing value interrupts
        ([NAN] * 7, Crossing("never", None)),
    ],
)
def test_crossings(fraction: list[float], expected: Crossing) -> None:
    steps = range(0, 70, 10)
    assert find_crossing(np.array(fraction), steps, threshold=0.8, window=3) == expected


def test_divergence_is_a_category_unless_the_freeze_came_first() -> None:
    steps = range(4)
    assert find_crossing(np.array([0.1] * 4), steps, threshold=0.5, window=2, diverged=True).category == "diverged"
    assert find_crossing(np.array([0.1, 0.9, 0.9, 0.9]), steps, threshold=0.5, window=2, diverged=True).step == 1


def test_comparison_of_a_worked_example() -> None:
    never, init = Crossing("never", None), Crossing("at_init", 0)
    forecast = [Crossing("post_init", s - 1) for s in (10, 100, 106, 230)] + [
        never,
        init,
        init,
        Crossing("diverged", None),
    ]
    measured = [Crossing("post_init", s - 1) for s in (10, 112, 100, 200)] + [
        never,
        init,
        never,
        Crossing("post_init", 5),
    ]
    result = compare(forecast, measured)
    assert result["cells"] == 8
    assert result["disagreements"] == 2
    assert result["both_post_init"] == 4
    assert (result["within_15_percent"], result["within_5_percent"], result["exact"]) == (4, 1, 1)
    assert result["span"] == 20.0
    assert result["relative_error"] == pytest.approx(0.15)
    assert result["contingency"]["at_init"] == {"at_init": 1, "post_init": 0, "never": 1, "diverged": 0}
    assert sum(sum(row.values()) for row in result["contingency"].values()) == 8
    assert set(result["contingency"]) == set(CATEGORIES)


def test_nothing_to_compare_is_missing_and_not_perfect() -> None:
    result = compare([Crossing("never", None)], [Crossing("never", None)])
    assert (result["span"], result["share_within_15_percent"], result["relative_error"]) == (None, None, None)
    assert result["agreement"] == 1.0
    with pytest.raises(ValueError, match="1 forecasts for 0"):
        compare([Crossing("never", None)], [])
