"""The prospective E4M3 audit: one fp32 trace forecasts the erased fraction of seeds that nobody has trained yet.

This module is the study's pure part: from tables of counts to forecasts, and from forecasts and outcomes to scores,
gates and the verdict. ``audit_rules`` runs it as rules of the workflow.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import stats

from halfulp.audit import predictors as predicting
from halfulp.audit import scores as scoring
from halfulp.audit.curves import Array, Axes, axes_of, erased_fraction
from halfulp.audit.decomposition import variance_shares
from halfulp.audit.gates import finite, judge, verdict
from halfulp.audit.predictors import Evidence
from halfulp.studies.audit_registration import AuditRegistration, PredictorsConfig
from halfulp.training.runner import Plan

#: One row per predictor, target seed, group and recorded step.
FORECASTS = pa.schema(
    [
        ("predictor", pa.string()),
        ("seed", pa.int64()),
        ("group", pa.string()),
        ("step", pa.int64()),
        ("value", pa.float64()),
    ]
)


def plan(registration: AuditRegistration, seed: int, *, traced: bool) -> Plan:
    """Return what one run of the study trains: fp32 with the reference trace, or the registered write-back."""
    return Plan(
        training=registration.training,
        seed=seed,
        write_back=None if traced else registration.write_back,
        trace_formats=registration.trace_formats if traced else (),
    )


def build_evidence(
    registration: AuditRegistration,
    trace: Callable[[str, int], pd.DataFrame],
    outcome: Callable[[str, int], pd.DataFrame],
    *,
    opened: bool,
) -> tuple[Evidence, Axes]:
    """Assemble what predictors may see from tables of counts.

    Args:
        registration: the study.
        trace: ``(part, seed)`` → trace table of an fp32 run (part ``references`` or ``matched``).
        outcome: ``(part, seed)`` → counts of a write-back run (part ``historical``).
        opened: whether the seal was opened, so that the targets' own references may be read.
    """
    seeds, fmt = registration.seeds, registration.write_back.format
    reference = trace("references", seeds.source)
    axes = axes_of(reference, range(0, registration.training.steps, registration.training.record_every))

    def curves(table: pd.DataFrame, kind: str) -> Array:
        return erased_fraction(table[(table["format"] == fmt) & (table["kind"] == kind)], axes)

    historical = [trace("references", seed) for seed in seeds.historical]
    matched = [curves(trace("matched", seed), "local") for seed in seeds.targets] if opened else None
    evidence = Evidence(
        targets=len(seeds.targets),
        source_local=curves(reference, "local"),
        source_replay=curves(reference, "replay"),
        historical_local=np.stack([curves(table, "local") for table in historical]),
        historical_replay=np.stack([curves(table, "replay") for table in historical]),
        historical_outcome=np.stack([erased_fraction(outcome("historical", s), axes) for s in seeds.historical]),
        matched_local=np.stack(matched) if matched is not None else None,
    )
    return evidence, axes


def forecast_rows(names: Sequence[str], evidence: Evidence, axes: Axes, seeds: Sequence[int]) -> list[tuple[Any, ...]]:
    """Run predictors by name; return rows of ``FORECASTS``."""
    known = predicting.BLIND | predicting.PRIVILEGED
    rows = []
    for name in names:
        curves = known[name](evidence)
        for (target, group, step), value in np.ndenumerate(curves):
            rows.append((name, seeds[target], axes.groups[group], axes.steps[step], float(value)))
    return rows


def forecast_curves(table: pd.DataFrame, name: str, axes: Axes, seeds: Sequence[int]) -> Array:
    """Return one predictor's sealed forecasts as (target, group, step); NaN where a row is missing."""
    rows = table[table["predictor"] == name].set_index(["seed", "group", "step"])["value"]
    wanted = pd.MultiIndex.from_product([seeds, axes.groups, axes.steps])
    return rows.reindex(wanted).to_numpy(float).reshape(len(seeds), len(axes.groups), len(axes.steps))


def blind_ranking(registration: AuditRegistration, evidence: Evidence) -> list[dict[str, Any]]:
    """Rank the candidates without any target outcome: each historical seed is left out in turn and forecast.

    The template and H are then means of the others. Ordered by the root of the mean squared error over all left-out
    seeds; a predictor with missing cells comes last.
    """
    count = len(evidence.historical_outcome)
    table = []
    for name in registration.predictors.candidates:
        errors = []
        for left_out in range(count):
            kept = [index for index in range(count) if index != left_out]
            reduced = Evidence(
                targets=1,
                source_local=evidence.source_local,
                source_replay=evidence.source_replay,
                historical_local=evidence.historical_local[kept],
                historical_replay=evidence.historical_replay[kept],
                historical_outcome=evidence.historical_outcome[kept],
            )
            forecast = predicting.BLIND[name](reduced)
            errors.append(scoring.macro_rmse(forecast, evidence.historical_outcome[left_out][None]))
        table.append({"predictor": name, "rmse": finite(float(np.sqrt(np.mean(np.square(errors)))))})
    table.sort(key=lambda row: (row["rmse"] is None, row["rmse"] or 0.0, row["predictor"]))
    return table


def score(
    registration: AuditRegistration,
    evidence: Evidence,
    axes: Axes,
    sealed: pd.DataFrame,
    ranking: list[dict[str, Any]],
    outcome: Callable[[str, int], pd.DataFrame],
) -> dict[str, Any]:
    """Score sealed forecasts against the targets' outcomes; judge the gates; decompose the outcomes.

    Args:
        registration: the study.
        evidence: with the matched references.
        axes: of all curves.
        sealed: the sealed forecasts' table.
        ranking: the sealed blind ranking.
        outcome: ``(part, seed)`` → counts of a write-back run (part ``targets``).

    Returns:
        A record for ``scores.json``: numbers are finite or None.
    """
    seeds, names = registration.seeds.targets, registration.predictors
    observed = np.stack([erased_fraction(outcome("targets", seed), axes) for seed in seeds])
    forecasts = {name: forecast_curves(sealed, name, axes, seeds) for name in names.blind}
    forecasts |= {name: predicting.PRIVILEGED[name](evidence) for name in names.privileged}
    template = np.broadcast_to(evidence.template, observed.shape)
    direction = {
        name: scoring.directional_specificity(curves, observed, template, **registration.directional.model_dump())
        for name, curves in forecasts.items()
    }
    baseline = forecasts[names.baseline]
    rows = [
        {
            "predictor": name,
            "part": _part(name, names),
            "macro_rmse": finite(scoring.macro_rmse(curves, observed)),
            "skill": finite(scoring.skill(curves, baseline, observed)),
            "agreement": finite(direction[name].agreement),
            "lower": finite(direction[name].lower),
            "upper": finite(direction[name].upper),
            "cells": direction[name].cells,
            "clusters": direction[name].clusters,
            "rmse_by_seed": _named(seeds, scoring.rmse_by(curves, observed, 0)),
            "rmse_by_group": _named(axes.groups, scoring.rmse_by(curves, observed, 1)),
        }
        for name, curves in forecasts.items()
    ]
    declared, best_placebo = direction[names.declared], max(_agreements(direction, names.placebos))
    measured = {
        "macro_rmse": finite(scoring.macro_rmse(forecasts[names.declared], observed)),
        "skill": finite(scoring.skill(forecasts[names.declared], baseline, observed)),
        "directional_agreement": finite(declared.agreement),
        "directional_lower": finite(declared.lower),
        "placebo_margin": finite(declared.agreement - best_placebo),
        **_crossfit(registration, evidence, observed),
    }
    judged = [judge(**gate.model_dump(), scores=measured) for gate in registration.gates]
    return {
        "schema": "halfulp.scores/1",
        "study": registration.study,
        "scale": registration.scale,
        "cells": {"seeds": len(seeds), "groups": len(axes.groups), "steps": len(axes.steps)},
        "missing": int((~np.isfinite(observed)).sum()),
        "range": {"lowest": finite(float(observed.min())), "highest": finite(float(observed.max()))},
        "scores": measured,
        "predictors": rows,
        "ranking": _compare_rankings(ranking, rows),
        "decomposition": {name: finite(share) for name, share in variance_shares(observed).items()},
        "gates": [vars(gate) for gate in judged],
        "verdict": verdict(judged),
    }


def _crossfit(registration: AuditRegistration, evidence: Evidence, observed: Array) -> dict[str, float | None]:
    """Score directional specificity with disjoint seeds in H and T, against altered and against exchanged sources.

    An exchanged source is a historical seed's reference in the source's place, left out of H and T: as good a source as
    the declared one, unless that knows something of the targets.
    """
    local, outcome = evidence.historical_local, evidence.historical_outcome
    options = registration.directional.model_dump()

    def direction(source: Array, kept: list[int], name: str) -> scoring.Direction:
        alter = predicting.ALTERATIONS[name]
        return scoring.crossfit_specificity(source, local[kept], outcome[kept], observed, alter=alter, **options)

    everyone = list(range(len(local)))
    placebos = [name for name in registration.predictors.placebos if name in predicting.ALTERATIONS]
    declared = direction(evidence.source_local, everyone, "source")
    rivals = [direction(evidence.source_local, everyone, name).agreement for name in placebos]
    rivals += [direction(local[i], [j for j in everyone if j != i], "source").agreement for i in everyone]
    return {
        "crossfit_agreement": finite(declared.agreement),
        "crossfit_lower": finite(declared.lower),
        "crossfit_margin": finite(declared.agreement - float(np.max(rivals))),
    }


def _agreements(direction: Mapping[str, scoring.Direction], names: Sequence[str]) -> list[float]:
    """Agreements of the placebos; one that has no cells to agree in makes the comparison missing."""
    values = [direction[name].agreement for name in names]
    return [float("nan")] if np.isnan(values).any() else values


def _part(name: str, names: PredictorsConfig) -> str:
    if name == names.declared:
        return "declared"
    if name == names.baseline:
        return "baseline"
    if name in names.placebos:
        return "placebo"
    return "privileged" if name in names.privileged else "candidate"


def _named(names: Sequence[Any], values: Sequence[float]) -> dict[str, float | None]:
    return {str(name): finite(value) for name, value in zip(names, values, strict=True)}


def _compare_rankings(blind: list[dict[str, Any]], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Set the sealed blind ranking beside the ranking by the targets' outcomes, with Kendall's tau-b of the two."""
    opened = {row["predictor"]: row["macro_rmse"] for row in rows}
    pairs = [(row["predictor"], row["rmse"], opened[row["predictor"]]) for row in blind]
    known = [(before, after) for _, before, after in pairs if before is not None and after is not None]
    tau = float(stats.kendalltau(*zip(*known, strict=True)).statistic) if len(known) > 1 else float("nan")
    return {
        "order": [{"predictor": name, "blind_rmse": before, "opened_rmse": after} for name, before, after in pairs],
        "kendall_tau": finite(tau),
    }
