"""Claim: the shares are those of a balanced three-way analysis of variance: they add up, and find what was put in."""

import numpy as np
import pytest

from halfulp.audit.decomposition import variance_shares

rng = np.random.default_rng(2)


def test_shares_add_up_to_one_and_none_is_negative() -> None:
    shares = variance_shares(rng.random((4, 5, 6)))
    assert len(shares) == 7
    assert sum(shares.values()) == pytest.approx(1.0, rel=1e-12)
    assert min(shares.values()) > 0


@pytest.mark.parametrize(("axis", "name"), [(0, "seed"), (1, "group"), (2, "time")])
def test_a_pure_main_effect_is_found_whole(axis: int, name: str) -> None:
    shape = [1, 1, 1]
    shape[axis] = (3, 4, 5)[axis]
    curves = np.broadcast_to(rng.random(shape), (3, 4, 5))
    shares = variance_shares(curves)
    assert shares[name] == pytest.approx(1.0, rel=1e-12)
    assert sum(abs(share) for key, share in shares.items() if key != name) < 1e-12


def test_a_pure_interaction_is_found_whole() -> None:
    pattern = rng.random((3, 1, 5))
    pattern = pattern - pattern.mean(0, keepdims=True) - pattern.mean(2, keepdims=True) + pattern.mean()
    shares = variance_shares(np.broadcast_to(pattern, (3, 4, 5)))
    assert shares["seed x time"] == pytest.approx(1.0, rel=1e-12)


def test_against_sums_of_squares_written_out() -> None:
    y = rng.random((3, 4, 5))
    total = ((y - y.mean()) ** 2).sum()
    time = 3 * 4 * ((y.mean((0, 1)) - y.mean()) ** 2).sum()
    assert variance_shares(y)["time"] == pytest.approx(time / total, rel=1e-12)


def test_missing_cells_and_constant_outcomes_have_no_shares() -> None:
    y = rng.random((3, 4, 5))
    y[0, 0, 0] = np.nan
    assert np.isnan(list(variance_shares(y).values())).all()
    assert np.isnan(list(variance_shares(np.ones((3, 4, 5))).values())).all()
