"""Claim: two lines attach the audit to anybody's torch loop, and the counts are those of what was written."""

import pytest
import torch
from torch import nn

from halfulp.errors import DivergedError
from halfulp.numerics import E4M3, Noise, round_nearest, round_stochastic
from halfulp.training.hooks import ReferenceTrace, WriteBack
from halfulp.training.models import Group, dense_groups


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def optimizer_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    tokens = torch.arange(10)
    loss = nn.functional.cross_entropy(model(tokens), tokens % 4)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def test_two_lines_in_a_loop_of_ones_own() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    audit = WriteBack(model, "e4m3").attach(optimizer)
    for _ in range(3):
        optimizer_step(model, optimizer)
    table = audit.table().to_pandas()
    assert table["step"].tolist() == [0, 0, 1, 1, 2, 2]
    assert table["group"].tolist() == ["1", "3"] * 3
    assert (table[["no_update", "erased", "moved"]].sum(axis=1) == [128, 64] * 3).all()
    assert table["moved"].sum() > 0
    assert table["erased"].sum() > 0
    for layer in (model[1], model[3]):  # type: ignore[index]
        assert torch.equal(layer.weight, round_nearest(layer.weight.detach(), E4M3))


def test_stochastic_write_back_is_the_documented_function_of_its_noise() -> None:
    """One SGD step by hand: candidate = stored − rate × gradient, rounded with the words of (seed, step, tensor)."""
    model, twin = network(), network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    WriteBack(model, "e4m3", "full_sr", seed=9).attach(optimizer)
    WriteBack(twin, "e4m3")  # rounds the initial weights, as the first did
    optimizer_step(twin, torch.optim.SGD(twin.parameters(), lr=0.0))  # gradients only
    optimizer_step(model, optimizer)
    layer = twin[1]  # type: ignore[index]
    candidate = layer.weight.detach() - 0.1 * layer.weight.grad
    words = Noise(seed=9, step=0, tensor="1").words(candidate.shape)
    assert torch.equal(model[1].weight, round_stochastic(candidate, E4M3, words))  # type: ignore[index]


def test_trace_leaves_the_weights_alone() -> None:
    model, plain = network(), network()
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, plain)]
    trace = ReferenceTrace(model, ["e4m3", "bf16"]).attach(optimizers[0])
    for _ in range(2):
        for m, o in zip((model, plain), optimizers, strict=True):
            optimizer_step(m, o)
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(a, b)
    assert len(trace.rows) == 2 * 2 * 2 * 2  # steps, groups, formats, kinds


def test_expected_erasures_match_simulated_stochastic_rounding() -> None:
    """The closed form against 400 independent draws of one step: within 5 standard deviations of the binomial sum."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trace = ReferenceTrace(model, ["e4m3"]).attach(optimizer)
    old = model[1].weight.detach().clone()  # type: ignore[index]
    optimizer_step(model, optimizer)
    new = model[1].weight.detach()  # type: ignore[index]
    stored = round_nearest(old, E4M3)
    candidate = stored + (new - old)
    draws = 400
    erased = sum(
        int(
            (
                (round_stochastic(candidate, E4M3, Noise(s, 0, "x").words(old.shape)) == stored) & (candidate != stored)
            ).sum()
        )
        for s in range(draws)
    )
    row = next(r for r in trace.table().to_pylist() if r["group"] == "1" and r["kind"] == "local")
    expected = row["erasing_words"] / 2**32
    assert abs(erased / draws - expected) < 5 * (old.numel() / 4 / draws) ** 0.5
    assert 0 < expected < old.numel()


def test_recording_interval_and_detach() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    audit = WriteBack(model, "e4m3", record_every=2).attach(optimizer)
    for _ in range(3):
        optimizer_step(model, optimizer)
    assert sorted({row[0] for row in audit.rows}) == [0, 2]
    audit.detach()
    optimizer_step(model, optimizer)
    assert audit.step == 3
    assert not torch.equal(model[1].weight, round_nearest(model[1].weight.detach(), E4M3))  # type: ignore[index]


def test_divergence_names_tensor_step_and_count() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    WriteBack(model, "e4m3").attach(optimizer)
    optimizer_step(model, optimizer)
    model[3].weight.grad = torch.full((4, 16), float("nan"))  # type: ignore[index]
    with pytest.raises(DivergedError, match=r"3: step 1: 64 candidates"):
        optimizer.step()


def test_what_cannot_be_attached_is_refused() -> None:
    model, other = network(), network()
    with pytest.raises(ValueError, match="not among the optimizer's parameters"):
        WriteBack(model, "e4m3").attach(torch.optim.SGD(other.parameters(), lr=0.1))
    with pytest.raises(ValueError, match="unknown format 'e9m9'"):
        WriteBack(model, "e9m9")
    with pytest.raises(ValueError, match="no weight matrix in scope"):
        WriteBack(nn.LayerNorm(4), "e4m3")


def test_embeddings_are_out_of_scope_by_default_and_may_be_put_in() -> None:
    model = network()
    assert [group.name for group in dense_groups(model)] == ["1", "3"]
    embedding = Group("embedding", model[0].weight, 0)  # type: ignore[index]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    audit = WriteBack(model, "e4m3", groups=[embedding]).attach(optimizer)
    optimizer_step(model, optimizer)
    assert [row[1] for row in audit.rows] == ["embedding"]
