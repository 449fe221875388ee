"""Frozen-feature regression: random tanh features stay fixed, the linear head is trained by gradient descent.

The loss is quadratic in the head, so the fp32 trajectory has a closed form, ``w_t = w* + (1 − rate · Λ)^t (w_0 − w*)``
in the features' eigenbasis. Three dates of the freeze stand side by side: analytic (the half-ULP condition on the
closed form), trace (exact events of the fp32 run) and measured.
"""

from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from halfulp.numerics import (
    EventCounts,
    NonFiniteCandidateError,
    half_ulp_rule,
    mantissa,
    round_nearest,
    trace_,
    write_back_,
)
from halfulp.registration.document import check_gates
from halfulp.studies import mechanism
from halfulp.studies.mechanism import (
    ANALYTIC,
    MEASURED,
    TRACE,
    Conclusion,
    Evidence,
    MechanismRegistration,
    Tables,
)
from halfulp.studies.tasks import Workspace
from halfulp.training.config import Count, Seed

GROUP = "head"
REPORT_EVERY = 200


class FeaturesRegistration(MechanismRegistration):
    """Registration of frozen-feature regression."""

    study: Literal["features"] = Field(description="`features`")
    inputs: Count = Field(description="input dimensions")
    features: Count = Field(description="random tanh features")
    samples: Count = Field(description="training samples")
    data_seed: Seed = Field(description="seed of inputs, features, targets and the initial head")
    widths: tuple[int, ...] = Field(min_length=1, description="mantissa bits of the cells")
    rate: float = Field(
        gt=0.0, description="learning rate, as a fraction of the largest stable one (2 / largest eigenvalue)"
    )
    steps: Count = Field(description="steps; every step is recorded")

    @model_validator(mode="after")
    def _known(self) -> "FeaturesRegistration":
        check_gates(self, (*mechanism.SCORES, "analytic_within_15_percent"))
        for width in self.widths:
            mantissa(width)
        if self.rate >= 1.0:
            raise ValueError("rate: must be below 1, the largest stable rate")
        return self


REGISTRATION = FeaturesRegistration


class Problem:
    """Features, targets, initial head and rate of the regression."""

    def __init__(self, r: FeaturesRegistration) -> None:
        generator = torch.Generator().manual_seed(r.data_seed)
        x = torch.randn(r.samples, r.inputs, generator=generator)
        projection = torch.randn(r.inputs, r.features, generator=generator) / r.inputs**0.5
        self.phi = torch.tanh(x @ projection)
        teacher = torch.randn(r.features, generator=generator) / r.features**0.5
        self.y = self.phi @ teacher + 0.1 * torch.randn(r.samples, generator=generator)
        self.head = torch.randn(r.features, generator=generator) / r.features**0.5
        self.hessian = self.phi.double().T @ self.phi.double() / r.samples
        self.eigenvalues, self.basis = torch.linalg.eigh(self.hessian)
        self.rate = r.rate * 2.0 / float(self.eigenvalues[-1])

    def step(self, head: Tensor) -> Tensor:
        """Return the fp32 candidate after one step of gradient descent."""
        gradient = self.phi.T @ (self.phi @ head - self.y) / len(self.y)
        return head - self.rate * gradient

    def loss(self, head: Tensor) -> float:
        """Return the mean squared error, halved."""
        return float(((self.phi @ head - self.y) ** 2).mean() / 2)

    def closed_form(self, steps: int) -> Tensor:
        """Return the exact heads of steps 0 … ``steps``, (steps + 1, features) float64."""
        target = self.phi.double().T @ self.y.double() / len(self.y)
        optimum = torch.linalg.lstsq(self.hessian, target[:, None]).solution[:, 0]
        start = self.basis.T @ (self.head.double() - optimum)
        decay = (1 - self.rate * self.eigenvalues)[None] ** torch.arange(steps + 1)[:, None]
        return optimum + (decay * start) @ self.basis.T


def workload(registration: FeaturesRegistration) -> tuple[int, int]:
    """Return the steps of forecast and measurement."""
    return registration.steps, registration.steps * len(registration.widths)


def forecast(registration: FeaturesRegistration, workspace: Workspace) -> Tables:
    """Trace the fp32 run, and date the freeze analytically from the closed form."""
    tables, problem = Tables(), Problem(registration)
    formats = [mantissa(width) for width in registration.widths]
    head = problem.head.clone()
    shadows = [round_nearest(head, fmt) for fmt in formats]
    for step in range(registration.steps):
        new = problem.step(head)
        for fmt, shadow in zip(formats, shadows, strict=True):
            counts = trace_(head, new, shadow, fmt)
            tables.events(TRACE, f"m{fmt.mantissa_bits}", GROUP, step, counts.local, counts.erasing_words)
        head = new
        if step % REPORT_EVERY == 0:
            tables.metric("fp32", step, "train_loss", problem.loss(head))
            workspace.report(step + 1, f"step {step} loss {problem.loss(head):.4e}")
    path = problem.closed_form(registration.steps)
    for fmt in formats:
        stored = round_nearest(path[:-1].float(), fmt)
        candidate = (stored.double() + path[1:] - path[:-1]).float()
        erased = half_ulp_rule(stored, candidate, fmt).sum(dim=1).tolist()
        nothing = (candidate == stored).sum(dim=1).tolist()
        for step, (lost, none) in enumerate(zip(erased, nothing, strict=True)):
            moved = registration.features - lost - none
            tables.events(ANALYTIC, f"m{fmt.mantissa_bits}", GROUP, step, EventCounts(none, lost, moved, 0))
    workspace.report(registration.steps, "closed form done")
    return tables


def measure(registration: FeaturesRegistration, workspace: Workspace) -> Tables:
    """Train the head with write-back at every width."""
    tables, problem = Tables(), Problem(registration)
    for index, width in enumerate(registration.widths):
        cell, fmt = f"m{width}", mantissa(width)
        head = round_nearest(problem.head, fmt)
        report = workspace.counted(index * registration.steps, cell)
        try:
            for step in range(registration.steps):
                candidate = problem.step(head)
                tables.events(MEASURED, cell, GROUP, step, write_back_(candidate, head, fmt, "nearest"))
                head = candidate
                if step % REPORT_EVERY == 0 or step + 1 == registration.steps:
                    tables.metric(cell, step, "train_loss", problem.loss(head))
                    report(step + 1, f"step {step} loss {problem.loss(head):.4e}")
        except NonFiniteCandidateError as error:
            tables.diverged[cell] = f"step {step}: {error}"
    return tables


def conclude(
    registration: FeaturesRegistration, forecast: Evidence, measured: Evidence, judged: dict[str, Any]
) -> Conclusion:
    """Set the analytic and the traced dates beside the measured ones."""
    threshold = registration.crossing.thresholds[0]
    named = {kind: judged["comparisons"][f"{kind} at {threshold:g}"] for kind in (ANALYTIC, TRACE)}
    share = named[ANALYTIC]["share_within_15_percent"]
    claims: dict[str, str | float] = {
        kind: f"{result['within_15_percent']}/{result['both_post_init']} within 15 %" for kind, result in named.items()
    }
    return Conclusion({"analytic_within_15_percent": float("nan") if share is None else share}, claims)
