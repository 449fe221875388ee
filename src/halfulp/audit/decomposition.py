"""Decomposition of outcomes: how much of their variation is common time, seed, group, or an interaction of these.

The classical analysis of variance of a balanced three-way layout with one observation a cell. Shares are sums of
squares over the total about the grand mean, and add up to 1.
"""

from itertools import combinations

import numpy as np

from halfulp.audit.curves import Array

FACTORS = ("seed", "group", "time")
EFFECTS = tuple(subset for size in (1, 2, 3) for subset in combinations(range(3), size))
#: Name of each effect, main effects first.
NAMES = {subset: " x ".join(FACTORS[axis] for axis in subset) for subset in EFFECTS}


def variance_shares(curves: Array) -> dict[str, float]:
    """Return the share of each main effect and interaction of curves of shape (seed, group, step).

    ``seed x group x time`` is the interaction of all three, which one observation a cell leaves together with noise.
    All shares are NaN if a cell is missing or nothing varies.
    """
    total = float(((curves - curves.mean()) ** 2).sum())
    if not np.isfinite(total) or total == 0:
        return {NAMES[subset]: float("nan") for subset in EFFECTS}
    components: dict[tuple[int, ...], Array] = {(): curves.mean(keepdims=True)}
    shares = {}
    for subset in EFFECTS:
        averaged = tuple(axis for axis in range(3) if axis not in subset)
        component = curves.mean(axis=averaged, keepdims=True) if averaged else curves
        for smaller, part in components.items():
            if set(smaller) < set(subset):
                component = component - part
        components[subset] = component
        repeats = curves.size / component.size
        shares[NAMES[subset]] = float((component**2).sum() * repeats / total)
    return shares
