"""Scores of a forecast against outcomes. Curves are (target, group, step); a missing cell makes a score missing."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp.audit.curves import Array

#: Cells by flag or count.
Cells = npt.NDArray[Any]


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
    expected, found = forecast - template, outcome - template
    counted, agreeing = _signs(expected, found, tolerance)
    complete = bool(np.isfinite(expected).all() and np.isfinite(found).all())
    return _bootstrap(counted, agreeing, complete, resamples=resamples, confidence=confidence, seed=seed)


def crossfit_specificity(
    source: Array,
    historical_local: Array,
    historical_outcome: Array,
    outcome: Array,
    *,
    alter: Callable[[Array], Array],
    tolerance: float,
    resamples: int,
    confidence: float,
    seed: int,
) -> Direction:
    """Directional specificity with disjoint seeds in H and T, pooled over all splits of the historical seeds.

    With the same seeds in both, the errors of H and T are correlated, and a source that knows nothing of the targets
    agrees with them in more than half of the cells. Here H is the mean of one part of the historical seeds and T that
    of the others, so that chance is one half.

    Args:
        source: ``local`` curves of the source, (group, step).
        historical_local: (seed, group, step).
        historical_outcome: (seed, group, step).
        outcome: (target, group, step).
        alter: what a placebo does to the source's departure; the identity for the declared forecast.
        tolerance: as for :func:`directional_specificity`, like the remaining arguments.
    """
    count = len(historical_local)
    counted: Cells = np.zeros(outcome.shape, dtype=np.int64)
    agreeing: Cells = np.zeros(outcome.shape, dtype=np.int64)
    complete = all(bool(np.isfinite(a).all()) for a in (source, historical_local, historical_outcome, outcome))
    for size in sorted({count // 2, count - count // 2}) if count > 1 else ():
        for chosen in combinations(range(count), size):
            others = [index for index in range(count) if index not in chosen]
            expected = alter(source - historical_local[list(chosen)].mean(axis=0))
            found = outcome - historical_outcome[others].mean(axis=0)
            one_counted, one_agreeing = _signs(np.broadcast_to(expected, outcome.shape), found, tolerance)
            counted += one_counted
            agreeing += one_agreeing
    return _bootstrap(counted, agreeing, complete and count > 1, resamples=resamples, confidence=confidence, seed=seed)


def _signs(expected: Array, found: Array, tolerance: float) -> tuple[Cells, Cells]:
    """Return which cells count, and which of them agree in sign."""
    counted = (np.abs(expected) > tolerance) & (np.abs(found) > tolerance)
    return counted, counted & (np.sign(expected) == np.sign(found))


def _bootstrap(
    counted: Cells, agreeing: Cells, complete: bool, *, resamples: int, confidence: float, seed: int
) -> Direction:
    """Resample (target, group) clusters, each with all its cells."""
    missing = float("nan")
    totals, agreements = counted.sum(axis=2).ravel(), agreeing.sum(axis=2).ravel()
    used = totals > 0
    totals, agreements = totals[used], agreements[used]
    clusters = len(totals)
    if clusters == 0 or not complete:
        return Direction(missing, missing, missing, 0, 0)
    drawn = np.random.default_rng(seed).integers(0, clusters, size=(resamples, clusters))
    shares = agreements[drawn].sum(axis=1) / totals[drawn].sum(axis=1)
    tail = (1 - confidence) / 2
    lower, upper = np.quantile(shares, [tail, 1 - tail])
    return Direction(float(agreements.sum() / totals.sum()), float(lower), float(upper), int(totals.sum()), clusters)
