"""Claim: registered write-back studies have results; with a cell made by hand or a bad checkpoint they have none."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from halfulp.registration.receipts import read_receipt
from tests.integration.conftest import ROOT, copy_tree, halfulp

STUDIES = ("decoders", "study1", "study2", "study3")
PAGE = ROOT / "docs/study1-scenario.md"


def shell(script: str, tree: Path) -> subprocess.CompletedProcess[str]:
    """Run a block of the documentation in the tree, with its own package and this environment's programs."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    identity = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    own = {"PYTHONPATH": str(tree / "src"), "PATH": programs, "COLUMNS": "200", "NO_COLOR": "1", **identity}
    return subprocess.run(
        ["bash", "-euc", script],
        cwd=tree,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in a repository of its own, in which the studies are registered at smoke scale and run."""
    tree = copy_tree(tmp_path_factory.mktemp("writeback") / "tree")
    freeze = "\n".join(f"halfulp freeze preregistration/smoke/{study}.yaml" for study in STUDIES)
    done = shell(f"git init -q . && {freeze} && git add -A && git commit -qm register", tree)
    assert done.returncode == 0, done.stderr
    done = halfulp("run", "--scale", "smoke", "--study", ",".join(STUDIES), cwd=tree)
    assert done.returncode == 0, done.stderr
    return tree


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


@pytest.mark.parametrize("study", STUDIES)
def test_every_cell_of_a_registered_run_is_canonical(tree: Path, study: str) -> None:
    run = tree / "results/smoke" / study
    scores, identity = read(run / "scores.json"), read(run / "run.json")
    assert identity["label"] == "registered"
    assert all(row[1] for row in scores["cells"]["rows"])
    assert scores["verdict"] in ("pass", "fail")
    assert (run / "figures/results.pdf").stat().st_size > 1000
    assert f"| {study} " in (run / "tables/paper.md").read_text("utf-8")
    conclusion = read_receipt(run / "receipts/conclude.json", [])
    cells = {name for name in conclusion.inputs if "cell." in name}
    assert len(cells) == {"study1": 6, "study2": 3}.get(study, 1)


def test_runs_of_a_cell_share_a_process(tree: Path) -> None:
    """One receipt, one process, for all the runs of a cell."""
    run = tree / "results/smoke/decoders"
    (row,) = {tuple(row[:1]) for row in read(run / "scores.json")["cells"]["rows"]}
    assert row == ("seed21",)
    assert len(read(run / "cells/seed21/summary.json")["runs"]) == 7
    assert len(list((run / "receipts").glob("cell.*.json"))) == 1


@pytest.mark.parametrize("damage", ["corrupted", "missing"])
def test_study3_with_a_bad_checkpoint_is_incomplete_and_has_no_number(tree: Path, damage: str, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(tree / "results", results)
    run = results / "smoke/study3"
    for name in (
        "replay.json",
        "receipts/replay.json",
        "scores.json",
        "receipts/conclude.json",
        "receipts/tabulate.json",
    ):
        (run / name).unlink()
    shutil.rmtree(run / "tables")
    checkpoint = run / "cells/seed51/int3.nearest.step8.safetensors"
    if damage == "missing":
        checkpoint.unlink()
    else:
        content = bytearray(checkpoint.read_bytes())
        content[-1] ^= 1
        checkpoint.write_bytes(content)
    arguments = ("--scale", "smoke", "--study", "study3", "--results", str(results))
    done = halfulp("run", *arguments, cwd=tree)
    assert done.returncode == 2
    assert "int3.nearest.step8.safetensors" in done.stderr
    assert ("missing" if damage == "missing" else "differs from its receipt") in done.stderr
    assert not (run / "scores.json").exists()
    shown = halfulp("show", *arguments, cwd=tree)
    assert shown.returncode == 2
    assert "incomplete" in shown.stderr


def test_the_worked_scenario_goes_as_its_page_says(tree: Path) -> None:
    """The page's commands, one after the other; its output is theirs."""
    page = PAGE.read_text("utf-8")
    script = "\n".join(re.findall(r"```bash\n(.*?)```", page, re.DOTALL))
    done = shell(script, tree)
    assert done.returncode == 0, done.stderr
    (expected,) = re.findall(r"```text\n(.*?)\n```", page, re.DOTALL)
    assert done.stdout.splitlines()[-1] == expected
    run = tree / "results/scenario/study1"
    scores = read(run / "scores.json")
    assert set(scores["scores"].values()) == {None}
    assert {gate["outcome"] for gate in scores["gates"]} == {"invalid"}
    assert scores["retrospective"]["conclusion"] == "negative"
    assert scores["retrospective"]["complete_seeds"] == [31, 32]
    table = (run / "tables/results.md").read_text("utf-8")
    assert "retrospective, not registered: negative" in table
    assert "deviations: 1." in table
    assert "Registered result: inconclusive" in (run / "tables/gates.md").read_text("utf-8")
