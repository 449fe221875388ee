"""Claim: a run is a function of its plan: killed and resumed, or stored natively, it gives the same bits."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from halfulp.errors import InputError
from halfulp.training import runner
from halfulp.training.hooks import WriteBack
from halfulp.training.models import build_model, next_token_loss, next_token_losses
from halfulp.training.runner import Plan, Result, train
from tests.unit.training import tiny

PLANS = {
    "fp32 with trace": Plan(training=tiny.training(), seed=3, trace_formats=("e4m3", "bf16", "int3")),
    "nearest": Plan(training=tiny.training(), seed=3, write_back=tiny.write_back()),
    "full_sr native": Plan(training=tiny.training(), seed=3, write_back=tiny.write_back("full_sr", storage="native")),
    "stalling": Plan(training=tiny.training(), seed=3, write_back=tiny.write_back("full_sr", "bf16"), stall_window=2),
    "stall forecast": Plan(training=tiny.training(), seed=3, trace_formats=("bf16",), stall_window=2),
    "contrasting": Plan(
        training=tiny.training(), seed=3, write_back=tiny.write_back("full_sr"), contrast="dead_zone_sr"
    ),
    "dead_zone int3": Plan(
        training=tiny.training(), seed=3, write_back=tiny.write_back("dead_zone_sr", "int3", "native")
    ),
}


def same(a: Result, b: Result) -> bool:
    return all(getattr(a, field.name) == getattr(b, field.name) for field in dataclasses.fields(Result))


class KilledError(Exception):
    pass


@pytest.mark.parametrize("name", PLANS)
def test_a_killed_and_resumed_run_equals_an_undisturbed_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, checkpoint = PLANS[name], tmp_path / "run.pt"
    whole = train(plan, tiny.blocks())
    monkeypatch.setattr(runner, "CHECKPOINT_SECONDS", -1.0)  # save after every step

    def kill(step: int, _: str) -> None:
        if step == 4:
            raise KilledError

    with pytest.raises(KilledError):
        train(plan, tiny.blocks(), checkpoint=checkpoint, report=kill)
    lines: list[str] = []
    resumed = train(plan, tiny.blocks(), checkpoint=checkpoint, report=lambda _, line: lines.append(line))
    assert "resumed" in lines[0]
    assert "at step 3" in lines[0]
    assert len(lines) == 1 + 3
    assert same(resumed, whole)


@pytest.mark.parametrize("policy", ["nearest", "full_sr"])
@pytest.mark.parametrize("format", ["e4m3", "int3"])
def test_native_and_analytic_storage_train_alike(policy: str, format: str) -> None:
    plans = [
        Plan(training=tiny.training(), seed=1, write_back=tiny.write_back(policy, format, storage))
        for storage in ("analytic", "native")
    ]
    assert same(*(train(plan, tiny.blocks()) for plan in plans))


def test_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    """A job of several runs that is killed in a later one does not train the earlier ones again."""
    plan, checkpoint = PLANS["full_sr native"], tmp_path / "run.pt"
    whole = train(plan, tiny.blocks(), checkpoint=checkpoint)
    steps: list[int] = []
    again = train(plan, tiny.blocks(), checkpoint=checkpoint, report=lambda step, _: steps.append(step))
    assert steps == [6]  # the line that says where it resumed
    assert same(again, whole)


def test_snapshots_are_taken_where_the_plan_says_and_survive_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = dataclasses.replace(PLANS["full_sr native"], snapshots=(0, 3, 6))
    seen: dict[int, list[torch.Tensor]] = {}

    def keep(step: int, model: nn.Module, hook: WriteBack) -> None:
        weights = [p.detach().clone() for p in model.parameters()]
        assert step not in seen or all(map(torch.equal, seen[step], weights))
        seen[step] = weights

    train(plan, tiny.blocks(), snapshot=keep)
    assert list(seen) == [0, 3, 6]
    monkeypatch.setattr(runner, "CHECKPOINT_SECONDS", -1.0)

    def kill(step: int, _: str) -> None:
        if step == 4:
            raise KilledError

    with pytest.raises(KilledError):
        train(plan, tiny.blocks(), checkpoint=tmp_path / "run.pt", report=kill, snapshot=keep)
    train(plan, tiny.blocks(), checkpoint=tmp_path / "run.pt", snapshot=keep)  # the assertion above compares


def test_validation_losses_by_block_have_the_recorded_mean() -> None:
    result = train(PLANS["nearest"], tiny.blocks())
    blocks = result.validation.to_pandas().groupby("step")["loss"]
    assert blocks.size().to_dict() == dict.fromkeys([0, 4, 6], 8)
    means = {r["step"]: r["loss"] for r in result.losses.to_pylist() if r["split"] == "validation"}
    assert blocks.mean().to_dict() == pytest.approx(means, rel=1e-14)


def test_block_losses_average_to_the_training_loss_of_the_same_blocks() -> None:
    """Two ways through torch's cross-entropy; they sum fp32 numbers in another order."""
    model, some = build_model(tiny.training().model, 1), tiny.blocks().validation.long()
    by_block, together = next_token_losses(model, some).mean().item(), next_token_loss(model, some).item()
    assert by_block == pytest.approx(together, rel=1e-6)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.pt"
    checkpoint.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match=r"run\.pt: not a readable checkpoint; delete it"):
        train(PLANS["nearest"], tiny.blocks(), checkpoint=checkpoint)


def test_runs_differ_by_seed_and_policy() -> None:
    """Control for the equalities above."""
    base = PLANS["nearest"]
    result = train(base, tiny.blocks())
    others = [
        dataclasses.replace(base, seed=4),
        dataclasses.replace(base, write_back=tiny.write_back("full_sr")),
        dataclasses.replace(base, write_back=tiny.write_back(format="e5m2")),
    ]
    assert not any(same(result, train(other, tiny.blocks())) for other in others)


def test_losses_and_counts_are_recorded_as_scheduled() -> None:
    result = train(PLANS["nearest"], tiny.blocks())
    rows = result.losses.to_pylist()
    assert [row["step"] for row in rows if row["split"] == "validation"] == [0, 4, 6]
    assert [row["step"] for row in rows if row["split"] == "train"] == list(range(6))
    assert result.counts is not None
    counts = result.counts.to_pandas()
    sizes = counts.groupby("group", sort=False)[["no_update", "erased", "moved"]].first().sum(axis=1)
    assert sizes.to_dict() == {
        "layers.0.attention.query_key_value": 48 * 16,
        "layers.0.attention.dense": 16 * 16,
        "layers.0.mlp.dense_h_to_4h": 32 * 16,
        "layers.0.mlp.dense_4h_to_h": 16 * 32,
    }
    assert rows[-1]["loss"] < rows[0]["loss"]


def test_tracing_does_not_disturb_training() -> None:
    plain = train(Plan(training=tiny.training(), seed=3), tiny.blocks())
    assert plain.losses == train(PLANS["fp32 with trace"], tiny.blocks()).losses


def test_divergence_is_a_result_with_its_tensor_and_step() -> None:
    config = tiny.training()
    wild = config.model_copy(update={"optimizer": config.optimizer.model_copy(update={"learning_rate": 1.0e30})})
    result = train(Plan(training=wild, seed=3, write_back=tiny.write_back("nearest", "bf16")), tiny.blocks())
    assert result.status == "diverged"
    assert "layers.0" in result.detail
    assert "step" in result.detail
    assert train(PLANS["nearest"], tiny.blocks()).status == "completed"  # control


def trace_rows(formats: tuple[str, ...], **where: Any) -> list[dict[str, Any]]:
    result = train(Plan(training=tiny.training(), seed=3, trace_formats=formats), tiny.blocks())
    assert result.trace is not None
    return [row for row in result.trace.to_pylist() if all(row[key] == value for key, value in where.items())]


def test_replay_equals_local_on_the_first_step_and_later_departs() -> None:
    columns = ("group", "no_update", "erased", "moved", "saturated")
    for step, equal in ((0, True), (3, False)):
        local = [[row[c] for c in columns] for row in trace_rows(("e4m3",), kind="local", step=step)]
        replay = [[row[c] for c in columns] for row in trace_rows(("e4m3",), kind="replay", step=step)]
        assert (local == replay) is equal


def test_each_format_is_traced_as_if_alone() -> None:
    assert trace_rows(("e4m3", "bf16", "int3"), format="bf16") == trace_rows(("bf16",), format="bf16")
