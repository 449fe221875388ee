"""The command line. Library code raises; only the commands print errors and choose exit codes."""

import os
from typing import Annotated

import typer

from halfulp import __version__, cli_runs, cli_verify
from halfulp.cli_base import app

__all__ = ["app", "cli_runs", "cli_verify", "main"]


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
