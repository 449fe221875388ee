"""Study 1: does the schedule change what persistent native storage costs? Three seeds, two schedules, six cells.

*Estimand*: the write-back penalty of a cell is its final validation loss with write-back minus that of fp32 with the
same seed and schedule; the estimand is the mean over seeds of the paired difference between the first schedule's
penalty and the second's. *Decision rule*: the gates, on Student's interval over seeds. *Identity*: all cells must be
canonical, written by the workflow in the registered run; if one is not, the registered result is ``inconclusive``,
whatever the numbers.

What a cell without identity could have shown is a *retrospective* analysis, which was not registered: the interval of
its seed's paired difference is set against those of the complete cohort, the seeds whose cells are all canonical. If
they do not overlap, the recovered cell can't be pooled with the cohort, and the analysis is ``negative``.
"""

from dataclasses import asdict
from typing import Literal

from pydantic import Field, field_validator, model_validator

from halfulp.audit.recovery import MISSING, Estimate, paired_bootstrap, t_interval
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
)
from halfulp.training.config import Count, ScheduleName, Seed, WriteBackConfig

IDENTITY_DECIDES = True
SCORES = ["paired_mean", "paired_lower", "paired_upper", "canonical_cells"]


class Study1Registration(WriteBackRegistration):
    """Registration of Study 1."""

    study: Literal["study1"] = Field(description="`study1`")
    seeds: tuple[Seed, ...] = Field(min_length=2, description="seeds; each has a cell for each schedule")
    schedules: tuple[ScheduleName, ...] = Field(
        min_length=2,
        max_length=2,
        description="the two schedules that are compared; the first is also `training.schedule.name`",
    )
    write_back: WriteBackConfig = Field(description="how weights are stored; `native`")
    estimand: Literal["paired_difference_of_penalties"] = Field(
        description="mean over seeds of penalty(first schedule) − penalty(second), in nats per token; a penalty is the "
        "final validation loss with write-back minus that of fp32"
    )
    canonical_cells: Count = Field(description="cells that must have canonical process identity: all of them")
    bootstrap: BootstrapConfig = Field(description="blocks within a seed; `confidence` is that of every interval")

    @field_validator("seeds", "schedules")
    @classmethod
    def _listed_once(cls, listed: tuple[object, ...]) -> tuple[object, ...]:
        if len(set(listed)) != len(listed):
            raise ValueError("an entry is listed twice; list each once")
        return listed

    @model_validator(mode="after")
    def _consistent(self) -> "Study1Registration":
        if self.training.schedule.name != self.schedules[0]:
            raise ValueError(f"training.schedule.name: must be the first of schedules, {self.schedules[0]}")
        if self.write_back.policy == "fp32" or self.write_back.storage != "native":
            raise ValueError("write_back: give a policy that writes back, and storage: native")
        if self.canonical_cells != len(self.seeds) * len(self.schedules):
            raise ValueError(f"canonical_cells: must be all {len(self.seeds) * len(self.schedules)} cells")
        check_gates(self, SCORES)
        return self


REGISTRATION = Study1Registration


def cell_name(schedule: str, seed: int) -> str:
    """Return a cell's name, e.g. ``constant_mid.seed31``."""
    return f"{schedule}.seed{seed}"


def cells(registration: Study1Registration) -> Cells:
    """Return a cell for each seed and schedule: fp32 and the write-back."""
    named = {}
    for seed in registration.seeds:
        for schedule in registration.schedules:
            renamed = registration.training.schedule.model_copy(update={"name": schedule})
            training = registration.training.model_copy(update={"schedule": renamed})
            named[cell_name(schedule, seed)] = plans(training, seed, [registration.write_back])
    return named


def conclude(registration: Study1Registration, outcomes: Outcomes) -> Conclusion:
    """Compare the penalties of the two schedules by seed; give no registered result unless all cells are canonical."""
    run = run_name(registration.write_back.format, registration.write_back.policy)
    pairs = {seed: _pair(registration, outcomes, seed, run) for seed in registration.seeds}
    canonical = {name: identity.canonical for name, identity in outcomes.identities.items()}
    results: list[Row] = []
    for seed, pair in pairs.items():
        names = [cell_name(schedule, seed) for schedule in registration.schedules]
        row: Row = {"seed": str(seed), "canonical": f"{sum(canonical[name] for name in names)}/2"}
        for schedule, name in zip(registration.schedules, names, strict=True):
            row[f"penalty {schedule}"] = _penalty(registration, outcomes, name, run)
            row[f"last erased fraction {schedule}"] = outcomes.erased(name, run, last=1)
        results.append(row | {f"difference, {key}": value for key, value in asdict(pair).items()})
    over = t_interval([pair.value for pair in pairs.values()], registration.bootstrap.confidence)
    good = sum(canonical.values())
    inconclusive, note, retrospective = "", "", {}
    if good < registration.canonical_cells:
        inconclusive = (
            f"{good} of {registration.canonical_cells} cells have canonical process identity; {_faults(outcomes)}"
        )
        note = f"Registered result: inconclusive; {inconclusive}."
        retrospective = retrospect(registration, canonical, pairs)
    else:
        mean = {f"difference, {key}": value for key, value in asdict(over).items()}
        results.append({"seed": "mean over seeds", "canonical": f"{good}/{registration.canonical_cells}", **mean})
    scores = {
        "paired_mean": over.value,
        "paired_lower": over.lower,
        "paired_upper": over.upper,
        "canonical_cells": float(good),
    }
    claims: dict[str, str | float] = {
        "cells": f"{good} of {registration.canonical_cells} canonical",
        "result": "inconclusive" if inconclusive else f"{over.value:.4f} [{over.lower:.4f}, {over.upper:.4f}] nats",
        "retrospective": str(retrospective["conclusion"]) if retrospective else "not needed: the cohort is complete",
    }
    return Conclusion(scores, claims, results, note, inconclusive, retrospective)


def _faults(outcomes: Outcomes) -> str:
    """Return what is wrong with the cells that are not canonical, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for name, identity in outcomes.identities.items():
        if not identity.canonical:
            by_reason.setdefault(identity.reason, []).append(name)
    named = {reason: "all" if len(c) == len(outcomes.identities) else ", ".join(c) for reason, c in by_reason.items()}
    return "; ".join(f"{cells}: {reason}" for reason, cells in named.items())


def _penalty(registration: Study1Registration, outcomes: Outcomes, cell: str, run: str) -> float:
    losses = outcomes.final(cell, [FP32, run], registration.training.steps)
    return float(losses[run].mean() - losses[FP32].mean())


def _pair(registration: Study1Registration, outcomes: Outcomes, seed: int, run: str) -> Estimate:
    """Return a seed's paired difference of penalties, with the paired bootstrap over validation blocks."""
    first, second = (cell_name(schedule, seed) for schedule in registration.schedules)
    losses = {
        f"{cell} {name}": values
        for cell in (first, second)
        for name, values in outcomes.final(cell, [FP32, run], registration.training.steps).items()
    }
    if len({len(values) for values in losses.values()}) != 1:
        return MISSING

    def difference(means: dict[str, float]) -> float:
        one, other = (means[f"{cell} {run}"] - means[f"{cell} {FP32}"] for cell in (first, second))
        return one - other

    return paired_bootstrap(losses, difference, **registration.bootstrap.arguments())


def retrospect(registration: Study1Registration, canonical: dict[str, bool], pairs: dict[int, Estimate]) -> Row:
    """Say what the recovered cells could have shown. This analysis was not registered and decides nothing.

    Args:
        registration: the study's.
        canonical: by cell, whether it has canonical process identity.
        pairs: by seed, its paired difference with its bootstrap interval.

    Returns:
        ``conclusion``: ``negative`` if an interval of a recovered seed and the cohort's do not overlap, ``compatible``
        if all do, ``impossible`` if there is no complete cohort or a recovered seed has no numbers.
    """
    whole = {s: all(canonical[cell_name(name, s)] for name in registration.schedules) for s in registration.seeds}
    cohort = [pairs[seed] for seed in registration.seeds if whole[seed]]
    recovered = {seed: pairs[seed] for seed in registration.seeds if not whole[seed]}
    low = min((p.lower for p in cohort), default=float("nan"))
    high = max((p.upper for p in cohort), default=float("nan"))
    usable = all(p.lower <= p.upper for p in [*cohort, *recovered.values()]) and bool(cohort)
    apart = [seed for seed, p in recovered.items() if p.lower > high or p.upper < low]
    return {
        "registered": False,
        "what": "Retrospective protocol-deviation analysis; not registered, decides nothing.",
        "complete_seeds": [seed for seed in registration.seeds if whole[seed]],
        "complete_lower": low,
        "complete_upper": high,
        "recovered": [
            {"seed": seed, "value": p.value, "lower": p.lower, "upper": p.upper, "overlaps": seed not in apart}
            for seed, p in recovered.items()
            if usable
        ],
        "conclusion": "impossible" if not usable else "negative" if apart else "compatible",
    }
