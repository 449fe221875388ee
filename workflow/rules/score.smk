# Scores, gates and decomposition, from the sealed forecasts and the counts.
use rule freeze as score with:
    input:
        TIES,
        ancient(f"{RUN}/seal.json"),
        f"{RUN}/opened.json",
        f"{RUN}/forecasts.parquet",
        f"{RUN}/ranking.json",
        EVIDENCE,
        runs("targets", SEEDS.targets, "counts.parquet"),
        runs("matched", SEEDS.targets, "trace.parquet"),
        receipts("open"),
        receipts("matched", SEEDS.targets),
    output:
        scores=f"{RUN}/scores.json",
        receipt=f"{RUN}/receipts/score.json",
    log:
        f"{RUN}/logs/score.log",
    benchmark:
        f"{RUN}/benchmarks/score.tsv"
