"""Digests and canonical JSON: integrity is of raw bytes, and what we write has one form."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from halfulp.errors import IncompleteError, InputError

#: No record of this project comes near this size, in bytes.
LARGEST_JSON = 8 << 20


def sha256_bytes(data: bytes) -> str:
    """Return the hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes.

    Raises:
        IncompleteError: there is no such file.
    """
    if not path.is_file():
        raise IncompleteError(f"{path}: missing; run the rule that makes it")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_json(content: Any) -> bytes:
    """Return the one form in which this project writes JSON: sorted keys, two spaces, UTF-8, LF, no NaN.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    text = json.dumps(content, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode("utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write canonical JSON in one step, so that a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(canonical_json(content))
    os.replace(temporary, path)


def read_json(path: Path) -> Any:
    """Read JSON in which nothing is ambiguous.

    Raises:
        IncompleteError: there is no such file.
        InputError: the file is not JSON, gives a key twice, holds NaN or infinity, or is larger than any record here.
    """
    try:
        size = path.stat().st_size
        if size > LARGEST_JSON:
            raise InputError(f"{path}: {size} bytes, no record is larger than {LARGEST_JSON}; restore it")
        return parse_json(path.read_bytes(), str(path))
    except FileNotFoundError as error:
        raise IncompleteError(f"{path}: missing; run the rule that makes it") from error


def parse_json(text: bytes, origin: str) -> Any:
    """Parse JSON as :func:`read_json` does; ``origin`` names it in errors."""
    try:
        content = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
        canonical_json(content)  # it can also be written: no infinity by overflow, no lone surrogate
        return content
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin}: not JSON ({error}); restore it or start a new results folder") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return content


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def read_record(path: Path, schema: str) -> dict[str, Any]:
    """Read one of this project's own JSON records and insist on its schema.

    Raises:
        IncompleteError: there is no such file.
        InputError: the file is not JSON, or not a record of that schema.
    """
    content = read_json(path)
    found = content.get("schema") if isinstance(content, dict) else type(content).__name__
    if not isinstance(content, dict) or found != schema:
        raise InputError(
            f"{path}: field schema: value {found!r}, expected {schema!r}; restore it or start a new folder"
        )
    return content


def digest_all(paths: Iterable[Path], base: Path) -> dict[str, str]:
    """Return path → SHA-256, paths relative to ``base`` where they lie in it, sorted."""
    named = {}
    for path in paths:
        inside = path.resolve().is_relative_to(base.resolve())
        named[path.resolve().relative_to(base.resolve()).as_posix() if inside else path.as_posix()] = sha256_file(path)
    return dict(sorted(named.items()))
