# What all rules share: the registration, the run's folder, and the files that tie a job to its freeze.
from pathlib import Path

from snakemake.exceptions import WorkflowError

from halfulp.errors import HalfulpError
from halfulp.registration.freeze import check_frozen, label_run
from halfulp.studies.catalogue import load

SCALE = config.get("scale", "desk")
REGISTRATION = f"preregistration/{SCALE}/audit.yaml"
RUN = f"{config.get('results', 'results')}/{SCALE}/audit"

# Refuse a bad registration, and a run whose registration or sources changed, before any job starts.
try:
    registration = load(Path(REGISTRATION))
    label_run(Path(REGISTRATION), registration)
    if Path(RUN, "frozen.json").exists():
        check_frozen(Path(RUN), Path(REGISTRATION), registration)
except HalfulpError as error:
    raise WorkflowError(str(error)) from None

SEEDS = registration.seeds
MODEL_MB = 2000
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
