"""Claim: the published results are those of registered runs, they verify, and the README prints what they say."""

import json
from pathlib import Path

import pytest

from halfulp.registration.attestation import load_public
from halfulp.report.tables import combine
from halfulp.studies import catalogue
from halfulp.verification.case import Auditor
from halfulp.verification.verify import verify_run

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results/published"
RUNS = sorted(path.parent for path in PUBLISHED.glob("*/*/frozen.json"))
KEYS = {path.name: load_public(path.read_text("utf-8"), path.name) for path in (PUBLISHED / "keys").glob("*.pub")}


def test_every_registered_study_is_published() -> None:
    frozen = {f"{path.parent.name}/{path.name.split('.')[0]}" for path in ROOT.glob("preregistration/*/*.frozen.json")}
    published = {f"{run.parent.name}/{run.name}" for run in RUNS}
    assert published == frozen - {"desk/audit"}  # the first registration, superseded: see deviations.yaml


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.parent.name}/{run.name}")
def test_a_published_run_is_registered_and_verifies(run: Path) -> None:
    identity = json.loads((run / "run.json").read_bytes())
    assert identity["label"] == "registered"
    keys = KEYS if "key" in identity else {}  # runs from before receipts were signed have none
    report = verify_run(run, Auditor(ROOT, keys))
    assert report.verdict == "verified", "\n".join(report.lines())


def test_published_results_are_small() -> None:
    assert sum(path.stat().st_size for path in PUBLISHED.rglob("*") if path.is_file()) < 20e6


def test_the_table_beside_the_paper_is_made_of_the_published_ones(tmp_path: Path) -> None:
    names = catalogue.registered(ROOT / "preregistration/desk")
    combine([PUBLISHED / "desk" / name / "tables/paper.csv" for name in names], "desk", tmp_path / "paper")
    for form in ("csv", "md", "tex"):
        assert (tmp_path / f"paper.{form}").read_bytes() == (PUBLISHED / f"desk/paper.{form}").read_bytes()


def test_readme_prints_the_published_gates() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    scores = json.loads((PUBLISHED / "desk/audit-2/scores.json").read_bytes())
    for gate in scores["gates"]:
        (row,) = (line for line in readme.splitlines() if line.startswith(f"│ {gate['name']} "))
        assert f" {gate['value']:.4g} " in row
        assert f" {gate['outcome']} " in row
    passed = sum(gate["outcome"] == "pass" for gate in scores["gates"])
    assert f"verdict: {scores['verdict']} ({passed} of {len(scores['gates'])} gates pass)" in readme
