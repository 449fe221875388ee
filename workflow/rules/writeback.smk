# The write-back studies: train the cells, for Study 3 replay the checkpoints, conclude, tabulate. One set of rules for all.
COHORT = f"{BASE}/{{cohort}}"
CELL = f"{COHORT}/cells/{{cell}}"
COHORT_TIES = ties("{cohort}")


rule cell:
    input:
        COHORT_TIES,
    output:
        counts=f"{CELL}/counts.parquet",
        losses=f"{CELL}/losses.parquet",
        validation=f"{CELL}/validation.parquet",
        contrasts=f"{CELL}/contrasts.parquet",
        summary=f"{CELL}/summary.json",
        receipt=f"{COHORT}/receipts/cell.{{cell}}.json",
    log:
        f"{COHORT}/logs/cell.{{cell}}.log",
    benchmark:
        f"{COHORT}/benchmarks/cell.{{cell}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=2000,
        runtime=240,
    script:
        "../scripts/job.py"


use rule freeze as conclude with:
    input:
        COHORT_TIES,
        cohort_files,
    output:
        scores=f"{COHORT}/scores.json",
        receipt=f"{COHORT}/receipts/conclude.json",
    log:
        f"{COHORT}/logs/conclude.log",
    benchmark:
        f"{COHORT}/benchmarks/conclude.tsv"


use rule freeze as tabulate with:
    input:
        COHORT_TIES,
        cohort_files,
        fixed([f"{COHORT}/scores.json", f"{COHORT}/receipts/conclude.json"]),
        REPORT_SOURCES,
    output:
        expand(
            f"{COHORT}/tables/{{name}}.{{form}}",
            name=WRITE_BACK_TABLES,
            form=FORMS,
            allow_missing=True,
        ),
        f"{COHORT}/figures/results.pdf",
        report(
            f"{COHORT}/figures/results.png",
            category="Write-back studies",
            labels={"study": "{cohort}"},
        ),
        receipt=f"{COHORT}/receipts/tabulate.json",
    log:
        f"{COHORT}/logs/tabulate.log",
    benchmark:
        f"{COHORT}/benchmarks/tabulate.tsv"


if STUDY3 is not None:
    CHECKPOINTS = [
        f"{CELL}/{name}" for _, _, name in checkpoint_files(registrations[STUDY3])
    ]
    (STUDY3_CELL,) = write_back_study("study3").cells(registrations[STUDY3])

    use rule cell as checkpointed_cell with:
        output:
            CHECKPOINTS,
            counts=f"{CELL}/counts.parquet",
            losses=f"{CELL}/losses.parquet",
            validation=f"{CELL}/validation.parquet",
            contrasts=f"{CELL}/contrasts.parquet",
            summary=f"{CELL}/summary.json",
            receipt=f"{COHORT}/receipts/checkpointed_cell.{{cell}}.json",
        log:
            f"{COHORT}/logs/checkpointed_cell.{{cell}}.log",
        benchmark:
            f"{COHORT}/benchmarks/checkpointed_cell.{{cell}}.tsv"
        wildcard_constraints:
            cohort=STUDY3,

    ruleorder: checkpointed_cell > cell

    # Another process than the one that trained: all it has are the files.
    use rule freeze as replay with:
        input:
            COHORT_TIES,
            fixed(expand(CHECKPOINTS, cohort=STUDY3, cell=STUDY3_CELL)),
            ancient(f"{BASE}/{STUDY3}/receipts/checkpointed_cell.{STUDY3_CELL}.json"),
        output:
            replay=f"{COHORT}/replay.json",
            receipt=f"{COHORT}/receipts/replay.json",
        log:
            f"{COHORT}/logs/replay.log",
        benchmark:
            f"{COHORT}/benchmarks/replay.tsv"
