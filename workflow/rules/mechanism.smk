# The mechanism systems: forecast from fp32 alone, then measure in low precision, judge, present. One set of rules for all.
MECHANISM = f"{BASE}/{{mechanism}}"
MECHANISM_TIES = ties("{mechanism}")
BOTH = fixed(
    [
        *(
            f"{MECHANISM}/{part}/{file}"
            for part in ("forecast", "measured")
            for file in PARTS
        ),
        f"{MECHANISM}/receipts/forecast.json",
        f"{MECHANISM}/receipts/measure.json",
    ]
)


rule forecast:
    input:
        MECHANISM_TIES,
    output:
        cells=f"{MECHANISM}/forecast/cells.parquet",
        metrics=f"{MECHANISM}/forecast/metrics.parquet",
        summary=f"{MECHANISM}/forecast/summary.json",
        receipt=f"{MECHANISM}/receipts/forecast.json",
    log:
        f"{MECHANISM}/logs/forecast.log",
    benchmark:
        f"{MECHANISM}/benchmarks/forecast.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=8000 if SCALE == "gpt2" else 2000,
        runtime=120,
    script:
        "../scripts/job.py"


# The forecast is an input of the measurement, so that it stands before anything is measured.
use rule forecast as measure with:
    input:
        MECHANISM_TIES,
        ancient(f"{MECHANISM}/forecast/cells.parquet"),
        ancient(f"{MECHANISM}/receipts/forecast.json"),
    output:
        cells=f"{MECHANISM}/measured/cells.parquet",
        metrics=f"{MECHANISM}/measured/metrics.parquet",
        summary=f"{MECHANISM}/measured/summary.json",
        receipt=f"{MECHANISM}/receipts/measure.json",
    log:
        f"{MECHANISM}/logs/measure.log",
    benchmark:
        f"{MECHANISM}/benchmarks/measure.tsv"


use rule freeze as judge with:
    input:
        MECHANISM_TIES,
        BOTH,
    output:
        scores=f"{MECHANISM}/scores.json",
        receipt=f"{MECHANISM}/receipts/judge.json",
    log:
        f"{MECHANISM}/logs/judge.log",
    benchmark:
        f"{MECHANISM}/benchmarks/judge.tsv"


use rule freeze as present with:
    input:
        MECHANISM_TIES,
        BOTH,
        fixed([f"{MECHANISM}/scores.json", f"{MECHANISM}/receipts/judge.json"]),
        REPORT_SOURCES,
    output:
        expand(
            f"{MECHANISM}/tables/{{name}}.{{form}}",
            name=MECHANISM_TABLES,
            form=FORMS,
            allow_missing=True,
        ),
        f"{MECHANISM}/figures/crossings.pdf",
        report(
            f"{MECHANISM}/figures/crossings.png",
            category="Mechanism systems",
            labels={"system": "{mechanism}"},
        ),
        receipt=f"{MECHANISM}/receipts/present.json",
    log:
        f"{MECHANISM}/logs/present.log",
    benchmark:
        f"{MECHANISM}/benchmarks/present.tsv"
