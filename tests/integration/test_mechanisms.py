"""Claim: every mechanism system runs in its order from its registration, and its tables hold what was measured."""

import json
from dataclasses import asdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from halfulp.registration.digests import sha256_file
from halfulp.registration.receipts import read_receipt
from halfulp.studies.catalogue import MECHANISMS
from tests.integration.conftest import halfulp


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of all mechanism systems at smoke scale."""
    results = tmp_path_factory.mktemp("mechanisms")
    study = ",".join(MECHANISMS)
    done = halfulp("run", "--scale", "smoke", "--study", study, "--cores", "2", "--results", str(results))
    assert done.returncode == 0, done.stderr
    return results / "smoke"


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


@pytest.mark.parametrize("study", MECHANISMS)
def test_forecast_stands_before_the_measurement(base: Path, study: str) -> None:
    run = base / study
    receipts = {
        name: asdict(read_receipt(run / f"receipts/{name}.json", []))
        for name in ("freeze", "forecast", "measure", "judge", "present")
    }
    order = [receipts[name] for name in ("freeze", "forecast", "measure", "judge", "present")]
    for before, after in pairwise(order):
        assert datetime.fromisoformat(before["finished"]) <= datetime.fromisoformat(after["started"])
    assert receipts["measure"]["inputs"]["forecast/cells.parquet"] == sha256_file(run / "forecast/cells.parquet")
    assert {r["frozen_sha256"] for r in receipts.values()} == {sha256_file(run / "frozen.json")}
    for receipt in receipts.values():
        for name, digest in receipt["outputs"].items():
            assert sha256_file(run / name) == digest


@pytest.mark.parametrize("study", MECHANISMS)
def test_every_unit_is_accounted_for(base: Path, study: str) -> None:
    scores = read(base / study / "scores.json")
    assert scores["verdict"] in ("pass", "fail", "invalid")
    assert scores["claims"]
    for name, comparison in scores["comparisons"].items():
        counted = sum(sum(row.values()) for row in comparison["contingency"].values())
        units = [u for u in scores["units"] if f"{u['kind']} at {u['threshold']:g}" == name]
        assert counted == comparison["cells"] == len(units)
    table = (base / study / "tables/paper.md").read_text("utf-8")
    assert "unregistered run" in table
    assert (base / study / "figures/crossings.pdf").stat().st_size > 1000


def test_one_table_beside_the_paper(base: Path) -> None:
    done = halfulp("paper", "--scale", "smoke", "--results", str(base.parent))
    assert done.returncode == 0, done.stderr
    for study in MECHANISMS:
        assert f"| {study}" in done.stdout
    assert (base / "paper.tex").exists()
