"""Rounding, write-back and tracing: one entry point each, fused on a CPU, plain torch elsewhere, with equal bits."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from halfulp.numerics import kernels, reference
from halfulp.numerics.events import EventCounts, count_events
from halfulp.numerics.formats import FloatFormat, Format
from halfulp.numerics.noise import Noise

Policy = Literal["fp32", "nearest", "full_sr", "dead_zone_sr"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
STOCHASTIC: tuple[Policy, ...] = ("full_sr", "dead_zone_sr")
_KERNEL_POLICY = {"nearest": kernels.NEAREST, "full_sr": kernels.FULL_SR, "dead_zone_sr": kernels.DEAD_ZONE_SR}


class NonFiniteCandidateError(ValueError):
    """An optimizer proposed NaN or infinity; ``count`` says for how many coordinates."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__(f"{count} of {size} candidates are not finite")
        self.count = count


@dataclass(frozen=True)
class TraceCounts:
    """What one fp32 step would have caused on one grid."""

    #: Events with the fp32 weights rounded to the grid afresh: q̂ = W(w_t), ĉ = q̂ + (w_{t+1} − w_t).
    local: EventCounts
    #: Events on the shadow copy, which lives on the grid and takes the same proposals open-loop.
    replay: EventCounts
    #: Noise words, of 2**32 a coordinate and summed, with which stochastic rounding would erase ``local``'s updates.
    erasing_words: int


def round_nearest(x: Tensor, fmt: Format, scale: Tensor | None = None) -> Tensor:
    """Round to the nearest grid value, ties to the even neighbour; beyond the largest value, saturate.

    Args:
        x: fp32 tensor of any shape.
        fmt: the grid.
        scale: for an integer grid, :func:`frozen_scale` of the initial weight.

    Returns:
        A new fp32 tensor on the grid. NaN stays NaN; infinity stays, or becomes NaN where the format has none.
    """
    _require_fp32(x)
    if not _fusable(x, scale):
        return reference.round_nearest(x, fmt, scale)
    rounded = x.detach().clone()
    _fused_write_back(rounded, x, fmt, "nearest", scale, None)
    return rounded


def round_stochastic(x: Tensor, fmt: Format, bits: Tensor, scale: Tensor | None = None) -> Tensor:
    """Round to one of the two neighbouring grid values, the farther from zero with the discarded part's probability.

    Word ``b`` rounds away from zero exactly where ``b / 2**32`` is below the discarded fraction of the spacing: the
    result is monotone in ``b``, and values on the grid never move.

    Args:
        x: fp32 tensor of any shape.
        fmt: the grid.
        bits: int64 tensor of x's shape holding 32-bit words, ``0 … 2**32 - 1`` (see :class:`halfulp.numerics.Noise`).
        scale: as for :func:`round_nearest`.

    Raises:
        ValueError: ``bits`` has another shape or dtype, or holds values that are not 32-bit words.
    """
    _require_fp32(x)
    if bits.shape != x.shape or bits.dtype != torch.int64:
        raise ValueError(f"bits: {tuple(bits.shape)} {bits.dtype}, x: {tuple(x.shape)}; give int64 words of x's shape")
    if bits.numel() and (int(bits.min()) < 0 or int(bits.max()) >= 2**32):
        raise ValueError("bits: values outside 0 … 2**32 - 1; give 32-bit words")
    return reference.round_stochastic(x, fmt, bits, scale)


def write_back_(
    candidate: Tensor,
    stored: Tensor,
    fmt: Format,
    policy: Policy,
    *,
    scale: Tensor | None = None,
    noise: Noise | None = None,
) -> EventCounts:
    """Replace each candidate by what the policy writes back, in place, and count the exact events.

    Args:
        candidate: fp32 tensor, the optimizer's result; overwritten.
        stored: fp32 tensor of the same shape, the stored weights on the grid; left as it is.
        fmt: the grid.
        policy: ``nearest``, ``full_sr`` or ``dead_zone_sr`` (``fp32`` writes nothing back and has no events).
        scale: for an integer grid, its frozen scale.
        noise: for a stochastic policy, the address of this tensor's noise at this step.

    Raises:
        NonFiniteCandidateError: a candidate is NaN or infinite; the tensor's contents are then of no use.
        ValueError: an unknown policy, or one whose scale or noise is missing.
    """
    _require_fp32(candidate, stored)
    if policy not in _KERNEL_POLICY:
        raise ValueError(f"policy {policy!r} writes nothing back: use one of {', '.join(_KERNEL_POLICY)}")
    if policy in STOCHASTIC and noise is None:
        raise ValueError(f"policy {policy!r} needs noise=Noise(seed, step, tensor)")
    if not isinstance(fmt, FloatFormat):
        reference.require_scale(fmt, scale)
    if _fusable(candidate, scale) and _fusable(stored, scale):
        return _events(_fused_write_back(candidate, stored, fmt, policy, scale, noise), candidate.numel())
    written = written_value(candidate, stored, fmt, policy, scale=scale, noise=noise)
    _require_finite(candidate)
    counts = count_events(stored, candidate, written, fmt, scale)
    candidate.copy_(written)
    return counts


def written_value(
    candidate: Tensor,
    stored: Tensor,
    fmt: Format,
    policy: Policy,
    *,
    scale: Tensor | None = None,
    noise: Noise | None = None,
) -> Tensor:
    """Return ``W(candidate)`` as a new tensor, by the reference path (see :func:`write_back_`)."""
    if policy == "nearest":
        return reference.round_nearest(candidate, fmt, scale)
    if noise is None:
        raise ValueError(f"policy {policy!r} needs noise=Noise(seed, step, tensor)")
    words = noise.words(candidate.shape, candidate.device)
    stochastic = reference.round_stochastic(candidate, fmt, words, scale)
    if policy == "full_sr":
        return stochastic
    nearest = reference.round_nearest(candidate, fmt, scale)
    return torch.where(nearest == stored, stochastic, nearest)


def trace_(old: Tensor, new: Tensor, shadow: Tensor, fmt: Format, scale: Tensor | None = None) -> TraceCounts:
    """Count what an fp32 step ``old → new`` would have caused on a grid, and advance the shadow copy in place.

    Args:
        old: fp32 weights before the step.
        new: fp32 weights after it, same shape.
        shadow: fp32 tensor on the grid, same shape: ``W(w_0)`` before the first step; overwritten.
        fmt: the grid.
        scale: for an integer grid, its frozen scale.

    Raises:
        NonFiniteCandidateError: the step's result is NaN or infinite.
    """
    _require_fp32(old, new, shadow)
    if not all(_fusable(tensor, scale) for tensor in (old, new, shadow)):
        return reference_trace_(old, new, shadow, fmt, scale)
    arrays = [tensor.detach().view(-1).numpy() for tensor in (old, new, shadow)]
    if isinstance(fmt, FloatFormat):
        local, replay, _ = kernels.trace_float(*arrays, *_float_arguments(fmt))
    else:
        local, replay, _ = kernels.trace_int(
            *arrays, *_int_arguments(old, reference.require_scale(fmt, scale)), fmt.max_code
        )
    return TraceCounts(_events(local, old.numel()), _events(replay, old.numel()), int(local[kernels.ERASING_WORDS]))


def reference_trace_(old: Tensor, new: Tensor, shadow: Tensor, fmt: Format, scale: Tensor | None) -> TraceCounts:
    """Do what :func:`trace_` does, in plain torch operations."""
    change = new - old
    stored = reference.round_nearest(old, fmt, scale)
    candidate = stored + change
    _require_finite(candidate)
    local = count_events(stored, candidate, reference.round_nearest(candidate, fmt, scale), fmt, scale)
    erasing = int(reference.erasing_words(stored, candidate, fmt, scale).sum())
    proposed = shadow + change
    _require_finite(proposed)
    written = reference.round_nearest(proposed, fmt, scale)
    replay = count_events(shadow, proposed, written, fmt, scale)
    shadow.copy_(written)
    return TraceCounts(local, replay, erasing)


def _fused_write_back(
    candidate: Tensor, stored: Tensor, fmt: Format, policy: Policy, scale: Tensor | None, noise: Noise | None
) -> Any:
    """Run the fused kernel in place on ``candidate``; return its vector of counts."""
    arrays = (candidate.detach().view(-1).numpy(), stored.detach().view(-1).numpy())
    address = (noise.step, *noise.key()) if noise else (0, 0, 0)
    code = _KERNEL_POLICY[policy]
    if isinstance(fmt, FloatFormat):
        counts, _ = kernels.write_back_float(*arrays, code, *_float_arguments(fmt), *address)
    else:
        layout = _int_arguments(candidate, reference.require_scale(fmt, scale))
        counts, _ = kernels.write_back_int(*arrays, code, *layout, fmt.max_code, *address)
    return counts


def _float_arguments(fmt: FloatFormat) -> tuple[int, int, float, bool]:
    return fmt.min_exponent, fmt.mantissa_bits, fmt.max_finite, fmt.has_infinities


def _int_arguments(tensor: Tensor, scale: Tensor) -> tuple[Any, int, int]:
    """Return (scales, outer, inner): the tensor seen as (outer, channels, inner)."""
    channel = next((dim for dim, size in enumerate(scale.shape) if size > 1), 0)
    outer = tensor.shape[:channel].numel()
    inner = tensor.shape[channel + 1 :].numel() if scale.numel() > 1 else tensor.numel()
    return scale.detach().reshape(-1).numpy(), outer, inner


def _events(counts: Any, size: int) -> EventCounts:
    if counts[kernels.NON_FINITE]:
        raise NonFiniteCandidateError(int(counts[kernels.NON_FINITE]), size)
    no_update, erased = int(counts[kernels.NO_UPDATE]), int(counts[kernels.ERASED])
    return EventCounts(no_update, erased, size - no_update - erased, int(counts[kernels.SATURATED]))


def _fusable(tensor: Tensor, scale: Tensor | None) -> bool:
    return tensor.device.type == "cpu" and tensor.is_contiguous() and (scale is None or scale.device.type == "cpu")


def _require_fp32(*tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.dtype != torch.float32:
            raise ValueError(f"dtype {tensor.dtype}: give fp32 tensors (a wider type would be rounded twice)")
        if tensor.shape != tensors[0].shape:
            raise ValueError(f"shapes {tuple(tensors[0].shape)} and {tuple(tensor.shape)} differ")


def _require_finite(tensor: Tensor) -> None:
    non_finite = int((~torch.isfinite(tensor)).sum())
    if non_finite:
        raise NonFiniteCandidateError(non_finite, tensor.numel())
