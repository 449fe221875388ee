"""The command line. Library code raises; only this module prints errors and chooses exit codes."""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from halfulp import __version__, determinism
from halfulp.errors import HalfulpError, InputError

P = ParamSpec("P")
R = TypeVar("R")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Audit low-precision write-back: which updates are erased, and could that have been forecast?",
)

RegistrationPath = Annotated[Path, typer.Argument(help="A registration, e.g. preregistration/desk/audit.yaml.")]
RunFolder = Annotated[Path, typer.Argument(help="A run's folder, e.g. results/desk/audit.")]
ScaleOption = Annotated[str, typer.Option(help="Folder of registrations: smoke, desk or paper.")]
ResultsOption = Annotated[Path, typer.Option(help="Folder for results; a new run is a new folder.")]
CoresOption = Annotated[int, typer.Option(help="CPU cores to use.", min=1)]


def one_line(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the project's errors into one line on standard error and exit code 2."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except HalfulpError as error:
            typer.echo(f"halfulp: error: {error}", err=True)
            raise typer.Exit(2) from None

    return wrapped


@app.command()
@one_line
def check(registration: RegistrationPath) -> None:
    """Check a registration against its schema, without running anything."""
    from halfulp.registration.freeze import label_run
    from halfulp.studies.catalogue import load

    loaded = load(registration)
    labelled = label_run(registration, loaded)
    typer.echo(
        f"{registration}: valid, {len(loaded.gates)} gates; a run now would be {labelled.label}: {labelled.detail}"
    )


@app.command()
@one_line
def freeze(registration: RegistrationPath) -> None:
    """Write STUDY.frozen.json beside a registration; commit it to register the study. It is never rewritten."""
    from halfulp.registration.freeze import register
    from halfulp.studies.catalogue import load

    path, new = register(registration, load(registration))
    typer.echo(f"{path}: {'written; commit it to register the study' if new else 'already frozen, unchanged'}")


@app.command()
@one_line
def run(
    scale: ScaleOption = "desk",
    cores: CoresOption = 2,
    results: ResultsOption = Path("results"),
    arguments: Annotated[list[str] | None, typer.Argument(help="Further arguments for snakemake, after `--`.")] = None,
) -> None:
    """Run the audit with Snakemake, showing progress and an estimate; resume it if it was killed."""
    from halfulp.studies.audit import AuditRegistration
    from halfulp.studies.catalogue import load

    registration = load(Path("preregistration", scale, "audit.yaml"))
    assert isinstance(registration, AuditRegistration)
    folder = results / scale / "audit"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder}: another run is at work here; wait for it or use another --results") from None
        code = _watch(registration, folder, _snakemake(scale, cores, results, arguments or []))
    if code:
        raise typer.Exit(code)


def _snakemake(scale: str, cores: int, results: Path, further: list[str]) -> list[str]:
    # --nolock: the file lock above is released by the system when a run is killed; Snakemake's stays behind.
    command = [sys.executable, "-m", "snakemake", "--nolock", "--cores", str(cores), "--quiet", "rules", "progress"]
    return [*command, *further, "--config", f"scale={scale}", f"results={results}"]


def _watch(registration: Any, folder: Path, command: list[str]) -> int:
    """Run Snakemake with its output in a log; print progress; on failure print the end of the log."""
    from halfulp.studies.progress import snapshot

    console = Console(stderr=True, highlight=False)
    log = folder / "logs" / "snakemake.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    begun, started, printed = snapshot(registration, folder).done, time.monotonic(), ""
    with log.open("w") as output, console.status("starting") as status:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=False)
        last = 0.0
        while process.poll() is None:
            time.sleep(0.5)
            now = time.monotonic()
            line = snapshot(registration, folder).line(now - started, begun)
            status.update(line)
            if not console.is_terminal and now - last > 10 and line != printed:
                console.print(line, soft_wrap=True)
                last, printed = now, line
    if process.returncode:
        for line in log.read_text().splitlines()[-15:]:
            console.print(line, soft_wrap=True, markup=False)
        console.print(f"snakemake failed with {process.returncode}; its log is {log}", soft_wrap=True)
        return 2 if process.returncode > 0 else 128 - process.returncode
    return 0


@app.command()
@one_line
def status(folder: RunFolder) -> None:
    """Say how far a run is."""
    from halfulp.studies.audit import AuditRegistration
    from halfulp.studies.progress import snapshot

    registration = _registration_of(folder)
    assert isinstance(registration, AuditRegistration)
    typer.echo(snapshot(registration, folder).line(0.0, 0).split(", 0 s elapsed")[0])


@app.command()
@one_line
def show(folder: RunFolder) -> None:
    """Print a run's gates, the path of its figure, and its verdict."""
    from halfulp.registration.digests import read_json
    from halfulp.report.tables import number

    scores, identity = read_json(folder / "scores.json"), read_json(folder / "run.json")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    table = Table(title=f"{scores['study']}, scale {scores['scale']}: {identity['label']} run", title_justify="left")
    for column in ("gate", "score", "value", "must be", "outcome"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for gate in scores["gates"]:
        bound = f"{gate['comparator']} {number(gate['threshold'])}"
        table.add_row(gate["name"], gate["score"], number(gate["value"]), bound, gate["outcome"])
    console.print(table)
    console.print(f"label: {identity['label']} ({identity['label_detail']})", soft_wrap=True)
    console.print(f"tables: {folder / 'tables'}", soft_wrap=True)
    console.print(f"figure: {folder / 'figures' / 'curves.png'}", soft_wrap=True)
    passed = sum(gate["outcome"] == "pass" for gate in scores["gates"])
    console.print(f"verdict: {scores['verdict']} ({passed} of {len(scores['gates'])} gates pass)", soft_wrap=True)


@app.command()
@one_line
def pilot(
    registration: RegistrationPath,
    cores: CoresOption = 2,
    output: Annotated[Path | None, typer.Option(help="Also write every rotation's scores here, as JSON.")] = None,
) -> None:
    """Rehearse the audit on its pilot seeds; thresholds are chosen from this, and from nothing else."""
    determinism.pin()
    from halfulp.registration.digests import write_json
    from halfulp.studies.audit import SCORES, AuditRegistration
    from halfulp.studies.catalogue import load
    from halfulp.studies.pilot import rehearse

    loaded = load(registration)
    assert isinstance(loaded, AuditRegistration)
    records = rehearse(loaded, cores)
    if output is not None:
        write_json(output, records)
    for name in SCORES:
        typer.echo(f"{name}: {json.dumps([record['scores'][name] for record in records])}")


@app.command()
def formats() -> None:
    """List the storage grids that can be audited."""
    from halfulp.numerics import REGISTRY, FloatFormat

    for fmt in REGISTRY.values():
        if isinstance(fmt, FloatFormat):
            shape = f"{fmt.exponent_bits} exponent and {fmt.mantissa_bits} mantissa bits, largest {fmt.max_finite:g}"
            typer.echo(f"{fmt.name}: {shape}, native dtype {fmt.torch_dtype or 'none'}")
        else:
            typer.echo(f"{fmt.name}: codes -{fmt.max_code} to {fmt.max_code}, one frozen scale per output channel")


@app.command()
@one_line
def schema(study: Annotated[str, typer.Argument(help="A study, e.g. audit.")] = "audit") -> None:
    """Describe every field of a study's registration, as Markdown."""
    from halfulp.registration.document import describe
    from halfulp.studies.catalogue import STUDIES

    if study not in STUDIES:
        raise InputError(f"study {study!r} is not known; use one of {', '.join(STUDIES)}")
    typer.echo(describe(STUDIES[study]), nl=False)


def _version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


def _registration_of(folder: Path) -> Any:
    from halfulp.registration.digests import read_json
    from halfulp.studies.catalogue import load

    frozen = read_json(folder / "frozen.json")
    return load(Path(frozen["registration"]["path"]))


def main() -> None:
    """Entry point."""
    app()
