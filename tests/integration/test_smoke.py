"""Claim: the whole audit runs in its order, leaves an unbroken chain of receipts, and repeats byte for byte."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from halfulp.registration.digests import sha256_file
from halfulp.registration.receipts import read_receipt
from tests.integration.conftest import ROOT, halfulp, snakemake

TRAINING = {"reference": (1, 2, 3, 4), "historical": (2, 3, 4), "target": (11, 12), "matched": (11, 12)}
JOBS = {f"{rule}.seed{seed}" for rule, seeds in TRAINING.items() for seed in seeds} | {
    "freeze",
    "predict",
    "seal",
    "open",
    "score",
    "report",
}


def receipts(smoke: Path) -> dict[str, Any]:
    folder = smoke / "smoke" / "audit" / "receipts"
    return {path.stem: asdict(read_receipt(path, [])) for path in folder.glob("*.json")}


def when(receipt: dict[str, Any], moment: str) -> datetime:
    return datetime.fromisoformat(receipt[moment])


def test_every_job_left_a_receipt_of_this_run(smoke: Path) -> None:
    found = receipts(smoke)
    run = json.loads((smoke / "smoke/audit/run.json").read_bytes())
    frozen = sha256_file(smoke / "smoke/audit/frozen.json")
    assert set(found) == JOBS
    assert {receipt["run_id"] for receipt in found.values()} == {run["run_id"]}
    assert {receipt["frozen_sha256"] for receipt in found.values()} == {frozen}
    assert len({receipt["code_sha256"] for receipt in found.values()}) == 1
    assert {receipt["environment"]["threads"] for receipt in found.values()} == {1}


def test_receipts_tell_the_bytes_on_the_disk_and_form_one_chain(smoke: Path) -> None:
    run, found = smoke / "smoke" / "audit", receipts(smoke)
    written: dict[str, str] = {}
    for receipt in found.values():
        for name, digest in receipt["outputs"].items():
            assert sha256_file(run / name) == digest
            assert name not in written
            written[name] = digest
    chain = written | {f"receipts/{name}.json": sha256_file(run / f"receipts/{name}.json") for name in found}
    for job, receipt in found.items():
        for name, digest in receipt["inputs"].items():
            known = chain[name] if name in chain else sha256_file(ROOT / name)
            assert digest == known, f"{job} read another {name}"
    listed = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    byproducts = {
        name
        for name in listed
        if name.split("/")[0] in ("logs", "benchmarks", "progress", "attempts", "receipts", ".vault", ".run-key.pem")
    }
    assert listed - byproducts == set(written)


def test_order_of_freeze_seal_targets_and_opening(smoke: Path) -> None:
    found = receipts(smoke)
    seal = sha256_file(smoke / "smoke/audit/seal.json")
    for job, receipt in found.items():
        if job != "freeze":
            assert when(found["freeze"], "finished") <= when(receipt, "started")
    for seed in TRAINING["target"]:
        target, matched = found[f"target.seed{seed}"], found[f"matched.seed{seed}"]
        assert target["inputs"]["seal.json"] == seal
        assert when(found["predict"], "finished") <= when(found["seal"], "started")
        assert when(found["seal"], "finished") <= when(target, "started")
        assert when(target, "finished") <= when(found["open"], "started")
        assert when(found["open"], "finished") <= when(matched, "started")
    read_by_predict = set(found["predict"]["inputs"])
    assert not any(name.startswith(("targets/", "matched/")) for name in read_by_predict)


def test_counts_seals_and_scores_are_the_same_bytes_on_one_core_killed_and_resumed(smoke: Path, tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "halfulp", "run", "--scale", "smoke", "--cores", "1", "--results", str(tmp_path)]
    environment = {**os.environ, "HALFULP_CHECKPOINT_SECONDS": "0"}
    process = subprocess.Popen(arguments, cwd=ROOT, stderr=-3, start_new_session=True, env=environment)
    run, deadline = tmp_path / "smoke" / "audit", time.monotonic() + 300
    while not list(run.glob("checkpoints/*.pt")):
        assert time.monotonic() < deadline, "the run made no progress"
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (run / "scores.json").exists()
    done = halfulp("run", "--scale", "smoke", "--cores", "1", "--results", str(tmp_path))
    assert done.returncode == 0, done.stderr
    logs = [path.read_text("utf-8") for path in run.glob("logs/*.log")]
    assert any("resumed from" in log for log in logs)
    whole = smoke / "smoke" / "audit"
    names = ["frozen.json", "forecasts.parquet", "ranking.json", "seal.json", "opened.json", "scores.json"]
    names += [path.relative_to(whole).as_posix() for path in whole.glob("*/seed*/*.*")]
    names += [path.relative_to(whole).as_posix() for path in whole.glob("tables/*")]
    assert len(names) == 6 + 11 * 3 + 12
    for name in names:
        assert (run / name).read_bytes() == (whole / name).read_bytes(), name


def test_show_ends_with_the_verdict_of_the_scores(smoke: Path) -> None:
    run = smoke / "smoke" / "audit"
    scores = json.loads((run / "scores.json").read_bytes())
    shown = halfulp("show", "--scale", "smoke", "--results", str(smoke))
    assert shown.returncode == 0
    passed = sum(gate["outcome"] == "pass" for gate in scores["gates"])
    assert shown.stdout.splitlines()[-1] == f"verdict: {scores['verdict']} ({passed} of 4 gates pass)"
    for gate in scores["gates"]:
        assert gate["name"] in shown.stdout
    assert str(run / "figures" / "curves.png") in shown.stdout


def test_html_report_holds_the_runs_numbers(smoke: Path) -> None:
    target = smoke / "smoke" / "report.html"
    made = halfulp("html", "--scale", "smoke", "--results", str(smoke))
    assert made.stdout == f"report: {target}\n", made.stderr
    scores = json.loads((smoke / "smoke/audit/scores.json").read_bytes())
    page = target.read_text("utf-8")
    assert f"Macro RMSE {scores['scores']['macro_rmse']:.4g}" in page.replace("\\n", " ").replace("\n", " ")


@pytest.mark.parametrize("name", ["paper", "gates", "predictors", "decomposition"])
def test_tables_carry_label_and_numbers(smoke: Path, name: str) -> None:
    run = smoke / "smoke" / "audit"
    label = json.loads((run / "run.json").read_bytes())["label"]
    assert f"{label} run" in (run / f"tables/{name}.md").read_text("utf-8")
    assert f"{label} run" in (run / f"tables/{name}.tex").read_text("utf-8")
    header, *rows = (run / f"tables/{name}.csv").read_text("utf-8").splitlines()
    assert header.endswith(",label")
    assert all(row.endswith(f",{label}") for row in rows)
    assert rows


def test_progress_is_complete_at_the_end(smoke: Path) -> None:
    assert halfulp("status", str(smoke / "smoke/audit")).stdout.startswith(
        "audit, report: 11/11 training jobs, step 440/440 (100%)"
    )


def test_nothing_is_left_to_do(smoke: Path) -> None:
    assert "Nothing to be done" in snakemake("-n", results=smoke).stdout
