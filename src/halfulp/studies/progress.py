"""How far a run is: training steps done and to do, and an estimate of the time left."""

import json
from dataclasses import dataclass
from pathlib import Path

from halfulp.studies.audit import AuditRegistration

#: Seconds that the rules without training take, all together, as a share of training; only the estimate uses it.
OVERHEAD_STEPS = 0.03


@dataclass(frozen=True)
class Progress:
    """A snapshot of a run."""

    #: Training steps done, over all runs.
    done: int
    #: Training steps in all.
    total: int
    #: Training runs finished, and in all.
    finished: int
    runs: int
    #: The stage that the run has reached.
    stage: str

    def line(self, elapsed: float, begun: int) -> str:
        """Return one line: stage, runs, steps, share, and the time left.

        Args:
            elapsed: seconds since this process began to watch.
            begun: steps that were done by then.
        """
        share = self.done / self.total if self.total else 1.0
        gained = self.done - begun
        left = elapsed * (self.total * (1 + OVERHEAD_STEPS) - self.done) / gained if gained > 0 else None
        estimate = "estimating" if left is None else f"about {_duration(left)} left"
        return (
            f"{self.stage}: {self.finished}/{self.runs} runs, step {self.done}/{self.total} ({share:.0%}), "
            f"{_duration(elapsed)} elapsed, {estimate}"
        )


def snapshot(registration: AuditRegistration, run: Path) -> Progress:
    """Read the progress files of a run's training jobs."""
    seeds, steps = registration.seeds, registration.training.steps
    runs = 1 + 2 * len(seeds.historical) + 2 * len(seeds.targets)
    done = finished = 0
    for path in sorted((run / "progress").glob("*.json")):
        try:
            step = int(json.loads(path.read_bytes())["step"])
        except (ValueError, KeyError, OSError):
            continue  # being replaced at this moment
        done += step
        finished += step == steps
    stages = (("scores.json", "report"), ("opened.json", "matched references"), ("seal.json", "unseen targets"))
    stage = next((name for file, name in stages if (run / file).exists()), "references and historical targets")
    return Progress(done, runs * steps, finished, runs, stage)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
