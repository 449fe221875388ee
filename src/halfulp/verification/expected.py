"""The jobs that a registration asks for: each with its receipt, the files that it writes and those that it reads."""

from dataclasses import dataclass
from typing import Any

from halfulp.report import mechanism_tables, tables, writeback_tables
from halfulp.studies import catalogue, writeback_rules
from halfulp.studies.audit_registration import AuditRegistration
from halfulp.studies.audit_rules import SEALED

FORMS = ("csv", "md", "tex")
FROZEN = ("frozen.json", "run.json")
#: What every job but the first reads.
TIES = (*FROZEN, "receipts/freeze.json")
PARTS = ("cells.parquet", "metrics.parquet", "summary.json")
#: Rules that may run again at any time, since they only make tables and figures.
REMADE = ("report", "present", "tabulate")


@dataclass(frozen=True)
class ExpectedJob:
    """One job of a study."""

    rule: str
    wildcards: dict[str, str]
    #: Files that it writes, no more and no fewer.
    writes: tuple[str, ...]
    #: Files of the run that must be among its inputs.
    reads: tuple[str, ...]
    #: Whether its outcome was to be unseen until the forecasts were sealed.
    unseen: bool = False


Jobs = dict[str, ExpectedJob]


def expected_jobs(registration: Any, name: str) -> Jobs:
    """Return a study's jobs by receipt name, e.g. ``target.seed11``; ``name`` is that of the registration's file."""
    jobs: Jobs = {"freeze": ExpectedJob("freeze", {"name": name}, FROZEN, ())}
    if isinstance(registration, AuditRegistration):
        return jobs | _audit(registration)
    if registration.study in catalogue.MECHANISMS:
        return jobs | _mechanism(name)
    return jobs | _write_back(registration, name)


def _audit(registration: AuditRegistration) -> Jobs:
    seeds = registration.seeds
    jobs: Jobs = {}

    def train(rule: str, part: str, seed: int, table: str, reads: tuple[str, ...], unseen: bool = False) -> str:
        files = tuple(f"{part}/seed{seed}/{file}" for file in (f"{table}.parquet", "losses.parquet", "summary.json"))
        jobs[f"{rule}.seed{seed}"] = ExpectedJob(rule, {"seed": str(seed)}, files, (*TIES, *reads), unseen)
        return files[0]

    evidence = [train("reference", "references", s, "trace", ()) for s in (seeds.source, *seeds.historical)]
    evidence += [train("historical", "historical", s, "counts", ()) for s in seeds.historical]
    jobs["predict"] = ExpectedJob("predict", {}, SEALED, (*TIES, *evidence))
    jobs["seal"] = ExpectedJob("seal", {}, ("seal.json",), (*TIES, *evidence, *SEALED, "receipts/predict.json"))
    sealed = ("seal.json", *SEALED, "receipts/seal.json")
    outcomes = [train("target", "targets", s, "counts", sealed, unseen=True) for s in seeds.targets]
    jobs["open"] = ExpectedJob("open", {}, ("opened.json",), (*TIES, "seal.json", *outcomes))
    matched = [
        train("matched", "matched", s, "trace", ("opened.json", "receipts/open.json"), unseen=True)
        for s in seeds.targets
    ]
    judged = (*TIES, *evidence, *SEALED, "seal.json", "opened.json", *outcomes, *matched)
    jobs["score"] = ExpectedJob("score", {}, ("scores.json",), judged)
    made = (
        *_tables(list(tables.TABLES)),
        *_figures("curves"),
        *(f"captions/{n}.rst" for n in (*tables.TABLES, "curves")),
    )
    jobs["report"] = ExpectedJob("report", {}, made, (*TIES, "scores.json", "receipts/score.json", *SEALED, *outcomes))
    return jobs


def _mechanism(name: str) -> Jobs:
    own = {"mechanism": name}
    forecast, measured = (tuple(f"{part}/{file}" for file in PARTS) for part in ("forecast", "measured"))
    made = (*_tables(list(mechanism_tables.TABLES)), *_figures("crossings"))
    both = (*TIES, *forecast, *measured)
    return {
        "forecast": ExpectedJob("forecast", own, forecast, TIES),
        "measure": ExpectedJob("measure", own, measured, (*TIES, forecast[0], "receipts/forecast.json"), unseen=True),
        "judge": ExpectedJob("judge", own, ("scores.json",), both),
        "present": ExpectedJob("present", own, made, (*both, "scores.json", "receipts/judge.json")),
    }


def _write_back(registration: Any, name: str) -> Jobs:
    own = {"cohort": name}
    rule, files = writeback_rules.cell_rule(registration), writeback_rules.cell_files(registration)
    jobs: Jobs = {}
    read: list[str] = []
    for cell in catalogue.write_back_study(registration.study).cells(registration):
        written = tuple(f"cells/{cell}/{file}" for file in files)
        jobs[f"{rule}.{cell}"] = ExpectedJob(rule, {**own, "cell": cell}, written, TIES)
        read += [*written, f"receipts/{rule}.{cell}.json"]
    if registration.study == "study3":
        jobs["replay"] = ExpectedJob("replay", own, ("replay.json",), (*TIES, *(f for f in read if "safetensors" in f)))
        read += ["replay.json", "receipts/replay.json"]
    jobs["conclude"] = ExpectedJob("conclude", own, ("scores.json",), (*TIES, *read))
    made = (*_tables(list(writeback_tables.TABLES)), *_figures("results"))
    jobs["tabulate"] = ExpectedJob("tabulate", own, made, (*TIES, *read, "scores.json", "receipts/conclude.json"))
    return jobs


def _tables(names: list[str]) -> tuple[str, ...]:
    return tuple(f"tables/{name}.{form}" for name in names for form in FORMS)


def _figures(stem: str) -> tuple[str, ...]:
    return (f"figures/{stem}.pdf", f"figures/{stem}.png")
