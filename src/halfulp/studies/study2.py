"""Study 2: stochastic rounding everywhere against stochastic rounding in the dead zone alone.

The table of results is a contrast of policies: two ways of writing the same updates back. It is not causal mediation,
since neither policy isolates what the dead zone does from everything that follows from it.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Literal

from pydantic import Field, model_validator

from halfulp.audit.recovery import MISSING, Estimate, paired_bootstrap, recovery, t_interval
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
)
from halfulp.training.config import FormatName, Seed, WriteBackConfig

IDENTITY_DECIDES = False
#: A function of the runs' mean losses.
Statistic = Callable[[dict[str, float]], float]
NEAREST: Policy = "nearest"
FULL: Policy = "full_sr"
DEAD_ZONE: Policy = "dead_zone_sr"
NOTE = "A contrast of policies, not causal mediation. Blocks are resampled, seeds are not; `over seeds` resamples none."
SCORES = [
    *(f"mean_{policy}{end}" for policy in (FULL, DEAD_ZONE) for end in ("", "_lower", "_upper")),
    *(f"ratio{end}" for end in ("", "_lower", "_upper")),
    "different_share",
]


class Study2Registration(WriteBackRegistration):
    """Registration of Study 2."""

    study: Literal["study2"] = Field(description="`study2`")
    seeds: tuple[Seed, ...] = Field(min_length=2, description="seeds, one cell each")
    format: FormatName = Field(description="storage format")
    storage: Literal["analytic", "native"] = Field(description="`analytic` or `native`, see `write_back.storage`")
    bootstrap: BootstrapConfig = Field(description="paired bootstrap over validation blocks")

    @model_validator(mode="after")
    def _consistent(self) -> "Study2Registration":
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError("seeds: a seed is listed twice; list each once")
        _specs(self)
        check_gates(self, SCORES)
        return self


REGISTRATION = Study2Registration


def _specs(registration: Study2Registration) -> list[WriteBackConfig]:
    return [
        WriteBackConfig(format=registration.format, policy=policy, storage=registration.storage, scope="dense")
        for policy in (NEAREST, FULL, DEAD_ZONE)
    ]


def cells(registration: Study2Registration) -> Cells:
    """Return a cell for each seed; each stochastic run counts where the other policy would have written otherwise."""
    contrasts: dict[Policy, Policy] = {FULL: DEAD_ZONE, DEAD_ZONE: FULL}
    return {
        f"seed{seed}": plans(registration.training, seed, _specs(registration), contrasts)
        for seed in registration.seeds
    }


def conclude(registration: Study2Registration, outcomes: Outcomes) -> Conclusion:
    """Compare the two policies' recoveries: by seed, in the mean, and as a ratio of means."""
    runs = [FP32, *(run_name(registration.format, policy) for policy in (NEAREST, FULL, DEAD_ZONE))]
    names = [f"seed{seed}" for seed in registration.seeds]
    seeds = {name: outcomes.final(name, runs, registration.training.steps) for name in names}
    pooled = {f"{cell} {run}": values for cell, losses in seeds.items() for run, values in losses.items()}
    complete = len({len(values) for values in pooled.values()}) == 1

    def one(cell: str, policy: Policy, means: dict[str, float]) -> float:
        return _recovery(means, cell, registration.format, policy)

    def mean(policy: Policy, means: dict[str, float]) -> float:
        return sum(one(cell, policy, means) for cell in seeds) / len(seeds)

    def estimate(statistic: Statistic) -> Estimate:
        return paired_bootstrap(pooled, statistic, **registration.bootstrap.arguments()) if complete else MISSING

    means = {policy: estimate(partial(mean, policy)) for policy in (FULL, DEAD_ZONE)}
    ratio = estimate(lambda losses: _ratio(mean(DEAD_ZONE, losses), mean(FULL, losses)))
    results: list[Row] = []
    single: dict[Policy, list[float]] = {FULL: [], DEAD_ZONE: []}
    for cell in seeds:
        for policy in (FULL, DEAD_ZONE):
            found = estimate(partial(one, cell, policy))
            single[policy].append(found.value)
            results.append({"quantity": f"recovery, {policy}", "of": cell, **asdict(found)})
    results += [{"quantity": f"mean recovery, {p}", "of": "blocks", **asdict(means[p])} for p in means]
    confidence = registration.bootstrap.confidence
    for policy in single:
        over = t_interval(single[policy], confidence)
        results.append({"quantity": f"mean recovery, {policy}", "of": "over seeds", **asdict(over)})
    results.append({"quantity": "ratio, dead_zone_sr to full_sr", "of": "blocks", **asdict(ratio)})
    differences = [b - a for a, b in zip(single[FULL], single[DEAD_ZONE], strict=True)]
    over = t_interval(differences, confidence)
    results.append({"quantity": "difference, dead_zone_sr − full_sr", "of": "over seeds", **asdict(over)})
    share, written = different(outcomes)
    results += written
    scores = score_columns("ratio", ratio) | {"different_share": share}
    for policy, found in means.items():
        scores |= score_columns(f"mean_{policy}", found)
    claims: dict[str, str | float] = {
        "recoveries": f"{means[FULL].value:.4f} / {means[DEAD_ZONE].value:.4f}",
        "ratio": ratio.value,
        "different": f"{100 * share:.2f}",
    }
    return Conclusion(scores, claims, results, note=NOTE)


def _recovery(means: dict[str, float], cell: str, format: str, policy: Policy) -> float:
    nearest, other = (means[f"{cell} {run_name(format, p)}"] for p in (NEAREST, policy))
    return recovery(nearest, other, means[f"{cell} {FP32}"])


def _ratio(a: float, b: float) -> float:
    return a / b if b != 0 else float("nan")


def different(outcomes: Outcomes) -> tuple[float, list[Row]]:
    """Say how often the two policies wrote different values, given equal weights, candidates and noise words.

    Returns:
        The share of all coordinates and steps of all stochastic runs, and a table row for each run.
    """
    table = outcomes.tables["contrasts"]
    rows: list[Row] = []
    for (cell, run), some in table.groupby(["cell", "run"], sort=False):
        share = int(some["different"].sum()) / int(some["size"].sum())
        rows.append(
            {"quantity": f"written differently, {run}", "of": cell, "value": share, "lower": None, "upper": None}
        )
    size = int(table["size"].sum())
    return (int(table["different"].sum()) / size if size else float("nan")), rows
