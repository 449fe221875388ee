"""Matched decoders: from one initialization and one data order, every policy in every format, beside fp32."""

from functools import partial
from typing import Literal

from pydantic import Field, field_validator, model_validator

from halfulp.audit.recovery import paired_bootstrap, recovery
from halfulp.numerics import Policy
from halfulp.registration.document import check_gates
from halfulp.studies.writeback import (
    FP32,
    BootstrapConfig,
    Cells,
    Conclusion,
    Outcomes,
    Row,
    WriteBackRegistration,
    plans,
    run_name,
    score_columns,
    written_back,
)
from halfulp.training.config import FormatName, Seed, WriteBackConfig

IDENTITY_DECIDES = False


class DecodersRegistration(WriteBackRegistration):
    """Registration of the matched decoders."""

    study: Literal["decoders"] = Field(description="`decoders`")
    seed: Seed = Field(description="seed of initial weights, order of batches and rounding noise")
    formats: tuple[FormatName, ...] = Field(min_length=1, description="storage formats")
    policies: tuple[Policy, ...] = Field(min_length=2, description="write-back policies besides fp32")
    storage: Literal["analytic", "native"] = Field(description="`analytic` or `native`, see `write_back.storage`")
    bootstrap: BootstrapConfig = Field(description="paired bootstrap over validation blocks")

    _policies = field_validator("policies")(written_back)

    @model_validator(mode="after")
    def _consistent(self) -> "DecodersRegistration":
        if "nearest" not in self.policies:
            raise ValueError("policies: nearest is missing; recovery is measured from it")
        _specs(self)
        check_gates(self, [f"{name}{end}" for name in _recovering(self) for end in ("", "_lower", "_upper")])
        return self


REGISTRATION = DecodersRegistration


def _specs(registration: DecodersRegistration) -> list[WriteBackConfig]:
    return [
        WriteBackConfig(format=name, policy=policy, storage=registration.storage, scope="dense")
        for name in registration.formats
        for policy in registration.policies
    ]


def _recovering(registration: DecodersRegistration) -> dict[str, tuple[str, Policy]]:
    """Return the scores' names: ``e4m3_full_sr`` → (format, policy)."""
    return {
        f"{name}_{policy}": (name, policy)
        for name in registration.formats
        for policy in registration.policies
        if policy != "nearest"
    }


def cells(registration: DecodersRegistration) -> Cells:
    """Return the one cell."""
    return {f"seed{registration.seed}": plans(registration.training, registration.seed, _specs(registration))}


def conclude(registration: DecodersRegistration, outcomes: Outcomes) -> Conclusion:
    """Say how much of the gap between nearest and fp32 each stochastic policy recovers, by format."""
    cell, steps = f"seed{registration.seed}", registration.training.steps
    scores: dict[str, float] = {}
    results: list[Row] = []
    for score, (name, policy) in _recovering(registration).items():
        nearest, other = run_name(name, "nearest"), run_name(name, policy)
        losses = outcomes.final(cell, [FP32, nearest, other], steps)
        found = paired_bootstrap(losses, partial(_recovery, nearest, other), **registration.bootstrap.arguments())
        scores |= score_columns(score, found)
        results.append(
            {
                "format": name,
                "policy": policy,
                "loss fp32": float(losses[FP32].mean()),
                "loss nearest": float(losses[nearest].mean()),
                "loss policy": float(losses[other].mean()),
                "recovery": found.value,
                "lower": found.lower,
                "upper": found.upper,
                "erased fraction": outcomes.erased(cell, other),
                "erased fraction nearest": outcomes.erased(cell, nearest),
            }
        )
    claims: dict[str, str | float] = {
        score: f"{scores[score]:.3f} [{scores[f'{score}_lower']:.3f}, {scores[f'{score}_upper']:.3f}]"
        for score in _recovering(registration)
    }
    return Conclusion(scores, claims, results)


def _recovery(nearest: str, other: str, means: dict[str, float]) -> float:
    return recovery(means[nearest], means[other], means[FP32])
