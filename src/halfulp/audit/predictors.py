"""Predictors of the erased fraction: pure functions of curves, named in the registration.

Every predictor maps :class:`Evidence` to curves of shape (target, group, step). Those of ``BLIND`` see one reference
trace and the historical seeds; those of ``PRIVILEGED`` also see each target seed's own reference, which exists only
after the seal was opened. Forecasts are not clipped to [0, 1]: the registered formula is what is judged.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from halfulp.audit.curves import Array


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What predictors may look at."""

    #: Number of target seeds.
    targets: int
    #: ``local`` curves of the one reference trace, (group, step).
    source_local: Array
    #: ``replay`` curves of the same trace, (group, step).
    source_replay: Array
    #: ``local`` curves of the historical seeds' references, (seed, group, step).
    historical_local: Array
    #: ``replay`` curves of the same, (seed, group, step).
    historical_replay: Array
    #: Measured curves of the historical seeds' targets, (seed, group, step).
    historical_outcome: Array
    #: ``local`` curves of the target seeds' own references, (target, group, step); None until the seal is opened.
    matched_local: Array | None = None

    @property
    def reference_mean(self) -> Array:
        """H, the mean of the historical ``local`` curves, (group, step)."""
        return self.historical_local.mean(axis=0)

    @property
    def template(self) -> Array:
        """T, the mean of the historical outcomes, (group, step)."""
        return self.historical_outcome.mean(axis=0)

    @property
    def departure(self) -> Array:
        """What is specific to the source: ``source_local - H``, (group, step)."""
        return self.source_local - self.reference_mean


Predictor = Callable[[Evidence], Array]


def source_local(evidence: Evidence) -> Array:
    """Forecast with the reference trace as it is."""
    return _for_all(evidence, evidence.source_local)


def source_replay(evidence: Evidence) -> Array:
    """Forecast with the open-loop replay of the reference's updates."""
    return _for_all(evidence, evidence.source_replay)


def template(evidence: Evidence) -> Array:
    """Forecast T: what the historical seeds did."""
    return _for_all(evidence, evidence.template)


def source(evidence: Evidence) -> Array:
    """Forecast T + (source_local − H): common time plus what is specific to the source."""
    return _for_all(evidence, evidence.template + evidence.departure)


def source_replay_corrected(evidence: Evidence) -> Array:
    """Forecast T + (source_replay − mean historical replay): as ``source``, from the replay."""
    return _for_all(evidence, evidence.template + (evidence.source_replay - evidence.historical_replay.mean(axis=0)))


def constant(evidence: Evidence) -> Array:
    """Forecast each group's mean of T over time: the baseline of skill."""
    flat = evidence.template.mean(axis=1, keepdims=True)
    return _for_all(evidence, np.broadcast_to(flat, evidence.template.shape))


def time_reversed(evidence: Evidence) -> Array:
    """Placebo of ``source``: its specific part runs backwards in time."""
    return _for_all(evidence, evidence.template + reverse_time(evidence.departure))


def group_permuted(evidence: Evidence) -> Array:
    """Placebo of ``source``: its specific part goes to the group half-way down the list (no group keeps its own)."""
    return _for_all(evidence, evidence.template + permute_groups(evidence.departure))


def matched_local(evidence: Evidence) -> Array:
    """Privileged: each target with its own seed's reference trace."""
    return _matched(evidence)


def matched_correction(evidence: Evidence) -> Array:
    """Privileged: T + (matched_local − H)."""
    return evidence.template + (_matched(evidence) - evidence.reference_mean)


def keep(departure: Array) -> Array:
    """Leave the specific part as it is: what ``source`` does."""
    return departure


def reverse_time(departure: Array) -> Array:
    """Run the specific part, (group, step), backwards in time."""
    return departure[:, ::-1]


def permute_groups(departure: Array) -> Array:
    """Give each group's specific part to the group half-way down the list."""
    return np.roll(departure, max(1, len(departure) // 2), axis=0)


#: What ``source`` and its placebos do to the specific part.
ALTERATIONS: dict[str, Callable[[Array], Array]] = {
    "source": keep,
    "time_reversed": reverse_time,
    "group_permuted": permute_groups,
}

BLIND: dict[str, Predictor] = {
    predictor.__name__: predictor
    for predictor in (
        source,
        template,
        source_local,
        source_replay,
        source_replay_corrected,
        constant,
        time_reversed,
        group_permuted,
    )
}
PRIVILEGED: dict[str, Predictor] = {predictor.__name__: predictor for predictor in (matched_local, matched_correction)}


def _for_all(evidence: Evidence, curves: Array) -> Array:
    return np.broadcast_to(curves, (evidence.targets, *curves.shape)).copy()


def _matched(evidence: Evidence) -> Array:
    if evidence.matched_local is None:
        raise ValueError("matched references are privileged: they exist only after the seal was opened")
    return evidence.matched_local
