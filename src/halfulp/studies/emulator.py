"""Mantissa emulator: one language model, every mantissa width of a 128-fold range, one fp32 trace for all of them."""

from typing import Any, Literal

from pydantic import Field, model_validator

from halfulp.numerics import mantissa
from halfulp.registration.document import check_gates
from halfulp.studies import mechanism
from halfulp.studies.mechanism import TRACE, Conclusion, Evidence, MechanismRegistration, Tables
from halfulp.studies.tasks import Workspace
from halfulp.training.config import Seed, TrainingConfig, WriteBackConfig
from halfulp.training.data import Blocks, load_text
from halfulp.training.runner import Plan, train


class EmulatorRegistration(MechanismRegistration):
    """Registration of the mantissa emulator."""

    study: Literal["emulator"] = Field(description="`emulator`")
    training: TrainingConfig = Field(description="the model and how it is trained")
    seed: Seed = Field(description="seed of initial weights and order of batches")
    widths: tuple[int, ...] = Field(min_length=1, description="mantissa bits of the cells")

    @model_validator(mode="after")
    def _known(self) -> "EmulatorRegistration":
        check_gates(self, mechanism.SCORES)
        for width in self.widths:
            mantissa(width)
        return self


REGISTRATION = EmulatorRegistration


def workload(registration: EmulatorRegistration) -> tuple[int, int]:
    """Return the steps of forecast and measurement."""
    return registration.training.steps, registration.training.steps * len(registration.widths)


def forecast(registration: EmulatorRegistration, workspace: Workspace) -> Tables:
    """Train once in fp32; trace every width."""
    tables, config = Tables(), registration.training
    formats = tuple(f"mantissa{width}" for width in registration.widths)
    plan = Plan(training=config, seed=registration.seed, trace_formats=formats)
    blocks = Blocks.from_text(load_text(config.data), config.data)
    result = train(plan, blocks, checkpoint=workspace.checkpoints / "fp32.pt", report=workspace.counted(0, "fp32"))
    assert result.trace is not None
    tables.trace(str, result.trace)
    tables.losses("fp32", result.losses)
    if result.status == "diverged":
        tables.diverged |= dict.fromkeys(formats, result.detail)
    return tables


def measure(registration: EmulatorRegistration, workspace: Workspace) -> Tables:
    """Train once per width, with weights written back to its grid."""
    tables, config = Tables(), registration.training
    blocks = Blocks.from_text(load_text(config.data), config.data)
    for index, width in enumerate(registration.widths):
        cell = f"mantissa{width}"
        spec = WriteBackConfig(format=cell, policy="nearest", storage="analytic", scope="dense")
        plan = Plan(training=config, seed=registration.seed, write_back=spec)
        report = workspace.counted(index * config.steps, cell)
        result = train(plan, blocks, checkpoint=workspace.checkpoints / f"{cell}.pt", report=report)
        tables.outcome(cell, result)
    return tables


def conclude(
    registration: EmulatorRegistration, forecast: Evidence, measured: Evidence, judged: dict[str, Any]
) -> Conclusion:
    """Say how many widths were dated well."""
    result = judged["comparisons"][f"{TRACE} at {registration.crossing.thresholds[0]:g}"]
    return Conclusion({}, {"within": f"{result['within_15_percent']}/{result['both_post_init']} within 15 %"})
