"""An exact reference for rounding, independent of the package: enumerated grid values as fractions, and bisection."""

from bisect import bisect_right
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from halfulp.numerics import FloatFormat

#: Every fp32 value is an integer number of these.
UNIT = Fraction(1, 2**149)


@cache
def grid(fmt: FloatFormat) -> tuple[Fraction, ...]:
    """Every finite non-negative value in ascending order, written out from the format's definition; index = code."""
    values = []
    for field in range(2**fmt.exponent_bits):
        for trailing in range(2**fmt.mantissa_bits):
            leading = 1 if field else 0
            power = max(field, 1) - fmt.bias
            value = (leading + Fraction(trailing, 2**fmt.mantissa_bits)) * Fraction(2) ** power
            if value <= Fraction(fmt.max_finite):
                values.append(value)
    return tuple(values)


@cache
def _grid_units(fmt: FloatFormat) -> list[int]:
    return [int(value / UNIT) for value in grid(fmt)]


def neighbours(x: float, fmt: FloatFormat) -> tuple[int, int, Fraction]:
    """Return (code below or at ``|x|``, code above, discarded fraction of the gap); saturated at the largest value."""
    numerator, denominator = abs(x).as_integer_ratio()
    units = numerator * 2**149 // denominator
    table = _grid_units(fmt)
    below = bisect_right(table, units) - 1
    if below == len(table) - 1:
        return below, below, Fraction(0)
    gap = table[below + 1] - table[below]
    return below, below + 1, Fraction(units - table[below], gap)


def nearest(x: float, fmt: FloatFormat) -> float:
    """Round to nearest, ties to the even code."""
    below, above, part = neighbours(x, fmt)
    up = part > Fraction(1, 2) or (part == Fraction(1, 2) and above % 2 == 0)
    return float(np.copysign(float(grid(fmt)[above if up else below]), x))


def probe_points(fmt: FloatFormat) -> npt.NDArray[np.float32]:
    """Every value, every midpoint, their fp32 neighbours, points beyond the largest value; both signs."""
    values = np.array([float(value) for value in grid(fmt)])
    middles = (values[:-1] + values[1:]) / 2
    top = values[-1]
    beyond = [top + (top - values[-2]) / 2, top + (top - values[-2]), 2 * top, float(np.finfo(np.float32).max)]
    exact = np.concatenate([values, middles, [b for b in beyond if b <= np.finfo(np.float32).max]])
    centre = exact.astype(np.float32)
    assert (centre.astype(np.float64) == exact).all(), "a midpoint is not an fp32 value"
    with np.errstate(over="ignore"):  # fp32's own largest value has no finite neighbour above
        down, up = np.nextafter(centre, np.float32(-np.inf)), np.nextafter(centre, np.float32(np.inf))
    points = np.concatenate([centre, down, up])
    points = points[np.isfinite(points)]
    return np.concatenate([points, -points])
