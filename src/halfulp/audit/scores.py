"""Scores of a forecast against outcomes. Curves are (target, group, step); a missing cell makes a score missing."""

from dataclasses import dataclass

import numpy as np

from halfulp.audit.curves import Array


def macro_rmse(forecast: Array, outcome: Array) -> float:
    """Return the root of the equal-weight mean squared error over (target, group, step)."""
    return float(np.sqrt(np.mean((forecast - outcome) ** 2)))


def rmse_by(forecast: Array, outcome: Array, axis: int) -> list[float]:
    """Return the RMSE within each index of one axis (0: target, 1: group, 2: step)."""
    others = tuple(a for a in range(3) if a != axis)
    by_index: list[float] = np.sqrt(np.mean((forecast - outcome) ** 2, axis=others)).tolist()
    return by_index


def skill(forecast: Array, baseline: Array, outcome: Array) -> float:
    """Return 1 − MSE(forecast) / MSE(baseline); NaN where the baseline is perfect."""
    error = float(np.mean((baseline - outcome) ** 2))
    return 1.0 - float(np.mean((forecast - outcome) ** 2)) / error if error != 0 else float("nan")


@dataclass(frozen=True)
class Direction:
    """Agreement in sign between the forecast's and the outcome's departures from the template."""

    #: Share of cells whose signs agree; NaN without cells.
    agreement: float
    #: Two-sided percentile interval of the share, from the cluster bootstrap.
    lower: float
    upper: float
    #: Cells in which both departures exceed the tolerance.
    cells: int
    #: Clusters (target, group) that have such cells.
    clusters: int


def directional_specificity(
    forecast: Array,
    outcome: Array,
    template: Array,
    *,
    tolerance: float,
    resamples: int,
    confidence: float,
    seed: int,
) -> Direction:
    """Score the signs of departures from the template, with a bootstrap over (target, group) clusters.

    Args:
        forecast: (target, group, step).
        outcome: (target, group, step).
        template: (target, group, step).
        tolerance: cells count only where both departures exceed it in magnitude.
        resamples: bootstrap resamples; clusters are drawn with replacement, each with all its cells.
        confidence: coverage of the interval, e.g. 0.95.
        seed: seed of the bootstrap.
    """
    missing = float("nan")
    expected, found = forecast - template, outcome - template
    if not (np.isfinite(expected).all() and np.isfinite(found).all()):
        return Direction(missing, missing, missing, 0, 0)
    counted = (np.abs(expected) > tolerance) & (np.abs(found) > tolerance)
    agreeing = counted & (np.sign(expected) == np.sign(found))
    totals, agreements = counted.sum(axis=2).ravel(), agreeing.sum(axis=2).ravel()
    used = totals > 0
    totals, agreements = totals[used], agreements[used]
    clusters = len(totals)
    if clusters == 0:
        return Direction(missing, missing, missing, 0, 0)
    drawn = np.random.default_rng(seed).integers(0, clusters, size=(resamples, clusters))
    shares = agreements[drawn].sum(axis=1) / totals[drawn].sum(axis=1)
    tail = (1 - confidence) / 2
    lower, upper = np.quantile(shares, [tail, 1 - tail])
    return Direction(float(agreements.sum() / totals.sum()), float(lower), float(upper), int(totals.sum()), clusters)
