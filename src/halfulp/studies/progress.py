"""How far runs are: training steps done and to do, and an estimate of the time left."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfulp.studies import catalogue
from halfulp.studies.audit_registration import AuditRegistration

#: Files that mark the stages of a study, latest first.
STAGES = (
    ("scores.json", "report"),
    ("opened.json", "matched references"),
    ("seal.json", "unseen targets"),
    ("receipts/forecast.json", "measurement"),
)


@dataclass(frozen=True)
class Progress:
    """A snapshot of one run, or of several."""

    #: Training steps done, over all jobs.
    done: int
    #: Training steps in all.
    total: int
    #: Training jobs finished, and in all.
    finished: int
    jobs: int
    #: The stage that has been reached.
    stage: str

    def state(self) -> str:
        """Return stage, jobs, steps and share in one line."""
        share = self.done / self.total if self.total else 1.0
        return f"{self.stage}: {self.finished}/{self.jobs} training jobs, step {self.done}/{self.total} ({share:.0%})"

    def line(self, elapsed: float, begun: int) -> str:
        """Return :meth:`state` with the time left.

        Args:
            elapsed: seconds since this process began to watch.
            begun: steps that were done by then.
        """
        gained = self.done - begun
        left = elapsed * (self.total - self.done) / gained if gained > 0 else None
        estimate = "estimating" if left is None else f"about {_duration(left)} left"
        return f"{self.state()}, {_duration(elapsed)} elapsed, {estimate}"


def snapshot(registration: Any, run: Path) -> Progress:
    """Read the progress files of a run's training jobs."""
    if isinstance(registration, AuditRegistration):
        seeds = registration.seeds
        steps = [registration.training.steps] * (1 + 2 * len(seeds.historical) + 2 * len(seeds.targets))
    elif registration.study in catalogue.WRITE_BACK:
        cells = catalogue.write_back_study(registration.study).cells(registration)
        steps = [len(runs) * registration.training.steps for runs in cells.values()]
    else:
        steps = list(catalogue.mechanism(registration.study).workload(registration))
    first = "training" if registration.study in catalogue.WRITE_BACK else "references"
    done = finished = 0
    for path in sorted((run / "progress").glob("*.json")):
        try:
            record = json.loads(path.read_bytes())
            step, of = int(record["step"]), int(record["steps"])
        except (ValueError, KeyError, OSError):
            continue  # being replaced at this moment
        done += step
        finished += step == of
    stage = next((name for file, name in STAGES if (run / file).exists()), first)
    return Progress(done, sum(steps), finished, len(steps), f"{run.name}, {stage}")


def together(runs: list[Progress]) -> Progress:
    """Add several runs up; the stage is that of the first that is not finished."""
    unfinished = next((p for p in runs if p.done < p.total), runs[-1])
    return Progress(
        done=sum(p.done for p in runs),
        total=sum(p.total for p in runs),
        finished=sum(p.finished for p in runs),
        jobs=sum(p.jobs for p in runs),
        stage=unfinished.stage,
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
