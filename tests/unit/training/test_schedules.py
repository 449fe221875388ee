"""Claim: schedules start, turn and end where they say, and spend the rate they say."""

import pytest

from halfulp.training.config import ScheduleConfig, ScheduleName
from halfulp.training.schedules import learning_rate

STEPS, WARMUP = 111, 10


def rates(name: ScheduleName, final: float = 0.1, warmup: int = WARMUP) -> list[float]:
    schedule = ScheduleConfig(name=name, warmup_steps=warmup, final_fraction=final)
    return [learning_rate(step, peak=2.0, steps=STEPS, schedule=schedule) for step in range(STEPS)]


@pytest.mark.parametrize("name", ["cosine", "constant_mid", "cosine_restart"])
def test_warm_up_rises_linearly_from_above_zero(name: ScheduleName) -> None:
    r = rates(name)
    start = 1.1 if name == "constant_mid" else 2.0
    assert r[:WARMUP] == pytest.approx([start * (i + 1) / 11 for i in range(WARMUP)])
    assert r[WARMUP] == pytest.approx(start)
    assert rates(name, warmup=0)[0] == pytest.approx(start)


def test_cosine_ends_at_the_final_fraction_and_is_half_way_in_the_middle() -> None:
    r = rates("cosine")
    assert r[-1] == pytest.approx(0.2)
    assert r[WARMUP + 50] == pytest.approx(1.1)
    assert all(a > b for a, b in zip(r[WARMUP:], r[WARMUP + 1 :], strict=False))


def test_constant_mid_spends_what_the_cosine_spends() -> None:
    assert set(rates("constant_mid")[WARMUP:]) == {1.1}
    assert sum(rates("constant_mid")[WARMUP:]) == pytest.approx(sum(rates("cosine")[WARMUP:]))


def test_cosine_restart_is_two_whole_cosines() -> None:
    r = rates("cosine_restart")[WARMUP:]
    assert r[0] == pytest.approx(2.0)
    assert r[50] == pytest.approx(0.2)
    assert r[51] == pytest.approx(2.0)
    assert r[-1] == pytest.approx(0.2)
