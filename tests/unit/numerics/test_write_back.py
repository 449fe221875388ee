"""Claim: the fused kernels equal the torch reference bit for bit and count for count, for every format and policy.

The reference is what the other tests of this folder hold against fractions and other libraries.
"""

import pytest
import torch
from torch import Tensor

from halfulp.numerics import (
    E4M3,
    INT3,
    REGISTRY,
    Format,
    Noise,
    NonFiniteCandidateError,
    Policy,
    count_events,
    frozen_scale,
    reference,
    round_nearest,
    trace_,
    write_back_,
)
from halfulp.numerics.rounding import reference_trace_, written_value

POLICIES: tuple[Policy, ...] = ("nearest", "full_sr", "dead_zone_sr")
by_format = pytest.mark.parametrize("fmt", REGISTRY.values(), ids=REGISTRY)
#: Around one and two tiles of 1,024, and less than a cache line.
SHAPES = [(1, 3), (1, 1023), (32, 32), (25, 41), (3, 683), (5, 1000)]


def example(shape: tuple[int, ...], fmt: Format, channel_dim: int = 0) -> tuple[Tensor, Tensor, Tensor | None]:
    """Stored weights on the grid and candidates near them: small, large, equal, tied, huge and subnormal changes."""
    generator = torch.Generator().manual_seed(sum(shape))
    weight = torch.randn(shape, generator=generator)
    scale = frozen_scale(weight, fmt, channel_dim)
    stored = reference.round_nearest(weight, fmt, scale)
    kind = torch.randint(0, 6, shape, generator=generator)
    change = torch.randn(shape, generator=generator) * torch.tensor([1e-3, 1.0, 0.0, 0.0625, 1e6, 1e-40])[kind]
    change = torch.where(kind == 3, stored.abs() / 16, change)
    return stored, stored + change, scale


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


@by_format
@pytest.mark.parametrize("policy", POLICIES)
def test_fused_write_back_equals_reference(fmt: Format, policy: Policy) -> None:
    for shape in SHAPES:
        stored, candidate, scale = example(shape, fmt)
        noise = Noise(seed=3, step=4, tensor="w")
        expected = written_value(candidate, stored, fmt, policy, scale=scale, noise=noise)
        events = count_events(stored, candidate, expected, fmt, scale)
        fused = candidate.clone()
        assert write_back_(fused, stored, fmt, policy, scale=scale, noise=noise) == events
        assert same_bits(fused, expected)
        # A transposed view is not contiguous and takes the reference path: same result, written in place.
        strided = candidate.t().contiguous().t()
        assert write_back_(strided, stored, fmt, policy, scale=scale, noise=noise) == events
        assert same_bits(strided.contiguous(), expected)


@by_format
def test_fused_trace_equals_reference(fmt: Format) -> None:
    for shape in SHAPES:
        _, new, scale = example(shape, fmt)
        old = new + torch.randn(shape, generator=torch.Generator().manual_seed(9)) * 1e-2
        shadow = reference.round_nearest(old, fmt, scale)
        fused, plain = shadow.clone(), shadow.clone()
        assert trace_(old, new, fused, fmt, scale) == reference_trace_(old, new, plain, fmt, scale)
        assert same_bits(fused, plain)


def test_int3_channels_may_be_any_dimension() -> None:
    """GPT-2's Conv1D keeps output channels last; a convolution keeps them first of four."""
    for shape, dim in (((40, 60), 1), ((8, 4, 3, 3), 0)):
        stored, candidate, scale = example(shape, INT3, dim)
        noise = Noise(1, 1, "w")
        for policy in POLICIES:
            expected = written_value(candidate, stored, INT3, policy, scale=scale, noise=noise)
            fused = candidate.clone()
            write_back_(fused, stored, INT3, policy, scale=scale, noise=noise)
            assert same_bits(fused, expected)


def test_dead_zone_is_stochastic_exactly_where_nearest_would_return_the_stored_value() -> None:
    stored, candidate, _ = example((64, 64), E4M3)
    noise = Noise(1, 2, "w")
    nearest = round_nearest(candidate, E4M3)
    full, dead = candidate.clone(), candidate.clone()
    write_back_(full, stored, E4M3, "full_sr", noise=noise)
    write_back_(dead, stored, E4M3, "dead_zone_sr", noise=noise)
    zone = nearest == stored
    assert same_bits(dead[zone], full[zone])
    assert same_bits(dead[~zone], nearest[~zone])
    assert not same_bits(full[~zone], nearest[~zone])  # control: full SR is random outside the zone, too


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_candidates_stop_the_write_back(bad: float) -> None:
    for contiguous in (True, False):
        stored, candidate, _ = example((40, 50), E4M3)
        candidate[3, 7:10] = bad
        candidate = candidate if contiguous else candidate.t().contiguous().t()
        with pytest.raises(NonFiniteCandidateError, match="3 of 2000 candidates are not finite"):
            write_back_(candidate, stored, E4M3, "nearest")


def test_missing_scale_noise_and_unknown_policy_are_named() -> None:
    w = torch.ones(4, 4)
    with pytest.raises(ValueError, match="scale=frozen_scale"):
        write_back_(w.clone(), w, INT3, "nearest")
    with pytest.raises(ValueError, match="needs noise=Noise"):
        write_back_(w.clone(), w, E4M3, "full_sr")
    with pytest.raises(ValueError, match="writes nothing back"):
        write_back_(w.clone(), w, E4M3, "fp32")
