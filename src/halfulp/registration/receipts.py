"""Receipts: what each job read, wrote, ran on and belonged to, as a signed statement (see ``attestation``)."""

import os
import socket
import uuid
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from securesystemslib.signer import SSlibKey

from halfulp.determinism import environment
from halfulp.errors import FrozenError, IncompleteError, InputError
from halfulp.registration import attestation
from halfulp.registration.digests import digest_all, read_json, read_record, sha256_bytes, sha256_file, write_json
from halfulp.registration.freeze import ENFORCING, FROZEN_SCHEMA, PACKAGE, PROJECT
from halfulp.training.tables import file_contents

#: Kind of statement; the first version was plain JSON without a signature, and is still read.
RECEIPT = "urn:halfulp:receipt:2"
PLAIN = "halfulp.receipt/1"
RUN_SCHEMA = "halfulp.run/1"
ATTEMPTS_SCHEMA = "halfulp.attempts/1"


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """One job's receipt. Paths in the run's folder are relative to it."""

    rule: str
    wildcards: dict[str, str]
    run_id: str
    #: Label of the run: ``registered``, ``replication`` or ``unregistered``.
    label: str
    frozen_sha256: str
    registration_sha256: str
    #: One digest of the whole package and workflow.
    code_sha256: str
    #: Seed of a training job.
    seed: int | None
    #: Path → SHA-256 of what the job read and wrote.
    inputs: dict[str, str]
    outputs: dict[str, str]
    #: Path → digest of the contents of every table that the job wrote, which other versions of Parquet keep.
    contents: dict[str, str]
    environment: dict[str, Any]
    #: Identity of the attempt: id, host, process, scheduler's job.
    job: dict[str, Any]
    #: ISO 8601, UTC.
    started: str
    finished: str
    #: Keys, of those given, that signed it; the run's own is among them unless it is a plain one.
    signers: frozenset[str] = field(default=frozenset(), compare=False)
    #: Keys that its envelope names.
    named: frozenset[str] = field(default=frozenset(), compare=False)


_STATED = [f.name for f in fields(Receipt) if f.name not in ("outputs", "signers", "named")]


@dataclass(frozen=True, kw_only=True)
class Job:
    """Who is writing: a rule of the workflow with its wildcards, in one attempt, in one run."""

    rule: str
    wildcards: dict[str, str]
    #: The run's folder.
    run: Path
    #: Identity of this attempt, those of the attempts before it, and when it began.
    attempt: str
    earlier: tuple[str, ...]
    started: datetime

    @property
    def name(self) -> str:
        """Name of the job's receipt, without its ending."""
        return job_name(self.rule, self.wildcards)


def job_name(rule: str, wildcards: dict[str, str]) -> str:
    """Return the name of a job in receipts, attempts, progress and checkpoints: the rule, and its seed or cell."""
    marks = [f"seed{wildcards['seed']}"] if "seed" in wildcards else []
    return ".".join([rule, *marks, *([wildcards["cell"]] if "cell" in wildcards else [])])


def now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


def home(run: Path) -> Path:
    """Return the run's folder itself, where a rule in a shadow directory sees a copy of its inputs."""
    here = Path.cwd()
    shadowed = here.parent.name == "shadow" and here.parents[1].name == ".snakemake"
    return here.parents[2] / run if shadowed and not run.is_absolute() else run


def key_path(run: Path) -> Path:
    """Return where a run keeps its own private key. It is not published."""
    return home(run) / ".run-key.pem"


def run_key(run: Path) -> SSlibKey | None:
    """Return a run's public key; None for a run from before receipts were signed."""
    pem = read_record(run / "run.json", RUN_SCHEMA).get("key")
    return None if pem is None else attestation.load_public(pem, f"{run / 'run.json'}: field key")


def begin(rule: str, wildcards: dict[str, str], run: Path) -> Job:
    """Begin an attempt at a job, and note it in the run's ledger of attempts.

    Raises:
        IncompleteError: the run's key is gone, so that the job could not sign its receipt.
    """
    if rule != "freeze" and not key_path(run).exists():
        raise IncompleteError(f"{key_path(run)}: missing, no receipt can be signed; restore it, or start a new folder")
    path = home(run) / "attempts" / f"{job_name(rule, wildcards)}.json"
    before = read_record(path, ATTEMPTS_SCHEMA)["attempts"] if path.exists() else []
    earlier = tuple(entry["id"] for entry in before)
    job = Job(rule=rule, wildcards=wildcards, run=run, attempt=str(uuid.uuid4()), earlier=earlier, started=now())
    entry = {"id": job.attempt, "host": socket.gethostname(), "started": job.started.isoformat()}
    write_json(path, {"schema": ATTEMPTS_SCHEMA, "attempts": [*before, entry]})
    return job


def code_digest() -> str:
    """Return one SHA-256 over every source file of the package and of the workflow."""
    workflow = [path for pattern in ENFORCING[:-1] for path in PROJECT.glob(pattern)]
    digests = digest_all(sorted({*PACKAGE.rglob("*.py"), *workflow}), PROJECT)
    return sha256_bytes("\n".join(f"{digest}  {name}" for name, digest in digests.items()).encode())


def write_receipt(path: Path, job: Job, *, inputs: list[Path], outputs: list[Path], seed: int | None) -> None:
    """Write and sign a job's receipt; every digest is of the bytes as they lie on the disk now.

    It is signed with the run's own key and, if ``HALFULP_SIGNING_KEY`` names one, with the author's.
    """
    frozen = job.run / "frozen.json"
    identity = read_record(job.run / "run.json", RUN_SCHEMA)
    written = digest_all(outputs, job.run)
    receipt = Receipt(
        rule=job.rule,
        wildcards=job.wildcards,
        run_id=identity["run_id"],
        label=identity["label"],
        frozen_sha256=sha256_file(frozen),
        registration_sha256=read_record(frozen, FROZEN_SCHEMA)["registration"]["sha256"],
        code_sha256=code_digest(),
        seed=seed,
        inputs=digest_all(inputs, job.run),
        outputs=written,
        contents={name: file_contents(job.run / name) for name in written if name.endswith(".parquet")},
        environment=environment(),
        job={
            "id": job.attempt,
            "earlier": list(job.earlier),
            "host": socket.gethostname(),
            "process": os.getpid(),
            "scheduler": os.environ.get("SLURM_JOB_ID"),
        },
        started=job.started.isoformat(),
        finished=now().isoformat(),
    )
    author = attestation.author()
    signers = [attestation.load_signer(key_path(job.run)), *([author] if author is not None else [])]
    stated = {name: value for name, value in asdict(receipt).items() if name in _STATED}
    attestation.write_statement(path, receipt.outputs, RECEIPT, stated, signers)


def read_receipt(path: Path, keys: list[SSlibKey]) -> Receipt:
    """Read a receipt; a bad signature of one of the keys is refused.

    Raises:
        IncompleteError: there is no such file.
        InputError: it is not a receipt.
        FrozenError: a signature does not match.
    """
    content = read_json(path)
    if isinstance(content, dict) and content.get("schema") == PLAIN:
        return _receipt(path, {"contents": {}, **content}, content.get("outputs"))
    read = attestation.read_statement(path, keys)
    try:
        if read.statement["predicateType"] != RECEIPT:
            raise InputError(f"{path}: not a receipt but {read.statement['predicateType']!r}; restore it")
        outputs = {item["name"]: item["digest"]["sha256"] for item in read.statement["subject"]}
        if len(outputs) != len(read.statement["subject"]):
            raise InputError(f"{path}: lists an output twice; restore it")
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: not a receipt: {error} is missing; restore it") from error
    receipt = _receipt(path, read.statement.get("predicate"), outputs)
    return replace(receipt, signers=read.signers, named=read.named)


def _receipt(path: Path, stated: Any, outputs: Any) -> Receipt:
    missing = [name for name in _STATED if not isinstance(stated, dict) or name not in stated]
    if missing:
        raise InputError(f"{path}: not a receipt: {missing[0]} is missing; restore it")
    receipt = Receipt(**{name: stated[name] for name in _STATED}, outputs=outputs)
    texts = (receipt.wildcards, receipt.inputs, receipt.outputs, receipt.contents)
    sound = all(isinstance(part, dict) and all(isinstance(v, str) for v in (*part, *part.values())) for part in texts)
    if not sound or not isinstance(receipt.job, dict) or not isinstance(receipt.job.get("id"), str):
        raise InputError(f"{path}: not a receipt: a field is not of its type; restore it")
    for moment in (receipt.started, receipt.finished):
        if not isinstance(moment, str) or _moment(moment) is None:
            raise InputError(f"{path}: not a receipt: {moment!r} is not a time with its zone; restore it")
    return receipt


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def check_receipts(run: Path, inputs: list[Path]) -> None:
    """Insist that every input from the run's folder is what the receipt of its rule says, byte for byte.

    Args:
        run: the run's folder.
        inputs: a job's inputs; the receipts of the rules that made the others are among them.

    Raises:
        FrozenError: a file differs from its receipt, has none, or a receipt belongs to another run.
    """
    folder, key = run / "receipts", run_key(run)
    written: dict[str, str] = {}
    for path in (path for path in inputs if path.parent == folder):
        receipt = read_receipt(path, [key] if key else [])
        if receipt.frozen_sha256 != sha256_file(run / "frozen.json"):
            raise FrozenError(f"{path}: belongs to another freeze; restore it, or start a new results folder")
        if key is not None and key.keyid not in receipt.signers:
            raise FrozenError(f"{path}: not signed by this run's key; restore it, or start a new results folder")
        written |= receipt.outputs
    for path in inputs:
        if path.is_relative_to(run) and path.parent != folder:
            name = path.relative_to(run).as_posix()
            if written.get(name) != sha256_file(path):
                known = "differs from its receipt" if name in written else "has no receipt"
                raise FrozenError(f"{path}: {known}; restore it, or start a new results folder")


def check_present(run: Path, remade: tuple[str, ...]) -> None:
    """Insist that whatever the run's receipts list is there.

    Args:
        run: the run's folder.
        remade: rules whose outputs may be made again at any time.

    Raises:
        IncompleteError: a file that a receipt lists is missing.
    """
    for path in sorted((run / "receipts").glob("*.json")):
        receipt = read_receipt(path, [])
        missing = [name for name in receipt.outputs if not (run / name).is_file()]
        if missing and receipt.rule not in remade:
            raise IncompleteError(
                f"{run / missing[0]}: missing, but {path} lists it; restore it, or start a new folder"
            )
