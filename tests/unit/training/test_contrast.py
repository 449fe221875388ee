"""Claim: a contrast counts where the other policy would have written another value, and disturbs nothing."""

import dataclasses

import pytest
import torch

from halfulp.numerics import Noise, get_format
from halfulp.numerics.rounding import written_value
from halfulp.training.contrast import ContrastingWriteBack
from halfulp.training.models import Group
from halfulp.training.runner import Plan, train
from tests.unit.training import tiny

PLAN = Plan(training=tiny.training(), seed=3, write_back=tiny.write_back("full_sr"), contrast="dead_zone_sr")


def test_a_contrasted_run_is_the_plain_run() -> None:
    plain, contrasted = train(dataclasses.replace(PLAN, contrast=None), tiny.blocks()), train(PLAN, tiny.blocks())
    assert contrasted.losses == plain.losses
    assert contrasted.counts == plain.counts
    assert plain.contrasts == []
    assert len(contrasted.contrasts) == 6 * 4  # steps × groups


@pytest.mark.parametrize("storage", ["analytic", "native"])
def test_counts_are_those_of_the_reference_path(storage: str) -> None:
    """The reference path, with both policies on the same weights and words, is the oracle."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(40, 50) * 0.02)
    some, groups = torch.nn.Linear(1, 1), [Group("w", weight, 0)]
    hook = ContrastingWriteBack(some, "e4m3", "full_sr", other="dead_zone_sr", storage=storage, seed=5, groups=groups)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    hook.attach(optimizer)
    stored = weight.detach().clone()
    weight.grad = torch.randn_like(weight) * 2e-3
    candidate = stored - weight.grad
    optimizer.step()
    fmt, noise = get_format("e4m3"), Noise(5, 0, "w")
    full, dead = (written_value(candidate, stored, fmt, policy, noise=noise) for policy in ("full_sr", "dead_zone_sr"))
    assert torch.equal(weight, full)
    expected = int((full != dead).sum())
    assert 0 < expected < full.numel()
    assert hook.contrasts == [(0, "w", expected, 2000)]


def test_nothing_differs_where_every_update_lies_in_the_dead_zone() -> None:
    """Far below half a step both policies round stochastically, with the same words."""
    config = tiny.training().model_copy(
        update={"optimizer": tiny.training().optimizer.model_copy(update={"learning_rate": 1e-7, "weight_decay": 0.0})}
    )
    result = train(dataclasses.replace(PLAN, training=config), tiny.blocks())
    assert sum(row[2] for row in result.contrasts) == 0
    assert sum(row[2] for row in train(PLAN, tiny.blocks()).contrasts) > 0  # control
