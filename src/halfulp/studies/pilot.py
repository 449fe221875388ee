"""A rehearsal of the audit on its pilot seeds, from which rates and thresholds may be chosen. No target is touched.

The pilot seeds play the study's parts in the order in which they are listed: the source, as many historical seeds as
are registered, and the rest as targets. Every seed then takes its turn as source, so that the spread of each score is
seen and not one lucky draw.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pandas as pd

from halfulp import determinism
from halfulp.errors import InputError
from halfulp.studies import audit
from halfulp.studies.audit_registration import AuditRegistration, SeedsConfig
from halfulp.training.data import Blocks, load_text
from halfulp.training.runner import train


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
