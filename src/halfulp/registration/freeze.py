"""Freezing: what may no longer change once a run has begun, and the label that says who had promised it.

``frozen.json`` holds digests of the registration's bytes and of every registered source file, and the gates with their
number. It contains no time and no identity, so that the same registration and code always freeze to the same bytes.
"""

import ast
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import halfulp
from halfulp.errors import FrozenError, IncompleteError
from halfulp.registration.digests import canonical_json, read_record, sha256_bytes, sha256_file
from halfulp.registration.document import Registration

FROZEN_SCHEMA = "halfulp.frozen/1"
PACKAGE = Path(halfulp.__file__).parent
PROJECT = PACKAGE.parents[1]
#: Modules that decide a number are registered as far as a study imports them.
DECIDING = tuple(f"halfulp.{name}" for name in ("numerics", "training", "audit", "studies", "strict", "determinism"))
#: Files that keep the order and the blindness are registered by every study.
ENFORCING = ("Snakefile", "workflow/rules/*.smk", "workflow/scripts/*.py", "src/halfulp/registration/*.py")
ENFORCING_STUDIES = ("jobs", "tasks", "catalogue", "audit_rules", "mechanism_rules", "writeback_rules")
Label = Literal["registered", "replication", "unregistered"]


@dataclass(frozen=True)
class Labelled:
    """A run's label, with the reason in a sentence and the sources that differ from the registered ones."""

    label: Label
    detail: str
    changed: tuple[str, ...] = ()


def registered_sources(study: str) -> dict[str, str]:
    """Return path → SHA-256 of every registered source file of a study, relative to the project's folder.

    These are the study's module, every module of ``DECIDING`` that it imports, directly or not, the pins of
    determinism, which jobs set before they import anything, and the files that keep order and blindness.
    """
    found: dict[str, Path] = {}
    waiting = [f"halfulp.studies.{study}", "halfulp.determinism"]
    while waiting:
        module = waiting.pop()
        path = _module_path(module)
        if path is None or not module.startswith(DECIDING) or module in found:
            continue
        found[module] = path
        waiting += _imports(path)
        waiting.append(module.rpartition(".")[0])  # importing a module runs its package's __init__
    files = {*found.values(), *(PACKAGE / "studies" / f"{name}.py" for name in ENFORCING_STUDIES)}
    files |= {path for pattern in ENFORCING for path in PROJECT.glob(pattern)}
    return {path.relative_to(PROJECT).as_posix(): sha256_file(path) for path in sorted(files)}


def _module_path(module: str) -> Path | None:
    base = PACKAGE.parent.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _imports(path: Path) -> list[str]:
    """Return every module that a file may import; ``from a import b`` may mean the module ``a.b``."""
    names = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def build_frozen(path: Path, registration: Registration) -> dict[str, Any]:
    """Return the frozen record of a registration file and the code that is running."""
    return {
        "schema": FROZEN_SCHEMA,
        "study": registration.study,
        "scale": registration.scale,
        "registration": {
            "path": f"preregistration/{registration.scale}/{path.name}",
            "sha256": sha256_file(path),
        },
        "gate_count": len(registration.gates),
        "gates": [gate.model_dump() for gate in registration.gates],
        "sources": registered_sources(registration.study),
    }


def committed_path(registration: Path) -> Path:
    """Return where a registration's frozen file is committed: ``STUDY.frozen.json`` beside ``STUDY.yaml``."""
    return registration.with_suffix(".frozen.json")


def register(path: Path, registration: Registration) -> tuple[Path, bool]:
    """Write the frozen file to commit; return its path and whether it is new.

    Raises:
        FrozenError: a different frozen file stands under this name; it is never rewritten.
    """
    target = committed_path(path)
    content = canonical_json(build_frozen(path, registration))
    if target.exists():
        if target.read_bytes() == content:
            return target, False
        raise FrozenError(
            f"{target}: already frozen with other contents ({_difference(target, path, registration)}); "
            "a frozen file is never rewritten: register the new version under a new name"
        )
    target.write_bytes(content)
    return target, True


def label_run(path: Path, registration: Registration) -> Labelled:
    """Compare the registration and the code at hand with the committed frozen file.

    Raises:
        FrozenError: the registration's text differs from the one registered under its name.
    """
    target = committed_path(path)
    if not target.exists():
        return Labelled("unregistered", f"no {target.name} stands beside the registration")
    committed, current = read_record(target, FROZEN_SCHEMA), build_frozen(path, registration)
    if committed.get("registration") != current["registration"]:
        raise FrozenError(
            f"{path}: its text changed after {target.name} registered it; restore it, or register the new version "
            "under a new name"
        )
    uncommitted = _not_committed(target)
    if uncommitted:
        return Labelled("unregistered", f"{target.name} {uncommitted}")
    if target.read_bytes() == canonical_json(current):
        return Labelled("registered", f"equal to {target.name}")
    changed = tuple(changed_entries(committed.get("sources", {}), current["sources"]))
    return Labelled("replication", f"registered text, later code: {len(changed)} source files differ", changed)


def check_frozen(run: Path, path: Path, registration: Registration) -> str:
    """Insist that a run's ``frozen.json`` still describes the registration and the code at hand; return its SHA-256.

    Raises:
        IncompleteError: the run has not been frozen.
        FrozenError: something changed; the message names it.
    """
    frozen = run / "frozen.json"
    if not frozen.is_file():
        raise IncompleteError(f"{frozen}: missing; a run is never re-frozen: restore it, or start a new results folder")
    raw = frozen.read_bytes()
    if raw != canonical_json(build_frozen(path, registration)):
        raise FrozenError(
            f"{frozen}: {_difference(frozen, path, registration)} since the run was frozen; "
            "restore it, or start a new results folder (a run is never re-frozen)"
        )
    return sha256_bytes(raw)


def vault(run: Path) -> Path:
    """Return the folder in which a run keeps copies of what must never be made twice: its freeze and its seal.

    Snakemake deletes a job's outputs before it runs the job again, and after it fails.
    """
    return run / ".vault"


def keep(run: Path, files: list[Path]) -> None:
    """Put copies of files of the run's folder into its vault, unless they are there already."""
    for file in files:
        copy = vault(run) / file.relative_to(run)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)


def restore(run: Path) -> list[Path]:
    """Put back what is missing from the run's folder and is in its vault; return the paths."""
    kept = sorted(path for path in vault(run).rglob("*") if path.is_file())
    restored = []
    for copy in kept:
        target = run / copy.relative_to(vault(run))
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(copy, target)
            restored.append(target)
    return restored


def changed_entries(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the names whose digest differs, or that only one side has, sorted."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _difference(record: Path, path: Path, registration: Registration) -> str:
    frozen, current = read_record(record, FROZEN_SCHEMA), build_frozen(path, registration)
    if frozen.get("registration") != current["registration"]:
        return f"{path} changed"
    changed = changed_entries(frozen.get("sources", {}), current["sources"])
    if changed:
        return f"{', '.join(changed[:3])}{f' and {len(changed) - 3} more' if len(changed) > 3 else ''} changed"
    return "its own contents changed"


def _not_committed(target: Path) -> str:
    """Say why git does not confirm that this file is committed as it is; empty if it does."""

    def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["git", "-C", str(target.parent), *arguments], capture_output=True, check=False)

    if shutil.which("git") is None or git("rev-parse", "--is-inside-work-tree").returncode != 0:
        return "stands there, but git can't confirm that it was committed"
    if git("cat-file", "-e", f"HEAD:./{target.name}").returncode != 0:
        return "is not committed"
    same = git("diff", "--quiet", "HEAD", "--", target.name).returncode == 0
    return "" if same else "differs from the committed one"
