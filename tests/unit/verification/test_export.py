"""Claim: other tools read what is exported: `falsify` the gates, with their outcomes, and RO-Crate the files."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rocrate.rocrate import ROCrate

from halfulp.errors import InputError
from halfulp.registration.digests import canonical_json
from halfulp.verification.case import Auditor
from halfulp.verification.export import observed, write_crate, write_manifests
from halfulp.verification.regenerate import publish, regenerate
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


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    run = tmp_path / "grid"
    shutil.copytree(PUBLISHED / "grid", run)
    (tmp_path / "elsewhere").mkdir()
    (run / "prml").symlink_to(tmp_path / "elsewhere")
    (run / "ro-crate-metadata.json").symlink_to(tmp_path / "elsewhere/crate.json")
    for write in (write_manifests, write_crate):
        with pytest.raises(InputError, match="a symbolic link; remove it"):
            write(run, ROOT)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_tampered_run_is_not_exported_published_or_tabulated(tmp_path: Path) -> None:
    """A gate whose name leads out of the folder, say."""
    run = tmp_path / "grid"
    shutil.copytree(PUBLISHED / "grid", run)
    frozen = json.loads((run / "frozen.json").read_bytes())
    frozen["gates"][0]["name"] = "../../escaped"
    (run / "frozen.json").write_bytes(canonical_json(frozen))
    for action in (
        lambda: write_manifests(run, ROOT),
        lambda: write_crate(run, ROOT),
        lambda: publish(run, tmp_path / "target", ROOT),
        lambda: regenerate(run, tmp_path / "out", ROOT, figures=False),
    ):
        with pytest.raises(InputError, match="grid: tampered"):
            action()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid"]


def test_publishing_copies_the_evidence_and_never_overwrites(tmp_path: Path) -> None:
    run, target = tmp_path / "run", tmp_path / "published"
    shutil.copytree(PUBLISHED / "study1", run)
    (run / ".run-key.pem").write_text("secret")
    (run / "logs").mkdir()
    (run / "logs/x.log").write_text("noise")
    count = publish(run, target, ROOT)
    names = {path.relative_to(target) for path in target.rglob("*") if path.is_file()}
    assert len(names) == count
    assert names == {p.relative_to(PUBLISHED / "study1") for p in (PUBLISHED / "study1").rglob("*") if p.is_file()}
    assert verify_run(target, Auditor(ROOT)).verdict == "verified"
    for bad in (target, run / "inside"):
        with pytest.raises(InputError):
            publish(run, bad, ROOT)
