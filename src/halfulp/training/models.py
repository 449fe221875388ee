"""Models of ``transformers`` from a registered configuration, and their weight groups."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from halfulp.errors import InputError
from halfulp.training.config import ModelConfig, TrainingConfig
from halfulp.training.data import VOCABULARY


@dataclass(frozen=True)
class Group:
    """One weight matrix role in one layer, e.g. ``layers.0.attention.query_key_value``."""

    #: Module path without the backbone's prefix.
    name: str
    #: The weight.
    weight: nn.Parameter
    #: Its output channels' dimension.
    channel_dim: int


def build_model(config: ModelConfig, seed: int) -> nn.Module:
    """Build a causal language model with random weights drawn from ``seed``.

    Raises:
        InputError: transformers has no such model type, refuses the configuration, or the model has active dropout
            (whose stateful noise a resumed run could not repeat).
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        known = AutoConfig.for_model(config.type).to_dict()
    except ValueError as error:
        raise InputError(f"model.type: {config.type!r} is not a model type of transformers, e.g. gpt_neox") from error
    arguments: dict[str, Any] = dict(config.config)
    unknown = sorted(set(arguments) - set(known))
    if unknown:
        raise InputError(
            f"model.config: {', '.join(unknown)}: not a setting of {config.type}; see its configuration class"
        )
    torch.manual_seed(seed)
    try:
        model: nn.Module = AutoModelForCausalLM.from_config(AutoConfig.for_model(config.type, **arguments))
    except Exception as error:  # each version of transformers validates with exceptions of its own
        reason = str(error).splitlines()[-1].strip()
        raise InputError(f"model.config: {config.type} refuses it: {reason}; correct the sizes") from error
    active = [name for name, module in model.named_modules() if isinstance(module, nn.Dropout) and module.p > 0]
    if active:
        raise InputError(f"model.config: dropout is active at {active[0]}; set every dropout to 0.0")
    return model


def check_model(config: ModelConfig, sequence_length: int) -> None:
    """Build the model and run it once on byte tokens, so that a registration that can't train is refused at once.

    Raises:
        InputError: it can't be built, is not fp32, has fewer than 256 tokens, or fails at the registered length.
    """
    model = build_model(config, 0)
    wide = next((name for name, p in model.named_parameters() if p.dtype != torch.float32), None)
    if wide is not None:
        raise InputError(f"model.config: {wide} is not fp32; leave the dtype out (storage is what write_back says)")
    tokens = torch.full((1, sequence_length), VOCABULARY - 1)
    try:
        with torch.no_grad():
            logits = model(input_ids=tokens, use_cache=False).logits
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"model.config: fails on {sequence_length} byte tokens: {reason}; correct the sizes"
        ) from error
    if logits.shape[-1] < VOCABULARY:
        raise InputError(f"model.config: vocab_size {logits.shape[-1]}: byte tokens need {VOCABULARY} or more")


def check_training(registration: object) -> None:
    """Build and run a registration's model once, if it has one, so that what can't train is refused before a freeze.

    Raises:
        InputError: see :func:`check_model`.
    """
    training = getattr(registration, "training", None)
    if isinstance(training, TrainingConfig):
        check_model(training.model, training.data.sequence_length)


def dense_groups(model: nn.Module) -> list[Group]:
    """Return every weight matrix except embeddings: input, position and (tied or not) output embeddings.

    A matrix is any ``weight`` with two or more dimensions. Output channels are dimension 0, but 1 in the ``Conv1D`` of
    transformers' GPT-2, which stores its weights transposed.
    """
    prefix = getattr(model, "base_model_prefix", "")
    output = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None  # type: ignore[operator]
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    if output is not None:
        embeddings.add(id(output.weight))
    groups = []
    for path, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if not isinstance(weight, nn.Parameter) or weight.dim() < 2 or id(weight) in embeddings:
            continue
        name = path.removeprefix(f"{prefix}.") if prefix else path
        groups.append(Group(name, weight, 1 if type(module).__name__ == "Conv1D" else 0))
    return groups


def next_token_loss(model: nn.Module, blocks: Tensor) -> Tensor:
    """Return the mean cross-entropy, in nats per token, of blocks of shape (batch, sequence_length + 1)."""
    logits = model(input_ids=blocks[:, :-1], use_cache=False).logits
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), blocks[:, 1:].flatten())


def next_token_losses(model: nn.Module, blocks: Tensor) -> Tensor:
    """Return the mean cross-entropy of each block, (batch,), in nats per token."""
    logits = model(input_ids=blocks[:, :-1], use_cache=False).logits
    by_token = nn.functional.cross_entropy(logits.mT.float(), blocks[:, 1:], reduction="none")
    return by_token.mean(dim=1)
