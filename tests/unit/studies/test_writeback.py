"""Claim: the write-back studies conclude what their registrations say, and no number stands where one may not."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from halfulp.errors import InputError
from halfulp.registration.identity import Identity
from halfulp.studies import catalogue, decoders, study1, study2, study3, writeback, writeback_rules
from halfulp.studies.pilot import rehearse_write_back
from halfulp.studies.tasks import Workspace
from halfulp.studies.writeback import FP32, TABLES, Outcomes, WriteBackRegistration
from halfulp.training import runner
from halfulp.training.tables import make_table

ROOT = Path(__file__).parents[3]
CANONICAL, BY_HAND = Identity(True, "written by the workflow"), Identity(False, "no receipt")
BLOCKS = np.random.default_rng(0).normal(0.0, 0.01, size=16)
Losses = dict[tuple[str, str], float]


def registration(study: str) -> Any:
    loaded = catalogue.load(ROOT / f"preregistration/smoke/{study}.yaml")
    assert isinstance(loaded, WriteBackRegistration)
    return loaded


def outcomes(registered: Any, losses: Losses, by_hand: tuple[str, ...] = (), spread: float = 1.0) -> Outcomes:
    """Outcomes with a given mean final loss for every (cell, run); blocks scatter about it alike in all runs."""
    study = catalogue.write_back_study(registered.study)
    rows: dict[str, list[Any]] = {name: [] for name in TABLES}
    for cell, runs in study.cells(registered).items():
        for run in runs:
            final = losses[cell, run]
            steps = registered.training.steps
            rows["validation"] += [(cell, run, steps, b, final + spread * x) for b, x in enumerate(BLOCKS)]
            rows["losses"].append((cell, run, steps, "validation", final, None, None))
            if run != FP32:
                rows["counts"].append((cell, run, 0, "w", 1, 30, 10, 0))
                rows["contrasts"].append((cell, run, 0, "w", 5, 100))
    tables = {name: pd.DataFrame(rows[name], columns=["cell", *TABLES[name].names]) for name in TABLES}
    names = study.cells(registered)
    return Outcomes(tables, {}, {name: BY_HAND if name in by_hand else CANONICAL for name in names})


def judge(registered: Any, found: Outcomes) -> dict[str, Any]:
    record = writeback.score(catalogue.write_back_study(registered.study), registered, found)
    assert json.loads(json.dumps(record, allow_nan=False)) == record  # fit for JSON as it is
    return record


def results(record: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(record["results"]["rows"], columns=record["results"]["columns"])


STUDY1 = registration("study1")


def study1_losses(differences: dict[int, float]) -> Losses:
    """fp32 ends at 2, the second schedule pays 0.1 for write-back, the first that and the seed's difference."""
    losses: Losses = {}
    for seed, difference in differences.items():
        first, second = (study1.cell_name(schedule, seed) for schedule in STUDY1.schedules)
        losses |= {(first, FP32): 2.0, (second, FP32): 2.0}
        losses |= {(first, "e4m3.nearest"): 2.1 + difference, (second, "e4m3.nearest"): 2.1}
    return losses


EVEN = {31: 0.04, 32: 0.05, 33: 0.06}
HAND = "cosine_restart.seed33"


def test_study1_with_six_canonical_cells_has_a_registered_result() -> None:
    record = judge(STUDY1, outcomes(STUDY1, study1_losses(EVEN)))
    assert record["verdict"] == "pass"
    assert record["scores"]["paired_mean"] == pytest.approx(0.05)
    assert record["scores"]["paired_lower"] == pytest.approx(0.05 - 4.3026527 * 0.01 / math.sqrt(3))
    assert record["retrospective"] == {}
    assert "inconclusive" not in record["note"]


def test_study1_without_an_effect_fails() -> None:
    assert judge(STUDY1, outcomes(STUDY1, study1_losses({31: 0.04, 32: -0.05, 33: 0.06})))["verdict"] == "fail"


@pytest.mark.parametrize("differences", [EVEN, {31: 5.0, 32: 5.0, 33: 5.0}])
def test_study1_with_one_cell_made_by_hand_is_inconclusive_whatever_the_numbers(differences: dict[int, float]) -> None:
    record = judge(STUDY1, outcomes(STUDY1, study1_losses(differences), by_hand=(HAND,)))
    assert record["verdict"] == "inconclusive"
    assert record["inconclusive"] == f"5 of 6 cells have canonical process identity; {HAND}: no receipt"
    assert set(record["scores"].values()) == {None}
    assert {gate["outcome"] for gate in record["gates"]} == {"invalid"}
    assert "mean over seeds" not in set(results(record)["seed"])
    assert record["note"].startswith("Registered result: inconclusive; 5 of 6 cells")


def test_retrospective_is_negative_where_recovered_cell_and_cohort_do_not_overlap() -> None:
    record = judge(STUDY1, outcomes(STUDY1, study1_losses({31: 0.04, 32: 0.05, 33: 0.5}), by_hand=(HAND,)))
    found = record["retrospective"]
    assert (found["registered"], found["conclusion"]) == (False, "negative")
    assert found["complete_seeds"] == [31, 32]
    (recovered,) = found["recovered"]
    assert recovered["seed"] == 33
    assert recovered["lower"] > found["complete_upper"]
    assert record["claims"]["retrospective"] == "negative"
    assert record["verdict"] == "inconclusive"


def test_retrospective_is_compatible_where_they_overlap() -> None:
    """Blocks scatter alike in all runs and cancel, so that every interval is a point: the middle one lies within."""
    record = judge(STUDY1, outcomes(STUDY1, study1_losses({31: 0.04, 32: 0.06, 33: 0.05}), by_hand=(HAND,)))
    assert record["retrospective"]["conclusion"] == "compatible"
    assert record["verdict"] == "inconclusive"


def test_retrospective_is_impossible_without_a_cohort_or_without_numbers() -> None:
    every = tuple(study1.cells(STUDY1))
    assert (
        judge(STUDY1, outcomes(STUDY1, study1_losses(EVEN), by_hand=every))["retrospective"]["conclusion"]
        == "impossible"
    )
    gone = study1_losses(EVEN) | {(HAND, "e4m3.nearest"): float("nan")}
    record = judge(STUDY1, outcomes(STUDY1, gone, by_hand=(HAND,)))
    assert record["retrospective"]["conclusion"] == "impossible"
    assert record["retrospective"]["recovered"] == []


def test_a_canonical_cell_without_a_finite_loss_is_invalid() -> None:
    gone = study1_losses(EVEN) | {(HAND, "e4m3.nearest"): float("nan")}
    record = judge(STUDY1, outcomes(STUDY1, gone))
    assert record["verdict"] == "invalid"
    assert record["scores"]["paired_lower"] is None


def matched(registered: Any, nearest: float, full: float, dead: float) -> Losses:
    end = {FP32: 2.0, "nearest": nearest, "full_sr": full, "dead_zone_sr": dead}
    cells = catalogue.write_back_study(registered.study).cells(registered)
    return {(cell, run): end[run.rpartition(".")[2]] for cell, runs in cells.items() for run in runs}


def test_decoders_report_recoveries_by_format() -> None:
    registered = registration("decoders")
    record = judge(registered, outcomes(registered, matched(registered, 3.0, 2.1, 2.25)))
    table = results(record).set_index(["format", "policy"])["recovery"]
    assert table.to_dict() == pytest.approx(
        {(f, p): r for f in ("e4m3", "e5m2") for p, r in (("full_sr", 0.9), ("dead_zone_sr", 0.75))}
    )
    assert set(results(record)["erased fraction"]) == {0.75}
    assert record["verdict"] == "pass"


def test_decoders_without_a_gap_have_no_recovery() -> None:
    registered = registration("decoders")
    record = judge(registered, outcomes(registered, matched(registered, 2.0, 2.0, 2.0)))
    assert set(results(record)["recovery"]) == {None}
    assert record["verdict"] == "invalid"


def test_a_diverged_run_has_no_recovery() -> None:
    registered = registration("decoders")
    found = outcomes(registered, matched(registered, 3.0, 2.1, 2.25))
    found.diverged["seed21", "e4m3.full_sr"] = "diverged at step 3"
    record = judge(registered, found)
    assert record["scores"]["e4m3_full_sr"] is None
    assert record["scores"]["e5m2_full_sr"] == pytest.approx(0.9)
    assert record["verdict"] == "invalid"


def test_study2_compares_the_policies_and_says_what_it_is_not() -> None:
    registered = registration("study2")
    record = judge(registered, outcomes(registered, matched(registered, 3.0, 2.1, 2.19)))
    assert record["scores"]["mean_full_sr"] == pytest.approx(0.9)
    assert record["scores"]["mean_dead_zone_sr"] == pytest.approx(0.81)
    assert record["scores"]["ratio"] == pytest.approx(0.9)
    assert record["scores"]["different_share"] == pytest.approx(0.05)
    assert "not causal mediation" in record["note"]
    rows = results(record)
    assert len(rows[rows["quantity"].str.startswith("recovery, ")]) == 6
    differing = rows[rows["quantity"] == "written differently, e4m3.full_sr"]
    assert differing["value"].tolist() == [0.05] * 3


def test_study2_with_a_diverged_run_is_invalid() -> None:
    registered = registration("study2")
    found = outcomes(registered, matched(registered, 3.0, 2.1, 2.19))
    found.diverged["seed41", "e4m3.full_sr"] = "diverged at step 3"
    record = judge(registered, found)
    assert record["verdict"] == "invalid"
    assert record["claims"]["ratio"] is None


def test_study3_reports_the_last_checkpoint_from_the_replay_alone() -> None:
    registered = registration("study3")
    rows = [
        {"run": run, "step": step, "loss": 4.0 - step / 20 * (0.5 if "full" in run else 0.0)}
        for run, step, _ in study3.checkpoint_files(registered)
    ]
    replay = {"schema": "halfulp.replay/1", "checkpoints": rows}
    empty = {name: make_table([], schema).to_pandas() for name, schema in TABLES.items()}
    empty = {name: frame.assign(cell=pd.Series(dtype=str)) for name, frame in empty.items()}
    record = judge(registered, Outcomes(empty, {}, {"seed51": CANONICAL}, replay))
    assert record["scores"]["headline_nats"] == pytest.approx(0.5)
    assert record["scores"]["headline_percent"] == pytest.approx(12.5)
    assert list(results(record)["step"]) == [0, 4, 8, 12, 16, 20]


@pytest.mark.parametrize(
    ("study", "old", "new", "message"),
    [
        ("decoders", "policies: [nearest, full_sr", "policies: [full_sr", "nearest is missing"),
        ("decoders", "policies: [nearest, full_sr, dead_zone_sr]", "policies: [nearest, fp32]", "once at most"),
        ("decoders", "score: e4m3_full_sr", "score: bf16_full_sr", "unknown score 'bf16_full_sr'"),
        ("decoders", "formats: [e4m3, e5m2]", "formats: [e4m3, e6m1]", "unknown format"),
        ("study1", "name: constant_mid", "name: cosine", "must be the first of schedules, constant_mid"),
        ("study1", "canonical_cells: 6", "canonical_cells: 5", "must be all 6 cells"),
        ("study1", "storage: native", "storage: analytic", "storage: native"),
        ("study1", "seeds: [31, 32, 33]", "seeds: [31, 32, 31]", "listed twice"),
        ("study1", "seeds: [31, 32, 33]", "seeds: [901, 32, 33]", "a rehearsal must not see it"),
        ("study2", "seeds: [41, 42, 43]", "seeds: [41, 41, 43]", "listed twice"),
        ("study2", "pilot: [901, 902, 903]", "pilot: [43]", "seed 43 is one of the study's"),
        ("study3", "checkpoints: [0, 4, 8, 12, 16, 20]", "checkpoints: [0, 4]", "the last must be training.steps, 20"),
        ("study3", "checkpoints: [0, 4, 8, 12, 16, 20]", "checkpoints: [4, 0, 20]", "ascending order"),
    ],
)
def test_registrations_that_make_no_sense_are_refused(
    study: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    text = (ROOT / f"preregistration/smoke/{study}.yaml").read_text("utf-8")
    assert old in text
    path = tmp_path / "smoke" / f"{study}.yaml"
    path.parent.mkdir()
    path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(InputError, match=message):
        catalogue.load(path)


def test_cells_differ_in_nothing_but_write_back() -> None:
    """Matched: within a cell, all runs have the same training, seed and data."""
    for module, study in ((decoders, "decoders"), (study1, "study1"), (study2, "study2"), (study3, "study3")):
        for runs in module.cells(registration(study)).values():
            assert len({(plan.seed, plan.training.model_dump_json()) for plan in runs.values()}) == 1
            assert len({plan.write_back for plan in runs.values()}) == len(runs)


class KilledError(Exception):
    pass


def test_a_cell_that_was_killed_and_resumed_has_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Study 3: two runs in packed INT3, one of them stochastic, with checkpoints; killed in the second."""
    registered = registration("study3")
    (cell,) = study3.cells(registered)
    writeback_rules.train_into(registered, cell, tmp_path / "whole")
    monkeypatch.setattr(runner, "CHECKPOINT_SECONDS", -1.0)

    def kill(step: int, _: str) -> None:
        if step == 31:
            raise KilledError

    with pytest.raises(KilledError):
        writeback_rules.train_into(registered, cell, tmp_path / "killed", Workspace(kill, tmp_path / "resume"))
    lines: list[str] = []
    writeback_rules.train_into(
        registered, cell, tmp_path / "killed", Workspace(lambda _, line: lines.append(line), tmp_path / "resume")
    )
    assert [line for line in lines if "resumed" in line and "step 20" in line]  # the first run is not repeated
    assert [line for line in lines if "resumed" in line and "step 10" in line]
    names = writeback_rules.cell_files(registered)
    assert len(names) == 5 + 12
    for name in names:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_rehearsal_needs_as_many_pilot_seeds_as_the_study_has() -> None:
    few = registration("study2").model_copy(update={"pilot": (901, 902)})
    with pytest.raises(InputError, match="pilot: 2 seeds; a rehearsal needs 3 or more"):
        rehearse_write_back(few, 1)
