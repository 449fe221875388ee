"""Two-layer grid: 72 cells of mantissa width × rate × seed, full-batch gradient descent on a teacher's outputs.

All cells step together as one batched computation, so the grid is one process. The forecast comes from the fp32
trajectories of the (rate, seed) pairs alone; each is traced for all widths at once.
"""

from itertools import product
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from halfulp.numerics import FloatFormat, NonFiniteCandidateError, mantissa, round_nearest, trace_, write_back_
from halfulp.registration.document import check_gates
from halfulp.studies import mechanism
from halfulp.studies.mechanism import MEASURED, TRACE, Conclusion, Evidence, MechanismRegistration, Tables
from halfulp.studies.tasks import Workspace
from halfulp.training.config import Count, Seed

GROUPS = ("hidden", "output")
#: Steps between progress reports.
REPORT_EVERY = 100


class GridRegistration(MechanismRegistration):
    """Registration of the two-layer grid."""

    study: Literal["grid"] = Field(description="`grid`")
    inputs: Count = Field(description="input dimensions")
    hidden: Count = Field(description="hidden tanh units of student and teacher")
    samples: Count = Field(description="training samples, standard normal inputs")
    data_seed: Seed = Field(description="seed of inputs and teacher")
    widths: tuple[int, ...] = Field(min_length=1, description="mantissa bits of the cells")
    rates: tuple[float, ...] = Field(min_length=1, description="learning rates of the cells")
    seeds: tuple[Seed, ...] = Field(min_length=1, description="seeds of the students' initial weights")
    steps: Count = Field(description="full-batch steps; every step is recorded")

    @model_validator(mode="after")
    def _known(self) -> "GridRegistration":
        check_gates(self, (*mechanism.SCORES, "disagreements"))
        for width in self.widths:
            mantissa(width)
        return self

    @property
    def runs(self) -> list[tuple[float, int]]:
        """The (rate, seed) pairs."""
        return list(product(self.rates, self.seeds))


REGISTRATION = GridRegistration


class Students:
    """A batch of two-layer networks ``output · tanh(hidden · x)``, one for each entry of ``runs``."""

    def __init__(self, registration: GridRegistration, runs: list[tuple[float, int]]) -> None:
        r = registration
        generator = torch.Generator().manual_seed(r.data_seed)
        self.x = torch.randn(r.samples, r.inputs, generator=generator)
        teacher = _weights(r, generator)
        self.y = torch.tanh(self.x @ teacher[0].T) @ teacher[1].T  # (samples, 1)
        drawn = [_weights(r, torch.Generator().manual_seed(seed)) for _, seed in runs]
        #: (runs, hidden, inputs) and (runs, 1, hidden).
        self.weights = [torch.stack([pair[layer] for pair in drawn]) for layer in range(2)]
        self.rates = torch.tensor([rate for rate, _ in runs]).view(-1, 1, 1)

    def step(self) -> Tensor:
        """Take one step of gradient descent in place; return the losses before it, (runs,)."""
        hidden, output = (weight.requires_grad_() for weight in self.weights)
        activity = torch.tanh(torch.einsum("chd,nd->cnh", hidden, self.x))
        error = torch.einsum("coh,cnh->cno", output, activity) - self.y
        losses = (error**2).mean(dim=(1, 2)) / 2
        gradients = torch.autograd.grad(losses.sum(), [hidden, output])
        with torch.no_grad():
            for weight, gradient in zip(self.weights, gradients, strict=True):
                weight -= self.rates * gradient
                weight.requires_grad_(False)
        return losses.detach()


def _weights(r: GridRegistration, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    hidden = torch.randn(r.hidden, r.inputs, generator=generator) / r.inputs**0.5
    output = torch.randn(1, r.hidden, generator=generator) / r.hidden**0.5
    return hidden, output


def cell_name(width: int, rate: float, seed: int) -> str:
    """Name a cell: ``m5 rate 0.1 seed 2``."""
    return f"m{width} rate {rate:g} seed {seed}"


def workload(registration: GridRegistration) -> tuple[int, int]:
    """Return the batched steps of forecast and measurement."""
    return registration.steps, registration.steps


def forecast(registration: GridRegistration, workspace: Workspace) -> Tables:
    """Train the (rate, seed) pairs in fp32; trace every width."""
    tables, runs = Tables(), registration.runs
    formats = [mantissa(width) for width in registration.widths]
    students = Students(registration, runs)
    shadows = [[round_nearest(weight, fmt) for fmt in formats] for weight in students.weights]
    alive = dict.fromkeys(range(len(runs)))
    for step in range(registration.steps):
        old = [weight.clone() for weight in students.weights]
        losses = students.step()
        for run in list(alive):
            rate, seed = runs[run]
            try:
                for layer, index in product(range(2), range(len(formats))):
                    before, after = old[layer][run], students.weights[layer][run]
                    counts = trace_(before, after, shadows[layer][index][run], formats[index])
                    name = cell_name(formats[index].mantissa_bits, rate, seed)
                    tables.events(TRACE, name, GROUPS[layer], step, counts.local, counts.erasing_words)
            except NonFiniteCandidateError as error:
                del alive[run]
                reason = f"step {step}: {error}"
                tables.diverged |= {cell_name(width, rate, seed): reason for width in registration.widths}
        _record(
            tables, [f"fp32 rate {rate:g} seed {seed}" for rate, seed in runs], losses, step, registration, workspace
        )
    return tables


def measure(registration: GridRegistration, workspace: Workspace) -> Tables:
    """Train every cell with its weights written back to its own grid."""
    tables = Tables()
    cells = list(product(registration.widths, registration.runs))
    students = Students(registration, [run for _, run in cells])
    formats: list[FloatFormat] = [mantissa(width) for width, _ in cells]
    names = [cell_name(width, *run) for width, run in cells]
    for weight in students.weights:
        for index, fmt in enumerate(formats):
            weight[index] = round_nearest(weight[index], fmt)
    alive = dict.fromkeys(range(len(cells)))
    for step in range(registration.steps):
        stored = [weight.clone() for weight in students.weights]
        losses = students.step()
        for cell in list(alive):
            try:
                for layer in range(2):
                    candidate, held = students.weights[layer][cell], stored[layer][cell]
                    events = write_back_(candidate, held, formats[cell], "nearest")
                    tables.events(MEASURED, names[cell], GROUPS[layer], step, events)
            except NonFiniteCandidateError as error:
                del alive[cell]
                tables.diverged[names[cell]] = f"step {step}: {error}"
        _record(tables, names, losses, step, registration, workspace)
    return tables


def _record(
    tables: Tables, names: list[str], losses: Tensor, step: int, registration: GridRegistration, workspace: Workspace
) -> None:
    if step % REPORT_EVERY and step + 1 != registration.steps:
        return
    for name, loss in zip(names, losses.tolist(), strict=True):
        tables.metric(name, step, "train_loss", loss)
    workspace.report(step + 1, f"step {step} mean loss {losses.mean().item():.4e}")


def conclude(
    registration: GridRegistration, forecast: Evidence, measured: Evidence, judged: dict[str, Any]
) -> Conclusion:
    """Set the counts of cells beside the paper's."""
    result = judged["comparisons"][f"{TRACE} at {registration.crossing.thresholds[0]:g}"]
    both, cells = result["both_post_init"], result["cells"]
    span = result["span"]
    claims: dict[str, str | float] = {
        "post_init": f"{both}/{cells}",
        "within": f"{result['within_15_percent']}/{both}",
        "differ": f"{result['disagreements']}/{cells}",
        "span": span if span is not None else float("nan"),
    }
    return Conclusion({"disagreements": float(result["disagreements"])}, claims)
