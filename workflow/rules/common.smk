# What all rules share: the registration, the run's folder, and the files that tie a job to its freeze.
from pathlib import Path

from snakemake.exceptions import WorkflowError

from halfulp.errors import HalfulpError
from halfulp.registration.freeze import check_frozen, label_run
from halfulp.studies.catalogue import load

SCALE = config.get("scale", "desk")
REGISTRATION = f"preregistration/{SCALE}/audit.yaml"
RUN = f"{config.get('results', 'results')}/{SCALE}/audit"
# What a job's script needs to know.
config |= {"registration": REGISTRATION, "run": RUN}

# Refuse a bad registration, and a run whose registration or sources changed, before any job starts.
try:
    registration = load(Path(REGISTRATION))
    label_run(Path(REGISTRATION), registration)
    if Path(RUN, "frozen.json").exists() or any(Path(RUN, "receipts").glob("*.json")):
        check_frozen(Path(RUN), Path(REGISTRATION), registration)
except HalfulpError as error:
    raise WorkflowError(str(error)) from None

SEEDS = registration.seeds
#: Every job reads these: what it promised, and which run it belongs to. A change is refused, not re-run.
TIES = [
    ancient(REGISTRATION),
    ancient(f"{RUN}/frozen.json"),
    ancient(f"{RUN}/run.json"),
]


wildcard_constraints:
    seed=r"\d+",


def runs(part, seeds, *names):
    """Return files of training runs: RUN/part/seedN/name."""
    return [f"{RUN}/{part}/seed{seed}/{name}" for seed in seeds for name in names]


def receipts(rule, seeds=None):
    """Return the receipts of a rule, one a seed if it has seeds."""
    return [
        f"{RUN}/receipts/{rule}{'' if seed is None else f'.seed{seed}'}.json"
        for seed in seeds or [None]
    ]


def captioned(path, name, category):
    """Mark a file for the HTML report, with the caption that the report job filled in."""
    return report(
        path,
        caption=str(Path(RUN, "captions", f"{name}.rst").resolve()),
        category=category,
    )
