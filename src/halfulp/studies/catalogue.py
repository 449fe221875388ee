"""The studies by name."""

from pathlib import Path
from typing import cast

from halfulp.errors import InputError
from halfulp.registration.document import Registration, load_registration, study_of
from halfulp.studies import cnn, decoders, emulator, features, gpt2_fp8, gpt_bf16, grid, study1, study2, study3
from halfulp.studies.audit_registration import AuditRegistration
from halfulp.studies.mechanism import Mechanism
from halfulp.studies.writeback import WriteBackStudy

#: The mechanism systems' modules by name.
MECHANISMS = {
    "grid": grid,
    "features": features,
    "emulator": emulator,
    "cnn": cnn,
    "gpt_bf16": gpt_bf16,
    "gpt2_fp8": gpt2_fp8,
}
#: The write-back studies' modules by name.
WRITE_BACK = {"decoders": decoders, "study1": study1, "study2": study2, "study3": study3}
#: Class of every study's registration.
STUDIES: dict[str, type[Registration]] = {
    "audit": AuditRegistration,
    **{name: module.REGISTRATION for name, module in MECHANISMS.items()},
    **{name: module.REGISTRATION for name, module in WRITE_BACK.items()},
}


def mechanism(study: str) -> Mechanism:
    """Return a mechanism system's module."""
    return cast("Mechanism", MECHANISMS[study])


def write_back_study(study: str) -> WriteBackStudy:
    """Return a write-back study's module."""
    return cast("WriteBackStudy", WRITE_BACK[study])


def load(path: Path) -> Registration:
    """Load ``preregistration/SCALE/STUDY.yaml`` with its study's schema.

    Raises:
        InputError: no such study, or anything that the schema refuses.
    """
    schema = STUDIES.get(study_of(path.stem))
    if schema is None:
        raise InputError(f"{path}: study {study_of(path.stem)!r} is not known; use one of {', '.join(STUDIES)}")
    return load_registration(path, schema)


def latest(scale: Path, study: str) -> str | None:
    """Return the name of a study's latest registration in a scale's folder, e.g. ``audit-2``; None without any."""
    names = [path.stem for path in scale.glob(f"{study}*.yaml") if study_of(path.stem) == study]
    return max(names, key=lambda name: int(name.partition("-")[2] or 1), default=None)


def registered(scale: Path) -> list[str]:
    """Return the latest registration of every study in a scale's folder, in the catalogue's order."""
    return [name for name in (latest(scale, study) for study in STUDIES) if name is not None]
