# Forecast in a shadow directory that holds copies of the declared inputs and nothing else, then seal.
rule predict:
    input:
        TIES,
        runs("references", [SEEDS.source, *SEEDS.historical], "trace.parquet"),
        runs("historical", SEEDS.historical, "counts.parquet"),
    output:
        forecasts=f"{RUN}/forecasts.parquet",
        ranking=f"{RUN}/ranking.json",
        receipt=f"{RUN}/receipts/predict.json",
    log:
        f"{RUN}/logs/predict.log",
    benchmark:
        f"{RUN}/benchmarks/predict.tsv"
    shadow:
        "copy-minimal"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        registration=REGISTRATION,
        run=RUN,
    script:
        "../scripts/job.py"


# The receipts of the evidence are sealed with the forecasts.
rule seal:
    input:
        TIES,
        f"{RUN}/forecasts.parquet",
        f"{RUN}/ranking.json",
        f"{RUN}/receipts/predict.json",
        [
            f"{RUN}/receipts/reference.seed{seed}.json"
            for seed in [SEEDS.source, *SEEDS.historical]
        ],
        [f"{RUN}/receipts/historical.seed{seed}.json" for seed in SEEDS.historical],
    output:
        seal=f"{RUN}/seal.json",
        receipt=f"{RUN}/receipts/seal.json",
    log:
        f"{RUN}/logs/seal.log",
    benchmark:
        f"{RUN}/benchmarks/seal.tsv"
    resources:
        mem_mb=1000,
        runtime=5,
    params:
        registration=REGISTRATION,
        run=RUN,
    script:
        "../scripts/job.py"
