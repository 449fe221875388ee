"""Freeze crossings: when the erased fraction reaches a threshold and stays, and how two sets of crossings agree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from halfulp.audit.curves import Array

Category = Literal["at_init", "post_init", "never", "diverged"]
CATEGORIES: tuple[Category, ...] = get_args(Category)


@dataclass(frozen=True)
class Crossing:
    """When one curve froze."""

    category: Category
    #: Recorded step of the crossing; None unless there is one.
    step: int | None


def find_crossing(
    fraction: Array, steps: Sequence[int], *, threshold: float, window: int, diverged: bool = False
) -> Crossing:
    """Find the first recorded step from which the fraction is at least ``threshold`` for ``window`` recorded steps.

    A missing value (no proposals) interrupts a stretch: it is not a freeze that was measured.

    Args:
        fraction: erased fraction at each recorded step, NaN where missing.
        steps: the recorded steps, ascending, of the same length.
        threshold: θ of the registration.
        window: W of the registration, in recorded steps.
        diverged: whether the run ended in NaN or infinity. A crossing before that still counts as one.
    """
    if len(fraction) != len(steps):
        raise ValueError(f"{len(fraction)} values for {len(steps)} steps")
    frozen = np.nan_to_num(fraction, nan=-1.0) >= threshold
    stretch = 0
    for index, holds in enumerate(frozen):
        stretch = stretch + 1 if holds else 0
        if stretch == window:
            first = index - window + 1
            return Crossing("at_init" if first == 0 else "post_init", int(steps[first]))
    return Crossing("diverged" if diverged else "never", None)


def compare(forecast: Sequence[Crossing], measured: Sequence[Crossing]) -> dict[str, Any]:
    """Compare crossings cell by cell.

    Returns:
        ``cells``; ``contingency`` (forecast → measured → count, every category present); ``disagreements`` in category;
        ``both_post_init``; and of those cells: ``within_15_percent``, ``within_5_percent``, ``exact``, the largest
        ``relative_error`` and ``span``, the ratio of the last to the first measured time. Times are ``step + 1``
        updates, so that a ratio has no zero in it. Figures without cells are None.
    """
    if len(forecast) != len(measured):
        raise ValueError(f"{len(forecast)} forecasts for {len(measured)} measurements")
    pairs = list(zip(forecast, measured, strict=True))
    contingency = {f: {m: 0 for m in CATEGORIES} for f in CATEGORIES}
    for f, m in pairs:
        contingency[f.category][m.category] += 1
    both = [
        (f.step + 1, m.step + 1)
        for f, m in pairs
        if f.category == m.category == "post_init" and f.step is not None and m.step is not None
    ]
    expected, found = np.array(both, dtype=float).reshape(-1, 2).T
    error = np.abs(expected - found) / found
    return {
        "cells": len(pairs),
        "contingency": contingency,
        "disagreements": sum(f.category != m.category for f, m in pairs),
        "both_post_init": len(both),
        "within_15_percent": int((error <= 0.15).sum()),
        "within_5_percent": int((error <= 0.05).sum()),
        "exact": int((error == 0).sum()),
        "relative_error": float(error.max()) if both else None,
        "span": float(found.max() / found.min()) if both else None,
        "share_within_15_percent": float((error <= 0.15).mean()) if both else None,
        "agreement": sum(f.category == m.category for f, m in pairs) / len(pairs) if pairs else None,
    }
