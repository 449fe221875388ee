"""Claim: what was frozen stays; what changed is named; a label says who had promised it. All of it fails closed."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from halfulp.errors import FrozenError, HalfulpError, IncompleteError, InputError
from halfulp.registration import freeze, seals
from halfulp.registration.digests import canonical_json, read_json, sha256_bytes, write_json
from halfulp.registration.freeze import build_frozen, check_frozen, label_run, register, registered_sources
from halfulp.studies.catalogue import load

ROOT = Path(__file__).parents[3]


@pytest.fixture
def registration(tmp_path: Path) -> Path:
    """A copy of the smoke registration in a git work tree of its own."""
    path = tmp_path / "repo" / "smoke" / "audit.yaml"
    path.parent.mkdir(parents=True)
    shutil.copy(ROOT / "preregistration/smoke/audit.yaml", path)
    git(path, "init", "-q")
    return path


def git(path: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=path.parent, check=True, capture_output=True)


def commit(path: Path) -> None:
    git(path, "add", "-A")
    git(path, "commit", "-qm", "register")


def frozen_run(path: Path, tmp_path: Path) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    (run / "frozen.json").write_bytes(canonical_json(build_frozen(path, load(path))))
    return run


def test_frozen_record_names_gates_registration_and_sources(registration: Path) -> None:
    frozen = build_frozen(registration, load(registration))
    assert frozen["gate_count"] == len(frozen["gates"]) == 4
    assert frozen["registration"]["sha256"] == sha256_bytes(registration.read_bytes())
    names = set(frozen["sources"])
    for module in ("numerics/reference", "numerics/kernels", "training/runner", "audit/predictors", "audit/scores"):
        assert f"src/halfulp/{module}.py" in names
    assert "src/halfulp/audit/gates.py" in names
    assert "src/halfulp/studies/audit.py" in names
    assert {"Snakefile", "workflow/rules/predict.smk", "src/halfulp/registration/blind.py"} <= names
    assert not any("/report/" in name or name.endswith("cli.py") for name in names)
    for name, digest in frozen["sources"].items():
        assert sha256_bytes((ROOT / name).read_bytes()) == digest
    assert canonical_json(frozen) == canonical_json(build_frozen(registration, load(registration)))


def test_register_writes_once_and_never_rewrites(registration: Path) -> None:
    loaded = load(registration)
    target, new = register(registration, loaded)
    before = target.read_bytes()
    assert new
    assert register(registration, loaded) == (target, False)
    registration.write_text(registration.read_text().replace("threshold: 0.2", "threshold: 0.9"))
    with pytest.raises(FrozenError, match=r"never rewritten: register the new version under a new name"):
        register(registration, load(registration))
    assert target.read_bytes() == before


def test_labels(registration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(registration)
    assert label_run(registration, loaded).label == "unregistered"
    register(registration, loaded)
    not_yet = label_run(registration, loaded)
    assert (not_yet.label, not_yet.detail) == ("unregistered", "audit.frozen.json is not committed")
    commit(registration)
    assert label_run(registration, loaded).label == "registered"

    sources = registered_sources("audit")
    changed = {**sources, "src/halfulp/audit/scores.py": "0" * 64}
    monkeypatch.setattr(freeze, "registered_sources", lambda _: changed)
    later = label_run(registration, loaded)
    assert (later.label, later.changed) == ("replication", ("src/halfulp/audit/scores.py",))
    monkeypatch.undo()

    target = freeze.committed_path(registration)
    target.write_bytes(canonical_json({**read_json(target), "note": "edited"}))
    edited = label_run(registration, loaded)
    assert (edited.label, edited.detail) == ("unregistered", "audit.frozen.json differs from the committed one")


def test_registered_text_cannot_change_under_its_name(registration: Path) -> None:
    register(registration, load(registration))
    commit(registration)
    registration.write_text(registration.read_text() + "# one more comment\n")
    with pytest.raises(FrozenError, match=r"audit\.yaml: its text changed"):
        label_run(registration, load(registration))


def test_check_frozen_accepts_what_was_frozen(registration: Path, tmp_path: Path) -> None:
    run = frozen_run(registration, tmp_path)
    assert check_frozen(run, registration, load(registration)) == sha256_bytes((run / "frozen.json").read_bytes())


def test_check_frozen_names_a_changed_registration(registration: Path, tmp_path: Path) -> None:
    run = frozen_run(registration, tmp_path)
    registration.write_text(registration.read_text().replace("steps: 40", "steps: 41"))
    with pytest.raises(FrozenError, match=r"audit\.yaml changed since the run was frozen"):
        check_frozen(run, registration, load(registration))


def test_check_frozen_names_a_changed_source(
    registration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = frozen_run(registration, tmp_path)
    changed = {**registered_sources("audit"), "src/halfulp/audit/predictors.py": "0" * 64}
    monkeypatch.setattr(freeze, "registered_sources", lambda _: changed)
    with pytest.raises(FrozenError, match=r"src/halfulp/audit/predictors\.py changed"):
        check_frozen(run, registration, load(registration))


@pytest.mark.parametrize("damage", ["delete", "gate", "count", "reserialise", "empty"])
def test_check_frozen_refuses_a_damaged_record(damage: str, registration: Path, tmp_path: Path) -> None:
    run = frozen_run(registration, tmp_path)
    path, frozen = run / "frozen.json", read_json(run / "frozen.json")
    if damage == "delete":
        path.unlink()
    elif damage == "gate":
        frozen["gates"][0]["threshold"] = 0.9
        path.write_bytes(canonical_json(frozen))
    elif damage == "count":
        path.write_bytes(canonical_json({**frozen, "gates": frozen["gates"][1:], "gate_count": 3}))
    elif damage == "reserialise":
        path.write_text(json.dumps(frozen))
    else:
        path.write_bytes(b"")
    with pytest.raises(HalfulpError) as caught:
        check_frozen(run, registration, load(registration))
    assert isinstance(caught.value, FrozenError | IncompleteError | InputError)
    assert "frozen.json" in str(caught.value)


def sealed_run(tmp_path: Path) -> Path:
    run = tmp_path / "sealed"
    write_json(run / "frozen.json", {"a": 1})
    write_json(run / "forecast.json", {"b": 2})
    seals.write_seal(run / "seal.json", run, [run / "forecast.json"], [])
    return run


FORECASTS = ("forecast.json",)


def test_a_seal_holds_and_notices_a_change(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    assert set(seals.check_seal(run / "seal.json", run, FORECASTS)["sealed"]) == {"frozen.json", *FORECASTS}
    write_json(run / "forecast.json", {"b": 3})
    with pytest.raises(FrozenError, match=r"forecast\.json: changed after it was sealed"):
        seals.check_seal(run / "seal.json", run, FORECASTS)
    (run / "forecast.json").unlink()
    with pytest.raises(IncompleteError, match=r"forecast\.json: missing"):
        seals.check_seal(run / "seal.json", run, FORECASTS)


@pytest.mark.parametrize("sealed", [{}, {"frozen.json": "0" * 64}, {"forecast.json": "0" * 64}])
def test_a_seal_that_covers_less_is_refused(sealed: dict[str, str], tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    write_json(run / "seal.json", {"schema": seals.SEAL_SCHEMA, "sealed": sealed})
    with pytest.raises(FrozenError, match=r"seals (nothing|frozen\.json|forecast\.json); restore it"):
        seals.check_seal(run / "seal.json", run, FORECASTS)
    write_json(run / "seal.json", {"sealed": sealed})
    with pytest.raises(InputError, match="field schema: value None"):
        seals.check_seal(run / "seal.json", run, FORECASTS)


def test_nothing_is_sealed_once_an_outcome_exists(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    with pytest.raises(FrozenError, match=r"counts\.parquet: exists before the seal"):
        seals.write_seal(run / "seal.json", run, [run / "forecast.json"], [run / "targets/seed1/counts.parquet"])


def test_the_vault_gives_back_what_was_deleted_and_never_takes_a_second_version(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    freeze.keep(run, [run / "seal.json"])
    first = (run / "seal.json").read_bytes()
    (run / "seal.json").write_bytes(b"another")
    freeze.keep(run, [run / "seal.json"])
    assert freeze.restore(run) == []
    (run / "seal.json").unlink()
    assert freeze.restore(run) == [run / "seal.json"]
    assert (run / "seal.json").read_bytes() == first


def test_a_label_that_git_cannot_confirm_is_unregistered(registration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(registration)
    register(registration, loaded)
    commit(registration)
    assert label_run(registration, loaded).label == "registered"  # control
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert label_run(registration, loaded).label == "unregistered"
    monkeypatch.undo()
    shutil.rmtree(registration.parents[1] / ".git", ignore_errors=True)
    shutil.rmtree(registration.parent / ".git", ignore_errors=True)
    assert "git can't confirm" in label_run(registration, loaded).detail


def test_canonical_json_refuses_nan() -> None:
    assert canonical_json({"b": 1.5, "a": "é"}) == '{\n  "a": "é",\n  "b": 1.5\n}\n'.encode()
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json({"a": float("nan")})
