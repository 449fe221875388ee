# The fp32 references, each with its trace, and the historical seeds' write-back runs. All may be read by predictors.
rule reference:
    input:
        TIES,
    output:
        trace=f"{RUN}/references/seed{{seed}}/trace.parquet",
        losses=f"{RUN}/references/seed{{seed}}/losses.parquet",
        summary=f"{RUN}/references/seed{{seed}}/summary.json",
        receipt=f"{RUN}/receipts/reference.seed{{seed}}.json",
    log:
        f"{RUN}/logs/reference.seed{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/reference.seed{{seed}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=2000,
        runtime=120,
    script:
        "../scripts/job.py"


use rule reference as historical with:
    output:
        counts=f"{RUN}/historical/seed{{seed}}/counts.parquet",
        losses=f"{RUN}/historical/seed{{seed}}/losses.parquet",
        summary=f"{RUN}/historical/seed{{seed}}/summary.json",
        receipt=f"{RUN}/receipts/historical.seed{{seed}}.json",
    log:
        f"{RUN}/logs/historical.seed{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/historical.seed{{seed}}.tsv"
