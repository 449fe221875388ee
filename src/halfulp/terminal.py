"""What people see: progress while Snakemake runs, and the verdict of a run."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

#: Seconds between lines of progress where there is no terminal to redraw.
LINE_SECONDS = 10.0
SCORES_SCHEMAS = ("halfulp.scores/1", "halfulp.mechanism/1", "halfulp.writeback/1")


def watch(command: list[str], runs: list[tuple[Any, Path]], base: Path, lock: int) -> int:
    """Run Snakemake with its output in a log; print progress; on failure print the end of the log.

    Args:
        command: Snakemake's command line.
        runs: (registration, folder) of every study.
        base: folder for the log.
        lock: descriptor of the lock that Snakemake inherits, so that it holds as long as Snakemake lives.

    Returns:
        0, or 2 if Snakemake failed, or 128 and the number of the signal that ended it.
    """
    from halfulp.studies.progress import snapshot, together

    def state() -> Any:
        return together([snapshot(registration, folder) for registration, folder in runs])

    console = Console(stderr=True, highlight=False)
    log = base / "snakemake.log"
    begun, started, printed, last = state().done, time.monotonic(), "", 0.0
    with log.open("w") as output, console.status("starting") as status:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, pass_fds=(lock,))
        previous = signal.signal(signal.SIGTERM, _interrupted)
        try:
            while process.poll() is None:
                time.sleep(0.5)
                now = time.monotonic()
                line = state().line(now - started, begun)
                status.update(line)
                if not console.is_terminal and now - last > LINE_SECONDS and line != printed:
                    console.print(line, soft_wrap=True)
                    last, printed = now, line
        finally:
            signal.signal(signal.SIGTERM, previous)
            if process.poll() is None:  # we were told to stop: so is Snakemake, and its jobs with it
                process.terminate()
                process.wait()
    if process.returncode:
        for line in log.read_text().splitlines()[-15:]:
            console.print(line, soft_wrap=True, markup=False)
        console.print(f"snakemake failed with {process.returncode}; its log is {log}", soft_wrap=True)
        return 2 if process.returncode > 0 else 128 - process.returncode
    return 0


def _interrupted(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def show_run(folder: Path) -> None:
    """Print a run's gates, the path of its figure, and, as the last line, its verdict."""
    from halfulp.errors import IncompleteError, InputError
    from halfulp.registration.digests import read_json, read_record
    from halfulp.registration.receipts import RUN_SCHEMA
    from halfulp.report.number import number

    if not (folder / "scores.json").is_file():
        raise IncompleteError(f"{folder}: incomplete, there is no scores.json; run it to its end: no number is shown")
    scores, identity = read_json(folder / "scores.json"), read_record(folder / "run.json", RUN_SCHEMA)
    if not isinstance(scores, dict) or scores.get("schema") not in SCORES_SCHEMAS:
        raise InputError(f"{folder / 'scores.json'}: not a record of scores; restore it or start a new results folder")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    title = f"{folder.name}, scale {scores['scale']}: {identity['label']} run"
    table = Table(title=title, title_justify="left")
    for column in ("gate", "score", "value", "must be", "outcome"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for gate in scores["gates"]:
        bound = f"{gate['comparator']} {number(gate['threshold'])}"
        table.add_row(gate["name"], gate["score"], number(gate["value"]), bound, gate["outcome"])
    console.print(table)
    console.print(f"label: {identity['label']} ({identity['label_detail']})", soft_wrap=True)
    console.print(f"tables: {folder / 'tables'}", soft_wrap=True)
    for figure in sorted((folder / "figures").glob("*.png")):
        console.print(f"figure: {figure}", soft_wrap=True)
    passed = sum(gate["outcome"] == "pass" for gate in scores["gates"])
    reason = scores.get("inconclusive") or f"{passed} of {len(scores['gates'])} gates pass"
    verdict = f"verdict: {scores['verdict']} ({reason})"
    console.print(verdict, soft_wrap=True)
