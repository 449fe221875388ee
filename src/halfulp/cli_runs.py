"""The commands that register, run and show studies."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from halfulp import determinism
from halfulp.cli_base import (
    CoresOption,
    RegistrationPath,
    ResultsOption,
    RunFolder,
    ScaleOption,
    StudyOption,
    app,
    one_line,
)
from halfulp.errors import InputError
from halfulp.terminal import show_run, watch


@app.command()
@one_line
def check(registration: RegistrationPath) -> None:
    """Check a registration against its schema, without running anything."""
    from halfulp.registration.freeze import label_run
    from halfulp.studies.catalogue import load
    from halfulp.training.models import check_training

    loaded = load(registration)
    check_training(loaded)
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
    from halfulp.training.models import check_training

    loaded = load(registration)
    check_training(loaded)
    path, new = register(registration, loaded)
    typer.echo(f"{path}: {'written; commit it to register the study' if new else 'already frozen, unchanged'}")


@app.command()
@one_line
def run(
    scale: ScaleOption = "desk",
    study: StudyOption = "audit",
    cores: CoresOption = 2,
    results: ResultsOption = Path("results"),
    arguments: Annotated[list[str] | None, typer.Argument(help="Further arguments for snakemake, after `--`.")] = None,
) -> None:
    """Run studies with Snakemake, showing progress and an estimate; go on where a killed run was."""
    names = _named(scale, study)
    base = results / scale
    base.mkdir(parents=True, exist_ok=True)
    with (base / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{base}: another run is at work here; wait for it or use another --results") from None
        quiet = ("--quiet", "rules", "progress", "--cores", str(cores))
        command = _snakemake(scale, names, results, *quiet, *(arguments or []))
        code = watch(command, [(_load(scale, name), base / name) for name in names], base, lock.fileno())
    if code:
        raise typer.Exit(code)


def _load(scale: str, name: str) -> Any:
    from halfulp.studies.catalogue import load

    return load(Path("preregistration", scale, f"{name}.yaml"))


def _named(scale: str, study: str) -> list[str]:
    """Return the latest registrations of the studies asked for."""
    from halfulp.registration.document import study_of
    from halfulp.studies.catalogue import registered

    known = registered(Path("preregistration", scale))
    asked = set(study.split(","))
    names = [name for name in known if {"all", name, study_of(name)} & asked]
    if not names:
        raise InputError(f"--study {study}: scale {scale} registers {', '.join(known) or 'nothing'}; choose of these")
    return names


def _snakemake(scale: str, names: list[str], results: Path, *arguments: str) -> list[str]:
    """Return a Snakemake command line for some studies of a scale."""
    # --nolock: the system releases the file lock of `run` when it ends, however it ends; Snakemake's own would stay.
    settings = [f"scale={scale}", f"results={results}", f"study={','.join(names)}"]
    return [sys.executable, "-m", "snakemake", "--nolock", *arguments, "--config", *settings]


@app.command()
@one_line
def status(folder: RunFolder) -> None:
    """Say how far a run is."""
    from halfulp.registration.digests import read_record
    from halfulp.registration.freeze import FROZEN_SCHEMA
    from halfulp.studies.catalogue import load
    from halfulp.studies.progress import snapshot

    frozen = read_record(folder / "frozen.json", FROZEN_SCHEMA)
    typer.echo(snapshot(load(Path(frozen["registration"]["path"])), folder).state())


@app.command()
@one_line
def show(scale: ScaleOption = "desk", study: StudyOption = "audit", results: ResultsOption = Path("results")) -> None:
    """Print the gates of finished studies, the paths of their figures, and their verdicts."""
    for name in _named(scale, study):
        show_run(results / scale / name)


@app.command()
@one_line
def html(scale: ScaleOption = "desk", study: StudyOption = "audit", results: ResultsOption = Path("results")) -> None:
    """Make Snakemake's HTML report of finished studies: tables and figures with their captions."""
    names, page = _named(scale, study), results / scale / "report.html"
    command = _snakemake(scale, names, results, "--quiet", "all", "--report", str(page))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(
            f"{page}: snakemake could not make it: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}"
        )
    typer.echo(f"report: {page}")


@app.command()
@one_line
def paper(scale: ScaleOption = "desk", results: ResultsOption = Path("results")) -> None:
    """Put the tables beside the paper of every finished study of a scale into one."""
    from halfulp.report.tables import combine

    parts = [results / scale / name / "tables" / "paper.csv" for name in _named(scale, "all")]
    finished = [part for part in parts if part.is_file()]
    if not finished:
        raise InputError(f"{results / scale}: no study is finished; run one first")
    combine(finished, scale, results / scale / "paper")
    typer.echo((results / scale / "paper.md").read_text("utf-8"))


@app.command()
@one_line
def pilot(
    registration: RegistrationPath,
    cores: CoresOption = 2,
    output: Annotated[Path | None, typer.Option(help="Also write everything that was scored here, as JSON.")] = None,
) -> None:
    """Rehearse the audit or a write-back study on its pilot seeds; thresholds are chosen from this alone."""
    determinism.pin()
    from halfulp.registration.digests import write_json
    from halfulp.studies.audit_registration import SCORES, AuditRegistration
    from halfulp.studies.catalogue import load
    from halfulp.studies.pilot import rehearse, rehearse_write_back
    from halfulp.studies.writeback import WriteBackRegistration

    loaded = load(registration)
    if isinstance(loaded, AuditRegistration):
        records = rehearse(loaded, cores)
        scores = {name: [record["scores"][name] for record in records] for name in SCORES}
    elif isinstance(loaded, WriteBackRegistration):
        records = [rehearse_write_back(loaded, cores)]
        scores = records[0]["scores"]
    else:
        raise InputError(f"{registration}: study {loaded.study} has no rehearsal; give an audit or a write-back study")
    if output is not None:
        write_json(output, records)
    for name, value in scores.items():
        typer.echo(f"{name}: {json.dumps(value)}")


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
