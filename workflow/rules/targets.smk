# The unseen targets start after the seal; their own references only after it was opened.
use rule reference as target with:
    input:
        TIES,
        ancient(f"{RUN}/seal.json"),
        FORECASTS,
        receipts("seal"),
        receipts("predict"),
    output:
        counts=f"{RUN}/targets/seed{{seed}}/counts.parquet",
        losses=f"{RUN}/targets/seed{{seed}}/losses.parquet",
        summary=f"{RUN}/targets/seed{{seed}}/summary.json",
        receipt=f"{RUN}/receipts/target.seed{{seed}}.json",
    log:
        f"{RUN}/logs/target.seed{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/target.seed{{seed}}.tsv"


use rule freeze as open with:
    input:
        TIES,
        ancient(f"{RUN}/seal.json"),
        FORECASTS,
        receipts("seal"),
        receipts("predict"),
        runs("targets", SEEDS.targets, "counts.parquet"),
        receipts("target", SEEDS.targets),
    output:
        opened=f"{RUN}/opened.json",
        receipt=f"{RUN}/receipts/open.json",
    log:
        f"{RUN}/logs/open.log",
    benchmark:
        f"{RUN}/benchmarks/open.tsv"


use rule reference as matched with:
    input:
        TIES,
        ancient(f"{RUN}/opened.json"),
        receipts("open"),
    output:
        trace=f"{RUN}/matched/seed{{seed}}/trace.parquet",
        losses=f"{RUN}/matched/seed{{seed}}/losses.parquet",
        summary=f"{RUN}/matched/seed{{seed}}/summary.json",
        receipt=f"{RUN}/receipts/matched.seed{{seed}}.json",
    log:
        f"{RUN}/logs/matched.seed{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/matched.seed{{seed}}.tsv"
