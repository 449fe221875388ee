"""Persistent freeze: coordinates that had a proposal in each of the last N steps and moved in none of them.

Under stochastic rounding each step may erase most proposals and yet nothing stays frozen, so the erased fraction says
little by itself. ``StallingWriteBack`` measures the stalled fraction. ``StallForecast`` forecasts it from an fp32 run:
the product of the probabilities of being erased in each of the last N steps. Rounding to nearest has probabilities
of 0 and 1; under stochastic rounding the product holds while the stored weight stays where the reference's is.
"""

from collections import deque
from typing import Any

import torch
from torch import Tensor

from halfulp.numerics import nearest_erases, round_nearest
from halfulp.numerics.kernels import WORD_BITS
from halfulp.numerics.reference import erasing_words
from halfulp.training.hooks import ReferenceTrace, Row, WriteBack
from halfulp.training.models import Group


class StallingWriteBack(WriteBack):
    """``WriteBack`` that also counts stalled coordinates; see there for the arguments.

    Args:
        stall_window: N, in optimizer steps.
    """

    def __init__(self, *arguments: Any, stall_window: int, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.stall_window = stall_window
        self.idle = [torch.zeros_like(group.weight, dtype=torch.int32) for group in self.groups]
        #: (step, stalled coordinates, coordinates) over all groups.
        self.stalls: list[tuple[int, int, int]] = []

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs besides the model's weights."""
        return {**super().state_dict(), "idle": self.idle, "stalls": self.stalls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        super().load_state_dict(state)
        self.idle, self.stalls = list(state["idle"]), list(state["stalls"])

    def _observe(self, index: int, group: Group) -> list[Row]:
        held = self.stored[index]
        stored = held.clone() if isinstance(held, Tensor) else held.decode()
        proposed = group.weight != stored
        rows = super()._observe(index, group)
        erased = proposed & (group.weight == stored)
        self.idle[index] = torch.where(erased, self.idle[index] + 1, 0)
        if index + 1 == len(self.groups):
            stalled = sum(int((idle >= self.stall_window).sum()) for idle in self.idle)
            self.stalls.append((self.step, stalled, sum(idle.numel() for idle in self.idle)))
        return rows


class StallForecast(ReferenceTrace):
    """``ReferenceTrace`` of one format that also forecasts the stalled fraction; see there for the arguments.

    Args:
        stall_window: N, in optimizer steps.
    """

    def __init__(self, *arguments: Any, stall_window: int, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        if len(self.formats) != 1:
            raise ValueError(f"{len(self.formats)} formats: a stall forecast takes one")
        self.stall_window = stall_window
        #: Per group, the last N steps' probabilities of being erased: to nearest, and stochastically.
        self.recent = [tuple(deque[Tensor](maxlen=stall_window) for _ in range(2)) for _ in self.groups]
        #: (step, expected stalled fraction to nearest, and under stochastic rounding).
        self.stalls: list[tuple[int, float, float]] = []
        self._sums = [0.0, 0.0]

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs besides the model's weights."""
        recent = [[list(kind) for kind in kinds] for kinds in self.recent]
        return {**super().state_dict(), "recent": recent, "stalls": self.stalls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        super().load_state_dict(state)
        self.recent = [tuple(deque(kind, maxlen=self.stall_window) for kind in kinds) for kinds in state["recent"]]
        self.stalls = list(state["stalls"])

    def _observe(self, index: int, group: Group) -> list[Row]:
        rows = super()._observe(index, group)
        fmt, scale, old = self.formats[0], self.scales[index][0], self.old[index]
        stored = round_nearest(old, fmt, scale)
        candidate = stored + (group.weight.detach() - old)
        lost = nearest_erases(stored, candidate, fmt, scale).float()
        probability = (erasing_words(stored, candidate, fmt, scale).double() / 2.0**WORD_BITS).float()
        for which, (recent, value) in enumerate(zip(self.recent[index], (lost, probability), strict=True)):
            recent.append(value)
            if len(recent) == self.stall_window:
                self._sums[which] += float(torch.stack(list(recent)).double().prod(dim=0).sum())
        if index + 1 == len(self.groups):
            size = sum(group.weight.numel() for group in self.groups)
            self.stalls.append((self.step, self._sums[0] / size, self._sums[1] / size))
            self._sums = [0.0, 0.0]
        return rows
