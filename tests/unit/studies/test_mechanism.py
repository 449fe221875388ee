"""Claim: the mechanism systems' forecasts and measurements are compared cell by cell; their arithmetic is right."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from halfulp.numerics import EventCounts, mantissa, round_nearest
from halfulp.studies import cnn, features, grid, mechanism
from halfulp.studies.mechanism import ANALYTIC, MEASURED, TRACE, Conclusion, Evidence, Tables
from halfulp.studies.tasks import Workspace

ROOT = Path(__file__).parents[3]
WORKSPACE = Workspace(lambda step, line: None, Path("unused"))


def registration(study: Any, **changes: Any) -> Any:
    from halfulp.registration.strict_yaml import read_yaml

    content = read_yaml(ROOT / f"preregistration/smoke/{study.__name__.rsplit('.', 1)[-1]}.yaml")
    return study.REGISTRATION.model_validate_json(json.dumps(content | changes))


def evidence(tables: Tables) -> Evidence:
    cells, metrics = tables.arrow()
    return Evidence(cells.to_pandas(), metrics.to_pandas(), tables.diverged)


class Nothing:
    """A system that concludes nothing, for scores on hand-made tables."""

    @staticmethod
    def conclude(*_: Any) -> Conclusion:
        return Conclusion({}, {})


def made(kind: str, fractions: dict[str, list[float]], diverged: dict[str, str] | None = None) -> Evidence:
    tables = Tables(diverged=diverged or {})
    for cell, values in fractions.items():
        for step, value in enumerate(values):
            erased = round(100 * value)
            tables.events(kind, cell, "w", step, EventCounts(0, erased, 100 - erased, 0))
    return evidence(tables)


def test_a_claim_that_is_missing_is_null() -> None:
    class Missing(Nothing):
        @staticmethod
        def conclude(*_: Any) -> Conclusion:
            return Conclusion({}, {"difference": float("nan"), "steps": "none"})

    some = {"a": [0.2, 0.6, 0.7]}
    record = mechanism.score(Missing(), registration(grid), made(TRACE, some), made(MEASURED, some))  # type: ignore[arg-type]
    assert record["claims"] == {"difference": None, "steps": "none"}


def test_scores_of_hand_made_cells() -> None:
    r = registration(grid, crossing={"thresholds": [0.5], "window": 2, "unit": "cell"})
    forecast = made(TRACE, {"a": [0, 0, 1, 1], "b": [1, 1, 1, 1], "c": [0, 0, 0, 0], "d": [0, 0, 0, 0]})
    measured = made(MEASURED, {"a": [0, 0, 0, 1, 1], "b": [1, 1, 0, 0], "c": [0, 0, 1, 1], "d": [0]}, {"d": "step 1"})
    record = mechanism.score(Nothing(), r, forecast, measured)  # type: ignore[arg-type]
    found = {u["cell"]: (u["forecast"], u["measured"]) for u in record["units"]}
    assert found == {
        "a": ("post_init", "post_init"),
        "b": ("at_init", "at_init"),
        "c": ("never", "post_init"),
        "d": ("never", "diverged"),
    }
    assert record["comparisons"]["trace at 0.5"]["disagreements"] == 2
    assert record["scores"]["agreement"] == 0.5
    assert record["totals"][0] == {
        "kind": "trace",
        "cell": "a",
        "no_update": 0,
        "erased": 200,
        "moved": 200,
        "saturated": 0,
    }


def test_a_cell_without_its_other_half_is_an_error() -> None:
    r = registration(grid)
    with pytest.raises(ValueError, match="but not both"):
        mechanism.score(Nothing(), r, made(TRACE, {"a": [0.0]}), made(MEASURED, {"b": [0.0]}))  # type: ignore[arg-type]


def test_grid_cells_equal_runs_of_their_own() -> None:
    """A cell of the batch is the network that a plain loop trains: same losses, to fp32 rounding of batched sums."""
    r = registration(grid, widths=[5], rates=[0.1, 0.3], seeds=[1], steps=20)
    tables = grid.measure(r, WORKSPACE)
    batched = {row[0]: row[3] for row in tables.metrics if row[1] == 19}
    for rate in (0.1, 0.3):
        students = grid.Students(r, [(rate, 1)])
        weights = [round_nearest(w[0], mantissa(5)) for w in students.weights]
        for _ in range(20):
            hidden, output = (w.clone().requires_grad_() for w in weights)
            error = torch.tanh(students.x @ hidden.T) @ output.T - students.y
            loss = (error**2).mean() / 2
            gradients = torch.autograd.grad(loss, [hidden, output])
            weights = [round_nearest(w - rate * g, mantissa(5)) for w, g in zip(weights, gradients, strict=True)]
        assert batched[grid.cell_name(5, rate, 1)] == pytest.approx(loss.item(), rel=1e-3)


def test_closed_form_is_the_trajectory() -> None:
    r = registration(features)
    problem = features.Problem(r)
    path = problem.closed_form(50)
    head = problem.head.double()
    phi, y = problem.phi.double(), problem.y.double()
    for step in range(50):
        assert torch.allclose(path[step], head, rtol=0, atol=1e-10)
        head = head - problem.rate * phi.T @ (phi @ head - y) / len(y)


def test_features_have_an_analytic_and_a_traced_forecast_of_every_cell() -> None:
    r = registration(features, steps=30)
    forecast, measured = evidence(features.forecast(r, WORKSPACE)), evidence(features.measure(r, WORKSPACE))
    for kind in (TRACE, ANALYTIC):
        rows = forecast.cells[forecast.cells["kind"] == kind]
        assert set(rows["cell"]) == {f"m{width}" for width in r.widths}
        assert (rows[["no_update", "erased", "moved"]].sum(axis=1) == r.features).all()
    assert (measured.cells[["no_update", "erased", "moved"]].sum(axis=1) == r.features).all()
    first = [e.cells[(e.cells["step"] == 0)].groupby("kind")["erased"].sum() for e in (forecast, measured)]
    assert first[0][TRACE] == pytest.approx(first[1][MEASURED], abs=5)  # one step in, they have hardly parted


def test_digits_are_split_and_drawn_by_seeds_alone() -> None:
    r = registration(cnn)
    digits, again = cnn.Digits(r), cnn.Digits(r)
    assert torch.equal(digits.batch(3)[0], again.batch(3)[0])
    assert not torch.equal(digits.batch(3)[0], digits.batch(4)[0])
    assert len(digits.validation[1]) == 1000
    assert len(digits.train[1]) == 4000
    assert float(digits.train[0].max()) == 1.0
    assert np.bincount(torch.cat([digits.train[1], digits.validation[1]]).numpy()).tolist() == [500] * 10
