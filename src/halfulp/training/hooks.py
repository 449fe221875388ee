"""Two optimizer hooks that attach to any torch training loop: ``WriteBack`` and ``ReferenceTrace``.

Both are a pair of ``register_step_pre_hook`` and ``register_step_post_hook``: before the optimizer steps they hold on
to the weights, after it they look at what it proposes. Nothing in the loop changes::

    audit = WriteBack(model, "e4m3", policy="nearest").attach(optimizer)
    ...  # train as usual
    audit.table()  # exact events per step and weight group
"""

from collections.abc import Sequence
from typing import Any, Literal, Self

import pyarrow as pa
import torch
from torch import Tensor, nn

from halfulp.errors import DivergedError
from halfulp.numerics import (
    EventCounts,
    NativeTensor,
    Noise,
    NonFiniteCandidateError,
    Policy,
    frozen_scale,
    get_format,
    round_nearest,
    trace_,
    write_back_,
)
from halfulp.training.models import Group, dense_groups
from halfulp.training.tables import COUNTS, TRACE, make_table

Row = tuple[Any, ...]


class StepHooks:
    """Shared part: attaching, the step counter, recorded rows and the state that a checkpoint needs."""

    schema: pa.Schema

    def __init__(self, model: nn.Module, record_every: int, groups: Sequence[Group] | None) -> None:
        self.groups = list(groups) if groups is not None else dense_groups(model)
        if not self.groups:
            raise ValueError("the model has no weight matrix in scope; pass groups=[Group(...), …]")
        self.record_every = record_every
        #: Optimizer steps seen so far.
        self.step = 0
        #: Recorded rows, in the order of ``schema``.
        self.rows: list[Row] = []
        self._handles: list[Any] = []

    def attach(self, optimizer: torch.optim.Optimizer) -> Self:
        """Hook into an optimizer that holds every weight in scope; return self.

        Raises:
            ValueError: the optimizer does not hold one of the weights.
        """
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        missing = [group.name for group in self.groups if id(group.weight) not in held]
        if missing:
            raise ValueError(
                f"{missing[0]}: not among the optimizer's parameters; build the optimizer from the model's"
            )
        self._handles = [
            optimizer.register_step_pre_hook(lambda *_: self._before()),
            optimizer.register_step_post_hook(lambda *_: self._after()),
        ]
        return self

    def detach(self) -> None:
        """Remove the hooks; the weights stay as they are."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def table(self) -> pa.Table:
        """Return the recorded events as an Arrow table."""
        return make_table(self.rows, self.schema)

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs besides the model's weights."""
        return {"step": self.step, "rows": self.rows, "tensors": self._tensors()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        self.step = state["step"]
        self.rows = list(state["rows"])
        self._load_tensors(state["tensors"])

    @torch.no_grad()
    def _before(self) -> None:
        raise NotImplementedError

    @torch.no_grad()
    def _after(self) -> None:
        recording = self.step % self.record_every == 0
        for index, group in enumerate(self.groups):
            try:
                rows = self._observe(index, group)
            except NonFiniteCandidateError as error:
                raise DivergedError(group.name, self.step, error.count) from error
            if recording:
                self.rows += rows
        self.step += 1

    def _observe(self, index: int, group: Group) -> list[Row]:
        raise NotImplementedError

    def _tensors(self) -> list[Tensor]:
        raise NotImplementedError

    def _load_tensors(self, tensors: list[Tensor]) -> None:
        raise NotImplementedError


class WriteBack(StepHooks):
    """Keep a model's weight matrices on a low-precision grid and count exact events at every optimizer step.

    Args:
        model: its dense weights are rounded to the grid at once; no high-precision copy is kept.
        format: name in the format registry.
        policy: ``nearest``, ``full_sr`` or ``dead_zone_sr``.
        storage: ``analytic`` keeps fp32 values on the grid; ``native`` keeps the narrow dtype or packed codes between
            steps, and the fp32 weights that the model computes with are decoded from them.
        seed: seed of stochastic rounding's noise.
        record_every: record events at steps 0, k, 2k, …
        groups: the weights in scope; by default every matrix except embeddings.

    Raises:
        ValueError: unknown format, no weight in scope, or an integer grid for a weight with a channel of zeros.
    """

    schema = COUNTS

    @torch.no_grad()
    def __init__(
        self,
        model: nn.Module,
        format: str = "e4m3",
        policy: Policy = "nearest",
        *,
        storage: Literal["analytic", "native"] = "analytic",
        seed: int = 0,
        record_every: int = 1,
        groups: Sequence[Group] | None = None,
    ) -> None:
        super().__init__(model, record_every, groups)
        self.fmt = get_format(format)
        self.policy: Policy = policy
        self.native = storage == "native"
        self.seed = seed
        self.scales: list[Tensor | None] = []
        self.stored: list[Tensor | NativeTensor] = []
        for group in self.groups:
            scale = frozen_scale(group.weight, self.fmt, group.channel_dim)
            group.weight.copy_(round_nearest(group.weight.detach(), self.fmt, scale))
            self.scales.append(scale)
            self.stored.append(self._keep(group, scale))

    def _keep(self, group: Group, scale: Tensor | None) -> Tensor | NativeTensor:
        weight = group.weight.detach()
        return NativeTensor.encode(weight, self.fmt, scale) if self.native else weight.clone()

    @torch.no_grad()
    def _before(self) -> None:
        if not self.native:  # narrow storage is authoritative; an analytic run's weights are
            for stored, group in zip(self.stored, self.groups, strict=True):
                assert isinstance(stored, Tensor)
                stored.copy_(group.weight)

    def _observe(self, index: int, group: Group) -> list[Row]:
        held, scale = self.stored[index], self.scales[index]
        stored = held if isinstance(held, Tensor) else held.decode()
        noise = Noise(self.seed, self.step, group.name)
        events = write_back_(group.weight.detach(), stored, self.fmt, self.policy, scale=scale, noise=noise)
        if self.native:
            native = NativeTensor.encode(group.weight.detach(), self.fmt, scale)
            self.stored[index] = native
            group.weight.copy_(native.decode())
        return [(self.step, group.name, *_columns(events))]

    def _tensors(self) -> list[Tensor]:
        held = [stored if isinstance(stored, Tensor) else stored.data for stored in self.stored]
        return held + [scale for scale in self.scales if scale is not None]

    def _load_tensors(self, tensors: list[Tensor]) -> None:
        count = len(self.groups)
        if len(tensors) > count:
            self.scales = list(tensors[count:])
        for index, (group, held) in enumerate(zip(self.groups, tensors, strict=False)):
            shape, scale = group.weight.shape, self.scales[index]
            self.stored[index] = NativeTensor(self.fmt, shape, held, scale) if self.native else held


class ReferenceTrace(StepHooks):
    """During one fp32 run, count what its own updates would cause on each of several grids. Weights stay untouched.

    Per format it records ``local`` events (the fp32 weight rounded afresh, its update applied to that), ``replay``
    events (a shadow copy that lives on the grid and takes the same updates open-loop), and, in closed form, how many
    updates stochastic rounding would be expected to erase. No low-precision outcome is read.

    Args:
        model: the model that is trained in fp32.
        formats: names in the format registry.
        record_every: record events at steps 0, k, 2k, …
        groups: the weights in scope; by default every matrix except embeddings.
    """

    schema = TRACE

    @torch.no_grad()
    def __init__(
        self,
        model: nn.Module,
        formats: Sequence[str],
        *,
        record_every: int = 1,
        groups: Sequence[Group] | None = None,
    ) -> None:
        super().__init__(model, record_every, groups)
        self.formats = [get_format(name) for name in formats]
        self.old = [torch.empty_like(group.weight) for group in self.groups]
        self.scales = [[frozen_scale(g.weight, fmt, g.channel_dim) for fmt in self.formats] for g in self.groups]
        self.shadows = [
            [round_nearest(group.weight.detach(), fmt, scale) for fmt, scale in zip(self.formats, scales, strict=True)]
            for group, scales in zip(self.groups, self.scales, strict=True)
        ]

    @torch.no_grad()
    def _before(self) -> None:
        for old, group in zip(self.old, self.groups, strict=True):
            old.copy_(group.weight)

    def _observe(self, index: int, group: Group) -> list[Row]:
        rows: list[Row] = []
        for fmt, scale, shadow in zip(self.formats, self.scales[index], self.shadows[index], strict=True):
            counts = trace_(self.old[index], group.weight.detach(), shadow, fmt, scale)
            key = (self.step, group.name, fmt.name)
            rows.append((*key, "local", *_columns(counts.local), counts.erasing_words))
            rows.append((*key, "replay", *_columns(counts.replay), None))
        return rows

    def _tensors(self) -> list[Tensor]:
        scales = [scale for scales in self.scales for scale in scales if scale is not None]
        return [shadow for shadows in self.shadows for shadow in shadows] + scales

    def _load_tensors(self, tensors: list[Tensor]) -> None:
        remaining = iter(tensors)
        self.shadows = [[next(remaining) for _ in self.formats] for _ in self.groups]
        self.scales = [[None if scale is None else next(remaining) for scale in scales] for scales in self.scales]


def _columns(events: EventCounts) -> tuple[int, int, int, int]:
    return events.no_update, events.erased, events.moved, events.saturated
