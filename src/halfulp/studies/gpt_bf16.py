"""Small GPT in bf16: AdamW with a cosine schedule, weights stored in bf16. It trains, and then freezes past mid-run.

The control is the same run under stochastic rounding, which erases much at each step and has no persistent freeze.
"""

from typing import Any, Literal

from pydantic import Field, model_validator

from halfulp.numerics import Policy
from halfulp.registration.document import check_gates
from halfulp.studies import mechanism
from halfulp.studies.mechanism import TRACE, Conclusion, Evidence, MechanismRegistration, Tables
from halfulp.studies.tasks import Workspace
from halfulp.training.config import Count, Seed, TrainingConfig, WriteBackConfig
from halfulp.training.data import Blocks, load_text
from halfulp.training.runner import Plan, train

CELL: dict[str, Policy] = {"bf16 nearest": "nearest", "bf16 full_sr": "full_sr"}
NEAREST, STOCHASTIC = CELL
METRIC = "stalled_fraction"


class GptBf16Registration(MechanismRegistration):
    """Registration of the small GPT in bf16."""

    study: Literal["gpt_bf16"] = Field(description="`gpt_bf16`")
    training: TrainingConfig = Field(description="the model and how it is trained")
    seed: Seed = Field(description="seed of initial weights, order of batches and rounding noise")
    stall_window: Count = Field(description="steps N without a move after which a coordinate is stalled")

    @model_validator(mode="after")
    def _known(self) -> "GptBf16Registration":
        check_gates(self, (*mechanism.SCORES, "step_difference", "relative_step", "nearest_stalled", "control_stalled"))
        return self


REGISTRATION = GptBf16Registration


def workload(registration: GptBf16Registration) -> tuple[int, int]:
    """Return the steps of forecast and measurement."""
    return registration.training.steps, registration.training.steps * len(CELL)


def forecast(registration: GptBf16Registration, workspace: Workspace) -> Tables:
    """Train once in fp32; trace bf16, and forecast what stalls under either rounding."""
    tables, config = Tables(), registration.training
    plan = Plan(
        training=config, seed=registration.seed, trace_formats=("bf16",), stall_window=registration.stall_window
    )
    blocks = Blocks.from_text(load_text(config.data), config.data)
    result = train(plan, blocks, checkpoint=workspace.checkpoints / "fp32.pt", report=workspace.counted(0, "fp32"))
    assert result.trace is not None
    tables.trace(lambda _: NEAREST, result.trace)
    tables.trace(lambda _: STOCHASTIC, result.trace, stochastic=True)
    tables.losses("fp32", result.losses)
    for step, nearest, stochastic in result.stalls:
        tables.metric(f"forecast of {NEAREST}", step, METRIC, nearest)
        tables.metric(f"forecast of {STOCHASTIC}", step, METRIC, stochastic)
    if result.status == "diverged":
        tables.diverged |= dict.fromkeys(CELL, result.detail)
    return tables


def measure(registration: GptBf16Registration, workspace: Workspace) -> Tables:
    """Train with bf16 storage: to nearest, and with stochastic rounding as the control."""
    tables, config = Tables(), registration.training
    blocks = Blocks.from_text(load_text(config.data), config.data)
    for index, (cell, policy) in enumerate(CELL.items()):
        spec = WriteBackConfig(format="bf16", policy=policy, storage="native", scope="dense")
        plan = Plan(training=config, seed=registration.seed, write_back=spec, stall_window=registration.stall_window)
        report = workspace.counted(index * config.steps, cell)
        result = train(plan, blocks, checkpoint=workspace.checkpoints / f"{policy}.pt", report=report)
        tables.outcome(cell, result)
        for step, stalled, size in result.stalls:
            tables.metric(cell, step, METRIC, stalled / size)
    return tables


def conclude(
    registration: GptBf16Registration, forecast: Evidence, measured: Evidence, judged: dict[str, Any]
) -> Conclusion:
    """Date the freeze of the run to nearest, in steps; say whether the control has a persistent one."""
    threshold = registration.crossing.thresholds[0]
    unit = next(
        row for row in judged["units"] if (row["kind"], row["cell"], row["threshold"]) == (TRACE, NEAREST, threshold)
    )
    expected, found = unit["forecast_step"], unit["measured_step"]
    missing = float("nan")
    dated = expected is not None and found is not None
    scores = {
        "step_difference": float(abs(expected - found)) if dated else missing,
        "relative_step": found / registration.training.steps if found is not None else missing,
        "nearest_stalled": measured.largest(NEAREST, METRIC),
        "control_stalled": measured.largest(STOCHASTIC, METRIC),
    }
    claims: dict[str, str | float] = {
        "steps": f"forecast {expected}, measured {found}",
        "difference": scores["step_difference"],
        "relative_step": scores["relative_step"],
        "stalled": _stalled(forecast, measured, NEAREST),
        "control": _stalled(forecast, measured, STOCHASTIC),
    }
    return Conclusion(scores, claims)


def _stalled(forecast: Evidence, measured: Evidence, cell: str) -> str:
    expected, found = forecast.largest(f"forecast of {cell}", METRIC), measured.largest(cell, METRIC)
    return f"forecast {expected:.3f}, measured {found:.3f}"
