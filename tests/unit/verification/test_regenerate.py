"""Claim: tables and figures of a published run come out of its counts again; two runs can be told alike or apart."""

import json
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from halfulp.errors import InputError
from halfulp.registration.digests import read_json
from halfulp.verification.compare import compare
from halfulp.verification.regenerate import page, regenerate

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "results/published/desk"


@pytest.mark.parametrize("study", ["features", "study1", "audit-2"])
def test_published_tables_and_figures_come_out_again(study: str, tmp_path: Path) -> None:
    run = PUBLISHED / study
    files = regenerate(run, tmp_path, ROOT, figures=True)
    names = {path.relative_to(tmp_path).as_posix() for path in files}
    there = {
        p.relative_to(run).as_posix() for part in ("tables", "captions", "figures") for p in (run / part).glob("*")
    }
    assert names == there
    for name in names:
        if study == "features" and name.startswith("figures"):
            continue  # drawn again since, in other colours
        assert (tmp_path / name).read_bytes() == (run / name).read_bytes(), name
    text = page(run, tmp_path, files).read_text("utf-8")
    assert text.count("## ") == len(list((run / "tables").glob("*.md")))
    assert "figures/" in text


def test_scores_are_made_from_the_counts_and_not_copied(tmp_path: Path) -> None:
    copy = tmp_path / "grid"
    shutil.copytree(PUBLISHED / "grid", copy)
    (copy / "scores.json").unlink()
    regenerate(copy, tmp_path / "out", ROOT, figures=False)
    assert (tmp_path / "out/tables/paper.csv").read_bytes() == (PUBLISHED / "grid/tables/paper.csv").read_bytes()


def test_nothing_is_written_into_the_runs_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lies in the run's own folder"):
        regenerate(PUBLISHED / "grid", PUBLISHED / "grid/again", ROOT, figures=False)


def test_equal_runs_are_within(tmp_path: Path) -> None:
    copy = tmp_path / "features"
    shutil.copytree(PUBLISHED / "features", copy)
    path = copy / "measured/cells.parquet"
    pq.write_table(pq.read_table(path), path, compression="gzip")
    found = compare(PUBLISHED / "features", copy, ROOT)
    assert found.within
    assert (found.equal_bytes, found.equal_contents, found.differences) == (3, 1, ())


@pytest.mark.parametrize(
    ("change", "what", "within"),
    [
        ({"relative_error": 1e-9}, "scores.json: scores.relative_error", True),
        ({"relative_error": 1e-3}, "scores.json: scores.relative_error", False),
    ],
)
def test_scores_are_compared_within_the_tolerance(
    change: dict[str, float], what: str, within: bool, tmp_path: Path
) -> None:
    copy = tmp_path / "features"
    shutil.copytree(PUBLISHED / "features", copy)
    scores = read_json(copy / "scores.json")
    for name, relative in change.items():
        scores["scores"][name] *= 1 + relative
    (copy / "scores.json").write_text(json.dumps(scores))
    found = compare(PUBLISHED / "features", copy, ROOT)
    assert [(d.what, d.within) for d in found.differences] == [(what, within)]
    assert found.within is within


def test_other_verdicts_missing_tables_and_other_counts_are_beyond(tmp_path: Path) -> None:
    copy = tmp_path / "features"
    shutil.copytree(PUBLISHED / "features", copy)
    scores = read_json(copy / "scores.json")
    (copy / "scores.json").write_text(json.dumps({**scores, "verdict": "fail"}))
    (copy / "forecast/metrics.parquet").unlink()
    table = pq.read_table(copy / "measured/cells.parquet")
    pq.write_table(table.set_column(4, "no_update", pc.add(table["no_update"], 1)), copy / "measured/cells.parquet")
    differences = compare(PUBLISHED / "features", copy, ROOT).differences
    assert {d.what for d in differences} == {
        "scores.json: verdict",
        "forecast/metrics.parquet",
        "measured/cells.parquet",
    }
    assert not any(d.within for d in differences)


def test_runs_of_other_registrations_are_not_compared() -> None:
    with pytest.raises(InputError, match="give two runs of one registration"):
        compare(PUBLISHED / "grid", PUBLISHED / "features", ROOT)


@pytest.mark.parametrize(("factor", "within"), [(1 + 1e-9, True), (1.01, False)])
def test_losses_are_compared_within_the_tolerance_and_counts_exactly(
    factor: float, within: bool, tmp_path: Path
) -> None:
    copy = tmp_path / "features"
    shutil.copytree(PUBLISHED / "features", copy)
    path = copy / "measured/metrics.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(3, "value", pc.multiply(table["value"], factor)), path)
    (difference,) = compare(PUBLISHED / "features", copy, ROOT).differences
    assert (difference.what, difference.within) == ("measured/metrics.parquet", within)


def test_a_repetition_is_within_though_it_is_not_the_registered_run(tmp_path: Path) -> None:
    copy = tmp_path / "decoders"
    shutil.copytree(PUBLISHED / "decoders", copy)
    scores = read_json(copy / "scores.json")
    scores["cells"]["rows"][0][1:] = [False, "the run is a replication, not registered"]
    (copy / "scores.json").write_text(json.dumps(scores))
    assert compare(PUBLISHED / "decoders", copy, ROOT).within
