"""Steps 1 to 5: what digests, signatures and times say, without computing a single score."""

from datetime import datetime

from halfulp.errors import FrozenError, HalfulpError
from halfulp.registration.digests import canonical_json, read_json, sha256_file
from halfulp.registration.freeze import FROZEN_SCHEMA
from halfulp.registration.receipts import ATTEMPTS_SCHEMA, RUN_SCHEMA, read_receipt, run_key
from halfulp.registration.seals import SEAL_SCHEMA
from halfulp.studies import catalogue
from halfulp.studies.audit_rules import OPENED_SCHEMA, SEALED
from halfulp.verification import anchor
from halfulp.verification.case import Case, MissingError, how_it_differs, source_digest
from halfulp.verification.expected import REMADE, expected_jobs
from halfulp.verification.findings import Finding
from halfulp.verification.folder import leaves

LABELS = ("registered", "replication", "unregistered")


def freeze(case: Case, found: Finding) -> None:
    """Step 1: the frozen file is intact, names the gates of the registration, and is the committed one."""
    try:
        case.frozen = case.record("frozen.json", FROZEN_SCHEMA)
        case.identity = case.record("run.json", RUN_SCHEMA)
        named = case.frozen["registration"]["path"]
        if leaves(named) or not named.startswith("preregistration/"):
            raise HalfulpError(f"frozen.json: registration path {named!r} leaves the project")
        case.path = case.auditor.project / named
        if not case.path.is_file():
            raise MissingError(f"{named}: not at hand; run this in the project, or give --project")
        if sha256_file(case.path) != case.frozen["registration"]["sha256"]:
            raise HalfulpError(f"frozen.json: was made from another text of {named} than the one at hand")
        case.registration = catalogue.load(case.path)
    except MissingError as error:
        found.incomplete(str(error))
        return
    except (HalfulpError, KeyError, TypeError) as error:
        found.tampered(str(error) if isinstance(error, HalfulpError) else f"frozen.json: lacks {error}")
        return
    gates = [gate.model_dump() for gate in case.registration.gates]
    if case.frozen.get("gates") != gates or case.frozen.get("gate_count") != len(gates) or not gates:
        found.tampered("frozen.json: its gates are not those of the registration")
    digest = case.folder.digest("frozen.json")
    found.say(f"frozen.json: sha256 {digest}; {len(gates)} gates of {named}: {', '.join(g['name'] for g in gates)}")
    _label(case, found)
    if case.auditor.expect is not None and case.auditor.expect.lower() != digest:
        found.tampered(f"frozen.json: expected {case.auditor.expect}, which was kept elsewhere")
    elif case.auditor.expect is not None:
        found.say("frozen.json: equal to the digest that was kept elsewhere")
    anchor.check(case, found)


def _label(case: Case, found: Finding) -> None:
    """A run that calls itself registered has the committed frozen file."""
    label, committed = case.identity.get("label"), case.committed()
    if label not in LABELS:
        found.tampered(f"run.json: label {label!r} is none of {', '.join(LABELS)}")
    elif label != "registered":
        found.say(f"run.json: a run labelled {label}: {case.identity.get('label_detail')}")
    elif not committed.is_file():
        found.incomplete(f"{committed.name}: not at hand, though run.json says that the run was registered")
    elif sha256_file(committed) != case.folder.digest("frozen.json"):
        found.tampered(f"run.json: says registered, but frozen.json is not the committed {committed.name}")
    else:
        found.say(f"run.json: registered; frozen.json is the committed {committed.name}, byte for byte")


def sources(case: Case, found: Finding) -> None:
    """Step 2: every registered source file is at hand as it was, or on record as an earlier version."""
    registered = case.frozen.get("sources")
    if not isinstance(registered, dict) or not registered:
        found.tampered("frozen.json: names no source files")
        return
    strange = [name for name in registered if leaves(name)]
    if strange:
        found.tampered(f"frozen.json: source path {strange[0]!r} leaves the project")
        return
    later = [name for name, digest in registered.items() if source_digest(case.auditor.project, name) != digest]
    found.say(f"{len(registered) - len(later)} of {len(registered)} registered source files are those at hand")
    if not later:
        return
    if case.identity.get("label") == "registered" and case.committed().is_file():
        found.say(f"{len(later)} have later versions here; the committed frozen file has their digests: {_some(later)}")
    else:
        found.incomplete(f"{later[0]}: another version than was frozen, and nothing committed records that one")


def receipts(case: Case, found: Finding) -> None:
    """Step 3: every receipt can be read, and has the signatures that it should have."""
    try:
        own = run_key(case.folder.root)
    except (HalfulpError, TypeError) as error:
        found.tampered(f"run.json: field key: {error}")
        return
    keys = [*case.auditor.keys.values(), *([own] if own is not None else [])]
    for name in sorted(n for n in case.folder.files if n.startswith("receipts/")):
        try:
            receipt = read_receipt(case.folder.files[name], keys)
        except FrozenError as error:
            found.tampered(f"{name}: {_reason(error)}")
            continue
        except (HalfulpError, OSError) as error:
            found.tampered(f"{name}: can't be read as a receipt ({_reason(error)})")
            continue
        if canonical_json(read_json(case.folder.files[name])) != case.folder.files[name].read_bytes():
            found.tampered(f"{name}: not in canonical form: line endings, spaces or order changed")
        case.receipts[name.removeprefix("receipts/").removesuffix(".json")] = receipt
        if own is not None and own.keyid not in receipt.signers:
            found.tampered(f"{name}: is not signed by the key of its run")
    if own is None and "src/halfulp/registration/attestation.py" in case.frozen.get("sources", {}):
        found.tampered("run.json: field key: missing, though the registered code signs every receipt")
    _signatures(case, found, None if own is None else own.keyid)


def _signatures(case: Case, found: Finding, own: str | None) -> None:
    trusted = {key.keyid: name for name, key in case.auditor.keys.items()}
    unsigned = [n for n, r in case.receipts.items() if not r.signers & trusted.keys()]
    count = len(case.receipts)
    if trusted and unsigned:
        found.tampered(
            f"receipts/{unsigned[0]}.json: not signed by {', '.join(trusted.values())} ({len(unsigned)} of {count})"
        )
    elif trusted:
        case.signed = True
        found.say(f"{count} receipts, each signed by {', '.join(trusted.values())}")
    else:
        how = "signed by the run's own key" if own is not None else "plain, from before receipts were signed"
        found.say(f"{count} receipts, unsigned: no key was named; {how}")


def chain(case: Case, found: Finding) -> None:
    """Step 4: the jobs are those of the registration, and every file is what one of them wrote and others read."""
    case.jobs = expected_jobs(case.registration, case.name)
    for name, kind in case.folder.strange.items():
        found.tampered(f"{name}: {kind}")
    for name in sorted(case.jobs.keys() - case.receipts.keys()):
        if f"receipts/{name}.json" not in case.folder.files:
            found.incomplete(f"receipts/{name}.json: missing")
    for name in sorted(case.receipts.keys() - case.jobs.keys()):
        found.tampered(f"receipts/{name}.json: is of no job that the registration asks for")
    written: dict[str, str] = {}
    for name in sorted(case.jobs.keys() & case.receipts.keys()):
        _one_job(case, found, name)
        written |= dict.fromkeys(case.receipts[name].outputs, name)
    ids = [receipt.job.get("id") for receipt in case.receipts.values()]
    if len(set(ids)) != len(ids):
        found.tampered("receipts: two jobs have the same identity")
    _attempts(case, found)
    for name in sorted(case.folder.files):
        if not name.startswith(("receipts/", "attempts/")) and name not in written:
            wanted = any(name in job.writes for job in case.jobs.values())
            (found.incomplete if wanted else found.tampered)(
                f"{name}: {'its receipt is missing' if wanted else 'no job wrote it'}"
            )
    if found.status == "ok":
        found.say(f"{len(case.receipts)} jobs and {len(written)} files, none missing, none extra; one run, one freeze")
    if case.folder.beside:
        found.say(f"no evidence, and not read: {', '.join(sorted(case.folder.beside))}")


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
    for output in sorted(set(receipt.outputs) & set(job.writes)):
        if output not in case.folder.files:
            if output not in case.folder.strange:
                found.incomplete(f"{output}: missing, but {file} lists it")
        elif case.folder.digest(output) != receipt.outputs[output]:
            found.tampered(f"{output}: {how_it_differs(case.folder.files[output], receipt, output)}")
    lacking = [read for read in job.reads if read not in receipt.inputs]
    if lacking:
        found.tampered(f"{file}: its job did not read {lacking[0]}")
    registration = case.frozen["registration"]
    if receipt.inputs.get(registration["path"]) != registration["sha256"]:
        found.tampered(f"{file}: its job did not read the registration that was frozen")
    for read, digest in receipt.inputs.items():
        known = case.folder.digest(read) if not leaves(read) else None
        made = any(read in other.outputs for other in case.receipts.values()) or read.startswith("receipts/")
        if known is not None and made and known != digest:
            found.tampered(f"{file}: read another version of {read}")


def _attempts(case: Case, found: Finding) -> None:
    """The ledger of attempts: the receipt is of the last one, and repetitions are told."""
    ledgers = {n for n in case.folder.files if n.startswith("attempts/")}
    if not ledgers and "key" not in case.identity:
        return  # a run from before attempts were kept
    for name in sorted(case.receipts):
        file = f"attempts/{name}.json"
        try:
            attempts = case.record(file, ATTEMPTS_SCHEMA)["attempts"]
            last = attempts[-1]["id"]
        except MissingError:
            found.incomplete(f"{file}: missing")
            continue
        except (HalfulpError, KeyError, TypeError, IndexError) as error:
            found.tampered(f"{file}: can't be read ({error})")
            continue
        if case.receipts[name].job.get("id") != last:
            found.tampered(f"{file}: its last attempt is not that of receipts/{name}.json")
        elif len(attempts) > 1 and case.receipts[name].rule not in REMADE:
            found.say(f"{file}: begun {len(attempts)} times; the last attempt counts")
    for file in sorted(ledgers - {f"attempts/{name}.json" for name in case.receipts}):
        wanted = file.removeprefix("attempts/").removesuffix(".json") in case.jobs
        (found.incomplete if wanted else found.tampered)(f"{file}: is of a job that left no receipt")


def order(case: Case, found: Finding) -> None:
    """Step 5: what a job read was finished before it began, and forecasts were fixed before any unseen outcome."""
    moments: dict[str, tuple[datetime, datetime]] = {}
    for name, receipt in sorted(case.receipts.items()):
        try:
            begun, done = datetime.fromisoformat(receipt.started), datetime.fromisoformat(receipt.finished)
            moments[name] = (begun, done)
            if done < begun:
                found.tampered(f"receipts/{name}.json: finished before it began")
        except (ValueError, TypeError):
            found.tampered(f"receipts/{name}.json: field started or finished: not a time")
    makers = {output: name for name, receipt in case.receipts.items() for output in receipt.outputs}
    for name, receipt in case.receipts.items():
        for read in receipt.inputs:
            maker = makers.get(read) or read.removeprefix("receipts/").removesuffix(".json")
            if maker in moments and name in moments and maker != name and moments[maker][1] > moments[name][0]:
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


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
