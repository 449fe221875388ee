# Tables, figures and the captions of the HTML report; every number comes from the run.
TABLES = ("paper", "gates", "predictors", "decomposition")


use rule freeze as report with:
    input:
        TIES,
        f"{RUN}/scores.json",
        f"{RUN}/forecasts.parquet",
        runs("targets", SEEDS.targets, "counts.parquet"),
        receipts("score"),
        "preregistration/deviations.yaml",
        sorted(str(path) for path in Path("src/halfulp/report").glob("*.py")),
        sorted(str(path) for path in Path("workflow/report").glob("*.jinja")),
    output:
        [captioned(f"{RUN}/tables/{name}.csv", name, "Tables") for name in TABLES],
        expand(f"{RUN}/tables/{{name}}.{{form}}", name=TABLES, form=("md", "tex")),
        captioned(f"{RUN}/figures/curves.png", "curves", "Figures"),
        f"{RUN}/figures/curves.pdf",
        expand(f"{RUN}/captions/{{name}}.rst", name=(*TABLES, "curves")),
        receipt=f"{RUN}/receipts/report.json",
    log:
        f"{RUN}/logs/report.log",
    benchmark:
        f"{RUN}/benchmarks/report.tsv"
