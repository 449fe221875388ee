"""Claim: what the project says of itself in several places agrees: pins, tree, command line, schema, examples."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from halfulp import __version__, determinism
from halfulp.cli import app
from halfulp.registration.document import describe
from halfulp.studies.catalogue import STUDIES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "halfulp"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MODULES = sorted(PACKAGE.rglob("*.py"))

#: A layer may import those after it and itself; the modules without a layer are for all.
LAYERS = [
    {"cli", "cli_base", "cli_runs", "cli_verify", "terminal", "__main__"},
    {"verification"},
    {"studies"},
    {"report"},
    {"training", "audit", "registration"},
    {"numerics"},
]
FREE = {"errors", "strict", "determinism", "__init__", ""}


def test_conda_and_pip_pins_agree() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert pip == PROJECT["dependencies"]
    pins = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)


def test_version_is_stated_once_and_matches_the_changelog() -> None:
    assert PROJECT["version"] == __version__
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text("utf-8")


def layer_of(module: str) -> int | None:
    name = module.removeprefix("halfulp").lstrip(".").split(".")[0]
    if name in FREE:
        return None
    return next(index for index, layer in enumerate(LAYERS) if name in layer)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_run_one_way(path: Path) -> None:
    own = layer_of(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("halfulp"):
            imported = layer_of(node.module)
            if own is not None and imported is not None:
                assert imported >= own, f"{path.name} imports {node.module}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_modules_stay_short(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 340


def command_line_help() -> str:
    runner = CliRunner()
    environment = {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}
    commands = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    sections = []
    for arguments in [[], *([name] for name in commands)]:
        shown = runner.invoke(app, [*arguments, "--help"], env=environment, prog_name="halfulp")
        assert shown.exit_code == 0
        title = " ".join(["halfulp", *arguments])
        text = "\n".join(line.rstrip() for line in shown.output.strip().splitlines())
        sections.append(f"## `{title}`\n\n```text\n{text}\n```\n")
    return "# Command line\n\n" + "\n".join(sections)


def test_documented_command_line_is_the_real_one() -> None:
    """To renew the page: python -m tests.unit.test_project."""
    assert (ROOT / "docs/cli.md").read_text("utf-8") == command_line_help()


def registration_page() -> str:
    intro = (
        "# Registration fields\n\nA registration is `preregistration/SCALE/STUDY.yaml`. Every field is required but "
        "`reproduction_tolerance`;\nunknown fields are refused, and so is YAML that two readers could read "
        "differently. This page is `halfulp schema STUDY`.\n"
    )
    return intro + "".join(f"\n## {name}\n\n{describe(schema)}" for name, schema in STUDIES.items())


def test_documented_fields_are_the_schemas() -> None:
    assert (ROOT / "docs/registration.md").read_text("utf-8") == registration_page()


@pytest.mark.parametrize("page", ["docs/own-loop.md"])
def test_examples_in_the_documentation_run(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    assert blocks
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)


def test_links_between_documents_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md"))]
    for page in pages:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_pins_refuse_to_come_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert torch.__name__ in sys.modules
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    with pytest.raises(RuntimeError, match="before its environment was pinned"):
        determinism.pin()


if __name__ == "__main__":
    (ROOT / "docs/cli.md").write_text(command_line_help(), encoding="utf-8")
    (ROOT / "docs/registration.md").write_text(registration_page(), encoding="utf-8")
