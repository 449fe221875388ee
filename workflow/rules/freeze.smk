# First rule of all: hash the registration and every registered source file; give the run its identity and label.
rule freeze:
    input:
        ancient(f"preregistration/{SCALE}/{{study}}.yaml"),
    output:
        frozen=f"{BASE}/{{study}}/frozen.json",
        run=f"{BASE}/{{study}}/run.json",
        receipt=f"{BASE}/{{study}}/receipts/freeze.json",
    log:
        f"{BASE}/{{study}}/logs/freeze.log",
    benchmark:
        f"{BASE}/{{study}}/benchmarks/freeze.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=1000,
        runtime=5,
    script:
        "../scripts/job.py"
