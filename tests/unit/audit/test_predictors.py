"""Claim: each predictor is its registered formula, and none but the privileged can see a target's own reference."""

import numpy as np
import pytest

from halfulp.audit.predictors import BLIND, PRIVILEGED, Evidence

GROUPS, STEPS = 3, 5
rng = np.random.default_rng(0)


def evidence(*, opened: bool = True) -> Evidence:
    return Evidence(
        targets=2,
        source_local=rng.random((GROUPS, STEPS)),
        source_replay=rng.random((GROUPS, STEPS)),
        historical_local=rng.random((4, GROUPS, STEPS)),
        historical_replay=rng.random((4, GROUPS, STEPS)),
        historical_outcome=rng.random((4, GROUPS, STEPS)),
        matched_local=rng.random((2, GROUPS, STEPS)) if opened else None,
    )


def test_formulas() -> None:
    e = evidence()
    T, H = e.historical_outcome.mean(axis=0), e.historical_local.mean(axis=0)
    assert e.matched_local is not None
    expected = {
        "template": T,
        "source_local": e.source_local,
        "source_replay": e.source_replay,
        "source": T + (e.source_local - H),
        "source_replay_corrected": T + (e.source_replay - e.historical_replay.mean(axis=0)),
        "constant": np.repeat(T.mean(axis=1)[:, None], STEPS, axis=1),
        "time_reversed": T + (e.source_local - H)[:, ::-1],
        "group_permuted": T + (e.source_local - H)[[2, 0, 1]],
    }
    assert set(expected) == set(BLIND)
    for name, curves in expected.items():
        for target in range(2):
            np.testing.assert_array_equal(BLIND[name](e)[target], curves, err_msg=name)
    np.testing.assert_array_equal(PRIVILEGED["matched_local"](e), e.matched_local)
    np.testing.assert_array_equal(PRIVILEGED["matched_correction"](e), T + (e.matched_local - H))


def test_every_group_loses_its_own_departure_in_the_permutation() -> None:
    for groups in range(2, 9):
        departure = np.arange(groups, dtype=float)[:, None] + np.ones((groups, 2))
        e = Evidence(
            targets=1,
            source_local=departure,
            source_replay=departure,
            historical_local=np.zeros((2, groups, 2)),
            historical_replay=np.zeros((2, groups, 2)),
            historical_outcome=np.zeros((2, groups, 2)),
        )
        assert (BLIND["group_permuted"](e)[0] != departure).all()


def test_privileged_predictors_need_the_opened_seal() -> None:
    for predictor in PRIVILEGED.values():
        with pytest.raises(ValueError, match="only after the seal was opened"):
            predictor(evidence(opened=False))
    for predictor in BLIND.values():  # control: the blind ones run on the same evidence
        assert predictor(evidence(opened=False)).shape == (2, GROUPS, STEPS)


def test_a_missing_cell_stays_missing() -> None:
    e = evidence()
    e.source_local[1, 2] = np.nan
    assert np.isnan(BLIND["source"](e)[:, 1, 2]).all()
    assert np.isfinite(BLIND["template"](e)).all()
