"""Claim: the untouched run verifies; every one of more than 200 tampered copies is found out, by file and by step."""

import json
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pyarrow.compute as pc
import pytest

from halfulp.registration import attestation
from halfulp.registration.digests import canonical_json, sha256_file
from halfulp.registration.receipts import RECEIPT, read_receipt
from halfulp.training.tables import LOSSES, file_contents, read_table, write_table
from halfulp.verification.case import Auditor
from halfulp.verification.findings import EXIT, Report
from halfulp.verification.verify import verify_run
from tests.integration.conftest import ROOT, halfulp
from tests.integration.tampering import Case, cases

OTHER = ROOT / "results/published/desk/audit-2"
ALL = list(cases(OTHER))


@pytest.fixture(scope="module")
def run(smoke: Path) -> Path:
    return smoke / "smoke/audit"


def copy_of(run: Path, folder: Path) -> Path:
    copy = folder / "audit"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("logs", "benchmarks", "progress", "checkpoints", ".vault"))
    return copy


def look(run: Path) -> Report:
    return verify_run(run, Auditor(ROOT))


def test_the_untouched_run_verifies(run: Path, tmp_path: Path) -> None:
    """Control for every case: the copy that they start from."""
    report = look(copy_of(run, tmp_path))
    assert [step.status for step in report.steps] == ["ok"] * 8, report.lines()
    assert report.verdict == "verified"


def test_there_are_enough_cases_and_each_has_a_name() -> None:
    assert len(ALL) >= 200
    assert len({case.name for case in ALL}) == len(ALL)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name.replace("/", "∕"))
def test_tampering_is_found_out(case: Case, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFULP_TRAP", str(tmp_path / "trap"))
    copy = copy_of(run, tmp_path)
    case.damage(copy)
    report = look(copy)
    assert report.verdict == case.verdict, report.lines()
    faults = [step for step in report.steps if step.status in ("tampered", "incomplete")]
    messages = [message for step in faults for message in step.messages]
    assert any(m.startswith(case.file) and case.word in m for m in messages), report.lines()
    assert not (tmp_path / "trap").exists()  # nothing was unpickled
    assert report.steps[6].status == "not reached"  # no score is computed from such files


def test_the_name_of_the_folder_does_not_matter(run: Path, tmp_path: Path) -> None:
    copy = copy_of(run, tmp_path).rename(tmp_path / "another-name")
    assert look(copy).verdict == "verified"


def rechain(run: Path, key: Path) -> None:
    """Forge a whole chain: every receipt made anew for the files as they lie there, signed with another run key."""
    attestation.make_key(key)
    signer = attestation.load_signer(key)
    identity = json.loads((run / "run.json").read_bytes())
    (run / "run.json").write_bytes(canonical_json({**identity, "key": attestation.public_pem(signer)}))
    read = {path: read_receipt(path, []) for path in (run / "receipts").glob("*.json")}
    for path, receipt in sorted(read.items(), key=lambda item: item[1].finished):
        stated = {n: value for n, value in asdict(receipt).items() if n not in ("outputs", "signers", "named")}
        here = {name: sha256_file(run / name) for name in receipt.inputs if (run / name).is_file()}
        tables = {name: file_contents(run / name) for name in receipt.contents}
        outputs = {name: sha256_file(run / name) for name in receipt.outputs}
        predicate = {**stated, "inputs": {**receipt.inputs, **here}, "contents": tables}
        attestation.write_statement(path, outputs, RECEIPT, predicate, [signer])


def sign_all(run: Path, author: Path) -> None:
    """Add an author's signature to every receipt, as a run with HALFULP_SIGNING_KEY has it."""
    own, mine = (attestation.load_signer(path) for path in (run / ".run-key.pem", author))
    read = {path: read_receipt(path, []) for path in (run / "receipts").glob("*.json")}
    for path, receipt in sorted(read.items(), key=lambda item: item[1].finished):
        stated = {n: value for n, value in asdict(receipt).items() if n not in ("outputs", "signers", "named")}
        here = {n: sha256_file(run / n) for n in receipt.inputs if n.startswith("receipts/")}
        predicate = {**stated, "inputs": {**receipt.inputs, **here}}
        attestation.write_statement(path, receipt.outputs, RECEIPT, predicate, [own, mine])


def change_losses(run: Path) -> None:
    """Change data that no score is made from, so that nothing but the chain can tell."""
    path = run / "targets/seed11/losses.parquet"
    table = read_table(path, LOSSES)
    write_table(table.set_column(2, "loss", pc.multiply(table["loss"], 0.5)), path)


def test_a_chain_recomputed_as_a_whole_goes_through_unsigned_and_verify_says_so(run: Path, tmp_path: Path) -> None:
    copy = copy_of(run, tmp_path)
    change_losses(copy)
    assert look(copy).verdict == "tampered"
    rechain(copy, tmp_path / "forger")
    report = look(copy)
    assert report.verdict == "verified"
    assert any("can't be told from the first" in line for line in report.not_proved)


def test_in_a_signed_folder_it_is_found_out(run: Path, tmp_path: Path) -> None:
    copy = copy_of(run, tmp_path)
    public = attestation.make_key(tmp_path / "author")
    auditor = Auditor(ROOT, {"author.pub": attestation.load_public(public.read_text(), "author.pub")})
    unsigned_report = verify_run(copy, auditor)
    assert unsigned_report.verdict == "tampered"  # who asks for a signature does not get by without
    sign_all(copy, tmp_path / "author")
    signed = verify_run(copy, auditor)
    assert signed.verdict == "verified", signed.lines()
    assert not any("who ran this" in line for line in signed.not_proved)
    change_losses(copy)
    rechain(copy, tmp_path / "forger")
    forged = verify_run(copy, auditor)
    assert forged.verdict == "tampered"
    assert "not signed by author.pub" in "\n".join(forged.lines())


def test_an_independently_kept_digest_catches_a_new_freeze(run: Path, tmp_path: Path) -> None:
    digest = sha256_file(run / "frozen.json")
    assert verify_run(run, Auditor(ROOT, expect=digest.upper())).verdict == "verified"
    assert verify_run(run, Auditor(ROOT, expect="0" * 64)).verdict == "tampered"


def test_text_json_and_exit_code_agree(run: Path, tmp_path: Path) -> None:
    copy = copy_of(run, tmp_path)
    for damage, verdict in ((None, "verified"), ("delete", "incomplete"), ("change", "tampered")):
        if damage == "delete":
            (copy / "tables/paper.md").unlink()
        elif damage == "change":
            (copy / "tables/paper.md").write_text("better")
        shown, listed = (halfulp("verify", str(copy), *extra) for extra in ((), ("--json",)))
        assert shown.returncode == listed.returncode == EXIT[verdict]  # type: ignore[index]
        assert shown.stdout.splitlines()[-1] == f"verdict: {verdict} ({int(damage is None)} of 1 runs verified)"
        content = json.loads(listed.stdout)
        assert (content["verdict"], content["exit_code"]) == (verdict, listed.returncode)
        assert [step["step"] for step in content["runs"][0]["steps"]] == list(range(1, 9))
        assert set(content) == {"schema", "verdict", "exit_code", "runs", "between"}
        assert set(content["runs"][0]) == {"folder", "verdict", "steps", "not_proved"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent",), "no such folder"),
        (("docs",), "holds no run"),
        (("results/published", "--project", "docs"), "has no preregistration folder"),
        (("results/published", "--expect", "0" * 64), "are for one"),
        (("results/published", "--expect", "abc"), "not a SHA-256"),
        (("results/published", "--key", "README.md"), "not a public key"),
        (("results/published", "--key", "results/published/desk/grid/figures/crossings.png"), "not a public key"),
        (("results/published/desk/grid", "--token", "absent"), "absent: no such file"),
    ],
)
def test_usage_errors_are_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    done = halfulp("verify", *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert message in line


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


CONFIG = """
[tsa]
default_tsa = here
[here]
serial = serial
crypto_device = builtin
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:1
ess_cert_id_alg = sha256
[ext]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
"""


def authority(folder: Path) -> None:
    """A timestamp authority of our own: a root, and a certificate for time stamping."""
    folder.mkdir()
    (folder / "tsa.cnf").write_text(CONFIG)
    (folder / "serial").write_text("01")
    new = ("-newkey", "rsa:2048", "-nodes", "-days", "30")
    openssl(folder, "req", "-x509", *new, "-keyout", "root.key", "-out", "root.pem", "-subj", "/CN=root")
    openssl(folder, "req", *new[:3], "-keyout", "tsa.key", "-out", "tsa.csr", "-subj", "/CN=tsa")
    signing = ("-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial", "-extfile", "tsa.cnf", "-extensions", "ext")
    openssl(folder, "x509", "-req", "-in", "tsa.csr", *signing, "-days", "30", "-out", "tsa.pem")


def stamp(folder: Path, file: Path, name: str) -> Path:
    openssl(folder, "ts", "-query", "-data", str(file), "-sha256", "-cert", "-out", "query.tsq")
    keys = ("-config", "tsa.cnf", "-section", "here", "-inkey", "tsa.key", "-signer", "tsa.pem")
    openssl(folder, "ts", "-reply", "-queryfile", "query.tsq", *keys, "-out", name)
    return folder / name


def test_a_timestamp_anchors_the_freeze_and_nothing_less_does(run: Path, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    authority(ours)
    authority(theirs)
    token = stamp(ours, run / "frozen.json", "frozen.tsr")
    other = stamp(ours, run / "scores.json", "other.tsr")
    (tmp_path / "garbage").write_bytes(b"garbage")

    def first_step(token: Path | None, root: Path | None) -> tuple[str, str]:
        report = verify_run(run, Auditor(ROOT, token=token, authority=root))
        return report.verdict, "\n".join(report.steps[0].messages)

    verdict, text = first_step(token, ours / "root.pem")
    assert verdict == "verified"
    assert "anchored, existed at 20" in text
    assert "unanchored" not in text
    for bad in ((None, None), (token, None), (token, theirs / "root.pem"), (tmp_path / "garbage", ours / "root.pem")):
        verdict, text = first_step(*bad)
        assert verdict == "verified"
        assert "unanchored" in text
    verdict, text = first_step(other, ours / "root.pem")
    assert verdict == "tampered"
    assert "other.tsr was made for other contents" in text
    copy = copy_of(run, tmp_path)  # a token that travels with the run
    shutil.copy(token, copy / "frozen.tsr")
    report = verify_run(copy, Auditor(ROOT, authority=ours / "root.pem"))
    assert report.verdict == "verified"
    assert any("anchored, existed at" in message for message in report.steps[0].messages)
