"""Claim: only a cell that the workflow wrote, in this registered run, is canonical; every forgery has its reason."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from halfulp.errors import IncompleteError
from halfulp.registration import attestation, receipts
from halfulp.registration.digests import canonical_json, read_json, write_json
from halfulp.registration.identity import process_identity
from halfulp.registration.receipts import begin, job_name, write_receipt

CELL = {"cohort": "study1", "cell": "a.seed1"}
OTHER = {"cohort": "study1", "cell": "b.seed1"}
FILE = "cells/{cell}/counts.json"


def make_run(run: Path, registration: str = "1", label: str = "registered") -> Path:
    """A registered run with two cells, made as the workflow makes them."""
    write_json(run / "frozen.json", {"schema": "halfulp.frozen/1", "registration": {"sha256": registration * 64}})
    attestation.make_key(receipts.key_path(run))
    public = attestation.public_pem(attestation.load_signer(receipts.key_path(run)))
    write_json(run / "run.json", {"schema": receipts.RUN_SCHEMA, "run_id": run.name, "label": label, "key": public})
    freeze = begin("freeze", {}, run)
    write_receipt(run / "receipts/freeze.json", freeze, inputs=[], outputs=[run / "frozen.json"], seed=None)
    for wildcards in (CELL, OTHER):
        make_cell(run, wildcards)
    return run


def make_cell(run: Path, wildcards: dict[str, str]) -> None:
    job = begin("cell", wildcards, run)
    path = run / FILE.format(**wildcards)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(wildcards["cell"].encode())
    ties = [run / "frozen.json", run / "run.json", run / "receipts/freeze.json"]
    write_receipt(receipt_of(run, wildcards), job, inputs=ties, outputs=[path], seed=None)


def receipt_of(run: Path, wildcards: dict[str, str]) -> Path:
    return run / "receipts" / f"{job_name('cell', wildcards)}.json"


def judge(run: Path) -> tuple[bool, str]:
    identity = process_identity(run, "cell", CELL, [run / FILE.format(**CELL)])
    return identity.canonical, identity.reason


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


def test_a_cell_of_the_workflow_is_canonical(run: Path) -> None:
    """Control for every forgery below."""
    assert judge(run) == (True, "written by the workflow in this registered run")


@pytest.mark.parametrize("label", ["unregistered", "replication"])
def test_no_cell_of_an_unregistered_run_is(label: str, tmp_path: Path) -> None:
    canonical, reason = judge(make_run(tmp_path / "run", label=label))
    assert not canonical
    assert label in reason


def edit_statement(run: Path) -> None:
    envelope = read_json(receipt_of(run, CELL))
    content = json.loads(base64.b64decode(envelope["payload"]))
    content["predicate"]["environment"]["threads"] = 99
    envelope["payload"] = base64.b64encode(canonical_json(content)).decode()
    write_json(receipt_of(run, CELL), envelope)


def edit_and_sign_anew(run: Path) -> None:
    """With a key that is not the run's."""
    content = json.loads(base64.b64decode(read_json(receipt_of(run, CELL))["payload"]))
    attestation.make_key(run.parent / "mine")
    outputs = {item["name"]: item["digest"]["sha256"] for item in content["subject"]}
    signers = [attestation.load_signer(run.parent / "mine")]
    attestation.write_statement(receipt_of(run, CELL), outputs, receipts.RECEIPT, content["predicate"], signers)


def plain(run: Path) -> None:
    """The first version of receipts had no signature, which may not be a way around it."""
    content = json.loads(base64.b64decode(read_json(receipt_of(run, CELL))["payload"]))
    outputs = {item["name"]: item["digest"]["sha256"] for item in content["subject"]}
    write_json(receipt_of(run, CELL), {"schema": receipts.PLAIN, **content["predicate"], "outputs": outputs})


def copy_of_another_cell(run: Path) -> None:
    receipt_of(run, CELL).write_bytes(receipt_of(run, OTHER).read_bytes())


def of_another_run(run: Path) -> None:
    other = make_run(run.parent / "other")
    receipt_of(run, CELL).write_bytes(receipt_of(other, CELL).read_bytes())


def of_another_registration(run: Path) -> None:
    """Same run identity, so that nothing but the registration gives it away."""
    other = make_run(run.parent / "elsewhere" / "run", registration="2")
    receipt_of(run, CELL).write_bytes(receipt_of(other, CELL).read_bytes())


def of_an_earlier_attempt(run: Path) -> None:
    earlier = receipt_of(run, CELL).read_bytes()
    make_cell(run, CELL)
    assert judge(run)[0]  # the later one counts
    receipt_of(run, CELL).write_bytes(earlier)


def without_attempt(run: Path) -> None:
    (run / "attempts" / f"{job_name('cell', CELL)}.json").unlink()


def changed_output(run: Path) -> None:
    (run / FILE.format(**CELL)).write_bytes(b"made by hand")


def missing_output(run: Path) -> None:
    (run / FILE.format(**CELL)).unlink()


def missing_receipt(run: Path) -> None:
    receipt_of(run, CELL).unlink()


def garbage(run: Path) -> None:
    receipt_of(run, CELL).write_bytes(b"{}")


def frozen_anew(run: Path) -> None:
    write_json(run / "frozen.json", {"schema": "halfulp.frozen/1", "registration": {"sha256": "1" * 64}, "more": 1})


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (edit_statement, "was edited: the signature does not match"),
        (edit_and_sign_anew, "not signed by this run's key"),
        (plain, "not signed by this run's key"),
        (copy_of_another_cell, "of another job: cell.b.seed1"),
        (of_another_run, "of another run"),
        (of_another_registration, "of another registration or freeze"),
        (of_an_earlier_attempt, "of an earlier attempt"),
        (without_attempt, "no attempt at it on record"),
        (changed_output, "cells/a.seed1/counts.json differs from its receipt"),
        (missing_output, "cells/a.seed1/counts.json is missing"),
        (missing_receipt, "no receipt: made outside the workflow"),
        (garbage, "not a DSSE envelope"),
        (frozen_anew, "of another registration or freeze"),
    ],
)
def test_a_forged_identity_does_not_count(forge: Callable[[Path], None], reason: str, run: Path) -> None:
    forge(run)
    canonical, found = judge(run)
    assert not canonical
    assert reason in found


def test_without_its_key_a_run_does_not_go_on(run: Path) -> None:
    receipts.key_path(run).unlink()
    with pytest.raises(IncompleteError, match="no receipt can be signed; restore it"):
        begin("cell", CELL, run)


def test_a_receipt_for_more_or_fewer_files_does_not_count(run: Path) -> None:
    more = [run / FILE.format(**CELL), run / FILE.format(**OTHER)]
    for files in ([], more):
        identity = process_identity(run, "cell", CELL, files)
        assert identity.reason == "its receipt lists other files than the job writes"
