"""Claim: other tools read what is exported: `falsify` the gates, with their outcomes, and RO-Crate the files."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rocrate.rocrate import ROCrate

from halfulp.verification.case import Auditor
from halfulp.verification.export import observed, write_crate, write_manifests
from halfulp.verification.verify import verify_run

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "results/published/desk"
FALSIFY = str(Path(sys.executable).parent / "falsify")
#: Exit codes of `falsify verify`.
CODES = {"pass": 0, "fail": 10}


def falsify(*arguments: str) -> int:
    return subprocess.run([FALSIFY, *arguments], capture_output=True, check=False).returncode


@pytest.mark.parametrize("study", ["audit-2", "grid", "study1"])
def test_falsify_comes_to_the_same_outcomes(study: str, tmp_path: Path) -> None:
    run = tmp_path / study
    shutil.copytree(PUBLISHED / study, run)
    manifests = write_manifests(run, ROOT)
    gates = {gate["name"]: gate for gate in json.loads((run / "scores.json").read_bytes())["gates"]}
    assert [path.name for path in manifests] == [f"{name}.prml.yaml" for name in gates]
    for path, (name, value) in zip(manifests, observed(run).items(), strict=True):
        assert falsify("lock", str(path)) == 0
        assert falsify("verify", str(path), "--observed", repr(value)) == CODES[gates[name]["outcome"]]


def test_falsify_notices_a_relaxed_threshold(tmp_path: Path) -> None:
    run = tmp_path / "grid"
    shutil.copytree(PUBLISHED / "grid", run)
    path = write_manifests(run, ROOT)[0]
    assert falsify("lock", str(path)) == 0
    text = path.read_text("utf-8")
    assert "threshold: 0.9" in text
    path.write_text(text.replace("threshold: 0.9", "threshold: 0.1"), "utf-8")
    assert falsify("verify", str(path), "--observed", "1.0") == 3


def test_equal_runs_give_equal_manifests(tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        shutil.copytree(PUBLISHED / "grid", tmp_path / name)
        texts.append([path.read_text("utf-8") for path in write_manifests(tmp_path / name, ROOT)])
    assert texts[0] == texts[1]


def test_the_crate_has_every_file_with_its_digest_and_the_run_still_verifies(tmp_path: Path) -> None:
    run = tmp_path / "features"
    shutil.copytree(PUBLISHED / "features", run)
    names = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    write_manifests(run, ROOT)
    write_crate(run, ROOT)
    crate = ROCrate(str(run))
    files = {entity.id: entity for entity in crate.data_entities if entity.type == "File"}
    assert set(files) == names
    for name, entity in files.items():
        content = (run / name).read_bytes()
        assert entity["sha256"] == hashlib.sha256(content).hexdigest()
        assert entity["contentSize"] == str(len(content))
    report = verify_run(run, Auditor(ROOT))
    assert report.verdict == "verified"
    assert any("no evidence, and not read: prml, ro-crate-metadata.json" in m for m in report.steps[3].messages)
