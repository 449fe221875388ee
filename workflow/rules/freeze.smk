# First rule of all: hash the registration and every registered source file; give the run its identity and label.
rule freeze:
    input:
        ancient(REGISTRATION),
    output:
        frozen=f"{RUN}/frozen.json",
        run=f"{RUN}/run.json",
        receipt=f"{RUN}/receipts/freeze.json",
    log:
        f"{RUN}/logs/freeze.log",
    benchmark:
        f"{RUN}/benchmarks/freeze.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=1000,
        runtime=5,
    script:
        "../scripts/job.py"
