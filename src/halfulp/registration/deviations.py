"""Deviations from a registration: an append-only list that every report prints."""

import json
from datetime import date
from pathlib import Path

from pydantic import Field, ValidationError

from halfulp.errors import InputError
from halfulp.registration.document import Registration, explain
from halfulp.registration.strict_yaml import read_yaml
from halfulp.strict import Strict


class Deviation(Strict):
    """One departure from what was registered."""

    date: date
    study: str = Field(min_length=1, description="study that departed")
    scale: str = Field(min_length=1, description="its scale")
    what: str = Field(min_length=1, description="what was done otherwise than registered")
    why: str = Field(min_length=1, description="the reason")
    effect: str = Field(min_length=1, description="what it may have changed in the results")


class Deviations(Strict):
    """The file ``preregistration/deviations.yaml``."""

    deviations: tuple[Deviation, ...]


def deviations_for(path: Path, registration: Registration) -> list[Deviation]:
    """Return the deviations of one registration, in the order in which they were written down.

    Raises:
        InputError: the file is missing or refused.
    """
    try:
        listed = Deviations.model_validate_json(json.dumps(read_yaml(path)))
    except ValidationError as error:
        raise InputError(f"{path}: {explain(error)}") from error
    mine = (registration.study, registration.scale)
    return [deviation for deviation in listed.deviations if (deviation.study, deviation.scale) == mine]
