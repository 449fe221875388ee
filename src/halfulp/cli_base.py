"""What all commands share: the application, options, and errors in one line."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer

from halfulp.errors import HalfulpError

#: What reading a folder that anybody may have filled can raise, past all checks.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)

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
        except UNREADABLE as error:
            if os.environ.get("HALFULP_DEBUG"):
                raise
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            message = f"a file holds what it should not ({reason}); `halfulp verify` says which, HALFULP_DEBUG=1 where"
            typer.echo(f"halfulp: error: {message}", err=True)
            raise typer.Exit(2) from None

    return wrapped
