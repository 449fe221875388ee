"""One job of the workflow: what it is given, and where it reports how far it is.

Paths are relative to the working directory, so that a rule in a shadow directory sees its declared inputs and no more.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfulp.registration.digests import write_json
from halfulp.registration.receipts import job_name

#: Seconds between updates of a job's progress file.
PROGRESS_SECONDS = 0.5


@dataclass(frozen=True)
class Workspace:
    """Where a job reports progress and keeps checkpoints."""

    #: Called with the number of training steps done in the job, and a log line.
    report: Callable[[int, str], None]
    #: Folder of checkpoints.
    checkpoints: Path

    def counted(self, done: int, cell: str) -> Callable[[int, str], None]:
        """Return a reporter for one of several runs: ``done`` steps came before it."""
        return lambda step, line: self.report(done + step, f"{cell}: {line}")


@dataclass(frozen=True)
class Task:
    """One job: its registration, its run's folder, and its declared files."""

    rule: str
    #: The registration's file.
    path: Path
    #: The registration; its class is the study's.
    registration: Any
    #: The run's folder.
    run: Path
    wildcards: dict[str, str]
    inputs: list[Path]
    #: Declared outputs that have names.
    outputs: dict[str, Path]

    @property
    def seed(self) -> int | None:
        """The job's seed, if it is one of training."""
        return int(self.wildcards["seed"]) if "seed" in self.wildcards else None

    @property
    def name(self) -> str:
        """Name of the job in receipts, attempts, progress and checkpoints."""
        return job_name(self.rule, self.wildcards)

    def reporter(self, steps: int) -> Callable[[int, str], None]:
        """Return a function that logs a line and keeps the job's progress file."""
        path, written = self.run / "progress" / f"{self.name}.json", 0.0

        def report(step: int, line: str) -> None:
            nonlocal written
            print(line, flush=True)
            if step == steps or time.monotonic() - written > PROGRESS_SECONDS:
                write_json(path, {"step": step, "steps": steps})
                written = time.monotonic()

        return report

    def workspace(self, steps: int) -> Workspace:
        """Return where a job of so many training steps reports progress and keeps checkpoints."""
        return Workspace(self.reporter(steps), self.run / "checkpoints" / self.name)
