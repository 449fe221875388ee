# Tables, figures and the captions of the HTML report; every number comes from the run.
use rule freeze as report with:
    input:
        TIES,
        ancient(f"{RUN}/scores.json"),
        FORECASTS,
        runs("targets", SEEDS.targets, "counts.parquet"),
        receipts("score"),
        receipts("predict"),
        receipts("target", SEEDS.targets),
        REPORT_SOURCES,
    output:
        [captioned(f"{RUN}/tables/{name}.csv", name, "Tables") for name in AUDIT_TABLES],
        expand(f"{RUN}/tables/{{name}}.{{form}}", name=AUDIT_TABLES, form=("md", "tex")),
        captioned(f"{RUN}/figures/curves.png", "curves", "Figures"),
        f"{RUN}/figures/curves.pdf",
        expand(f"{RUN}/captions/{{name}}.rst", name=(*AUDIT_TABLES, "curves")),
        receipt=f"{RUN}/receipts/report.json",
    log:
        f"{RUN}/logs/report.log",
    benchmark:
        f"{RUN}/benchmarks/report.tsv"
