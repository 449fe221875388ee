"""The audit's registration: which seed and which predictor plays which part, and what is scored."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from halfulp.audit import predictors as predicting
from halfulp.registration.document import Registration, check_gates
from halfulp.strict import Strict
from halfulp.training.config import Count, FormatName, Fraction, Seed, TrainingConfig, WriteBackConfig

#: What a gate may judge; all are of the declared predictor.
SCORES = (
    "macro_rmse",
    "skill",
    "directional_agreement",
    "directional_lower",
    "placebo_margin",
    "crossfit_agreement",
    "crossfit_lower",
    "crossfit_margin",
)


class SeedsConfig(Strict):
    """Which seed plays which part. A seed decides initial weights, order of batches and rounding noise."""

    source: Seed = Field(description="the one fp32 reference that forecasts")
    historical: tuple[Seed, ...] = Field(min_length=2, description="seeds whose reference and outcome are both known")
    targets: tuple[Seed, ...] = Field(min_length=1, description="unseen seeds, trained once, after the seal")
    pilot: tuple[Seed, ...] = Field(min_length=1, description="seeds on which rates and thresholds were chosen")

    @model_validator(mode="after")
    def _distinct(self) -> "SeedsConfig":
        seeds = [self.source, *self.historical, *self.targets, *self.pilot]
        repeated = sorted({seed for seed in seeds if seeds.count(seed) > 1})
        if repeated:
            raise ValueError(f"seed {repeated[0]} plays two parts; every seed may be listed once")
        return self


class PredictorsConfig(Strict):
    """Which predictors are run, and the part each plays."""

    declared: str = Field(description="the predictor that the gates judge")
    baseline: str = Field(description="the predictor that skill is measured against")
    placebos: tuple[str, ...] = Field(min_length=1, description="predictors that the declared one must beat")
    candidates: tuple[str, ...] = Field(min_length=2, description="predictors ranked blind, before the seal")
    privileged: tuple[str, ...] = Field(description="predictors that need the target seeds' own references")

    @field_validator("declared", "baseline")
    @classmethod
    def _known(cls, name: str) -> str:
        return _check_predictor(name, predicting.BLIND)

    @field_validator("placebos", "candidates")
    @classmethod
    def _all_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_check_predictor(name, predicting.BLIND) for name in names)

    @field_validator("privileged")
    @classmethod
    def _all_privileged(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_check_predictor(name, predicting.PRIVILEGED) for name in names)

    @property
    def blind(self) -> tuple[str, ...]:
        """Every predictor that is forecast and sealed, each once."""
        return tuple(dict.fromkeys((self.declared, self.baseline, *self.placebos, *self.candidates)))


def _check_predictor(name: str, known: Mapping[str, object]) -> str:
    if name not in known:
        raise ValueError(f"unknown predictor {name!r}; use one of {', '.join(known)}")
    return name


class DirectionConfig(Strict):
    """Directional specificity: which cells count, and the bootstrap over (seed, group) clusters."""

    tolerance: float = Field(gt=0.0, description="both departures from the template must exceed it")
    resamples: Count = Field(description="bootstrap resamples")
    confidence: Fraction = Field(description="coverage of the two-sided interval")
    seed: Seed = Field(description="seed of the bootstrap")


class AuditRegistration(Registration):
    """Registration of the prospective audit."""

    study: Literal["audit"] = Field(description="`audit`")
    training: TrainingConfig = Field(description="what every run of the study has in common")
    trace_formats: tuple[FormatName, ...] = Field(min_length=1, description="formats that the fp32 references trace")
    write_back: WriteBackConfig = Field(description="what the historical and the target runs do to their weights")
    seeds: SeedsConfig = Field(description="the seeds by part")
    predictors: PredictorsConfig = Field(description="the predictors by part")
    directional: DirectionConfig = Field(description="the score of directional specificity")

    @field_validator("trace_formats")
    @classmethod
    def _distinct_formats(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) != len(names):
            raise ValueError("a format is listed twice; list each once")
        return names

    @model_validator(mode="after")
    def _consistent(self) -> "AuditRegistration":
        if self.write_back.format not in self.trace_formats:
            raise ValueError(f"write_back.format {self.write_back.format} is not in trace_formats; add it")
        if self.write_back.policy == "fp32":
            raise ValueError("write_back.policy fp32 erases nothing; use nearest, full_sr or dead_zone_sr")
        check_gates(self, SCORES)
        return self
