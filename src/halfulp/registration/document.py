"""What all registrations have in common, and how one is loaded."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import Field, ValidationError, field_validator

from halfulp.errors import InputError
from halfulp.registration.strict_yaml import read_yaml
from halfulp.strict import Strict

Comparator = Literal["<", "<=", ">", ">="]
ScaleName = Literal["smoke", "desk", "paper", "gpt2", "scenario"]


class GateConfig(Strict):
    """A criterion: a score on one side of a threshold."""

    name: str = Field(min_length=1, description="name of the gate")
    score: str = Field(min_length=1, description="the score that it judges")
    comparator: Comparator = Field(description="`<`, `<=`, `>` or `>=`: score comparator threshold")
    threshold: float = Field(description="the threshold")


class Registration(Strict):
    """Base of every study's registration."""

    study: str = Field(description="name of the study; the file is called after it, a later version `STUDY-2`")
    scale: ScaleName = Field(description="`smoke`, `desk`, `paper`, `gpt2`, `scenario`; the folder is called after it")
    title: str = Field(min_length=1, description="one line for tables and reports")
    rationale: str = Field(min_length=80, description="why these rates, sizes, tolerances and thresholds were chosen")
    gates: tuple[GateConfig, ...] = Field(min_length=1, description="the gates, all of which must pass")
    reproduction_tolerance: float = Field(
        default=1e-6,
        gt=0.0,
        description="relative difference that a score may show when the run is repeated elsewhere; 1.0e-6 if left out",
    )

    @field_validator("gates")
    @classmethod
    def _distinct(cls, gates: tuple[GateConfig, ...]) -> tuple[GateConfig, ...]:
        names = [gate.name for gate in gates]
        if len(set(names)) != len(names):
            raise ValueError("two gates have the same name")
        return gates


def check_gates(registration: Registration, known: Iterable[str]) -> None:
    """Refuse gates on scores that a study does not have.

    Raises:
        ValueError: a gate judges another score.
    """
    scores = list(known)
    unknown = [gate.score for gate in registration.gates if gate.score not in scores]
    if unknown:
        raise ValueError(f"gates: unknown score {unknown[0]!r}; use one of {', '.join(scores)}")


RegistrationT = TypeVar("RegistrationT", bound=Registration)


def study_of(stem: str) -> str:
    """Return the study of a registration's file name: ``audit`` of ``audit`` and of its second version, ``audit-2``."""
    return stem.split("-")[0]


def load_registration(path: Path, schema: type[RegistrationT]) -> RegistrationT:
    """Read ``preregistration/SCALE/STUDY.yaml``.

    Raises:
        InputError: one line naming file, field, value and remedy.
    """
    content = read_yaml(path)
    try:
        registration = schema.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise InputError(f"{path}: {explain(error)}") from error
    for field, expected in (("study", study_of(path.stem)), ("scale", path.parent.name)):
        value = getattr(registration, field)
        if value != expected:
            raise InputError(f"{path}: field {field}: value {value!r}: the path says {expected!r}; make them agree")
    return registration


def explain(error: ValidationError) -> str:
    """Put the first problem of a validation into one line: field, value, reason, remedy."""
    problems = error.errors()
    first = problems[0]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if first["type"] == "missing":
        return f"field {field}: missing; add it (docs/registration.md lists every field){more}"
    if first["type"] == "extra_forbidden":
        return f"field {field}: value {_short(first['input'])}: unknown field; remove it or correct its name{more}"
    reason = first["msg"].removeprefix("Value error, ")
    remedy = "" if ";" in reason else "; correct it (docs/registration.md says what it may be)"
    return f"field {field or '(whole)'}: value {_short(first['input'])}: {reason}{remedy}{more}"


def describe(schema: type[Strict], prefix: str = "") -> str:
    """Return a Markdown table of every field of a registration, nested fields by their dotted names."""
    header = "| field | what it is | type |\n|---|---|---|\n" if not prefix else ""
    rows = ""
    for name, field in schema.model_fields.items():
        inner = [part for part in _parts(field.annotation) if isinstance(part, type) and issubclass(part, Strict)]
        repeated = "[]" if inner and get_origin(field.annotation) is tuple else ""
        text = field.description or (inner[0].__doc__ or "").strip().splitlines()[0]
        kind = "" if inner else _kind(field.annotation)
        rows += f"| `{prefix}{name}{repeated}` | {text} | {kind} |\n"
        if inner:
            rows += describe(inner[0], f"{prefix}{name}{repeated}.")
    return header + rows


def _parts(annotation: Any) -> tuple[Any, ...]:
    return (annotation, *(part for argument in get_args(annotation) for part in _parts(argument)))


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in get_args(annotation))
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)
        length = "list" if inner[-1] is Ellipsis else f"list of {len(inner)}"
        return f"{length}: {_kind(inner[0])}"
    if get_origin(annotation) is dict:
        return "mapping"
    return {str: "text", int: "integer", float: "number"}.get(annotation, "value")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
