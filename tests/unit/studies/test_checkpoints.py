"""Claim: a packed checkpoint replays bit for bit in a new model; a damaged, missing or foreign one gives no number."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from halfulp.errors import InputError
from halfulp.studies import checkpoints
from halfulp.training.hooks import WriteBack
from halfulp.training.models import build_model
from halfulp.training.runner import Plan, train
from tests.unit.training import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    plan = Plan(
        training=tiny.training(), seed=3, write_back=tiny.write_back("full_sr", "int3", "native"), snapshots=(0, 6)
    )

    def keep(step: int, model: torch.nn.Module, hook: WriteBack) -> None:
        checkpoints.save(folder / f"step{step}.safetensors", step, model, hook, tiny.blocks())

    result = train(plan, tiny.blocks(), snapshot=keep)
    (folder / "loss").write_text(str(result.losses.to_pylist()[-1]["loss"]))
    return folder


def test_replay_is_exact_and_tells_the_runs_own_loss(folder: Path) -> None:
    found = checkpoints.replay(folder / "step6.safetensors", 6, tiny.training())
    assert found.exact
    assert found.recomputed == found.stored == pytest.approx(float((folder / "loss").read_text()), rel=1e-15)
    assert checkpoints.replay(folder / "step0.safetensors", 0, tiny.training()).recomputed != found.recomputed


def test_codes_are_packed_and_nothing_of_the_optimizer_is_kept(folder: Path) -> None:
    tensors = load_file(folder / "step6.safetensors")
    assert {name.split(".")[0] for name in tensors} == {"codes", "scales", "rest", "validation"}
    name = "layers.0.mlp.dense_h_to_4h"
    assert tensors[f"codes.{name}"].dtype == torch.uint8
    assert tensors[f"codes.{name}"].numel() == 32 * 16 * 3 // 8
    assert tensors[f"scales.{name}"].numel() == 32
    sizes = sum(p.numel() for p in build_model(tiny.training().model, 0).parameters())
    assert sum(t.numel() for n, t in tensors.items() if n.startswith("rest.")) < sizes


def test_equal_checkpoints_have_equal_bytes(folder: Path, tmp_path: Path) -> None:
    model = build_model(tiny.training().model, 3)
    hook = WriteBack(model, "int3", storage="native")
    for name in ("a", "b"):
        checkpoints.save(tmp_path / name, 0, model, hook, tiny.blocks())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (folder / "step0.safetensors").read_bytes()


def test_a_change_of_any_stored_tensor_is_noticed(folder: Path, tmp_path: Path) -> None:
    """The stored losses are those of the stored weights: even one changed code of one matrix does not go through."""
    tensors = load_file(folder / "step6.safetensors")
    about = {"halfulp": '{"format": "int3", "schema": "halfulp.checkpoint/1", "step": 6}'}
    path = tmp_path / "changed.safetensors"
    save_file(tensors, path, about)
    assert checkpoints.replay(path, 6, tiny.training()).exact  # control: the same tensors, written anew
    for name in [name for name in tensors if not name.startswith("validation")]:
        changed = {n: t.clone() for n, t in tensors.items()}
        flat = changed[name].view(-1)
        if name.startswith("codes"):
            flat[0] ^= 1
        else:  # all of it: an embedding may be of a byte that no block has
            flat += torch.rand(flat.shape, generator=torch.Generator().manual_seed(1))
        save_file(changed, path, about)
        assert not checkpoints.replay(path, 6, tiny.training()).exact, name


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("missing", "checkpoint is missing"),
        ("truncated", "checkpoint is damaged"),
        ("empty", "checkpoint is damaged"),
        ("pickle", "checkpoint is damaged"),
        ("other step", "of step 6, not of 0"),
        ("lacking", "does not fit the registered model"),
        ("surplus", "not a part of the model"),
        ("reshaped", "does not fit the registered model"),
        ("no losses", "has 0 losses of 8 validation blocks"),
        ("no metadata", "is None of step None"),
    ],
)
def test_damage_is_named(damage: str, message: str, folder: Path, tmp_path: Path) -> None:
    good, path = folder / "step0.safetensors", tmp_path / "x.safetensors"
    tensors, about = load_file(good), {"halfulp": '{"format": "int3", "schema": "halfulp.checkpoint/1", "step": 0}'}
    if damage in ("truncated", "empty", "pickle"):
        torch.save({"a": 1}, tmp_path / "p")
        raw = {"truncated": good.read_bytes()[:-10], "empty": b"", "pickle": (tmp_path / "p").read_bytes()}
        path.write_bytes(raw[damage])
    elif damage == "other step":
        path.write_bytes((folder / "step6.safetensors").read_bytes())
    elif damage != "missing":
        if damage == "lacking":
            del tensors["scales.layers.0.mlp.dense_h_to_4h"]
        elif damage == "surplus":
            tensors["rest.optimizer"] = torch.zeros(1)
        elif damage == "reshaped":
            tensors["rest.lm_head.weight"] = tensors["rest.lm_head.weight"][:, :8].contiguous()
        elif damage == "no losses":
            tensors["validation.losses"] = torch.zeros(0, dtype=torch.float64)
        save_file(tensors, path, None if damage == "no metadata" else about)
    with pytest.raises(InputError) as caught:
        checkpoints.replay(path, 0, tiny.training())
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
