"""Exact events: what became of each coordinate's proposed update, compared by value on what was written back."""

from dataclasses import dataclass

import torch
from torch import Tensor

from halfulp.numerics.formats import Format
from halfulp.numerics.reference import limit_of, round_nearest, spacing


@dataclass(frozen=True)
class EventCounts:
    """Coordinates by event. ``no_update + erased + moved`` is the tensor's size; ``saturated`` is in ``erased``."""

    #: The candidate equals the stored weight: nothing was proposed.
    no_update: int
    #: A proposal whose written value equals the stored weight.
    erased: int
    #: A proposal that changed the stored weight.
    moved: int
    #: Erased because the stored weight is the largest value and the candidate lies beyond it.
    saturated: int

    @property
    def erased_fraction(self) -> float | None:
        """``erased / (erased + moved)``; None where nothing was proposed, since that is missing and not zero."""
        proposals = self.erased + self.moved
        return self.erased / proposals if proposals else None


def count_events(
    stored: Tensor, candidate: Tensor, written: Tensor, fmt: Format, scale: Tensor | None = None
) -> EventCounts:
    """Count the events of one write-back.

    Args:
        stored: fp32 stored weights ``q``, on the grid.
        candidate: fp32 candidates ``c``, same shape.
        written: fp32 values ``W(c)`` that were written back, same shape.
        fmt: the grid, whose largest value defines saturation.
        scale: an integer grid's scale.

    Raises:
        ValueError: a candidate is NaN or infinite.
    """
    non_finite = int((~torch.isfinite(candidate)).sum())
    if non_finite:
        raise ValueError(f"{non_finite} of {candidate.numel()} candidates are not finite")
    proposed = candidate != stored
    kept = written == stored
    limit = limit_of(fmt, scale)
    beyond = (stored.double().abs() == limit) & (candidate.double().abs() > limit)
    erased = int((proposed & kept).sum())
    proposals = int(proposed.sum())
    return EventCounts(
        no_update=candidate.numel() - proposals,
        erased=erased,
        moved=proposals - erased,
        saturated=int((proposed & kept & beyond).sum()),
    )


def half_ulp_rule(stored: Tensor, candidate: Tensor, fmt: Format, scale: Tensor | None = None) -> Tensor:
    """Return where the rule ``0 < |c - q| < ulp(q) / 2`` says that rounding to nearest erases the update.

    A cross-check only. It differs from the exact event at exact ties, which go to the even neighbour; at the start of a
    binade, where the grid below ``q`` is twice as fine as above; and beyond the largest value, where updates saturate.
    """
    change = (candidate.double() - stored.double()).abs()
    return (change > 0) & (change < spacing(stored.double().abs(), fmt, scale) / 2)


def nearest_erases(stored: Tensor, candidate: Tensor, fmt: Format, scale: Tensor | None = None) -> Tensor:
    """Return where rounding to nearest erases the update: the exact event, as a mask."""
    return (candidate != stored) & (round_nearest(candidate, fmt, scale) == stored)
