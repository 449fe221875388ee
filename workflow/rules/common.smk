# What all rules share: the registrations of a scale, the runs' folders, and the files that tie a job to its freeze.
from pathlib import Path

from snakemake.exceptions import WorkflowError

from halfulp.errors import HalfulpError
from halfulp.registration.document import study_of
from halfulp.registration.freeze import check_frozen, label_run, restore
from halfulp.registration.receipts import check_present
from halfulp.studies.catalogue import MECHANISMS, load, registered

SCALE = config.get("scale", "desk")
BASE = f"{config.get('results', 'results')}/{SCALE}"
# Every study of the scale by the name of its latest registration; `config` may ask for some, by study or by name.
REGISTERED = registered(Path("preregistration", SCALE))
ASKED = str(config.get("study", "audit")).split(",")
NAMES = [name for name in REGISTERED if {"all", name, study_of(name)} & set(ASKED)]
NAMES += [name for name in ASKED if "-" in name and name not in NAMES]
#: Rules whose outputs may be made again at any time.
REMADE = ("report", "present")

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
PARTS = ("cells.parquet", "metrics.parquet", "summary.json")
FORMS = ("csv", "md", "tex")
MECHANISM_TABLES = ("paper", "gates", "crossings", "comparison", "events", "metrics")
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
    return f"{BASE}/{name}/receipts/{'report' if name == AUDIT else 'present'}.json"
