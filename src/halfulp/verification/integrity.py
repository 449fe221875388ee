"""Steps 1 and 2: the frozen file, the label, and the registered code."""

from halfulp.errors import HalfulpError
from halfulp.registration.digests import sha256_file
from halfulp.registration.freeze import FROZEN_SCHEMA, registered_sources
from halfulp.registration.receipts import RUN_SCHEMA
from halfulp.studies import catalogue
from halfulp.verification import anchor
from halfulp.verification.case import Case, MissingError, source_digest
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
    if case.identity.get("label") != "registered":
        lacking = sorted(registered_sources(case.registration.study).keys() - registered.keys())
        if lacking:
            found.incomplete(f"frozen.json: does not name {lacking[0]}, which the study uses")
    later = [name for name, digest in registered.items() if source_digest(case.auditor.project, name) != digest]
    found.say(f"{len(registered) - len(later)} of {len(registered)} registered source files are those at hand")
    if not later:
        return
    if case.identity.get("label") == "registered" and case.committed().is_file():
        found.say(f"{len(later)} have later versions here; the committed frozen file has their digests: {_some(later)}")
    else:
        found.incomplete(f"{later[0]}: another version than was frozen, and nothing committed records that one")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
