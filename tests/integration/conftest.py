"""The smoke workflow, run once for all tests of this folder, and copies of the tree in which things go wrong."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--nolock", "--cores", "2"]


def command(arguments: list[str], cwd: Path = ROOT, *, source: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program with the package of ``source`` (or ``cwd``) rather than the installed one; return its output."""
    environment = {**os.environ, "PYTHONPATH": str((source or cwd) / "src"), "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)


def halfulp(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return command([sys.executable, "-m", "halfulp", *arguments], cwd)


def snakemake(*arguments: str, results: Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return command([*SNAKEMAKE, *arguments, "--config", "scale=smoke", f"results={results}"], cwd)


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results folder of a whole smoke run on two cores; parallel workers share one."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    results, finished = shared / "smoke", shared / "smoke.finished"
    with (shared / "smoke.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            done = halfulp("run", "--scale", "smoke", "--cores", "2", "--results", str(results))
            assert done.returncode == 0, done.stderr
            finished.touch()
    return results


def copy_tree(copy: Path) -> Path:
    """Copy everything that a run reads, free to be changed."""
    for folder in ("src", "workflow", "preregistration"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for file in ("Snakefile", "environment.yml"):
        shutil.copy(ROOT / file, copy)
    (copy / "profiles").symlink_to("workflow/profiles")
    return copy


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of everything that a run reads, free to be changed."""
    return copy_tree(tmp_path / "tree")


@pytest.fixture
def rerun(tree: Path, smoke: Path) -> Path:
    """The copied tree with the smoke run's results in ``results``."""
    shutil.copytree(smoke, tree / "results")
    return tree
