"""Claim: a stochastic result flips at exactly one noise word, the discarded fraction, and nowhere else.

At normal, subnormal, binade-edge, tie, maximal and negative points the two words on either side of the flip are tried,
and the first and the last word: since the result is checked to be monotone on a ladder of words too, this fixes all
2**32 of them. The expected flip comes from fractions, not from the implementation.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from halfulp.numerics import (
    BF16,
    E4M3,
    E5M2,
    FP16,
    INT3,
    FloatFormat,
    Noise,
    frozen_scale,
    mantissa,
    reference,
    round_stochastic,
)
from halfulp.numerics.noise import philox
from tests.unit.numerics import exact

LAST_WORD = 2**32 - 1
FORMATS = (E4M3, E5M2, BF16, FP16, mantissa(3), mantissa(10))
by_name = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)


def sample_points(fmt: FloatFormat) -> list[float]:
    """Points between grid values, by the region in which they lie; all exact in fp32."""
    smallest = 2.0 ** (fmt.min_exponent - fmt.mantissa_bits)
    normal, top = 2.0**fmt.min_exponent, fmt.max_finite
    points = [
        normal * 4 * (1 + 2.0**-20),  # just above the start of a binade
        normal * 4 * (1 - 2.0**-20),  # just below it, where the grid is finer
        normal * (1 - 2.0**-12),  # between the largest subnormal and the smallest normal
        1.9999998807907104,  # all ones: the carry runs into the exponent
        1.0 + 2.0 ** -(fmt.mantissa_bits + 1),  # a tie
        top * (1 - 2.0**-23) if fmt.exponent_bits < 8 else float(np.nextafter(np.float32(top), np.float32(0))),
        0.1,
        float(np.float32(1 / 3)),
    ]
    if fmt.exponent_bits < 8:  # fp32 still has values below this format's smallest
        points += [smallest * 0.5, smallest * 2.0**-10, smallest * 2.0**-40, smallest * 1.25, float(2.0**-149)]
    else:
        points += [smallest * 0.5, smallest * 1.25]
    points = [float(np.float32(p)) for p in points]
    return points + [-p for p in points]


def rounded(x: float, fmt: FloatFormat, words: list[int]) -> list[float]:
    values: list[float] = round_stochastic(torch.full((len(words),), x), fmt, torch.tensor(words)).tolist()
    return values


@by_name
def test_flip_word_is_the_discarded_fraction(fmt: FloatFormat) -> None:
    for x in sample_points(fmt):
        below, above, part = exact.neighbours(x, fmt)
        assert 0 < part < 1, f"{x!r} was meant to lie between grid values"
        down = math.copysign(float(exact.grid(fmt)[below]), x)
        up = math.copysign(float(exact.grid(fmt)[above]), x)
        flip = math.ceil(part * 2**32)  # the first word that does not round away from zero
        assert rounded(x, fmt, [0, flip - 1]) == [up, up], x
        if flip <= LAST_WORD:
            assert rounded(x, fmt, [flip, LAST_WORD]) == [down, down], x


@by_name
def test_result_is_monotone_in_the_word_and_only_the_two_neighbours_occur(fmt: FloatFormat) -> None:
    words = torch.linspace(0, LAST_WORD, 4097, dtype=torch.float64).long()
    for x in sample_points(fmt):
        below, above, _ = exact.neighbours(x, fmt)
        magnitude = round_stochastic(torch.full(words.shape, x), fmt, words).abs()
        assert (magnitude.diff() <= 0).all()
        assert set(magnitude.tolist()) <= {float(exact.grid(fmt)[below]), float(exact.grid(fmt)[above])}


@by_name
def test_representable_values_never_move(fmt: FloatFormat) -> None:
    values = torch.tensor([float(v) for v in exact.grid(fmt)])
    values = torch.cat([values, -values])
    for word in (0, 1, 2**31, LAST_WORD):
        result = round_stochastic(values, fmt, torch.full(values.shape, word))
        assert torch.equal(result.view(torch.int32), values.view(torch.int32))


@by_name
def test_non_finite_never_becomes_a_number_and_large_values_saturate(fmt: FloatFormat) -> None:
    special = torch.tensor([0x7FC00000, 0x7FFFFFFF, -1, 0x7F800000, -0x800000], dtype=torch.int32).view(torch.float32)
    for word in (0, 2**31, LAST_WORD):
        assert not torch.isfinite(round_stochastic(special, fmt, torch.full((5,), word))).any()
    beyond = torch.tensor([3.4e38, -3.4e38])
    top = torch.tensor([fmt.max_finite, -fmt.max_finite])
    for word in (0, LAST_WORD):
        assert torch.equal(
            round_stochastic(torch.where(beyond.abs() > top.abs(), beyond, top), fmt, torch.full((2,), word)), top
        )


def test_smallest_proposal_wins_with_the_first_word_alone() -> None:
    """Too few noise bits would erase this update at every word."""
    tiny = 2.0**-149
    assert rounded(tiny, E4M3, [0, 1]) == [2.0**-9, 0.0]


def test_int3_flip_word_is_the_discarded_fraction() -> None:
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(200, 8, generator=generator)
    scale = frozen_scale(weight, INT3)
    assert scale is not None
    for x, s in zip(weight.flatten().tolist(), scale.expand_as(weight).flatten().tolist(), strict=True):
        ratio = Fraction(abs(x)) / Fraction(s)
        below = math.floor(ratio)
        flip = math.ceil((ratio - below) * 2**32)
        words = torch.tensor([[max(flip - 1, 0), min(flip, LAST_WORD)]])
        result = round_stochastic(torch.full((1, 2), x), INT3, words, torch.tensor([[s]])).double()[0] / s
        if 0 < flip <= LAST_WORD:
            assert result.abs().tolist() == [below + 1, below]


@by_name
def test_erasing_words_count_the_words_that_write_the_stored_value_back(fmt: FloatFormat) -> None:
    for x in sample_points(fmt):
        below, above, part = exact.neighbours(x, fmt)
        up = math.ceil(part * 2**32)
        c = torch.tensor([x] * 4)
        q = [math.copysign(float(exact.grid(fmt)[code]), x) for code in (below, above)]
        stored = torch.tensor([*q, -q[1], x])  # both neighbours, an unrelated value, no proposal
        assert reference.erasing_words(stored, c, fmt).tolist() == [2**32 - up, up, 0, 0]


def test_philox_known_answers() -> None:
    """The three vectors published with Random123 (kat_vectors) for philox4x32-10."""
    ones = 0xFFFFFFFF
    cases = [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ones,) * 4, (ones,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ]
    for counter, key, answer in cases:
        c0, c1, c2, c3 = (torch.tensor([word]) for word in counter)
        assert tuple(int(word) for word in philox((c0, c1, c2, c3), key)) == answer


def test_noise_depends_on_its_address_alone() -> None:
    noise = Noise(seed=1, step=7, tensor="layers.0.mlp")
    words = noise.words((3000,))
    assert torch.equal(words, noise.words((3000,)))
    assert torch.equal(words[:1500], noise.words((1500,)))  # a shorter tensor draws the same beginning
    assert torch.equal(words, noise.words((30, 100)).flatten())
    for other in (Noise(2, 7, "layers.0.mlp"), Noise(1, 8, "layers.0.mlp"), Noise(1, 7, "layers.1.mlp")):
        assert int((other.words((3000,)) == words).sum()) <= 2  # chance: 3000 / 2**32 equal words expected


def test_noise_words_are_uniform() -> None:
    """Each bit of a million words is set about half the time: within 5 standard deviations of the binomial."""
    words = Noise(seed=5, step=0, tensor="w").words((2**20,))
    for bit in range(32):
        ones = int((words >> bit & 1).sum())
        assert abs(ones - 2**19) < 5 * math.sqrt(2**20) / 2
