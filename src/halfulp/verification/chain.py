"""Steps 3 to 5: receipts with their signatures, the chain that they form, and the order of its links."""

from datetime import datetime

from halfulp.errors import FrozenError, HalfulpError
from halfulp.registration.digests import canonical_json, read_json
from halfulp.registration.receipts import ATTEMPTS_SCHEMA, Receipt, read_receipt, run_key
from halfulp.registration.seals import SEAL_SCHEMA
from halfulp.studies.audit_rules import OPENED_SCHEMA, SEALED
from halfulp.verification.case import Case, MissingError, how_it_differs
from halfulp.verification.expected import REMADE, expected_jobs
from halfulp.verification.findings import Finding
from halfulp.verification.folder import leaves

FOLDER, ENDING = "receipts/", ".json"


def receipts(case: Case, found: Finding) -> None:
    """Step 3: every receipt can be read, and has the signatures that it should have."""
    if "run.json" not in case.folder.files:
        found.incomplete("run.json: missing, and with it the run's key")
        return
    try:
        own = run_key(case.folder.root)
    except (HalfulpError, TypeError) as error:
        found.tampered(f"run.json: field key: {error}")
        return
    keys = [*case.auditor.keys.values(), *([own] if own is not None else [])]
    for name, path in sorted(case.folder.files.items()):
        if not name.startswith(FOLDER):
            continue
        if not name.endswith(ENDING):
            found.tampered(f"{name}: not the name of a receipt")
            continue
        try:
            receipt = read_receipt(path, keys)
        except FrozenError as error:
            found.tampered(f"{name}: {_reason(error)}")
            continue
        except HalfulpError as error:
            found.tampered(f"{name}: can't be read as a receipt ({_reason(error)})")
            continue
        if canonical_json(read_json(path)) != path.read_bytes():
            found.tampered(f"{name}: not in canonical form: line endings, spaces or order changed")
        case.receipts[name.removeprefix(FOLDER).removesuffix(ENDING)] = receipt
        if own is not None and own.keyid not in receipt.signers:
            found.tampered(f"{name}: is not signed by the key of its run")
    if own is None and "src/halfulp/registration/attestation.py" in case.frozen.get("sources", {}):
        found.tampered("run.json: field key: missing, though the registered code signs every receipt")
    _signatures(case, found, signing=own is not None)


def _signatures(case: Case, found: Finding, *, signing: bool) -> None:
    """One set of keys signed the whole run; one of those that the auditor trusts is among them."""
    count = len(case.receipts)
    named: dict[frozenset[str], list[str]] = {}
    for name, receipt in case.receipts.items():
        named.setdefault(receipt.named, []).append(name)
    if len(named) > 1:
        odd = min(named.values(), key=len)[0]
        found.tampered(f"receipts/{odd}.json: names other keys than the run's other receipts do")
    trusted = case.auditor.keys
    good = [name for name, key in trusted.items() if all(key.keyid in r.signers for r in case.receipts.values())]
    if good and count:
        case.signed = True
        found.say(f"{count} receipts, each signed by {', '.join(good)}")
    elif trusted and count:
        ids = {key.keyid for key in trusted.values()}
        lacking = [name for name, receipt in case.receipts.items() if not receipt.signers & ids] or list(case.receipts)
        who = " or ".join(trusted)
        found.tampered(f"receipts/{lacking[0]}.json: not signed by {who} ({len(lacking)} of {count})")
    else:
        how = "signed by the run's own key" if signing else "plain, from before receipts were signed"
        found.say(f"{count} receipts, unsigned: no key was named; {how}")


def chain(case: Case, found: Finding) -> None:
    """Step 4: the jobs are those of the registration, and every file is what one of them wrote and others read.

    Without a registration the jobs are unknown; digests and strange files are looked at all the same.
    """
    for name, kind in case.folder.strange.items():
        found.tampered(f"{name}: {kind}")
    if case.registration is None:
        _digests_alone(case, found)
        found.incomplete("the registration is not known, and with it the jobs that it asks for")
        return
    case.jobs = expected_jobs(case.registration, case.name)
    for name in sorted(case.jobs.keys() - case.receipts.keys()):
        if f"receipts/{name}.json" not in case.folder.files:
            found.incomplete(f"receipts/{name}.json: missing")
    for name in sorted(case.receipts.keys() - case.jobs.keys()):
        found.tampered(f"receipts/{name}.json: is of no job that the registration asks for")
    for name in sorted(case.jobs.keys() & case.receipts.keys()):
        _one_job(case, found, name)
    ids = [receipt.job["id"] for receipt in case.receipts.values()]
    if len(set(ids)) != len(ids):
        found.tampered("receipts: two jobs have the same identity")
    _attempts(case, found)
    _extra(case, found)
    if found.status == "ok":
        written = sum(len(receipt.outputs) for receipt in case.receipts.values())
        found.say(f"{len(case.receipts)} jobs and {written} files, none missing, none extra; one run, one freeze")
    if case.folder.beside:
        found.say(f"no evidence, and not read: {', '.join(sorted(case.folder.beside))}")


def _digests_alone(case: Case, found: Finding) -> None:
    written = {output for receipt in case.receipts.values() for output in receipt.outputs}
    for name, receipt in sorted(case.receipts.items()):
        _outputs(case, found, f"receipts/{name}.json", receipt, set(receipt.outputs))
    for name in sorted(case.folder.files):
        if case.receipts and name not in written and not name.startswith(("receipts/", "attempts/")):
            found.tampered(f"{name}: no job wrote it")


def _extra(case: Case, found: Finding) -> None:
    written = {output for receipt in case.receipts.values() for output in receipt.outputs}
    own = {f"{folder}/{name}.json" for name in case.jobs for folder in ("receipts", "attempts")}
    for name in sorted(set(case.folder.files) - written - own):
        if any(name in job.writes for job in case.jobs.values()):
            found.incomplete(f"{name}: its receipt is missing")
        else:
            found.tampered(f"{name}: no job wrote it")


def _one_job(case: Case, found: Finding, name: str) -> None:
    receipt, job, file = case.receipts[name], case.jobs[name], f"receipts/{name}.json"
    if (receipt.rule, receipt.wildcards) != (job.rule, job.wildcards):
        found.tampered(f"{file}: is of another job")
    expected = {
        "run_id": case.identity.get("run_id"),
        "label": case.identity.get("label"),
        "frozen_sha256": case.folder.digest("frozen.json"),
        "registration_sha256": case.frozen["registration"]["sha256"],
    }
    for field, value in expected.items():
        if getattr(receipt, field) != value:
            found.tampered(f"{file}: field {field}: belongs to another run or freeze")
    if set(receipt.outputs) != set(job.writes):
        odd = sorted(set(receipt.outputs) ^ set(job.writes))
        found.tampered(f"{file}: lists {odd[0]!r}, or lacks it, unlike the job")
    _outputs(case, found, file, receipt, set(job.writes))
    lacking = [read for read in job.reads if read not in receipt.inputs]
    if lacking:
        found.tampered(f"{file}: its job did not read {lacking[0]}")
    registration = case.frozen["registration"]
    if receipt.inputs.get(registration["path"]) != registration["sha256"]:
        found.tampered(f"{file}: its job did not read the registration that was frozen")
    evidence = {written for other in case.jobs.values() for written in other.writes}
    for read, digest in receipt.inputs.items():
        if leaves(read) or not (read in evidence or read.startswith(FOLDER)):
            continue  # of the project, not of the run
        if read not in case.folder.files:
            found.incomplete(f"{read}: missing, but {file} says that its job read it")
        elif case.folder.digest(read) != digest:
            found.tampered(f"{file}: read another version of {read}")


def _outputs(case: Case, found: Finding, file: str, receipt: Receipt, writes: set[str]) -> None:
    for output in sorted(set(receipt.outputs) & writes):
        if output not in case.folder.files:
            if output not in case.folder.strange:
                found.incomplete(f"{output}: missing, but {file} lists it")
        elif case.folder.digest(output) != receipt.outputs[output]:
            found.tampered(f"{output}: {how_it_differs(case.folder.files[output], receipt, output)}")


def _attempts(case: Case, found: Finding) -> None:
    """The ledger of attempts: the receipt is of the last and has the identities of all, and repetitions are told."""
    ledgers = {n for n in case.folder.files if n.startswith("attempts/")}
    if not ledgers and "key" not in case.identity:
        return  # a run from before attempts were kept
    for name, receipt in sorted(case.receipts.items()):
        file = f"attempts/{name}.json"
        try:
            record = case.record(file, ATTEMPTS_SCHEMA)
            ids = [entry["id"] for entry in record["attempts"]]
            sound = set(record) == {"schema", "attempts"} and len(set(ids)) == len(ids) > 0
            sound = sound and all(set(entry) == {"id", "host", "started"} for entry in record["attempts"])
            last = record["attempts"][-1]
        except MissingError:
            found.incomplete(f"{file}: missing")
            continue
        except (HalfulpError, KeyError, TypeError, IndexError) as error:
            found.tampered(f"{file}: can't be read ({error})")
            continue
        stated = [*receipt.job.get("earlier", ids[:-1]), receipt.job["id"]]
        if not sound or ids != stated or last["started"] != receipt.started or last["host"] != receipt.job.get("host"):
            found.tampered(f"{file}: is not the ledger of receipts/{name}.json")
        elif len(ids) > 1 and receipt.rule not in REMADE:
            found.say(f"{file}: begun {len(ids)} times; the last attempt counts")
    for file in sorted(ledgers - {f"attempts/{name}.json" for name in case.receipts}):
        wanted = file.removeprefix("attempts/").removesuffix(ENDING) in case.jobs
        (found.incomplete if wanted else found.tampered)(f"{file}: is of a job that left no receipt")


def order(case: Case, found: Finding) -> None:
    """Step 5: what a job read was finished before it began, and forecasts were fixed before any unseen outcome."""
    moments: dict[str, tuple[datetime, datetime]] = {}
    for name, receipt in sorted(case.receipts.items()):
        begun, done = datetime.fromisoformat(receipt.started), datetime.fromisoformat(receipt.finished)
        moments[name] = (begun, done)
        if done < begun:
            found.tampered(f"receipts/{name}.json: finished before it began")
    makers = {output: name for name, receipt in case.receipts.items() for output in receipt.outputs}
    for name, receipt in case.receipts.items():
        for read in receipt.inputs:
            maker = makers.get(read) or read.removeprefix("receipts/").removesuffix(".json")
            if maker in moments and maker != name and moments[maker][1] > moments[name][0]:
                found.tampered(f"receipts/{name}.json: began before {read} was finished")
    unseen = [name for name, job in case.jobs.items() if job.unseen]
    if "seal" in case.jobs:
        _seal(case, found)
    if found.status == "ok":
        before = {"seal": "the seal", "forecast": "the forecast"}
        stands = next((text for job, text in before.items() if job in case.jobs), "the freeze")
        found.say(f"{stands} was finished before {len(unseen) or 'the first'} of the jobs that were to be unseen began")


def _seal(case: Case, found: Finding) -> None:
    try:
        seal, opened = case.record("seal.json", SEAL_SCHEMA), case.record("opened.json", OPENED_SCHEMA)
    except HalfulpError as error:
        found.incomplete(str(error)) if isinstance(error, MissingError) else found.tampered(str(error))
        return
    covered = {name: case.folder.digest(name) for name in ("frozen.json", *SEALED)}
    if not _agrees(seal.get("sealed"), covered):
        found.tampered("seal.json: does not cover the freeze and the forecasts as they lie there")
    outcomes = {
        file: case.folder.digest(file)
        for name, job in case.jobs.items()
        if name.startswith("target.")
        for file in job.writes
        if file.endswith("counts.parquet")
    }
    if not _agrees(opened.get("sealed"), covered) or not _agrees(opened.get("outcomes"), outcomes):
        found.tampered("opened.json: does not name the sealed files and the outcomes as they lie there")
    for name, job in case.jobs.items():
        if job.rule != "target" or name not in case.receipts:
            continue
        if case.receipts[name].inputs.get("seal.json") != case.folder.digest("seal.json"):
            found.tampered(f"receipts/{name}.json: its target did not read this seal")


def _agrees(stated: object, found: dict[str, str | None]) -> bool:
    """Say whether digests are stated for just these files, and are right for those that are there."""
    if not isinstance(stated, dict) or stated.keys() != found.keys():
        return False
    return all(digest is None or stated[name] == digest for name, digest in found.items())


def _reason(error: Exception) -> str:
    """Return an error's text without the path before it, which the message has already."""
    text = str(error)
    return text.split(": ", 1)[1] if ": " in text else text
