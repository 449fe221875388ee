"""Claim: recovery and its intervals are what their definitions say; what is missing stays missing."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from halfulp.audit.recovery import MISSING, paired_bootstrap, recovery, t_interval


def test_recovery_is_0_at_nearest_and_1_at_fp32() -> None:
    assert recovery(2.0, 2.0, 1.0) == 0.0
    assert recovery(2.0, 1.0, 1.0) == 1.0
    assert recovery(2.0, 1.25, 1.0) == 0.75
    assert math.isnan(recovery(2.0, 1.5, 2.0))


def difference(means: dict[str, float]) -> float:
    return means["a"] - means["b"]


BOOTSTRAP: dict[str, Any] = {"resamples": 4000, "confidence": 0.9, "seed": 1}


def test_a_constant_difference_has_no_width_because_blocks_are_paired() -> None:
    a = np.random.default_rng(0).normal(size=30)
    found = paired_bootstrap({"a": a + 0.5, "b": a}, difference, resamples=200, confidence=0.95, seed=1)
    assert found.lower == pytest.approx(0.5, abs=1e-12)
    assert found.upper == pytest.approx(0.5, abs=1e-12)


def test_the_bootstrap_approaches_the_exact_distribution() -> None:
    """Three blocks have 27 resamples; their exact quantiles are the oracle."""
    a, b = np.array([1.0, 2.0, 4.0]), np.array([0.5, 2.5, 1.0])
    exact = sorted(float(np.mean((a - b)[list(draw)])) for draw in itertools.product(range(3), repeat=3))
    found = paired_bootstrap({"a": a, "b": b}, difference, **BOOTSTRAP)
    assert found.value == pytest.approx(float(np.mean(a - b)))
    # 4,000 draws put a quantile within the exact distribution's steps on either side of it.
    for value, share in ((found.lower, 0.05), (found.upper, 0.95)):
        below, above = exact[max(0, int(27 * share) - 1)], exact[min(26, int(27 * share) + 1)]
        assert below - 1e-12 <= value <= above + 1e-12


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_missing_loss_makes_the_estimate_missing(bad: float) -> None:
    losses = {"a": np.array([1.0, bad]), "b": np.array([1.0, 2.0])}
    found = paired_bootstrap(losses, difference, resamples=10, confidence=0.9, seed=1)
    assert [math.isnan(v) for v in (found.value, found.lower, found.upper)] == [True] * 3


def test_unpaired_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[2, 3\] blocks can't be paired"):
        paired_bootstrap({"a": np.ones(2), "b": np.ones(3)}, difference, **BOOTSTRAP)


def test_t_interval_against_a_textbook() -> None:
    """Mean 3, standard deviation 1, three values: 3 ± 4.302653 / √3."""
    found = t_interval([2.0, 3.0, 4.0], 0.95)
    assert found.value == 3.0
    assert found.upper == pytest.approx(3 + 4.3026527 / math.sqrt(3))
    assert found.lower == pytest.approx(3 - 4.3026527 / math.sqrt(3))
    assert t_interval([1.0], 0.95) is MISSING
    assert t_interval([1.0, float("nan")], 0.95) is MISSING
