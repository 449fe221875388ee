"""The studies by name, with the class of their registrations."""

from pathlib import Path

from halfulp.errors import InputError
from halfulp.registration.document import Registration, load_registration
from halfulp.studies.audit import AuditRegistration

STUDIES: dict[str, type[Registration]] = {"audit": AuditRegistration}


def load(path: Path) -> Registration:
    """Load ``preregistration/SCALE/STUDY.yaml`` with its study's schema.

    Raises:
        InputError: no such study, or anything that the schema refuses.
    """
    schema = STUDIES.get(path.stem)
    if schema is None:
        raise InputError(f"{path}: study {path.stem!r} is not known; use one of {', '.join(STUDIES)}")
    return load_registration(path, schema)
