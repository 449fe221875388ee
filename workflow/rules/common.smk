# What all rules share: the registrations of a scale, the runs' folders, and the files that tie a job to its freeze.
from pathlib import Path

from snakemake.exceptions import WorkflowError

from halfulp.errors import HalfulpError
from halfulp.registration.freeze import check_frozen, label_run
from halfulp.studies.catalogue import MECHANISMS, load, registered

SCALE = config.get("scale", "desk")
BASE = f"{config.get('results', 'results')}/{SCALE}"
REGISTERED = registered(Path("preregistration", SCALE))
STUDIES = (
    REGISTERED
    if config.get("study") == "all"
    else str(config.get("study", "audit")).split(",")
)

# Refuse a bad registration, and a run whose registration or sources changed, before any job starts.
try:
    unknown = sorted(set(STUDIES) - set(REGISTERED))
    if unknown:
        raise WorkflowError(
            f"study {unknown[0]}: scale {SCALE} registers {', '.join(REGISTERED) or 'nothing'}; choose of these"
        )
    registrations = {
        study: load(Path("preregistration", SCALE, f"{study}.yaml"))
        for study in STUDIES
    }
    for study, registration in registrations.items():
        path, run = Path("preregistration", SCALE, f"{study}.yaml"), Path(BASE, study)
        label_run(path, registration)
        if (run / "frozen.json").exists() or any((run / "receipts").glob("*.json")):
            check_frozen(run, path, registration)
except HalfulpError as error:
    raise WorkflowError(str(error)) from None

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
    study=r"[a-z0-9_]+",
    mechanism="|".join(MECHANISMS),


def ties(study):
    """Return what every job of a study reads first: what it promised, and which run it belongs to.

    A change of these is refused, not re-run.
    """
    run = f"{BASE}/{study}"
    return [
        ancient(f)
        for f in (
            f"preregistration/{SCALE}/{study}.yaml",
            f"{run}/frozen.json",
            f"{run}/run.json",
        )
    ]


def last_receipt(study):
    """Return the receipt that stands at the end of a study."""
    return f"{BASE}/{study}/receipts/{'report' if study == 'audit' else 'present'}.json"
