"""GPT-2 in fp8: the full-size model with its dense weights on the fp8 grid after every step, and no master weights.

Weights are stored natively. Each parameter has an optimizer of its own, so that a step touches one tensor at a time:
the hooks copy, round and count that tensor and let it go, and no second copy of the model is ever held.
"""

from itertools import product
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from halfulp.errors import DivergedError
from halfulp.numerics import Policy, get_format, round_nearest, trace_
from halfulp.registration.document import check_gates
from halfulp.studies import mechanism
from halfulp.studies.mechanism import TRACE, Conclusion, Evidence, MechanismRegistration, Tables
from halfulp.studies.tasks import Workspace
from halfulp.training.config import FormatName, Seed, TrainingConfig
from halfulp.training.data import Blocks, load_text
from halfulp.training.hooks import Row, StepHooks, WriteBack
from halfulp.training.models import Group, build_model, dense_groups, next_token_loss
from halfulp.training.runner import evaluate
from halfulp.training.schedules import learning_rate
from halfulp.training.tables import TRACE as TRACE_SCHEMA
from halfulp.training.tables import make_table

MEASURED_POLICIES: tuple[Policy, ...] = ("nearest", "full_sr")


class Gpt2Fp8Registration(MechanismRegistration):
    """Registration of GPT-2 in fp8."""

    study: Literal["gpt2_fp8"] = Field(description="`gpt2_fp8`")
    training: TrainingConfig = Field(description="the model and how it is trained")
    seed: Seed = Field(description="seed of initial weights, order of batches and rounding noise")
    formats: tuple[FormatName, ...] = Field(min_length=1, description="storage formats, each with a native dtype")

    @model_validator(mode="after")
    def _known(self) -> "Gpt2Fp8Registration":
        check_gates(self, (*mechanism.SCORES, "frozen_at_init", "fp32_improvement", "nearest_gap"))
        return self


REGISTRATION = Gpt2Fp8Registration


class StreamedTrace(StepHooks):
    """As ``ReferenceTrace`` for ``local`` and expected counts, holding the one tensor that is stepping, no shadows."""

    schema = TRACE_SCHEMA

    def __init__(self, model: nn.Module, formats: tuple[FormatName, ...], group: Group) -> None:
        super().__init__(model, 1, [group])
        self.formats = [get_format(name) for name in formats]
        self.old: Tensor | None = None

    @torch.no_grad()
    def _before(self) -> None:
        self.old = self.groups[0].weight.detach().clone()

    def _observe(self, index: int, group: Group) -> list[Row]:
        old, self.old = self.old, None
        assert old is not None
        rows: list[Row] = []
        for fmt in self.formats:
            counts = trace_(old, group.weight.detach(), round_nearest(old, fmt), fmt)
            local = counts.local
            events = (local.no_update, local.erased, local.moved, local.saturated)
            rows.append((self.step, group.name, fmt.name, "local", *events, counts.erasing_words))
        return rows


def workload(registration: Gpt2Fp8Registration) -> tuple[int, int]:
    """Return the steps of forecast and measurement."""
    steps = registration.training.steps
    return steps, steps * len(registration.formats) * len(MEASURED_POLICIES)


def _optimizers(model: nn.Module, registration: Gpt2Fp8Registration) -> dict[int, torch.optim.Optimizer]:
    """Return one AdamW per parameter, by the parameter's id; matrices decay, vectors do not."""
    o = registration.training.optimizer
    return {
        id(p): torch.optim.AdamW(
            [p], betas=o.betas, eps=o.epsilon, weight_decay=o.weight_decay if p.dim() >= 2 else 0.0, foreach=False
        )
        for p in model.parameters()
    }


def _run(
    registration: Gpt2Fp8Registration,
    cell: str,
    hook_for: Any,
    tables: Tables,
    report: Any,
) -> list[StepHooks]:
    """Train once, one tensor at a time; return the hooks in the model's order."""
    config = registration.training
    blocks = Blocks.from_text(load_text(config.data), config.data)
    model = build_model(config.model, registration.seed).to(config.device)
    optimizers = _optimizers(model, registration)
    hooks = [hook_for(model, group).attach(optimizers[id(group.weight)]) for group in dense_groups(model)]
    for step in range(config.steps):
        if step % config.validate_every == 0:
            tables.metric(cell, step, "validation_loss", evaluate(model, blocks))
        rate = learning_rate(step, peak=config.optimizer.learning_rate, steps=config.steps, schedule=config.schedule)
        loss = next_token_loss(model, blocks.batch(step, registration.seed).to(config.device))
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), config.optimizer.clip_norm)
        tables.metric(cell, step, "train_loss", loss.item())
        try:
            for optimizer in optimizers.values():
                optimizer.param_groups[0]["lr"] = rate
                optimizer.step()
                optimizer.zero_grad()
        except DivergedError as error:
            tables.diverged[cell] = str(error)
            return hooks
        report(step + 1, f"step {step} loss {loss.item():.4f} lr {rate:.3e}")
    tables.metric(cell, config.steps, "validation_loss", evaluate(model, blocks))
    return hooks


def forecast(registration: Gpt2Fp8Registration, workspace: Workspace) -> Tables:
    """Train in fp32; trace every format, for either policy."""
    tables, r = Tables(), registration
    report = workspace.counted(0, "fp32")
    hooks = _run(r, "fp32", lambda model, group: StreamedTrace(model, r.formats, group), tables, report)
    table = make_table([row for hook in hooks for row in hook.rows], TRACE_SCHEMA)
    for policy in MEASURED_POLICIES:
        tables.trace(lambda fmt: f"{fmt} {policy}", table, stochastic=policy != "nearest")  # noqa: B023
    if "fp32" in tables.diverged:
        cells = [f"{fmt} {policy}" for fmt, policy in product(r.formats, MEASURED_POLICIES)]
        tables.diverged |= dict.fromkeys(cells, tables.diverged["fp32"])
    return tables


def measure(registration: Gpt2Fp8Registration, workspace: Workspace) -> Tables:
    """Train once per format and policy with native storage."""
    tables, r = Tables(), registration
    for index, (fmt, policy) in enumerate(product(r.formats, MEASURED_POLICIES)):
        cell = f"{fmt} {policy}"
        report = workspace.counted(index * r.training.steps, cell)

        def hook(model: nn.Module, group: Group, fmt: str = fmt, policy: Policy = policy) -> StepHooks:
            return WriteBack(model, fmt, policy, storage="native", seed=r.seed, groups=[group])

        for attached in _run(r, cell, hook, tables, report):
            tables.counts(cell, attached.table())
    return tables


def conclude(
    registration: Gpt2Fp8Registration, forecast: Evidence, measured: Evidence, judged: dict[str, Any]
) -> Conclusion:
    """Say which formats froze at initialization, as forecast, and what that cost."""
    threshold = registration.crossing.thresholds[0]
    nearest = [
        row
        for row in judged["units"]
        if row["kind"] == TRACE and row["threshold"] == threshold and row["cell"].endswith(" nearest")
    ]
    frozen = sum(row["forecast"] == row["measured"] == "at_init" for row in nearest)
    losses = forecast.metrics[forecast.metrics["metric"] == "validation_loss"].sort_values("step")["value"]
    last = forecast.last("fp32", "validation_loss")
    gaps = [measured.last(f"{fmt} nearest", "validation_loss") - last for fmt in registration.formats]
    scores = {
        "frozen_at_init": float(frozen),
        "fp32_improvement": float(losses.iloc[0]) - last,
        "nearest_gap": min(gaps),
    }
    claims: dict[str, str | float] = {
        "frozen": f"{frozen} of {len(registration.formats)} formats, as forecast",
        "improvement": scores["fp32_improvement"],
    }
    return Conclusion(scores, claims)
