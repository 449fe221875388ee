"""Every rule's script: pin what must be pinned before torch is imported, then hand over to the package."""

from halfulp import determinism

determinism.pin()

from halfulp.studies import jobs  # noqa: E402

jobs.run(snakemake)
