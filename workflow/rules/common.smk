# What all rules share: the registrations of a scale, the runs' folders, and the files that tie a job to its freeze.
from pathlib import Path

from snakemake.exceptions import WorkflowError

from halfulp.errors import HalfulpError
from halfulp.registration.document import study_of
from halfulp.registration.freeze import check_frozen, label_run, restore
from halfulp.registration.receipts import check_present
from halfulp.studies.catalogue import (
    MECHANISMS,
    WRITE_BACK,
    load,
    registered,
    write_back_study,
)
from halfulp.studies.study3 import checkpoint_files
from halfulp.studies.writeback_rules import cell_files, cell_rule

SCALE = config.get("scale", "desk")
BASE = f"{config.get('results', 'results')}/{SCALE}"
# Every study of the scale by the name of its latest registration; `config` may ask for some, by study or by name.
REGISTERED = registered(Path("preregistration", SCALE))
ASKED = str(config.get("study", "audit")).split(",")
NAMES = [name for name in REGISTERED if {"all", name, study_of(name)} & set(ASKED)]
NAMES += [name for name in ASKED if "-" in name and name not in NAMES]
#: Rules whose outputs may be made again at any time.
REMADE = ("report", "present", "tabulate")

# Refuse a bad registration, and a run whose registration, sources or files changed, before any job starts.
try:
    if not NAMES:
        raise WorkflowError(
            f"study {','.join(ASKED)}: scale {SCALE} registers {', '.join(REGISTERED) or 'nothing'}"
        )
    registrations = {
        name: load(Path("preregistration", SCALE, f"{name}.yaml")) for name in NAMES
    }
    for name, registration in registrations.items():
        path, run = Path("preregistration", SCALE, f"{name}.yaml"), Path(BASE, name)
        label_run(path, registration)
        restore(run)
        if (run / "frozen.json").exists() or any((run / "receipts").glob("*.json")):
            check_frozen(run, path, registration)
            check_present(run, REMADE)
except HalfulpError as error:
    raise WorkflowError(str(error)) from None

AUDIT = next((name for name in NAMES if study_of(name) == "audit"), None)
STUDY3 = next((name for name in NAMES if study_of(name) == "study3"), None)
PARTS = ("cells.parquet", "metrics.parquet", "summary.json")
FORMS = ("csv", "md", "tex")
MECHANISM_TABLES = ("paper", "gates", "crossings", "comparison", "events", "metrics")
WRITE_BACK_TABLES = ("paper", "gates", "results", "cells", "runs")
AUDIT_TABLES = ("paper", "gates", "predictors", "decomposition")
#: A change here makes tables and figures anew, and nothing else.
REPORT_SOURCES = [
    "preregistration/deviations.yaml",
    *sorted(str(path) for path in Path("src/halfulp/report").glob("*.py")),
    *sorted(str(path) for path in Path("workflow/report").glob("*.jinja")),
]


wildcard_constraints:
    seed=r"\d+",
    name=r"[a-z0-9_-]+",
    mechanism="(" + "|".join(MECHANISMS) + r")(-\d+)?",
    cohort="(" + "|".join(WRITE_BACK) + r")(-\d+)?",
    cell=r"[a-z0-9_.]+",


def fixed(files):
    """Return inputs whose age says nothing: a change of their contents is refused by the job, not re-run."""
    return [ancient(file) for file in files]


def ties(name):
    """Return what every job of a study reads first: what it promised, and which run it belongs to."""
    run = f"{BASE}/{name}"
    return fixed(
        [
            f"preregistration/{SCALE}/{name}.yaml",
            f"{run}/frozen.json",
            f"{run}/run.json",
            f"{run}/receipts/freeze.json",
        ]
    )


def last_receipt(name):
    """Return the receipt that stands at the end of a study."""
    if name == AUDIT:
        return f"{BASE}/{name}/receipts/report.json"
    last = "tabulate" if study_of(name) in WRITE_BACK else "present"
    return f"{BASE}/{name}/receipts/{last}.json"


def cohort_files(wildcards):
    """Return what a study concludes from: its cells' files, and for Study 3 the replay instead of the checkpoints."""
    registration, run = registrations[wildcards.cohort], f"{BASE}/{wildcards.cohort}"
    made_by = cell_rule(registration)
    files = []
    for cell in write_back_study(registration.study).cells(registration):
        files += [f"{run}/cells/{cell}/{file}" for file in cell_files(registration)]
        files.append(f"{run}/receipts/{made_by}.{cell}.json")
    if wildcards.cohort == STUDY3:
        files += [f"{run}/replay.json", f"{run}/receipts/replay.json"]
    return fixed(files)
