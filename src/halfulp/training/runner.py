"""One training loop for every run: fp32 or any write-back policy, with or without a reference trace."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import torch
from torch import nn

from halfulp.errors import DivergedError, InputError
from halfulp.numerics import Policy
from halfulp.training.config import OptimizerConfig, TrainingConfig, WriteBackConfig
from halfulp.training.contrast import ContrastingWriteBack
from halfulp.training.data import Blocks
from halfulp.training.hooks import ReferenceTrace, StepHooks, WriteBack
from halfulp.training.models import build_model, next_token_loss, next_token_losses
from halfulp.training.schedules import learning_rate
from halfulp.training.stall import StallForecast, StallingWriteBack
from halfulp.training.tables import LOSSES, VALIDATION, make_table

#: Seconds between checkpoints. When they are written changes no result, only how much a killed run repeats.
CHECKPOINT_SECONDS = float(os.environ.get("HALFULP_CHECKPOINT_SECONDS", "15"))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run: what is trained, from which seed, and what is attached to its optimizer."""

    #: What the runs of a study have in common.
    training: TrainingConfig
    #: Seed of the initial weights, of the order of batches and of the rounding noise.
    seed: int
    #: Write-back, or None for fp32.
    write_back: WriteBackConfig | None = None
    #: Formats that an fp32 run traces.
    trace_formats: tuple[str, ...] = ()
    #: Steps N after which an idle coordinate counts as stalled; None leaves stalling unwatched. A trace that watches
    #: stalling takes one format.
    stall_window: int | None = None
    #: Another policy whose written values are compared with the write-back's at every step.
    contrast: Policy | None = None
    #: Numbers of steps done, e.g. 0 or ``training.steps``, at which the run is handed to ``train``'s ``snapshot``.
    snapshots: tuple[int, ...] = ()


@dataclass(frozen=True)
class Result:
    """What a run leaves behind."""

    #: ``completed`` or ``diverged``.
    status: str
    #: One line on a divergence, else empty.
    detail: str
    #: See ``tables.LOSSES``.
    losses: pa.Table
    #: See ``tables.VALIDATION``.
    validation: pa.Table
    #: See ``tables.COUNTS``; None for an fp32 run.
    counts: pa.Table | None
    #: See ``tables.TRACE``; None for a run without trace.
    trace: pa.Table | None
    #: Rows of ``StallingWriteBack`` or ``StallForecast``; empty unless stalling was watched.
    stalls: list[tuple[Any, ...]]
    #: Rows of ``ContrastingWriteBack``; empty unless policies were contrasted.
    contrasts: list[tuple[Any, ...]]


@dataclass
class _State:
    """The parts of a run that change, together: what a checkpoint holds."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    hooks: dict[str, StepHooks]
    step: int = 0
    losses: list[tuple[Any, ...]] = field(default_factory=list)
    validation: list[tuple[Any, ...]] = field(default_factory=list)

    def validate(self, blocks: Blocks) -> None:
        """Evaluate the validation blocks as they stand before the next step."""
        by_block = block_losses(self.model, blocks)
        self.losses.append((self.step, "validation", fmean(by_block), None, None))
        self.validation += [(self.step, block, loss) for block, loss in enumerate(by_block)]

    def save(self, path: Path) -> None:
        temporary = path.with_suffix(".tmp")
        temporary.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "hooks": {name: hook.state_dict() for name, hook in self.hooks.items()},
            "step": self.step,
            "losses": self.losses,
            "validation": self.validation,
        }
        torch.save(state, temporary)
        os.replace(temporary, path)

    def load(self, path: Path) -> None:
        device = next(self.model.parameters()).device
        try:
            state = torch.load(path, weights_only=True, map_location=device)
        except Exception as error:  # torch raises many kinds on a damaged file
            raise InputError(f"{path}: not a readable checkpoint; delete it, and the run starts anew") from error
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for name, hook in self.hooks.items():
            hook.load_state_dict(state["hooks"][name])
        self.step, self.losses, self.validation = state["step"], state["losses"], state["validation"]


def train(
    plan: Plan,
    blocks: Blocks,
    *,
    checkpoint: Path | None = None,
    report: Callable[[int, str], None] = lambda step, line: None,
    snapshot: Callable[[int, nn.Module, WriteBack], None] = lambda step, model, hook: None,
) -> Result:
    """Run a plan to its end, to its divergence, or on from its checkpoint; the result is the same bits each way.

    Args:
        plan: the run.
        blocks: the data.
        checkpoint: where to save progress and resume from; the caller deletes it with the run's results in hand.
        report: called after every step with the number of steps done and one log line.
        snapshot: called at each of ``plan.snapshots`` with the steps done, the model and the write-back that holds its
            stored weights; a resumed run may call it again for a step, with the same bits.
    """
    config = plan.training
    state = _start(plan)
    if checkpoint is not None and checkpoint.exists():
        state.load(checkpoint)
        report(state.step, f"resumed from {checkpoint} at step {state.step}")
    saved = time.monotonic()
    status, detail = "completed", ""
    for step in range(state.step, config.steps):
        started = time.monotonic()
        _snapshot(plan, state, snapshot)
        if step % config.validate_every == 0:
            state.validate(blocks)
        rate = learning_rate(step, peak=config.optimizer.learning_rate, steps=config.steps, schedule=config.schedule)
        for group in state.optimizer.param_groups:
            group["lr"] = rate
        loss = next_token_loss(state.model, blocks.batch(step, plan.seed).to(config.device))
        state.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = float(nn.utils.clip_grad_norm_(state.model.parameters(), config.optimizer.clip_norm))
        state.losses.append((step, "train", loss.item(), rate, norm))
        try:
            state.optimizer.step()
        except DivergedError as error:
            status, detail = "diverged", str(error)
            report(step, detail)
            break
        state.step = step + 1
        elapsed = (time.monotonic() - started) * 1e3
        report(state.step, f"step {step} loss {loss.item():.4f} lr {rate:.3e} norm {norm:.3f} time {elapsed:.0f} ms")
        if checkpoint is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
            state.save(checkpoint)
            saved = time.monotonic()
    if status == "completed":
        if checkpoint is not None:  # the next run of a job may be killed: this one will not be repeated
            state.save(checkpoint)
        _snapshot(plan, state, snapshot)
        state.validate(blocks)
    tables = {name: hook.table() for name, hook in state.hooks.items()}
    stalls, contrasts = (
        [row for hook in state.hooks.values() for row in getattr(hook, name, [])] for name in ("stalls", "contrasts")
    )
    return Result(
        status=status,
        detail=detail,
        losses=make_table(state.losses, LOSSES),
        validation=make_table(state.validation, VALIDATION),
        counts=tables.get("counts"),
        trace=tables.get("trace"),
        stalls=stalls,
        contrasts=contrasts,
    )


def _snapshot(plan: Plan, state: _State, snapshot: Callable[[int, nn.Module, WriteBack], None]) -> None:
    if state.step in plan.snapshots:
        hook = state.hooks["counts"]
        assert isinstance(hook, WriteBack)
        snapshot(state.step, state.model, hook)


@torch.no_grad()
def block_losses(model: nn.Module, blocks: Blocks) -> list[float]:
    """Return the mean loss of every validation block, in nats per token."""
    device = next(model.parameters()).device
    held_out = torch.split(blocks.validation.long().to(device), blocks.batch_size)
    return [loss for some in held_out for loss in next_token_losses(model, some).double().tolist()]


def evaluate(model: nn.Module, blocks: Blocks) -> float:
    """Return the mean validation loss in nats per token."""
    return fmean(block_losses(model, blocks))


def _start(plan: Plan) -> _State:
    if plan.training.device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "training.device: 'cuda': no CUDA device here; run on one, or register a study with device: cpu"
        )
    model = build_model(plan.training.model, plan.seed).to(plan.training.device)
    optimizer = build_optimizer(model, plan.training.optimizer)
    hooks: dict[str, StepHooks] = {}
    if plan.write_back is not None and plan.write_back.policy != "fp32":
        hooks["counts"] = _write_back_hook(plan, model, plan.write_back)
    if plan.trace_formats:
        hooks["trace"] = _trace_hook(plan, model)
    for hook in hooks.values():
        hook.attach(optimizer)
    return _State(model, optimizer, hooks)


def _write_back_hook(plan: Plan, model: nn.Module, spec: WriteBackConfig) -> StepHooks:
    keywords: dict[str, Any] = {"storage": spec.storage, "seed": plan.seed, "record_every": plan.training.record_every}
    if plan.contrast is not None:
        return ContrastingWriteBack(model, spec.format, spec.policy, other=plan.contrast, **keywords)
    if plan.stall_window is None:
        return WriteBack(model, spec.format, spec.policy, **keywords)
    return StallingWriteBack(model, spec.format, spec.policy, stall_window=plan.stall_window, **keywords)


def _trace_hook(plan: Plan, model: nn.Module) -> StepHooks:
    every = plan.training.record_every
    if plan.stall_window is None:
        return ReferenceTrace(model, plan.trace_formats, record_every=every)
    return StallForecast(model, plan.trace_formats, stall_window=plan.stall_window, record_every=every)


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """Build AdamW; matrices decay, biases and layer-norm gains do not."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, eps=config.epsilon)
