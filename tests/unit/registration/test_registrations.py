"""Claim: every committed registration is valid; every kind of damage to one is refused in one line that names it."""

from pathlib import Path

import pytest

from halfulp.errors import InputError
from halfulp.registration.document import study_of
from halfulp.studies.audit_registration import AuditRegistration
from halfulp.studies.catalogue import STUDIES, latest, load

ROOT = Path(__file__).parents[3]
COMMITTED = sorted(ROOT.glob("preregistration/*/*.yaml"))
SMOKE = (ROOT / "preregistration/smoke/audit.yaml").read_text("utf-8")


def load_changed(tmp_path: Path, old: str, new: str) -> AuditRegistration:
    assert SMOKE.count(old) >= 1, f"the smoke registration no longer contains {old!r}"
    folder = tmp_path / "smoke"
    folder.mkdir()
    path = folder / "audit.yaml"
    path.write_text(SMOKE.replace(old, new, 1), encoding="utf-8")
    loaded = load(path)
    assert isinstance(loaded, AuditRegistration)
    return loaded


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_committed_registrations_are_valid(path: Path) -> None:
    assert load(path).gates


def test_every_study_is_registered_at_smoke_and_desk_and_gpt2_at_full_size() -> None:
    names = {(path.parent.name, study_of(path.stem)) for path in COMMITTED}
    assert {study for scale, study in names if scale == "smoke"} == set(STUDIES)
    assert {study for scale, study in names if scale == "desk"} == set(STUDIES) - {"gpt2_fp8"}
    assert {("gpt2", "gpt2_fp8"), ("paper", "audit")} <= names


def test_the_latest_registration_of_a_study_is_used() -> None:
    assert latest(ROOT / "preregistration/desk", "audit") == "audit-2"
    assert latest(ROOT / "preregistration/smoke", "audit") == "audit"
    assert latest(ROOT / "preregistration/desk", "nonsense") is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("study: audit\n", "study: audit\nextra: 1\n", "field extra: value 1: unknown field; remove it"),
        ("  steps: 40\n", "", "field training.steps: missing; add it"),
        ("steps: 40", "steps: '40'", "field training.steps: value '40'"),
        ("steps: 40", "steps: 40.0", "field training.steps: value 40.0"),
        ("steps: 40", "steps: true", "field training.steps: value True"),
        ("steps: 40", "steps: 0", "field training.steps: value 0"),
        ("learning_rate: 6.0e-3", "learning_rate: 6e-3", "field training.optimizer.learning_rate: value '6e-3'"),
        ("learning_rate: 6.0e-3", "learning_rate: .nan", "not finite; give a finite number"),
        ("learning_rate: 6.0e-3", "learning_rate: -1.0", "field training.optimizer.learning_rate: value -1.0"),
        ("name: cosine", "name: linear", "field training.schedule.name: value 'linear'"),
        ("warmup_steps: 4", "warmup_steps: 40", "schedule.warmup_steps 40 must be below steps 40"),
        ("format: e4m3", "format: e4m9", "field write_back.format: value 'e4m9': unknown format"),
        ("format: e4m3", "format: E4M3", "write it in lower case"),
        ("format: e4m3", "format: bf16", "write_back.format bf16 is not in trace_formats; add it"),
        ("policy: nearest", "policy: fp32", "write_back.policy fp32 erases nothing"),
        ("targets: [11, 12]", "targets: [11, 2]", "seed 2 plays two parts"),
        ("historical: [2, 3, 4]", "historical: [2]", "field seeds.historical: value"),
        ("declared: source", "declared: oracle", "unknown predictor 'oracle'; use one of source"),
        ("declared: source", "declared: matched_local", "unknown predictor 'matched_local'"),
        ("score: skill", "score: luck", "unknown score 'luck'; use one of macro_rmse"),
        ('comparator: "<"', 'comparator: "="', "field gates[0].comparator: value '='"),
        ("threshold: 0.2", "threshold: .inf", "field gates[0].threshold: value '.inf': not finite"),
        ("threshold: 0.2", "threshold: 0.2\n    weight: 2", "field gates[0].weight: value 2: unknown field"),
        ("name: skill", "name: accuracy", "two gates have the same name"),
        ("sha256: 33", "sha256: 3", "field training.data.sha256: value"),
        ("betas: [0.9, 0.95]", "betas: [0.9, 1.0]", "field training.optimizer.betas"),
        ("scale: smoke", "scale: desk", "field scale: value 'desk': the path says 'smoke'"),
        ("study: audit", "study: grid", "field study: value 'grid'"),
    ],
)
def test_damage_is_refused_in_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_changed(tmp_path, old, new)
    text = str(caught.value)
    assert message in text
    assert "audit.yaml" in text
    assert "\n" not in text


def test_a_harmless_change_is_accepted(tmp_path: Path) -> None:
    """Control for the refusals: the same edit machinery with valid values."""
    assert load_changed(tmp_path, "steps: 40", "steps: 41").training.steps == 41


def test_an_unknown_study_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nonsense.yaml"
    path.write_text(SMOKE)
    with pytest.raises(InputError, match="study 'nonsense' is not known; use one of audit"):
        load(path)
