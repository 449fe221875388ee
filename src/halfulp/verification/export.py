"""A run described for other tools: PRML manifests of its gates, and an RO-Crate of its files.

PRML 0.1: https://spec.falsify.dev (Pre-Registered ML Manifest). RO-Crate: https://w3id.org/ro/crate
"""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from rocrate.rocrate import ROCrate

from halfulp.errors import InputError
from halfulp.registration.digests import read_json, sha256_bytes
from halfulp.verification.regenerate import untampered

FORMATS = {
    ".json": "application/json",
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv",
    ".md": "text/markdown",
    ".tex": "application/x-tex",
    ".rst": "text/x-rst",
    ".png": "image/png",
    ".pdf": "application/pdf",
    ".safetensors": "application/octet-stream",
}


def write_manifests(run: Path, project: Path) -> list[Path]:
    """Write ``prml/GATE.prml.yaml`` for every registered gate; ``falsify lock`` and ``falsify verify`` read them.

    Returns:
        The manifests, in the order of the gates.
    """
    case = untampered(run, project)
    target = _own(run / "prml")
    target.mkdir(exist_ok=True)
    written = []
    for gate in case.registration.gates:
        manifest = _manifest(gate.model_dump(), case.frozen, case.identity, case.registration)
        path = _own(target / f"{re.sub('[^A-Za-z0-9_-]', '_', gate.name)}.prml.yaml")
        path.write_text(yaml.safe_dump(manifest, sort_keys=True, allow_unicode=True), "utf-8")
        written.append(path)
    return written


def observed(run: Path) -> dict[str, float | None]:
    """Return what was measured for every gate, by its name: what ``falsify verify --observed`` takes."""
    return {gate["name"]: gate["value"] for gate in read_json(run / "scores.json")["gates"]}


def _manifest(gate: Any, frozen: Any, identity: Any, registration: Any) -> dict[str, Any]:
    """Return a gate as a manifest. Studies on generated data name their registration, which has the data's seeds."""
    training = getattr(registration, "training", None)
    data = (training.data.source, training.data.sha256) if training is not None else None
    source, digest = data or (frozen["registration"]["path"], frozen["registration"]["sha256"])
    seed = training.data.seed if training is not None else registration.data_seed
    created = datetime.fromisoformat(identity["created"])
    return {
        "version": "prml/0.1",
        "claim_id": _claim_id(created, f"{frozen['registration']['sha256']} {gate['name']}"),
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "metric": gate["score"],
        "comparator": gate["comparator"],
        "threshold": gate["threshold"],
        "dataset": {"id": source, "hash": digest},
        "seed": seed,
        "producer": {"id": "halfulp"},
    }


def _claim_id(created: datetime, name: str) -> str:
    """Return a UUID of version 7: the time in milliseconds, then bits of a digest instead of random ones."""
    bits = int(sha256_bytes(name.encode())[:20], 16)
    value = (
        int(created.timestamp() * 1000) << 80 | 7 << 76 | (bits >> 62 & 0xFFF) << 64 | 0b10 << 62 | bits & (1 << 62) - 1
    )
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def write_crate(run: Path, project: Path) -> Path:
    """Write ``ro-crate-metadata.json``: every file of the run with its size, its format and its SHA-256."""
    case, target = untampered(run, project), _own(run / "ro-crate-metadata.json")
    label, registered = case.identity["label"], case.frozen["registration"]["path"]
    crate = ROCrate()
    crate.name = case.registration.title
    crate.description = f"{label} run of {registered}; verdict: {read_json(run / 'scores.json')['verdict']}"
    crate.datePublished = datetime.fromisoformat(case.identity["created"])
    crate.license = "MIT"
    for name, path in sorted(case.folder.files.items()):
        properties = {
            "contentSize": str(path.stat().st_size),
            "encodingFormat": FORMATS.get(path.suffix, "application/octet-stream"),
            "sha256": case.folder.digest(name),
        }
        crate.add_file(str(path), dest_path=name, properties=properties)
    crate.metadata.write(run)
    return target


def _own(path: Path) -> Path:
    """Refuse to write through a link."""
    if path.is_symlink():
        raise InputError(f"{path}: a symbolic link; remove it")
    return path
