"""Claim: a run stops, with one line that names the cause, when what it promised changes or a predictor peeks."""

import shutil
from pathlib import Path

import pytest

from tests.integration.conftest import halfulp, snakemake

REGISTRATION = "preregistration/smoke/audit.yaml"
PREDICTORS = "src/halfulp/audit/predictors.py"
HONEST = "    return _for_all(evidence, evidence.template)\n"


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_an_unchanged_copy_has_nothing_to_do(rerun: Path) -> None:
    """Control for every test below: the copied tree and results are accepted as they are."""
    done = snakemake(results=Path("results"), cwd=rerun)
    assert done.returncode == 0
    assert "Nothing to be done" in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (REGISTRATION, "threshold: 0.2", "threshold: 0.9"),
        (REGISTRATION, "study: audit\n", "study: audit  # only a comment\n"),
        (PREDICTORS, HONEST, HONEST.replace("template)", "template * 1.0)")),
        ("src/halfulp/numerics/kernels.py", "TILE", "TILE"),
    ],
)
def test_a_changed_registration_or_source_stops_the_run(rerun: Path, file: str, old: str, new: str) -> None:
    if old == new:  # any byte counts, even in a comment
        (rerun / file).write_text((rerun / file).read_text("utf-8") + "# \n", encoding="utf-8")
    else:
        change(rerun / file, old, new)
    done = snakemake(results=Path("results"), cwd=rerun)
    assert done.returncode != 0
    assert f"{file} changed since the run was frozen" in done.stderr
    assert (rerun / "results/smoke/audit/scores.json").exists()  # nothing already computed is lost


def test_a_deleted_freeze_is_not_made_again(rerun: Path) -> None:
    (rerun / "results/smoke/audit/frozen.json").unlink()
    done = snakemake(results=Path("results"), cwd=rerun)
    assert done.returncode != 0
    assert "frozen.json: missing; a run is never re-frozen" in done.stderr


def test_a_seal_is_not_made_again_once_outcomes_exist(rerun: Path) -> None:
    for name in ("seal.json", "scores.json"):
        (rerun / "results/smoke/audit" / name).unlink()
    done = snakemake("score", results=Path("results"), cwd=rerun)
    assert done.returncode != 0
    assert "exists before the seal" in done.stderr


def test_changed_forecasts_are_not_scored(rerun: Path) -> None:
    run = rerun / "results/smoke/audit"
    shutil.copy(run / "targets/seed11/counts.parquet", run / "forecasts.parquet")
    (run / "scores.json").unlink()
    done = snakemake("score", results=Path("results"), cwd=rerun)
    assert done.returncode != 0
    assert "forecasts.parquet" in done.stderr


def test_a_predictor_that_peeks_fails_and_an_honest_one_does_not(tree: Path, smoke: Path) -> None:
    """Outcomes are planted where a peeking predictor would look. The rule's folder does not hold them."""
    planted = tree / "results/smoke/audit/targets/seed11"
    planted.mkdir(parents=True)
    shutil.copy(smoke / "smoke/audit/targets/seed11/counts.parquet", planted)
    peek = '    open("results/smoke/audit/targets/seed11/counts.parquet", "rb").close()\n'
    change(tree / PREDICTORS, HONEST, peek + HONEST)
    done = snakemake("predict", results=Path("results"), cwd=tree)
    assert done.returncode != 0
    log = (tree / "results/smoke/audit/logs/predict.log").read_text("utf-8")
    assert "No such file or directory: 'results/smoke/audit/targets/seed11/counts.parquet'" in log
    assert not (tree / "results/smoke/audit/forecasts.parquet").exists()


@pytest.mark.parametrize("arguments", [("run", "--scale", "smoke"), ("check", REGISTRATION)])
def test_bad_input_gets_one_line_and_exit_code_2(tree: Path, arguments: tuple[str, ...]) -> None:
    change(tree / REGISTRATION, "steps: 40", "steps: 040")
    done = halfulp(*arguments, cwd=tree)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"halfulp: error: {REGISTRATION}: line ")
    assert line.endswith(
        "field training.steps: value '040': YAML versions may differ on this number; write it like 10, 0.5 or 1.0e-3"
    )


def test_freeze_command_registers_once(tree: Path) -> None:
    first, second = halfulp("freeze", REGISTRATION, cwd=tree), halfulp("freeze", REGISTRATION, cwd=tree)
    assert first.returncode == second.returncode == 0
    assert "written; commit it to register the study" in first.stdout
    assert "already frozen, unchanged" in second.stdout
    change(tree / REGISTRATION, "threshold: 0.2", "threshold: 0.9")
    third = halfulp("freeze", REGISTRATION, cwd=tree)
    assert third.returncode == 2
    assert "never rewritten" in third.stderr
