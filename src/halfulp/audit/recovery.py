"""Recovery, and intervals for it: pure functions of validation losses by block."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from halfulp.audit.curves import Array

#: Losses in nats per token, by block; the same blocks in the same order in every run.
Losses = dict[str, Array]


@dataclass(frozen=True)
class Estimate:
    """A value with a two-sided interval; NaN where it can't be had."""

    value: float
    lower: float
    upper: float


MISSING = Estimate(float("nan"), float("nan"), float("nan"))


def recovery(nearest: float, policy: float, fp32: float) -> float:
    """Return (L_nearest − L_policy) / (L_nearest − L_fp32): 0 is as bad as nearest, 1 as good as fp32."""
    gap = nearest - fp32
    return (nearest - policy) / gap if gap != 0 else float("nan")


def paired_bootstrap(
    losses: Losses,
    statistic: Callable[[dict[str, float]], float],
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> Estimate:
    """Bootstrap a statistic of the runs' mean losses over blocks, the same blocks being drawn for every run.

    Args:
        losses: per run, the losses by block.
        statistic: function of the mean losses by run.
        resamples: number of resamples; each draws as many blocks as there are, with replacement.
        confidence: coverage of the percentile interval, e.g. 0.95.
        seed: seed of the draws.

    Raises:
        ValueError: the runs have different numbers of blocks, or none.
    """
    sizes = {len(values) for values in losses.values()}
    if len(sizes) != 1 or not min(sizes):
        raise ValueError(f"runs with {sorted(sizes)} blocks can't be paired")
    value = statistic({name: float(values.mean()) for name, values in losses.items()})
    if not np.isfinite(value):
        return MISSING
    drawn = np.random.default_rng(seed).integers(0, min(sizes), size=(resamples, min(sizes)))
    means: dict[str, npt.NDArray[np.float64]] = {name: values[drawn].mean(axis=1) for name, values in losses.items()}
    found = [statistic({name: float(m[index]) for name, m in means.items()}) for index in range(resamples)]
    if not np.isfinite(found).all():
        return Estimate(value, float("nan"), float("nan"))
    tail = (1 - confidence) / 2
    lower, upper = np.quantile(found, [tail, 1 - tail])
    return Estimate(value, float(lower), float(upper))


def t_interval(values: list[float], confidence: float) -> Estimate:
    """Return the mean with Student's interval (n − 1 degrees of freedom); needs two finite values or more."""
    sample = np.asarray(values, dtype=float)
    if len(sample) < 2 or not np.isfinite(sample).all():
        return MISSING
    mean, error = float(sample.mean()), float(stats.sem(sample))
    half = float(stats.t.ppf((1 + confidence) / 2, len(sample) - 1)) * error
    return Estimate(mean, mean - half, mean + half)
