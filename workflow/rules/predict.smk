# Forecast in a shadow directory that holds copies of the declared inputs and nothing else, then seal.
EVIDENCE = [
    *runs("references", [SEEDS.source, *SEEDS.historical], "trace.parquet"),
    *runs("historical", SEEDS.historical, "counts.parquet"),
    *receipts("reference", [SEEDS.source, *SEEDS.historical]),
    *receipts("historical", SEEDS.historical),
]
FORECASTS = fixed([f"{RUN}/forecasts.parquet", f"{RUN}/ranking.json"])


rule predict:
    input:
        TIES,
        EVIDENCE,
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
    conda:
        "../../environment.yml"
    resources:
        mem_mb=1000,
        runtime=10,
    script:
        "../scripts/job.py"


# The receipts of the evidence are inputs of the seal, so that the chain leads back to it.
use rule freeze as seal with:
    input:
        TIES,
        EVIDENCE,
        FORECASTS,
        receipts("predict"),
    output:
        seal=f"{RUN}/seal.json",
        receipt=f"{RUN}/receipts/seal.json",
    log:
        f"{RUN}/logs/seal.log",
    benchmark:
        f"{RUN}/benchmarks/seal.tsv"
