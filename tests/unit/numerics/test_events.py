"""Claim: events are counted on the value written back; the half-ULP rule is only near it, and here is where it errs."""

import pytest
import torch

from halfulp.numerics import (
    BF16,
    E4M3,
    E5M2,
    FP16,
    FloatFormat,
    count_events,
    half_ulp_rule,
    nearest_erases,
    round_nearest,
)
from tests.unit.numerics import exact


def verdicts(q: float, c: float, fmt: FloatFormat) -> tuple[bool, bool]:
    """(half-ULP rule says erased, exact event is erased)."""
    stored, candidate = torch.tensor([q]), torch.tensor([c])
    return bool(half_ulp_rule(stored, candidate, fmt)), bool(nearest_erases(stored, candidate, fmt))


@pytest.mark.parametrize(
    ("q", "c", "rule", "event", "why"),
    [
        (1.0, 1.0625, False, True, "tie, and q has the even code: the update is erased although it is half an ULP"),
        (1.125, 1.1875, False, False, "control: the same tie from an odd code moves, and the rule agrees"),
        (1.0, 0.96875, True, True, "a tie below a binade start, won by q's even code"),
        (1.0, 0.95, True, False, "binade start: below 1 the grid is twice as fine, so 0.05 < 1/16 still moves"),
        (1.0, 1.05, True, True, "control: the same distance upwards is erased"),
        (448.0, 1000.0, False, True, "saturation: beyond the largest value everything is written back as 448"),
        (448.0, 400.0, False, False, "control: back into the range it moves"),
        (0.0, 2.0**-10, False, True, "a tie at half the smallest subnormal goes to zero, which is even"),
        (0.0, 2.0**-10 * 1.01, False, False, "control: just above it moves"),
        (1.0, 1.0, False, False, "no proposal is not an erased one"),
    ],
)
def test_where_the_half_ulp_rule_and_the_exact_event_disagree(
    q: float, c: float, rule: bool, event: bool, why: str
) -> None:
    assert verdicts(q, c, E4M3) == (rule, event), why


@pytest.mark.parametrize("fmt", [E4M3, E5M2], ids=lambda fmt: fmt.name)
def test_all_disagreements_are_ties_binade_starts_or_saturation(fmt: FloatFormat) -> None:
    """Every stored value against candidates at its own gaps' quarter points: no other kind of disagreement exists."""
    values = [float(v) for v in exact.grid(fmt)]
    kinds = {"tie": 0, "binade start": 0, "saturation": 0}
    for code, q in enumerate(values):
        gap_up = (values[code + 1] if code + 1 < len(values) else 2 * q - values[code - 1]) - q
        gap_down = q - values[code - 1] if code else gap_up
        for part in (0.2, 0.25, 0.3, 0.5, 0.6, 0.75):
            for c in (q + part * gap_up, q - part * gap_down, q - part * gap_up):
                rule, event = verdicts(q, c, fmt)
                if rule == event:
                    continue
                c32 = float(torch.tensor(c))
                starts_binade = code > 0 and gap_down < gap_up
                if code + 1 == len(values) and c > q:
                    kinds["saturation"] += 1
                elif abs(c32 - q) == (gap_up if c > q else gap_down) / 2:
                    kinds["tie"] += 1
                else:
                    assert starts_binade, (q, c)
                    assert c < q
                    kinds["binade start"] += 1
    assert all(kinds.values()), kinds


def test_counts_of_a_worked_example() -> None:
    stored = torch.tensor([1.0, 1.0, 1.0, 448.0, -448.0, 0.0, 2.0])
    candidate = torch.tensor([1.0, 1.01, 1.2, 500.0, -449.0, -0.0, 2.01])
    counts = count_events(stored, candidate, round_nearest(candidate, E4M3), E4M3)
    assert (counts.no_update, counts.erased, counts.moved, counts.saturated) == (2, 4, 1, 2)
    assert counts.erased_fraction == 4 / 5


def test_erased_fraction_without_proposals_is_missing() -> None:
    w = torch.ones(5)
    counts = count_events(w, w, w, E4M3)
    assert counts.erased_fraction is None
    assert count_events(w, w + 0.01, w, E4M3).erased_fraction == 1.0  # control


def test_negative_zero_equals_zero() -> None:
    zero = torch.zeros(3)
    counts = count_events(zero, -zero, -zero, E4M3)
    assert (counts.no_update, counts.erased, counts.moved) == (3, 0, 0)


@pytest.mark.parametrize("fmt", [E4M3, E5M2, FP16, BF16], ids=lambda fmt: fmt.name)
def test_saturated_is_a_part_of_erased_at_both_ends(fmt: FloatFormat) -> None:
    top = fmt.max_finite
    stored = torch.tensor([top, -top, top])
    beyond = float(torch.tensor(top).nextafter(torch.tensor(float("inf"))))
    candidate = torch.tensor([beyond, -beyond, top * 0.5])
    counts = count_events(stored, candidate, round_nearest(candidate, fmt), fmt)
    assert (counts.erased, counts.saturated, counts.moved) == (2, 2, 1)
