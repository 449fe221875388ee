"""The auditor's commands: verify, regenerate, compare, describe; and the author's signing key."""

import json
import re
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from halfulp import determinism
from halfulp.cli_base import OutputOption, ProjectOption, RunFolder, app, one_line
from halfulp.errors import InputError


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
    from halfulp.verification.findings import EXIT, overall, printable
    from halfulp.verification.survey import check_paper, survey
    from halfulp.verification.verify import verify_run

    auditor = _auditor(project, key or [], expect, token, authority)
    found = survey(folder)
    if len(found.runs) > 1 and (expect or token):
        raise InputError(f"{folder}: holds {len(found.runs)} runs; --expect and --token are for one: give its folder")
    reports = []
    for run in found.runs:
        reports.append(verify_run(run, auditor))
        if not as_json:
            typer.echo("\n".join([*reports[-1].lines(), ""]))
    with tempfile.TemporaryDirectory(prefix="halfulp-verify-") as scratch:
        wrong = check_paper(found, Path(scratch))
    verdict = overall(reports, tampered=wrong, incomplete=found.problems)
    not_proved = list(dict.fromkeys(line for report in reports for line in report.not_proved))
    if as_json:
        content = {
            "schema": "halfulp.verification/1",
            "verdict": verdict,
            "exit_code": EXIT[verdict],
            "runs": [report.as_record() for report in reports],
            "between": {"tampered": wrong, "incomplete": found.problems, "not_read": found.beside},
        }
        typer.echo(json.dumps(content, indent=2))
    else:
        for word, lines in (("tampered", wrong), ("incomplete", found.problems), ("not read", found.beside)):
            for line in lines:
                typer.echo(f"{word}: {printable(line)}")
        typer.echo("not proved:")
        for line in not_proved:
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
    for path in (token, authority):
        if path is not None and not path.is_file():
            raise InputError(f"{path}: no such file; give a token and the certificates of its authority")
    trusted = {str(path): load_public(path.read_bytes(), str(path)) for path in keys}
    return Auditor(project, trusted, expect, token, authority)


@app.command()
@one_line
def tables(
    folder: RunFolder,
    output: OutputOption,
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
    output: OutputOption,
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
    tolerance: Annotated[float | None, typer.Option(help="Instead of the registered one, relative.", min=0.0)] = None,
    project: ProjectOption = Path("."),
) -> None:
    """Set two runs of one registration side by side, say of two machines: 0 within the tolerance, 1 beyond it."""
    determinism.pin()
    from halfulp.verification.compare import compare as compare_runs

    found = compare_runs(first, second, project, tolerance)
    for difference in found.differences:
        mark = "within" if difference.within else "BEYOND"
        typer.echo(f"{mark}  {difference.what}: {difference.first!r} | {difference.second!r}")
    typer.echo(f"tables: {found.equal_bytes} equal byte for byte, {found.equal_contents} in contents")
    which = "registered tolerance" if tolerance is None else "tolerance"
    typer.echo(f"comparison: {'within' if found.within else 'beyond'} the {which} of {found.tolerance:g}")
    raise typer.Exit(0 if found.within else 1)


@app.command()
@one_line
def publish(
    folder: RunFolder,
    target: Annotated[Path, typer.Argument(help="Where to, e.g. results/published/desk/audit; must not be there yet.")],
    project: ProjectOption = Path("."),
) -> None:
    """Verify a run and copy its evidence: no logs, no timings, no keys."""
    determinism.pin()
    from halfulp.verification.regenerate import publish as copy_run

    typer.echo(f"{target}: {copy_run(folder, target, project)} files")


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
