"""Seals: forecasts fixed before outcomes exist."""

from pathlib import Path
from typing import Any

from halfulp.errors import FrozenError
from halfulp.registration.digests import digest_all, read_record, write_json

SEAL_SCHEMA = "halfulp.seal/1"


def write_seal(path: Path, run: Path, forecasts: list[Path], outcomes: list[Path]) -> None:
    """Seal the forecasts: fix their digests, before any unseen outcome exists.

    Args:
        path: the seal to write. It holds no time, so equal forecasts give equal seals; the receipt has the time.
        run: the run's folder.
        forecasts: the files to seal.
        outcomes: outcomes that exist already, finished or not; there must be none.

    Raises:
        FrozenError: an outcome exists already.
    """
    if outcomes:
        raise FrozenError(f"{outcomes[0]}: exists before the seal; forecasts can't be sealed now: start a new folder")
    write_json(path, {"schema": SEAL_SCHEMA, "sealed": digest_all([run / "frozen.json", *forecasts], run)})


def check_seal(path: Path, run: Path, forecasts: tuple[str, ...]) -> dict[str, Any]:
    """Insist that the seal covers the freeze and the forecasts, and that each is still what it was; return the seal.

    Raises:
        FrozenError: a sealed file changed, or the seal covers other files than it should.
    """
    seal = read_record(path, SEAL_SCHEMA)
    if set(seal["sealed"]) != {"frozen.json", *forecasts}:
        covered = ", ".join(sorted(seal["sealed"])) or "nothing"
        raise FrozenError(f"{path}: seals {covered}; restore it or start a new results folder")
    for name, digest in seal["sealed"].items():
        current = digest_all([run / name], run)[name]
        if current != digest:
            raise FrozenError(f"{run / name}: changed after it was sealed; restore it or start a new results folder")
    return seal
