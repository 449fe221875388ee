# Tables, figures and the captions of the HTML report; every number comes from the run.
TABLES = ("paper", "gates", "predictors", "decomposition")


def captioned(path, name, category):
    """Mark a file for the HTML report, with the caption that the report job filled in."""
    return report(
        path,
        caption=str(Path(RUN, "captions", f"{name}.rst").resolve()),
        category=category,
    )


rule report:
    input:
        TIES,
        f"{RUN}/scores.json",
        f"{RUN}/receipts/score.json",
        f"{RUN}/forecasts.parquet",
        runs("targets", SEEDS.targets, "counts.parquet"),
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
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        registration=REGISTRATION,
        run=RUN,
    script:
        "../scripts/job.py"
