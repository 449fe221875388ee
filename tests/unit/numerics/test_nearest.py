"""Claim: rounding to nearest is right at every point where it could be wrong.

For each 8- and 16-bit float format that is every representable value, every midpoint and the fp32 neighbours of both.
Four oracles: exact fractions (everywhere), gfloat (everywhere), ml_dtypes and torch's cast (inside the format's range,
since outside it they do not saturate). Bits are compared as bits, so the sign of zero counts.
"""

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import torch

from halfulp.numerics import (
    BF16,
    E4M3,
    E5M2,
    FP16,
    REGISTRY,
    FloatFormat,
    frozen_scale,
    mantissa,
    reference,
    round_nearest,
)
from tests.unit.numerics import exact

NATIVE = (E4M3, E5M2, BF16, FP16)
GFLOAT = {
    "e4m3": gfloat.formats.format_info_ocp_e4m3,
    "e5m2": gfloat.formats.format_info_ocp_e5m2,
    "bf16": gfloat.formats.format_info_bfloat16,
    "fp16": gfloat.formats.format_info_binary16,
}
ML_DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
}
by_name = pytest.mark.parametrize("fmt", NATIVE, ids=lambda fmt: fmt.name)


def bits(x: torch.Tensor | npt.NDArray[np.float32]) -> npt.NDArray[np.uint32]:
    array = x.numpy() if isinstance(x, torch.Tensor) else x
    return np.asarray(array, dtype=np.float32).view(np.uint32)


@by_name
def test_agrees_with_exact_fractions(fmt: FloatFormat) -> None:
    points = exact.probe_points(fmt)
    expected = np.array([exact.nearest(float(x), fmt) for x in points], dtype=np.float32)
    np.testing.assert_array_equal(bits(round_nearest(torch.from_numpy(points), fmt)), bits(expected))


@by_name
def test_agrees_with_gfloat(fmt: FloatFormat) -> None:
    points = exact.probe_points(fmt)
    expected = gfloat.round_ndarray(GFLOAT[fmt.name], points.astype(np.float64), gfloat.RoundMode.TiesToEven, sat=True)
    np.testing.assert_array_equal(bits(round_nearest(torch.from_numpy(points), fmt)), bits(expected.astype(np.float32)))


@by_name
def test_agrees_with_ml_dtypes_and_torch_in_range(fmt: FloatFormat) -> None:
    points = exact.probe_points(fmt)
    points = points[np.abs(points) <= fmt.max_finite]
    ours = bits(round_nearest(torch.from_numpy(points), fmt))
    np.testing.assert_array_equal(ours, bits(points.astype(ML_DTYPES[fmt.name]).astype(np.float32)))
    assert fmt.torch_dtype is not None
    cast = torch.from_numpy(points).to(getattr(torch, fmt.torch_dtype)).float()
    np.testing.assert_array_equal(ours, bits(cast))


@pytest.mark.parametrize("width", [1, 2, 3, 6, 7, 10])
def test_mantissa_emulator_agrees_with_exact_fractions(width: int) -> None:
    """The widths with enough values to enumerate on a sample of binades; wider ones are checked against the cast."""
    fmt = mantissa(width)
    points = exact.probe_points(fmt)[:: 1 + 4 * width]
    expected = np.array([exact.nearest(float(x), fmt) for x in points], dtype=np.float32)
    np.testing.assert_array_equal(bits(round_nearest(torch.from_numpy(points), fmt)), bits(expected))


def test_mantissa7_is_bf16_and_mantissa23_is_fp32() -> None:
    points = torch.from_numpy(exact.probe_points(BF16))
    np.testing.assert_array_equal(bits(round_nearest(points, mantissa(7))), bits(round_nearest(points, BF16)))
    words = torch.randint(-(2**31), 2**31, (100_000,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    values = words.view(torch.float32)
    values = values[torch.isfinite(values)]
    np.testing.assert_array_equal(bits(round_nearest(values, mantissa(23))), bits(values))
    assert not torch.equal(round_nearest(values, mantissa(22)), values)  # control: one bit fewer does round


@pytest.mark.parametrize("fmt", [f for f in REGISTRY.values() if isinstance(f, FloatFormat)], ids=lambda fmt: fmt.name)
def test_non_finite_never_becomes_a_number(fmt: FloatFormat) -> None:
    patterns = torch.tensor(
        [0x7FC00000, 0x7FFFFFFF, 0x7F800001, -1, -0x400000, 0x7F800000, -0x800000], dtype=torch.int32
    )
    special = patterns.view(torch.float32)
    for path in (round_nearest, reference.round_nearest):
        rounded = path(special, fmt)
        assert torch.isnan(rounded[:5]).all()
        if fmt.has_infinities:
            assert rounded[5:].tolist() == [np.inf, -np.inf]
        else:
            assert torch.isnan(rounded[5:]).all()
    assert torch.isfinite(round_nearest(torch.tensor([3.0e38]), fmt)).all()  # control: a large number saturates


def test_int3_rounds_to_the_nearest_code_and_saturates() -> None:
    fmt = REGISTRY["int3"]
    weight = torch.randn(5, 64, generator=torch.Generator().manual_seed(1))
    scale = frozen_scale(weight, fmt)
    assert scale is not None
    halves = torch.arange(-9, 10) / 2  # code -4.5 … 4.5 in half steps: every tie of the grid
    x = halves * scale
    codes = (round_nearest(x, fmt, scale).double() / scale.double()).tolist()
    expected = [max(-3, min(3, round(h))) for h in halves.tolist()]  # Python's round takes ties to even, too
    assert codes == [expected] * 5


def test_int3_scale_is_just_above_absmax_over_three_and_its_products_are_exact() -> None:
    weight = torch.randn(1000, 7, generator=torch.Generator().manual_seed(2))
    scale = frozen_scale(weight, REGISTRY["int3"])
    assert scale is not None
    ratio = scale.double() * 3 / weight.double().abs().amax(1, keepdim=True)
    assert ((ratio >= 1) & (ratio < 1 + 2**-20)).all()
    for code in (1, 2, 3):
        assert torch.equal((code * scale).double(), code * scale.double())


def test_int3_refuses_a_channel_without_a_scale() -> None:
    weight = torch.ones(3, 4)
    weight[1] = 0
    with pytest.raises(ValueError, match="channel 1 of 3 has absmax 0"):
        frozen_scale(weight, REGISTRY["int3"])
    assert frozen_scale(torch.ones(3, 4), REGISTRY["int3"]) is not None


def test_wider_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="fp32"):
        round_nearest(torch.ones(3, dtype=torch.float64), E4M3)
