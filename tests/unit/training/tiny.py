"""A model and data small enough for unit tests, but real: GPT-NeoX of transformers on the King James text."""

from functools import cache

from halfulp.training.config import (
    DataConfig,
    ModelConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainingConfig,
    WriteBackConfig,
)
from halfulp.training.data import Blocks, load_text

KJV_SHA256 = "33146b1bed2cfd56b443cd3be2e82f7800954a008dedab5bc29aee131f11b3b5"


def data(source: str = "kjv", sha256: str = KJV_SHA256) -> DataConfig:
    return DataConfig(
        source=source,
        sha256=sha256,
        seed=5,
        sequence_length=16,
        batch_size=4,
        validation_fraction=0.1,
        validation_blocks=8,
    )


def training(steps: int = 6) -> TrainingConfig:
    sizes: dict[str, int | float | str | bool] = {
        "vocab_size": 256,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 32,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
    }
    return TrainingConfig(
        model=ModelConfig(type="gpt_neox", config=sizes),
        data=data(),
        optimizer=OptimizerConfig(
            name="adamw", learning_rate=6e-3, betas=(0.9, 0.95), epsilon=1e-8, weight_decay=0.1, clip_norm=1.0
        ),
        schedule=ScheduleConfig(name="cosine", warmup_steps=2, final_fraction=0.1),
        device="cpu",
        steps=steps,
        record_every=1,
        validate_every=4,
    )


def write_back(policy: str = "nearest", format: str = "e4m3", storage: str = "analytic") -> WriteBackConfig:
    return WriteBackConfig.model_validate({"format": format, "policy": policy, "storage": storage, "scope": "dense"})


@cache
def blocks() -> Blocks:
    return Blocks.from_text(load_text(data()), data())
