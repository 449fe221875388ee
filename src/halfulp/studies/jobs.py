"""Running one job of the workflow: check the freeze, do the rule's work, write the receipt.

Every job first insists that the run's ``frozen.json`` still describes the registration and the code at hand.
"""

import os
import sys
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from halfulp.errors import HalfulpError
from halfulp.registration import attestation, receipts
from halfulp.registration import freeze as freezing
from halfulp.registration.digests import canonical_json, write_json
from halfulp.studies import audit_rules, catalogue, mechanism_rules, writeback_rules
from halfulp.studies.tasks import Task
from halfulp.training.models import check_training


def freeze(task: Task) -> None:
    """Freeze the run: digests of the registration and its sources, the run's identity and its label.

    A run that was frozen before is not frozen again: its vault gives the files back, and a difference is refused.
    """
    if freezing.vault(task.run).exists():
        freezing.restore(task.run)
        freezing.check_frozen(task.run, task.path, task.registration)
        return
    check_training(task.registration)
    labelled = freezing.label_run(task.path, task.registration)
    task.outputs["frozen"].parent.mkdir(parents=True, exist_ok=True)
    task.outputs["frozen"].write_bytes(canonical_json(freezing.build_frozen(task.path, task.registration)))
    key = receipts.key_path(task.run)
    if not key.exists():
        attestation.make_key(key).unlink()  # run.json has the public half
    identity = {
        "schema": receipts.RUN_SCHEMA,
        "run_id": str(uuid.uuid4()),
        "label": labelled.label,
        "label_detail": labelled.detail,
        "changed_sources": list(labelled.changed),
        "created": receipts.now().isoformat(),
        "key": attestation.public_pem(attestation.load_signer(key)),
    }
    write_json(task.outputs["run"], identity)


#: Rules whose outputs are kept in the vault: they must never be made twice.
VAULTED = ("freeze", "seal")

RULES: dict[str, Callable[[Task], None]] = {
    "freeze": freeze,
    **audit_rules.RULES,
    **mechanism_rules.RULES,
    **writeback_rules.RULES,
}


def run(snakemake: Any) -> None:
    """Run one job of the workflow; the log gets everything, the terminal one line if it fails.

    Args:
        snakemake: the object that Snakemake hands to a script.
    """
    terminal = os.dup(2)
    Path(snakemake.log[0]).parent.mkdir(parents=True, exist_ok=True)
    with Path(snakemake.log[0]).open("a", buffering=1) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            execute(snakemake)
        except HalfulpError as error:
            print(f"error: {error}", file=sys.stderr)
            os.write(terminal, f"halfulp: error: {error}\n".encode())
            sys.exit(2)
        except Exception:
            traceback.print_exc()
            os.write(terminal, f"halfulp: {snakemake.rule} failed unexpectedly; see {snakemake.log[0]}\n".encode())
            sys.exit(1)


def execute(snakemake: Any) -> None:
    """Do a job's work: check the freeze, run its rule's function, write its receipt."""
    # Every rule's first input is its registration, and its receipt lies in its run's folder.
    path = Path(str(snakemake.input[0]))
    registration = catalogue.load(path)
    outputs = {name: Path(str(value)) for name, value in snakemake.output.items()}
    task = Task(
        rule=snakemake.rule,
        path=path,
        registration=registration,
        run=outputs["receipt"].parents[1],
        wildcards={name: str(value) for name, value in snakemake.wildcards.items()},
        inputs=[Path(str(item)) for item in snakemake.input],
        outputs=outputs,
    )
    receipt = outputs["receipt"]
    made = (freezing.vault(task.run) / "receipts" / receipt.name).exists()  # and will be put back, not made anew
    job = None if made else receipts.begin(task.rule, task.wildcards, task.run)
    if task.rule != "freeze":
        freezing.check_frozen(task.run, path, registration)
        apart = writeback_rules.judged_apart(task)
        receipts.check_receipts(task.run, [path for path in task.inputs if path not in apart])
    RULES[task.rule](task)
    if job is None:
        return
    written = [path for path in map(Path, map(str, snakemake.output)) if path != receipt]
    receipts.write_receipt(receipt, job, inputs=task.inputs, outputs=written, seed=task.seed)
    if task.rule in VAULTED:
        freezing.keep(task.run, [*written, receipt])
