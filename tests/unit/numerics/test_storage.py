"""Claim: native storage holds exactly what the analytic grid holds, code for code, for all codes of 8 bits or fewer."""

import pytest
import torch

from halfulp.numerics import (
    BF16,
    E4M3,
    E5M2,
    FP16,
    INT3,
    REGISTRY,
    FloatFormat,
    Format,
    NativeTensor,
    Noise,
    Policy,
    decode_codes,
    encode_codes,
    frozen_scale,
    get_format,
    mantissa,
    write_back_,
)
from halfulp.numerics.storage import pack, unpack

SMALL = [fmt for fmt in REGISTRY.values() if fmt.bits <= 8]
NATIVE = [fmt for fmt in REGISTRY.values() if not isinstance(fmt, FloatFormat) or fmt.torch_dtype]


def scale_for(fmt: Format) -> torch.Tensor | None:
    return frozen_scale(torch.tensor([[0.7, -0.2]]), fmt)


def test_small_formats_are_the_expected_ones() -> None:
    assert {fmt.name for fmt in SMALL} == {"e4m3", "e5m2", "int3"}


@pytest.mark.parametrize("fmt", SMALL, ids=lambda fmt: fmt.name)
def test_every_code_decodes_and_re_encodes_to_itself(fmt: Format) -> None:
    codes = torch.arange(2**fmt.bits).view(1, -1)
    if isinstance(fmt, FloatFormat):
        values = decode_codes(codes, fmt)
        numbers = ~torch.isnan(values)
        assert torch.equal(encode_codes(values, fmt)[numbers], codes[numbers])
        # Every NaN code reads as NaN and is written as the canonical one of its sign.
        assert torch.isnan(decode_codes(encode_codes(values, fmt), fmt)[~numbers]).all()
        assert int((~numbers).sum()) == {"e4m3": 2, "e5m2": 6}[fmt.name]
    else:
        used = codes[codes != 4].view(1, -1)  # two's complement -4 is not part of the symmetric grid
        values = decode_codes(used, fmt, scale_for(fmt))
        assert torch.equal(encode_codes(values, fmt, scale_for(fmt)), used)
        with pytest.raises(ValueError, match="not on the int3 grid"):
            encode_codes(decode_codes(codes, fmt, scale_for(fmt)), fmt, scale_for(fmt))


@pytest.mark.parametrize("fmt", [E4M3, E5M2, BF16, FP16], ids=lambda fmt: fmt.name)
def test_codes_are_torchs_own_bits(fmt: FloatFormat) -> None:
    assert fmt.torch_dtype is not None
    integer = torch.uint8 if fmt.bits == 8 else torch.int16
    codes = torch.arange(2**fmt.bits)
    values = codes.to(integer).view(getattr(torch, fmt.torch_dtype)).float()
    numbers = ~torch.isnan(values)
    assert torch.equal(decode_codes(codes, fmt)[numbers].view(torch.int32), values[numbers].view(torch.int32))
    assert torch.isnan(decode_codes(codes, fmt)[~numbers]).all()
    assert torch.equal(NativeTensor.encode(values[numbers], fmt).codes(), codes[numbers])


def test_packing_is_lossless_for_every_length_and_width() -> None:
    for bits in range(1, 9):
        for count in (0, 1, 7, 8, 9, 1000):
            codes = torch.randint(0, 2**bits, (count,), generator=torch.Generator().manual_seed(count))
            packed = pack(codes, bits)
            assert packed.numel() == -(-count // 8) * bits
            assert torch.equal(unpack(packed, bits, count), codes)
    with pytest.raises(ValueError, match="expected 6"):
        unpack(torch.zeros(3, dtype=torch.uint8), 3, 10)


@pytest.mark.parametrize("fmt", NATIVE, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("policy", ["nearest", "full_sr", "dead_zone_sr"])
def test_analytic_and_native_agree_code_for_code_through_twenty_steps(fmt: Format, policy: Policy) -> None:
    """Two copies of one run: fp32 values on the grid, and narrow storage decoded before and encoded after each step."""
    generator = torch.Generator().manual_seed(11)
    weight = torch.randn(30, 50, generator=generator)
    scale = frozen_scale(weight, fmt)
    analytic = torch.zeros_like(weight) + weight
    write_back_(analytic, weight, fmt, "nearest", scale=scale)
    native = NativeTensor.encode(analytic, fmt, scale)
    start = native.codes()
    for step in range(20):
        change = torch.randn(weight.shape, generator=generator) * 0.4
        noise = Noise(1, step, "w")
        stored, decoded = analytic.clone(), native.decode()
        analytic += change
        candidate = decoded + change
        assert write_back_(analytic, stored, fmt, policy, scale=scale, noise=noise) == write_back_(
            candidate, decoded, fmt, policy, scale=scale, noise=noise
        )
        native = NativeTensor.encode(candidate, fmt, scale)
        assert torch.equal(native.codes(), encode_codes(analytic, fmt, scale))
    assert not torch.equal(native.codes(), start)


def test_registry_names_and_errors() -> None:
    assert get_format("E4M3") is E4M3
    assert get_format("mantissa7") == mantissa(7)
    assert get_format("int3") is INT3
    for name in ("e4m2", "mantissa0", "mantissa24", ""):
        with pytest.raises(ValueError, match="use one of e4m3"):
            get_format(name)
    with pytest.raises(ValueError, match="width 24"):
        mantissa(24)


def test_formats_without_native_dtype_say_so() -> None:
    with pytest.raises(ValueError, match="mantissa5 has no native dtype"):
        NativeTensor.encode(torch.ones(2), mantissa(5))
