"""The base of everything that is read from a registration: frozen, strict, no unknown keys, no NaN."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A frozen record that refuses unknown keys, coerced types and non-finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
