# Scores, gates and decomposition, from the sealed forecasts and the counts.
rule score:
    input:
        TIES,
        ancient(f"{RUN}/seal.json"),
        f"{RUN}/opened.json",
        f"{RUN}/receipts/open.json",
        f"{RUN}/forecasts.parquet",
        f"{RUN}/ranking.json",
        runs("references", [SEEDS.source, *SEEDS.historical], "trace.parquet"),
        runs("historical", SEEDS.historical, "counts.parquet"),
        runs("targets", SEEDS.targets, "counts.parquet"),
        runs("matched", SEEDS.targets, "trace.parquet"),
        [f"{RUN}/receipts/matched.seed{seed}.json" for seed in SEEDS.targets],
    output:
        scores=f"{RUN}/scores.json",
        receipt=f"{RUN}/receipts/score.json",
    log:
        f"{RUN}/logs/score.log",
    benchmark:
        f"{RUN}/benchmarks/score.tsv"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        registration=REGISTRATION,
        run=RUN,
    script:
        "../scripts/job.py"
