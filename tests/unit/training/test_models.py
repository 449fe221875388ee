"""Claim: a causal language model of transformers has its dense matrices found; a bad configuration gets one line."""

from typing import Any

import pytest

from halfulp.errors import InputError
from halfulp.training.config import ModelConfig
from halfulp.training.models import build_model, check_model, dense_groups
from tests.unit.training import tiny

NEOX = tiny.training().model


def changed(**settings: Any) -> ModelConfig:
    return ModelConfig(type=NEOX.type, config={**NEOX.config, **settings})


def test_gpt_neox_groups() -> None:
    names = [group.name for group in dense_groups(build_model(NEOX, 0))]
    roles = ("attention.query_key_value", "attention.dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h")
    assert names == [f"layers.0.{role}" for role in roles]


def test_gpt2_groups_have_their_output_channels_last() -> None:
    sizes: dict[str, int | float | str | bool] = {"vocab_size": 64, "n_embd": 8, "n_layer": 1, "n_head": 2}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = ModelConfig(type="gpt2", config={**sizes, **dropout, "n_positions": 16})
    groups = dense_groups(build_model(config, 0))
    assert [group.name for group in groups] == ["h.0.attn.c_attn", "h.0.attn.c_proj", "h.0.mlp.c_fc", "h.0.mlp.c_proj"]
    assert {group.channel_dim for group in groups} == {1}
    assert groups[0].weight.shape == (8, 24)


def test_seed_decides_the_weights() -> None:
    a, b, c = (build_model(NEOX, seed) for seed in (1, 1, 2))
    pairs = zip(a.parameters(), b.parameters(), c.parameters(), strict=True)
    flags = [(bool((x == y).all()), bool((x == z).all())) for x, y, z in pairs if x.dim() == 2]
    assert all(same for same, _ in flags)
    assert not any(other for _, other in flags)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ModelConfig(type="no_such_model", config={}), "model.type: 'no_such_model'"),
        (changed(hiden_size=3), "model.config: hiden_size: not a setting of gpt_neox"),
        (changed(hidden_dropout=0.1), "dropout is active"),
        (changed(hidden_size=15), "gpt_neox refuses it"),
    ],
)
def test_bad_configurations_are_named(config: ModelConfig, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_model(config, 0)


@pytest.mark.parametrize(
    ("config", "length", "message"),
    [
        (changed(vocab_size=64), 16, "fails on 16 byte tokens"),
        (changed(dtype="float16"), 16, "is not fp32"),
    ],
)
def test_a_model_that_cannot_train_is_refused_before_the_freeze(config: ModelConfig, length: int, message: str) -> None:
    check_model(NEOX, length)  # control
    with pytest.raises(InputError, match=message):
        check_model(config, length)
