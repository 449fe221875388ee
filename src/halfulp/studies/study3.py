"""Study 3: simulated INT3 with frozen scales, nearest against stochastic rounding, replayed from packed checkpoints.

The registered result is made by a job that trains nothing: it reloads each checkpoint, recomputes the validation loss
bit for bit, and reports nearest − full_sr. Without all checkpoints the study is incomplete and has no number.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from halfulp.errors import InputError
from halfulp.numerics import Policy
from halfulp.registration.document import check_gates
from halfulp.studies import checkpoints
from halfulp.studies.writeback import (
    Cells,
    Conclusion,
    Outcomes,
    Row,
    WriteBackRegistration,
    run_name,
)
from halfulp.training.config import Seed, WriteBackConfig
from halfulp.training.runner import Plan

IDENTITY_DECIDES = False
FORMAT = "int3"
POLICIES: tuple[Policy, ...] = ("nearest", "full_sr")
SCORES = ["headline_nats", "headline_percent", "exact_replays"]


class Study3Registration(WriteBackRegistration):
    """Registration of Study 3."""

    study: Literal["study3"] = Field(description="`study3`")
    seed: Seed = Field(description="the one seed: initial weights, order of batches and rounding noise")
    checkpoints: tuple[int, ...] = Field(
        min_length=2, description="steps done at which both runs are stored, ascending; the last is the headline"
    )

    @field_validator("checkpoints")
    @classmethod
    def _ascending(cls, steps: tuple[int, ...]) -> tuple[int, ...]:
        if list(steps) != sorted(set(steps)) or steps[0] < 0:
            raise ValueError("list them in ascending order, each once, from 0 or later")
        return steps

    @model_validator(mode="after")
    def _consistent(self) -> "Study3Registration":
        if self.checkpoints[-1] != self.training.steps:
            raise ValueError(f"checkpoints: the last must be training.steps, {self.training.steps}")
        check_gates(self, SCORES)
        return self


REGISTRATION = Study3Registration


def cells(registration: Study3Registration) -> Cells:
    """Return the one cell; both runs keep packed codes between steps, and are stored at the checkpoints."""
    runs = {}
    for policy in POLICIES:
        spec = WriteBackConfig(format=FORMAT, policy=policy, storage="native", scope="dense")
        runs[run_name(FORMAT, policy)] = Plan(
            training=registration.training, seed=registration.seed, write_back=spec, snapshots=registration.checkpoints
        )
    return {f"seed{registration.seed}": runs}


def checkpoint_files(registration: Study3Registration) -> list[tuple[str, int, str]]:
    """Return (run, step, file name) of every checkpoint, in the order in which they are replayed."""
    return [
        (run, step, f"{run}.step{step}.safetensors")
        for step in registration.checkpoints
        for run in (run_name(FORMAT, policy) for policy in POLICIES)
    ]


def replay(registration: Study3Registration, folder: Path, report: Callable[[str], None]) -> Row:
    """Replay every checkpoint in a folder, with a line to ``report`` for each; return ``replay.json``.

    Raises:
        InputError: a checkpoint is missing or damaged, or its loss is not recomputed bit for bit. There is no number.
    """
    rows = []
    for run, step, name in checkpoint_files(registration):
        found = checkpoints.replay(folder / name, step, registration.training)
        if not found.exact:
            raise InputError(
                f"{folder / name}: recomputed loss {found.recomputed!r}, stored {found.stored!r}; the study is "
                "incomplete: replay it where it was trained, or restore the file"
            )
        rows.append({"run": run, "step": step, "file": name, "loss": found.recomputed})
        report(f"{name}: loss {found.recomputed:.6f}, bit for bit")
    return {"schema": "halfulp.replay/1", "checkpoints": rows}


def conclude(registration: Study3Registration, outcomes: Outcomes) -> Conclusion:
    """Report nearest − full_sr, in nats and as a share of nearest, from the replayed losses alone."""
    assert outcomes.replay is not None
    loss = {(row["run"], row["step"]): row["loss"] for row in outcomes.replay["checkpoints"]}
    nearest, stochastic = (run_name(FORMAT, policy) for policy in POLICIES)
    results: list[Row] = []
    for step in registration.checkpoints:
        a, b = loss[nearest, step], loss[stochastic, step]
        row = {"step": step, "loss nearest": a, "loss full_sr": b, "difference (nats)": a - b}
        results.append(row | {"difference (%)": 100 * (a - b) / a})
    headline = results[-1]
    scores = {
        "headline_nats": float(headline["difference (nats)"]),
        "headline_percent": float(headline["difference (%)"]),
        "exact_replays": float(len(loss)),
    }
    claims: dict[str, str | float] = {
        "headline": f"{scores['headline_nats']:.4f} nats ({scores['headline_percent']:.2f} %)",
        "replays": f"{len(loss)}/{len(checkpoint_files(registration))}",
    }
    return Conclusion(scores, claims, results)
