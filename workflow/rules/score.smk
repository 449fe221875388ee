# Scores, gates and decomposition, from the sealed forecasts and the counts.
use rule freeze as score with:
    input:
        TIES,
        EVIDENCE,
        FORECASTS,
        fixed([f"{RUN}/seal.json", f"{RUN}/opened.json"]),
        runs("targets", SEEDS.targets, "counts.parquet"),
        runs("matched", SEEDS.targets, "trace.parquet"),
        receipts("predict"),
        receipts("seal"),
        receipts("open"),
        receipts("target", SEEDS.targets),
        receipts("matched", SEEDS.targets),
    output:
        scores=f"{RUN}/scores.json",
        receipt=f"{RUN}/receipts/score.json",
    log:
        f"{RUN}/logs/score.log",
    benchmark:
        f"{RUN}/benchmarks/score.tsv"
