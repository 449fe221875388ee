"""Erased-fraction curves as arrays: (seed, group, recorded step), NaN where there was no proposal."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Axes:
    """What the axes of a set of curves mean."""

    #: Weight groups, in the model's order.
    groups: tuple[str, ...]
    #: Recorded steps, ascending.
    steps: tuple[int, ...]


def axes_of(counts: pd.DataFrame, steps: range) -> Axes:
    """Read the groups, in order of appearance, off a table; the recorded steps are the registration's.

    A run that ended early thus has missing cells, and not a shorter axis.
    """
    return Axes(tuple(dict.fromkeys(counts["group"])), tuple(steps))


def erased_fraction(counts: pd.DataFrame, axes: Axes) -> Array:
    """Return D = erased / (erased + moved) of one run as (group, step).

    Args:
        counts: columns ``step``, ``group``, ``erased``, ``moved``; at most one row per step and group.
        axes: the groups and steps wanted; a row that is missing, and one without proposals, gives NaN.

    Raises:
        ValueError: two rows for one step and group.
    """
    indexed = counts.set_index(["group", "step"])
    if not indexed.index.is_unique:
        raise ValueError("two rows of counts for one step and group")
    wanted = indexed.reindex(pd.MultiIndex.from_product([axes.groups, axes.steps]))
    erased, moved = wanted["erased"].to_numpy(float), wanted["moved"].to_numpy(float)
    proposals = erased + moved
    fraction = np.divide(erased, proposals, out=np.full_like(erased, np.nan), where=proposals > 0)
    return fraction.reshape(len(axes.groups), len(axes.steps))
