"""Rehearsals on pilot seeds, from which rates and thresholds may be chosen. No seed of a study is touched.

In the audit the pilot seeds play the study's parts in the order in which they are listed: the source, as many
historical seeds as are registered, and the rest as targets. Every seed then takes its turn as source, so that the
spread of each score is seen and not one lucky draw.
"""

import dataclasses
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd

from halfulp import determinism
from halfulp.errors import InputError
from halfulp.registration.identity import Identity
from halfulp.studies import audit, catalogue, study3, writeback, writeback_rules
from halfulp.studies.audit_registration import AuditRegistration, SeedsConfig
from halfulp.studies.writeback import WriteBackRegistration
from halfulp.training.data import Blocks, load_text
from halfulp.training.runner import train


def rehearse_write_back(registration: WriteBackRegistration, processes: int) -> dict[str, Any]:
    """Run a write-back study with its pilot seeds in place of its own; return what ``scores.json`` would hold.

    Raises:
        InputError: fewer pilot seeds than the study has.
    """
    wanted = len(registration.own_seeds())
    if len(registration.pilot) < wanted:
        raise InputError(f"pilot: {len(registration.pilot)} seeds; a rehearsal needs {wanted} or more")
    seeds = registration.pilot[:wanted]
    part: dict[str, Any] = {"seeds": seeds} if hasattr(registration, "seeds") else {"seed": seeds[0]}
    rehearsal = registration.model_copy(update=part)
    study = catalogue.write_back_study(registration.study)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=determinism.pin) as pool,
    ):
        cells = {name: Path(folder, name) for name in study.cells(rehearsal)}
        jobs = {name: pool.submit(writeback_rules.train_into, rehearsal, name, path) for name, path in cells.items()}
        for job in jobs.values():
            job.result()
        canonical = {name: Identity(True, "a rehearsal") for name in cells}
        outcomes = writeback_rules.read_cells(rehearsal, cells, canonical)
        if isinstance(rehearsal, study3.Study3Registration):
            (path,) = cells.values()
            outcomes = dataclasses.replace(outcomes, replay=study3.replay(rehearsal, path, lambda line: None))
        return writeback.score(study, rehearsal, outcomes)


def rehearse(registration: AuditRegistration, processes: int) -> list[dict[str, Any]]:
    """Train every pilot seed twice (fp32 with trace, and with write-back) and score each rotation of the parts.

    Raises:
        InputError: too few pilot seeds for one source, the historical seeds and one target.
    """
    seeds = registration.seeds.pilot
    historical = len(registration.seeds.historical)
    if len(seeds) < historical + 2:
        raise InputError(f"seeds.pilot: {len(seeds)} seeds; a rehearsal needs {historical + 2} or more")
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=determinism.pin) as pool:
        runs = {
            (seed, traced): pool.submit(_train, registration, seed, traced)
            for seed in seeds
            for traced in (True, False)
        }
        tables = {key: future.result() for key, future in runs.items()}
    records = []
    for shift in range(len(seeds)):
        order = seeds[shift:] + seeds[:shift]
        parts = SeedsConfig(
            source=order[0],
            historical=order[1 : 1 + historical],
            targets=order[1 + historical :],
            pilot=(max(seeds) + 1,),
        )
        rotated = registration.model_copy(update={"seeds": parts})

        def trace(_: str, seed: int) -> pd.DataFrame:
            return tables[seed, True]

        def counts(_: str, seed: int) -> pd.DataFrame:
            return tables[seed, False]

        evidence, axes = audit.build_evidence(rotated, trace, counts, opened=True)
        rows = audit.forecast_rows(rotated.predictors.blind, evidence, axes, parts.targets)
        sealed = pd.DataFrame(rows, columns=audit.FORECASTS.names)
        ranking = audit.blind_ranking(rotated, evidence)
        records.append(audit.score(rotated, evidence, axes, sealed, ranking, counts))
    return records


def _train(registration: AuditRegistration, seed: int, traced: bool) -> pd.DataFrame:
    data = registration.training.data
    result = train(audit.plan(registration, seed, traced=traced), Blocks.from_text(load_text(data), data))
    if result.status != "completed":
        raise InputError(f"pilot seed {seed}: {result.detail}; choose a lower rate")
    table = result.trace if traced else result.counts
    assert table is not None
    return table.to_pandas()
