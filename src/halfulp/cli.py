"""The command line. Library code raises; only this module prints errors and chooses exit codes."""

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from halfulp import __version__, determinism
from halfulp.errors import HalfulpError, InputError
from halfulp.terminal import show_run, watch

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
ScaleOption = Annotated[str, typer.Option(help="Folder of registrations: smoke, desk, paper or gpt2.")]
StudyOption = Annotated[str, typer.Option(help="Studies, separated by commas, or `all` that the scale registers.")]
ResultsOption = Annotated[Path, typer.Option(help="Folder for results; a new run is a new folder.")]
OutputOption = Annotated[Path, typer.Option(help="Folder to write to.")]
ProjectOption = Annotated[Path, typer.Option(help="The project's folder, with registrations and code.")]
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
        except OSError as error:
            typer.echo(f"halfulp: error: {error.filename}: {error.strerror}; give a path that can be used", err=True)
            raise typer.Exit(2) from None

    return wrapped


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
@one_line
def verify(
    folder: Annotated[Path, typer.Argument(help="A run's folder, or one that holds several, e.g. results/published.")],
    project: ProjectOption = Path("."),
    key: Annotated[list[Path] | None, typer.Option(help="A public key that you trust; may be given again.")] = None,
    expect: Annotated[str | None, typer.Option(help="SHA-256 of the frozen file, as you kept it elsewhere.")] = None,
    token: Annotated[Path | None, typer.Option(help="RFC 3161 token for the frozen file.")] = None,
    authority: Annotated[Path | None, typer.Option(help="Certificates of the token's authority, PEM.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys instead of text.")] = False,
) -> None:
    """Verify published runs without training anything: exit code 0 verified, 3 tampered, 4 incomplete, 2 usage."""
    determinism.pin()
    from halfulp.verification.findings import EXIT, overall
    from halfulp.verification.verify import find_runs, verify_run

    auditor = _auditor(project, key or [], expect, token, authority)
    runs = find_runs(folder)
    if len(runs) > 1 and (expect or token):
        raise InputError(f"{folder}: holds {len(runs)} runs; --expect and --token are for one: give its folder")
    reports = []
    for run in runs:
        reports.append(verify_run(run, auditor))
        if not as_json:
            typer.echo("\n".join([*reports[-1].lines(), ""]))
    verdict = overall(reports)
    if as_json:
        content = {"schema": "halfulp.verification/1", "verdict": verdict, "exit_code": EXIT[verdict]}
        typer.echo(json.dumps({**content, "runs": [report.as_record() for report in reports]}, indent=2))
    else:
        typer.echo("not proved:")
        for line in dict.fromkeys(line for report in reports for line in report.not_proved):
            typer.echo(f"  - {line}")
        good = sum(report.verdict == "verified" for report in reports)
        typer.echo(f"verdict: {verdict} ({good} of {len(reports)} runs verified)")
    raise typer.Exit(EXIT[verdict])


def _auditor(project: Path, keys: list[Path], expect: str | None, token: Path | None, authority: Path | None) -> Any:
    from halfulp.registration.attestation import load_public
    from halfulp.verification.case import Auditor

    if not (project / "preregistration").is_dir():
        raise InputError(f"{project}: has no preregistration folder; run this in the project, or give --project")
    if expect is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", expect):
        raise InputError(f"--expect {expect}: not a SHA-256; give 64 hexadecimal digits")
    trusted = {path.name: load_public(path.read_text("utf-8"), str(path)) for path in keys}
    return Auditor(project, trusted, expect, token, authority)


@app.command()
@one_line
def tables(
    folder: RunFolder,
    output: Annotated[Path, typer.Option(help="Folder to write to.")],
    project: ProjectOption = Path("."),
) -> None:
    """Regenerate a run's tables from its published counts, scores first, into another folder."""
    determinism.pin()
    from halfulp.verification.regenerate import regenerate

    for path in regenerate(folder, output, project, figures=False):
        typer.echo(str(path))


@app.command()
@one_line
def report(
    folder: RunFolder,
    output: Annotated[Path, typer.Option(help="Folder to write to.")],
    project: ProjectOption = Path("."),
) -> None:
    """Regenerate a run's tables and figures from its published counts, and put them on one page, report.md."""
    determinism.pin()
    from halfulp.verification.regenerate import page, regenerate

    files = regenerate(folder, output, project, figures=True)
    for path in [*files, page(folder, output, files)]:
        typer.echo(str(path))


@app.command()
@one_line
def compare(
    first: RunFolder,
    second: RunFolder,
    tolerance: Annotated[float, typer.Option(help="Relative difference of a score that is let pass.", min=0.0)] = 1e-6,
) -> None:
    """Set two runs of one registration side by side, say of two machines: 0 within the tolerance, 1 beyond it."""
    determinism.pin()
    from halfulp.verification.compare import compare as compare_runs

    found = compare_runs(first, second, tolerance)
    for difference in found.differences:
        mark = "within" if difference.within else "BEYOND"
        typer.echo(f"{mark}  {difference.what}: {difference.first!r} | {difference.second!r}")
    typer.echo(f"tables: {found.equal_bytes} equal byte for byte, {found.equal_contents} in contents")
    typer.echo(f"comparison: {'within' if found.within else 'beyond'} the tolerance of {tolerance:g}")
    raise typer.Exit(0 if found.within else 1)


@app.command()
@one_line
def export(folder: RunFolder, project: ProjectOption = Path(".")) -> None:
    """Describe a run for other tools: its gates as PRML manifests, its files as an RO-Crate with their digests."""
    from halfulp.verification.export import write_crate, write_manifests

    for path in [*write_manifests(folder, project), write_crate(folder, project)]:
        typer.echo(str(path))


@app.command()
@one_line
def keygen(path: Annotated[Path, typer.Argument(help="File for the private key, outside the project.")]) -> None:
    """Make a signing key; receipts are signed with the one whose path stands in HALFULP_SIGNING_KEY."""
    from halfulp.registration.attestation import AUTHOR_KEY, make_key

    typer.echo(f"{make_key(path)}: give this to auditors; keep {path} to yourself, and export {AUTHOR_KEY}={path}")


@app.command()
@one_line
def receipt(
    path: Annotated[Path, typer.Argument(help="A receipt, e.g. results/desk/audit/receipts/score.json.")],
) -> None:
    """Print a receipt's statement, which its envelope holds in base64; signatures are for `halfulp verify`."""
    from halfulp.registration.attestation import read_statement
    from halfulp.registration.digests import canonical_json

    typer.echo(canonical_json(read_statement(path, []).statement), nl=False)


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


def main() -> None:
    """Entry point."""
    app()
