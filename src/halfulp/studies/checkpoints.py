"""Packed checkpoints of Study 3: stored codes, scales, fp32 rest and evaluation data in one safetensors file.

Nothing of the optimizer is in them. Reading one executes nothing.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from halfulp.errors import InputError
from halfulp.numerics import NativeTensor, get_format
from halfulp.training.config import TrainingConfig
from halfulp.training.data import Blocks
from halfulp.training.hooks import WriteBack
from halfulp.training.models import build_model, dense_groups
from halfulp.training.runner import block_losses

SCHEMA = "halfulp.checkpoint/1"


@dataclass(frozen=True)
class Replayed:
    """A checkpoint's validation loss, as it was stored and as it was recomputed from the stored weights."""

    stored: float
    recomputed: float
    #: Whether all blocks' losses are equal bit for bit.
    exact: bool


def save(path: Path, step: int, model: nn.Module, hook: WriteBack, blocks: Blocks) -> None:
    """Write a checkpoint: ``codes.*``, ``scales.*``, ``rest.*``, and the validation blocks with their losses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    dense = {id(group.weight) for group in hook.groups}
    tensors = {f"rest.{name}": p.detach() for name, p in model.named_parameters() if id(p) not in dense}
    for group, stored in zip(hook.groups, hook.stored, strict=True):
        assert isinstance(stored, NativeTensor)
        assert stored.scale is not None
        tensors |= {f"codes.{group.name}": stored.data, f"scales.{group.name}": stored.scale}
    losses = torch.tensor(block_losses(model, blocks), dtype=torch.float64)
    tensors |= {"validation.tokens": blocks.validation, "validation.losses": losses}
    # One entry: the order of several is not fixed, and equal checkpoints should have equal bytes.
    about = json.dumps({"schema": SCHEMA, "step": step, "format": hook.fmt.name}, sort_keys=True)
    temporary = path.with_suffix(".tmp")
    save_file({name: t.cpu().contiguous() for name, t in tensors.items()}, temporary, {"halfulp": about})
    temporary.chmod(path.parent.stat().st_mode & 0o666)  # safetensors makes files that only their owner can read
    temporary.replace(path)


def replay(path: Path, step: int, config: TrainingConfig) -> Replayed:
    """Load a checkpoint into a new model and recompute the validation loss.

    Raises:
        InputError: the file is missing, damaged, of another step, or does not fit the registered model.
    """
    tensors, about = _read(path)
    if about.get("schema") != SCHEMA or about.get("step") != step:
        raise InputError(f"{path}: is {about.get('schema')} of step {about.get('step')}, not of {step}; restore it")
    model = build_model(config.model, 0)
    try:
        _fill(model, tensors, str(about["format"]))
        tokens, expected = tensors["validation.tokens"], tensors["validation.losses"].tolist()
        blocks = Blocks(tokens[:0], tokens, config.data.seed, config.data.batch_size)
        found = block_losses(model, blocks)
    except (KeyError, ValueError, RuntimeError, IndexError) as error:
        raise InputError(f"{path}: does not fit the registered model ({error}); restore it") from error
    if not expected or len(expected) != len(found):
        raise InputError(f"{path}: has {len(expected)} losses of {len(found)} validation blocks; restore it")
    return Replayed(sum(expected) / len(expected), sum(found) / len(found), expected == found)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(metadata.get("halfulp", "{}"))  # noqa: SIM118
    except FileNotFoundError as error:
        raise InputError(f"{path}: checkpoint is missing; restore it, or start a new results folder") from error
    except (SafetensorError, ValueError, OSError) as error:
        raise InputError(f"{path}: checkpoint is damaged ({error}); restore it") from error


@torch.no_grad()
def _fill(model: nn.Module, tensors: dict[str, Tensor], format: str) -> None:
    """Put the stored weights into a model: every parameter from the file, none left as it was drawn."""
    used = {"validation.tokens", "validation.losses"}
    for name, parameter, stored in _stored(model, tensors, format):
        if parameter.shape != stored.shape:
            raise ValueError(f"{name}: shape {tuple(stored.shape)}, expected {tuple(parameter.shape)}")
        parameter.copy_(stored)
        used |= {f"codes.{name}", f"scales.{name}"} if f"codes.{name}" in tensors else {f"rest.{name}"}
    surplus = sorted(set(tensors) - used)
    if surplus:
        raise ValueError(f"{surplus[0]}: not a part of the model")


def _stored(model: nn.Module, tensors: dict[str, Tensor], format: str) -> Iterator[tuple[str, nn.Parameter, Tensor]]:
    groups = {id(group.weight): group for group in dense_groups(model)}
    for name, parameter in model.named_parameters():
        group = groups.get(id(parameter))
        if group is None:
            yield name, parameter, tensors[f"rest.{name}"]
        else:
            codes, scale = tensors[f"codes.{group.name}"], tensors[f"scales.{group.name}"]
            native = NativeTensor(get_format(format), parameter.shape, codes, scale)
            yield group.name, parameter, native.decode()
