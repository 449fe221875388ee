# halfulp: the audit of low-precision write-back as a workflow.
#
#   snakemake --cores 2                                  the `desk` audit
#   snakemake --cores 2 --config study=all               every study that the scale registers
#   snakemake --cores 2 --config scale=smoke study=grid  one of them, in small
#   snakemake --cores 2 --config results=elsewhere       a new run in a new folder
#   snakemake --report report.html                       after a run
#
# Order of the audit: freeze -> references and historical targets -> predict -> seal -> unseen targets -> open -> score
# -> report. Order of a mechanism system: freeze -> forecast -> measure -> judge -> present. Order of a write-back study:
# freeze -> cells (-> replay) -> conclude -> tabulate.
from snakemake.utils import min_version

min_version("9.0")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/freeze.smk"
include: "workflow/rules/mechanism.smk"
include: "workflow/rules/writeback.smk"


if AUDIT is not None:

    include: "workflow/rules/audit.smk"
    include: "workflow/rules/references.smk"
    include: "workflow/rules/predict.smk"
    include: "workflow/rules/targets.smk"
    include: "workflow/rules/score.smk"
    include: "workflow/rules/report.smk"


localrules:
    all,
    freeze,


rule all:
    default_target: True
    input:
        [last_receipt(name) for name in NAMES],
