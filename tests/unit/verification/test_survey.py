"""Claim: no run and no evidence in a folder is passed over in silence."""

import shutil
from pathlib import Path

import pytest

from halfulp.errors import InputError
from halfulp.verification.survey import check_paper, survey

ROOT = Path(__file__).parents[3]
DESK = ROOT / "results/published/desk"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A scale's folder with two runs and the table made of theirs."""
    for study in ("grid", "features"):
        shutil.copytree(DESK / study, tmp_path / "desk" / study)
    return tmp_path / "desk"


def test_runs_are_found_at_any_depth(folder: Path) -> None:
    found = survey(folder.parent)
    assert [run.name for run in found.runs] == ["features", "grid"]
    assert (found.problems, found.beside) == ([], [])
    assert survey(folder / "grid").runs == [folder / "grid"]


def test_links_and_evidence_without_a_run_are_problems(folder: Path) -> None:
    (folder / "linked").symlink_to(folder / "grid")
    for mark in ("frozen.json", "run.json", "scores.json"):
        (folder / "features" / mark).unlink()
    shutil.rmtree(folder / "features/receipts")
    problems = survey(folder).problems
    assert any("linked: a symbolic link" in problem for problem in problems)
    assert any("features/measured/cells.parquet: evidence that belongs to no run" in problem for problem in problems)


def test_a_very_deep_folder_is_walked(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*(["d"] * 300))
    deep.mkdir(parents=True)
    with pytest.raises(InputError, match="holds no run"):
        survey(tmp_path)


def test_the_table_beside_the_paper_has_to_be_that_of_its_runs(tmp_path: Path) -> None:
    shutil.copytree(DESK, tmp_path / "desk", ignore=shutil.ignore_patterns("*.parquet", "*.safetensors", "figures"))
    found = survey(tmp_path)
    (tmp_path / "scratch").mkdir()
    assert check_paper(found, tmp_path / "scratch") == []
    assert found.beside == []
    text = (tmp_path / "desk/paper.md").read_text("utf-8")
    (tmp_path / "desk/paper.md").write_text(text.replace("48/48", "49/48"), "utf-8")
    (wrong,) = check_paper(survey(tmp_path), tmp_path / "scratch")
    assert wrong.startswith(str(tmp_path / "desk/paper.md"))
