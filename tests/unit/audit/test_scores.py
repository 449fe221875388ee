"""Claim: scores equal their definitions on worked examples, and a missing cell is never a number."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from halfulp.audit.curves import Array, Axes, axes_of, erased_fraction
from halfulp.audit.predictors import keep, reverse_time
from halfulp.audit.scores import Direction, crossfit_specificity, directional_specificity, macro_rmse, rmse_by, skill

rng = np.random.default_rng(1)


def direction(forecast: Array, outcome: Array, template: Array, tolerance: float = 0.01) -> Direction:
    return directional_specificity(
        forecast, outcome, template, tolerance=tolerance, resamples=400, confidence=0.95, seed=3
    )


def test_macro_rmse_weighs_every_cell_alike() -> None:
    outcome = np.zeros((2, 2, 2))
    forecast = np.zeros((2, 2, 2))
    forecast[0, 0] = [0.3, 0.4]
    assert macro_rmse(forecast, outcome) == pytest.approx(np.sqrt((0.09 + 0.16) / 8), rel=1e-15)
    assert rmse_by(forecast, outcome, 0) == pytest.approx([np.sqrt(0.25 / 4), 0.0], rel=1e-15)
    assert rmse_by(forecast, outcome, 1) == pytest.approx([np.sqrt(0.25 / 4), 0.0], rel=1e-15)


def test_skill_is_one_for_a_perfect_forecast_and_zero_for_the_baseline() -> None:
    outcome, baseline = rng.random((3, 4, 5)), rng.random((3, 4, 5))
    assert skill(outcome, baseline, outcome) == 1.0
    assert skill(baseline, baseline, outcome) == 0.0
    assert np.isnan(skill(baseline, outcome, outcome))  # nothing to be better than


def test_direction_counts_only_cells_beyond_the_tolerance() -> None:
    template = np.full((1, 1, 6), 0.5)
    forecast = template + np.array([0.1, 0.1, -0.1, 0.005, 0.1, 0.0])
    outcome = template + np.array([0.2, -0.2, -0.2, 0.2, 0.005, 0.2])
    result = direction(forecast, outcome, template)
    assert (result.cells, result.clusters) == (3, 1)
    assert result.agreement == 2 / 3


def test_direction_bounds_enclose_a_true_effect_and_not_a_coin() -> None:
    """With 60 clusters of 20 cells, 80 % agreement is far above 0.5 and a coin's interval holds 0.5."""
    template = np.zeros((6, 10, 20))
    outcome = rng.choice([-1.0, 1.0], template.shape)
    agree = np.where(rng.random(template.shape) < 0.8, outcome, -outcome)
    coin = rng.choice([-1.0, 1.0], template.shape)
    informed, blind = direction(agree, outcome, template), direction(coin, outcome, template)
    assert informed.lower > 0.5
    assert informed.lower < informed.agreement < informed.upper
    assert blind.lower < 0.5 < blind.upper


def test_bootstrap_draws_clusters_and_not_cells() -> None:
    """Cells of a cluster that agree all together carry one cluster's weight: the interval is wide."""
    template = np.zeros((2, 5, 1000))
    outcome = np.ones(template.shape)
    forecast = np.ones(template.shape)
    forecast[0] = -1.0  # 5 of 10 clusters disagree throughout
    result = direction(forecast, outcome, template)
    assert result.agreement == 0.5
    assert result.upper - result.lower > 0.4  # from cells it would be about 0.02


def test_missing_cells_make_scores_missing() -> None:
    good = rng.random((2, 3, 4))
    bad = good.copy()
    bad[1, 1, 1] = np.nan
    assert np.isnan(macro_rmse(bad, good))
    assert np.isnan(skill(bad, good + 0.1, good))
    assert np.isnan(direction(bad, good, good).agreement)
    assert np.isfinite(macro_rmse(good, good))  # control


def test_no_cell_beyond_the_tolerance_is_missing_and_not_zero() -> None:
    flat = np.full((2, 2, 2), 0.5)
    result = direction(flat, flat, flat)
    assert np.isnan([result.agreement, result.lower, result.upper]).all()
    assert result.cells == 0


def counts(rows: list[tuple[int, str, int, int]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["step", "group", "erased", "moved"])


def test_erased_fraction_is_missing_without_proposals_or_row() -> None:
    table = counts([(0, "b", 3, 1), (0, "a", 0, 0), (2, "b", 0, 5)])
    axes = axes_of(table, range(0, 5, 2))
    assert axes == Axes(("b", "a"), (0, 2, 4))
    np.testing.assert_array_equal(erased_fraction(table, axes), [[0.75, 0.0, np.nan], [np.nan] * 3])
    with pytest.raises(ValueError, match="two rows"):
        erased_fraction(pd.concat([table, table]), axes)


def crossfit(
    source: Array, local: Array, outcomes: Array, observed: Array, alter: Callable[[Array], Array] = keep
) -> Direction:
    return crossfit_specificity(
        source, local, outcomes, observed, alter=alter, tolerance=0.01, resamples=200, confidence=0.95, seed=3
    )


def test_sharing_seeds_in_both_means_biases_the_plain_score_and_not_the_cross_fitted_one() -> None:
    """A source that knows nothing: each seed's local and outcome agree, but source, historical and targets do not.

    The plain score's chance level is 1/2 + asin(1/(m+1))/pi with m historical seeds (0.56 for m = 4); both means are of
    400 draws of one cell a cluster, whose standard error is below 0.01.
    """
    plain, fitted = [], []
    for _ in range(400):
        seeds = rng.normal(size=(8, 6, 1))
        historical, source, observed = seeds[:4], seeds[4], seeds[5:]
        template = np.broadcast_to(historical.mean(0), observed.shape)
        forecast = template + (source - historical.mean(0))
        plain.append(direction(forecast, observed, template).agreement)
        fitted.append(crossfit(source, historical, historical, observed).agreement)
    assert np.mean(plain) == pytest.approx(0.5 + np.arcsin(1 / 5) / np.pi, abs=0.03)
    assert np.mean(fitted) == pytest.approx(0.5, abs=0.03)


def test_cross_fitted_score_finds_a_source_that_does_know() -> None:
    seeds = rng.normal(size=(7, 6, 50))
    historical, shared = seeds[:4], seeds[4]
    observed = shared[None] + 0.1 * seeds[5:]
    assert crossfit(shared, historical, historical, observed).lower > 0.5
    reversed_ = crossfit_specificity(
        shared,
        historical,
        historical,
        observed,
        alter=reverse_time,
        tolerance=0.01,
        resamples=200,
        confidence=0.95,
        seed=3,
    )
    assert reversed_.agreement < 0.7


def test_cross_fitting_needs_two_historical_seeds_and_every_cell() -> None:
    seeds = rng.normal(size=(6, 3, 4))
    assert np.isfinite(crossfit(seeds[0], seeds[1:4], seeds[1:4], seeds[4:]).agreement)  # control
    assert np.isnan(crossfit(seeds[0], seeds[1:2], seeds[1:2], seeds[4:]).agreement)
    seeds[2, 1, 1] = np.nan
    assert np.isnan(crossfit(seeds[0], seeds[1:4], seeds[1:4], seeds[4:]).agreement)
