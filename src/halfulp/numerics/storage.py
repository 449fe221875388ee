"""Native storage: what a run keeps between steps when it keeps no high-precision copy.

A float format is stored in its torch dtype; an integer grid as packed codes and its frozen scales. ``encode_codes`` and
``decode_codes`` are the formats' own bit layouts, independent of torch's dtypes, so each can be checked by the other.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from halfulp.numerics.formats import FloatFormat, Format, IntFormat
from halfulp.numerics.reference import power_of_two, require_scale, round_nearest


def encode_codes(values: Tensor, fmt: Format, scale: Tensor | None = None) -> Tensor:
    """Encode fp32 values on the grid as int64 bit codes (sign, exponent, mantissa; or two's complement).

    Raises:
        ValueError: a value is not on the grid; an integer grid has no code for NaN.
    """
    on_grid = round_nearest(values, fmt, scale)
    off = ~((on_grid == values) | (torch.isnan(values) & torch.isnan(on_grid)))
    if isinstance(fmt, IntFormat):
        off |= torch.isnan(values)
    if off.any():
        raise ValueError(
            f"{int(off.sum())} of {values.numel()} values are not on the {fmt.name} grid; round them first"
        )
    if isinstance(fmt, IntFormat):
        code = torch.round(values.double() / require_scale(fmt, scale).double()).long()
        return code & (2**fmt.bits - 1)
    magnitude = values.double().abs()
    exponent = ((magnitude.view(torch.int64) >> 52) - 1023).clamp(min=fmt.min_exponent)
    # A subnormal's integer significand lacks the leading one, so its exponent field comes out as zero by itself.
    significand = (magnitude * power_of_two(fmt.mantissa_bits - exponent)).nan_to_num(0.0, 0.0).long()
    code = ((exponent - fmt.min_exponent) << fmt.mantissa_bits) + significand
    top = 2**fmt.exponent_bits - 1 << fmt.mantissa_bits
    code = torch.where(torch.isinf(magnitude), top, code)
    code = torch.where(torch.isnan(magnitude), _nan_code(fmt), code)
    return code | (torch.signbit(values).long() << (fmt.bits - 1))


def decode_codes(codes: Tensor, fmt: Format, scale: Tensor | None = None) -> Tensor:
    """Decode int64 bit codes to fp32 values; inverse of :func:`encode_codes` (every NaN code decodes to NaN)."""
    if isinstance(fmt, IntFormat):
        sign = 2 ** (fmt.bits - 1)
        return (((codes ^ sign) - sign).double() * require_scale(fmt, scale).double()).float()
    mantissa_codes = 2**fmt.mantissa_bits
    magnitude = codes & (2 ** (fmt.bits - 1) - 1)
    field, trailing = magnitude // mantissa_codes, magnitude % mantissa_codes
    significand = torch.where(field > 0, trailing + mantissa_codes, trailing).double()
    exponent = field.clamp(min=1) - 1 + fmt.min_exponent - fmt.mantissa_bits
    values = significand * power_of_two(exponent)
    if fmt.has_infinities:
        special = field == 2**fmt.exponent_bits - 1
        values = torch.where(special, torch.where(trailing == 0, torch.inf, torch.nan), values)
    else:
        values = torch.where(magnitude == _nan_code(fmt), torch.nan, values)
    return torch.where(codes >> (fmt.bits - 1) == 1, -values, values).float()


def _nan_code(fmt: FloatFormat) -> int:
    """Canonical NaN: all ones where there are no infinities (OCP E4M3), the quiet bit otherwise."""
    all_ones: int = 2 ** (fmt.bits - 1) - 1
    if not fmt.has_infinities:
        return all_ones
    return all_ones ^ (2 ** (fmt.mantissa_bits - 1) - 1)


def pack(codes: Tensor, bits: int) -> Tensor:
    """Pack int64 codes of ``bits`` (1 to 8) bits into uint8, eight codes to ``bits`` bytes, lowest bits first."""
    padded = torch.nn.functional.pad(codes.reshape(-1), (0, -codes.numel() % 8)).view(-1, 8)
    word = (padded << (bits * torch.arange(8))).sum(dim=1)
    return (word[:, None] >> (8 * torch.arange(bits)) & 0xFF).to(torch.uint8).reshape(-1)


def unpack(packed: Tensor, bits: int, count: int) -> Tensor:
    """Undo :func:`pack`, returning the first ``count`` codes.

    Raises:
        ValueError: ``packed`` does not have the length that ``count`` codes take.
    """
    expected = -(-count // 8) * bits
    if packed.numel() != expected:
        raise ValueError(f"{packed.numel()} packed bytes for {count} codes of {bits} bits: expected {expected}")
    word = (packed.view(-1, bits).long() << (8 * torch.arange(bits))).sum(dim=1)
    return (word[:, None] >> (bits * torch.arange(8)) & (2**bits - 1)).reshape(-1)[:count]


@dataclass(frozen=True)
class NativeTensor:
    """A weight as it is stored: a tensor of the narrow dtype, or packed codes with one frozen scale a channel."""

    #: Its grid.
    fmt: Format
    #: Shape of the weight.
    shape: torch.Size
    #: The narrow tensor (float format) or the packed uint8 codes (integer format).
    data: Tensor
    #: Frozen scales of an integer grid.
    scale: Tensor | None = None

    @classmethod
    def encode(cls, values: Tensor, fmt: Format, scale: Tensor | None = None) -> "NativeTensor":
        """Store fp32 values that lie on the grid.

        Raises:
            ValueError: torch has no dtype for the format.
        """
        if isinstance(fmt, IntFormat):
            return cls(fmt, values.shape, pack(encode_codes(values, fmt, scale).cpu(), fmt.bits), scale)
        if fmt.torch_dtype is None:
            raise ValueError(f"{fmt.name} has no native dtype; use the analytic grid")
        return cls(fmt, values.shape, values.detach().to(getattr(torch, fmt.torch_dtype)))

    def decode(self) -> Tensor:
        """Return the fp32 values, exactly."""
        if isinstance(self.fmt, IntFormat):
            codes = unpack(self.data, self.fmt.bits, self.shape.numel()).view(self.shape)
            scale = require_scale(self.fmt, self.scale)
            return decode_codes(codes.to(scale.device), self.fmt, scale)
        return self.data.float()

    def codes(self) -> Tensor:
        """Return the stored bit codes as int64."""
        if isinstance(self.fmt, IntFormat):
            return unpack(self.data, self.fmt.bits, self.shape.numel()).view(self.shape)
        integer = torch.uint8 if self.data.element_size() == 1 else torch.int16
        return self.data.view(integer).long() & (2 ** (8 * self.data.element_size()) - 1)
