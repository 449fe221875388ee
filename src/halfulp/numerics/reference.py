"""Rounding in plain torch operations: exact, on any device with float64, and the reference for the fused kernels.

Every fp32 value, grid spacing and quotient by a power of two is exact in float64, so the arithmetic below rounds at
most once, where it means to. (torch's own casts from float64 to 8 and 16 bits round twice; none is used here.)
"""

import torch
from torch import Tensor

from halfulp.numerics.formats import FloatFormat, Format
from halfulp.numerics.kernels import WORD_BITS

#: Scales below this would put an integer grid's products among fp32's subnormals, where they are not exact.
MIN_SCALE = 2.0**-100
_SIGNIFICAND_BITS = 24


def frozen_scale(weight: Tensor, fmt: Format, channel_dim: int = 0) -> Tensor | None:
    """Return an integer grid's scale, one per output channel, or None for a float format.

    Args:
        weight: fp32 initial weights; the scale is ``absmax / max_code`` of each slice along ``channel_dim``, rounded
            up to ``24 - (bits - 1)`` significant bits so that every ``code * scale`` is exact in fp32.
        fmt: the format.
        channel_dim: the output channels' dimension.

    Returns:
        fp32 tensor of the weight's rank, with size 1 in every dimension but ``channel_dim``.

    Raises:
        ValueError: a channel is all zeros (or nearly), so that its absmax defines no grid.
    """
    if isinstance(fmt, FloatFormat):
        return None
    others = [dim for dim in range(weight.dim()) if dim != channel_dim % weight.dim()]
    absmax = weight.detach().double().abs().amax(dim=others, keepdim=True)
    fraction, exponent = torch.frexp(absmax / fmt.max_code)
    kept_bits = _SIGNIFICAND_BITS - (fmt.bits - 1)
    scale = torch.ceil(fraction * 2.0**kept_bits) * power_of_two(exponent.long() - kept_bits)
    bad = ~(scale >= MIN_SCALE) | torch.isinf(scale)
    if bad.any():
        channel = int(torch.nonzero(bad.flatten())[0])
        raise ValueError(
            f"{fmt.name}: channel {channel} of {bad.numel()} has absmax {absmax.flatten()[channel].item():g}, which "
            "defines no scale; leave this tensor out of the write-back scope"
        )
    return scale.float()


def power_of_two(exponent: Tensor) -> Tensor:
    """Return ``2.0 ** exponent`` in float64, exactly, for int64 exponents from -1022 to 1023."""
    return ((exponent + 1023) << 52).view(torch.float64)


def limit_of(fmt: Format, scale: Tensor | None) -> Tensor | float:
    """Return the largest magnitude on the grid (float64, per channel for an integer grid)."""
    if isinstance(fmt, FloatFormat):
        return fmt.max_finite
    return fmt.max_code * require_scale(fmt, scale).double()


def require_scale(fmt: Format, scale: Tensor | None) -> Tensor:
    """Return the scale, or raise a ValueError that says where to get one."""
    if scale is None:
        raise ValueError(f"{fmt.name}: an integer format needs scale=frozen_scale(initial_weight, fmt)")
    return scale


def spacing(magnitude: Tensor, fmt: Format, scale: Tensor | None) -> Tensor:
    """Return the grid's spacing at each magnitude (float64 in, float64 out): one unit in the last place, or the scale.

    At a power of two the spacing is that of the binade above it, as for a truncated significand.
    """
    if not isinstance(fmt, FloatFormat):
        return require_scale(fmt, scale).double().expand_as(magnitude)
    exponent = (magnitude.view(torch.int64) >> 52) - 1023
    return power_of_two(exponent.clamp(min=fmt.min_exponent) - fmt.mantissa_bits)


def _clamped(x: Tensor, fmt: Format, scale: Tensor | None) -> Tensor:
    """Return ``|x|`` in float64, saturated at the grid's largest magnitude; NaN counts as the largest here."""
    limit = limit_of(fmt, scale)
    magnitude = x.double().abs()
    return torch.where(magnitude < limit, magnitude, limit)


def _signed(magnitude: Tensor, x: Tensor, fmt: Format) -> Tensor:
    """Give the rounded magnitude x's sign; let NaN and infinity through as themselves, never as numbers."""
    rounded = torch.copysign(magnitude, x.double()).float()
    if isinstance(fmt, FloatFormat) and fmt.has_infinities:
        special = torch.where(torch.isinf(x), x, torch.nan)
    else:
        special = torch.full_like(x, torch.nan)
    return torch.where(torch.isfinite(x), rounded, special)


def round_nearest(x: Tensor, fmt: Format, scale: Tensor | None = None) -> Tensor:
    """Reference of :func:`halfulp.numerics.round_nearest`."""
    magnitude = _clamped(x, fmt, scale)
    step = spacing(magnitude, fmt, scale)
    return _signed(torch.round(magnitude / step) * step, x, fmt)  # torch.round takes ties to even


def up_words(magnitude: Tensor, fmt: Format, scale: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return (magnitude rounded down, its spacing, how many of the 2**32 noise words round up), all exact.

    The discarded part is ``r = magnitude - down``; word ``w`` rounds up where ``w / 2**32 < r / spacing``. With the
    spacing written as ``m * 2**e`` for an integer ``m``, that is ``w * m < r * 2**(32 - e)``: integers of 56 bits.
    """
    step = spacing(magnitude, fmt, scale)
    down = torch.floor(magnitude / step) * step
    fraction, exponent = torch.frexp(step)
    significand = (fraction * 2.0**_SIGNIFICAND_BITS).long()
    threshold = torch.ceil((magnitude - down) * power_of_two(WORD_BITS - exponent.long() + _SIGNIFICAND_BITS)).long()
    return down, step, (threshold + significand - 1) // significand


def round_stochastic(x: Tensor, fmt: Format, words: Tensor, scale: Tensor | None = None) -> Tensor:
    """Reference of :func:`halfulp.numerics.round_stochastic`."""
    down, step, up = up_words(_clamped(x, fmt, scale), fmt, scale)
    return _signed(torch.where(words < up, down + step, down), x, fmt)


def erasing_words(stored: Tensor, candidate: Tensor, fmt: Format, scale: Tensor | None = None) -> Tensor:
    """Return, per coordinate, how many of the 2**32 noise words make stochastic rounding write ``stored`` back.

    Zero where there is no proposal. Divided by ``2**32`` it is the exact probability of an erased update.
    """
    down, step, up = up_words(_clamped(candidate, fmt, scale), fmt, scale)
    toward_zero = _signed(down, candidate, fmt)
    away = _signed(down + step, candidate, fmt)
    words = torch.where(stored == toward_zero, 2**WORD_BITS - up, torch.where(stored == away, up, 0))
    return torch.where(candidate == stored, 0, words)
