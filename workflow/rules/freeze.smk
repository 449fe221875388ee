# First rule of all: hash the registration and every registered source file; give the run its identity and label.
rule freeze:
    input:
        ancient(f"preregistration/{SCALE}/{{name}}.yaml"),
    output:
        frozen=f"{BASE}/{{name}}/frozen.json",
        run=f"{BASE}/{{name}}/run.json",
        receipt=f"{BASE}/{{name}}/receipts/freeze.json",
    log:
        f"{BASE}/{{name}}/logs/freeze.log",
    benchmark:
        f"{BASE}/{{name}}/benchmarks/freeze.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=1000,
        runtime=5,
    script:
        "../scripts/job.py"
