"""Two policies on one trajectory: how often another policy would have written a different value from the same bits."""

from typing import Any

from torch import Tensor

from halfulp.numerics import Noise, Policy, write_back_
from halfulp.training.hooks import Row, WriteBack
from halfulp.training.models import Group


class ContrastingWriteBack(WriteBack):
    """``WriteBack`` that also counts where another policy would have written another value; see there for the rest.

    Both policies see the same candidate, the same stored weight and the same noise words, so that a difference is one
    of policy alone. After the first one two runs have different weights, and comparing those would tell nothing.

    Args:
        other: the policy that writes nothing, e.g. ``dead_zone_sr`` beside ``full_sr``.
    """

    def __init__(self, *arguments: Any, other: Policy, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.other: Policy = other
        #: (step, group, coordinates written differently, coordinates) at every step.
        self.contrasts: list[tuple[int, str, int, int]] = []

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs besides the model's weights."""
        return {**super().state_dict(), "contrasts": self.contrasts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        super().load_state_dict(state)
        self.contrasts = list(state["contrasts"])

    def _observe(self, index: int, group: Group) -> list[Row]:
        held = self.stored[index]
        stored = held.clone() if isinstance(held, Tensor) else held.decode()
        otherwise = group.weight.detach().clone()
        rows = super()._observe(index, group)
        noise = Noise(self.seed, self.step, group.name)
        write_back_(otherwise, stored, self.fmt, self.other, scale=self.scales[index], noise=noise)
        self.contrasts.append((self.step, group.name, int((otherwise != group.weight).sum()), otherwise.numel()))
        return rows
