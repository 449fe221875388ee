"""Every rule's script: pin what must be pinned before torch is imported, then hand over to the package."""

import sys
from pathlib import Path

# The code that runs is the code beside this workflow, which is what gets hashed.
sys.path.insert(0, str(Path(snakemake.scriptdir).parents[1] / "src"))

from halfulp import determinism

determinism.pin()

from halfulp.studies import jobs  # noqa: E402

jobs.run(snakemake)
