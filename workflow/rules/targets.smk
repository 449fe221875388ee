# The unseen targets start after the seal; their own references only after it was opened.
rule target:
    input:
        TIES,
        ancient(f"{RUN}/seal.json"),
        ancient(f"{RUN}/receipts/seal.json"),
    output:
        counts=f"{RUN}/targets/seed{{seed}}/counts.parquet",
        losses=f"{RUN}/targets/seed{{seed}}/losses.parquet",
        summary=f"{RUN}/targets/seed{{seed}}/summary.json",
        receipt=f"{RUN}/receipts/target.seed{{seed}}.json",
    log:
        f"{RUN}/logs/target.seed{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/target.seed{{seed}}.tsv"
    resources:
        mem_mb=MODEL_MB,
        runtime=120,
    params:
        registration=REGISTRATION,
        run=RUN,
    script:
        "../scripts/job.py"


rule open:
    input:
        TIES,
        ancient(f"{RUN}/seal.json"),
        runs("targets", SEEDS.targets, "counts.parquet"),
        [f"{RUN}/receipts/target.seed{seed}.json" for seed in SEEDS.targets],
    output:
        opened=f"{RUN}/opened.json",
        receipt=f"{RUN}/receipts/open.json",
    log:
        f"{RUN}/logs/open.log",
    benchmark:
        f"{RUN}/benchmarks/open.tsv"
    resources:
        mem_mb=1000,
        runtime=5,
    params:
        registration=REGISTRATION,
        run=RUN,
    script:
        "../scripts/job.py"


rule matched:
    input:
        TIES,
        ancient(f"{RUN}/opened.json"),
        ancient(f"{RUN}/receipts/open.json"),
    output:
        trace=f"{RUN}/matched/seed{{seed}}/trace.parquet",
        losses=f"{RUN}/matched/seed{{seed}}/losses.parquet",
        summary=f"{RUN}/matched/seed{{seed}}/summary.json",
        receipt=f"{RUN}/receipts/matched.seed{{seed}}.json",
    log:
        f"{RUN}/logs/matched.seed{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/matched.seed{{seed}}.tsv"
    resources:
        mem_mb=MODEL_MB,
        runtime=120,
    params:
        registration=REGISTRATION,
        run=RUN,
    script:
        "../scripts/job.py"
