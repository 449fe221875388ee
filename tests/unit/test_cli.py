"""Claim: whatever a person gives the command line, a problem is one line on standard error and exit code 2."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from halfulp import __version__
from halfulp.cli import app

ROOT = Path(__file__).parents[2]
SMOKE = "preregistration/smoke/audit.yaml"


@pytest.fixture(autouse=True)
def _in_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "absent.yaml"), "study 'absent' is not known"),
        (("check", "preregistration/smoke/nonsense.yaml"), "study 'nonsense' is not known"),
        (("run", "--scale", "absent"), "scale absent registers nothing"),
        (("run", "--scale", "smoke", "--study", "absent"), "--study absent: scale smoke registers audit, grid"),
        (("run", "--scale", "smoke", "--results", "README.md/x"), "README.md/x"),
        (("show", "--scale", "smoke", "--results", "absent"), "incomplete, there is no scores.json"),
        (("status", "absent"), "frozen.json: missing"),
        (("paper", "--scale", "smoke", "--results", "absent"), "no study is finished; run one first"),
        (("schema", "absent"), "study 'absent' is not known"),
    ],
)
def test_problems_are_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    code, _, errors = run(*arguments)
    assert code == 2
    assert len(errors.splitlines()) == 1
    assert errors.startswith("halfulp: error: ")
    assert message in errors


@pytest.mark.parametrize("content", ["[]", "{}", "nonsense", '{"schema": "halfulp.other/1"}', "[" * 5000])
def test_damaged_records_are_one_line_too(content: str, tmp_path: Path) -> None:
    folder = tmp_path / "smoke" / "audit"
    folder.mkdir(parents=True)
    for name in ("scores.json", "run.json", "frozen.json"):
        (folder / name).write_text(content)
    for arguments in (("show", "--scale", "smoke", "--results", str(tmp_path)), ("status", str(folder))):
        code, _, errors = run(*arguments)
        assert code == 2
        assert len(errors.splitlines()) == 1


def test_good_input_is_accepted() -> None:
    """Control for the refusals."""
    code, output, _ = run("check", SMOKE)
    assert code == 0
    assert "valid, 4 gates; a run now would be unregistered" in output
    assert run("--version")[1].strip() == __version__
    assert "e4m3: 4 exponent and 3 mantissa bits, largest 448" in run("formats")[1]
