"""Smooth forms of measures, and their surfaces."""

from __future__ import annotations

import numpy as np
import pytest
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.folds import cross_validation
from lmtune.measures.evaluate import measure
from lmtune.measures.measure import parse_measure, parse_measures
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.experiment.smooth import smooth_form, smooth_surfaces
from lmtune.tuning.surrogate import SurrogateTuner


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("AP", "approx-AP"),
        ("P(rel=2)@5", "approx-P(rel=2)@5"),
        ("nDCG@10", "approx-nDCG@10"),
        ("Success@3", "approx-AP"),
        ("Success(rel=2)@3", "approx-AP(rel=2)"),
    ],
)
def test_a_measure_has_its_own_smooth_form_or_that_of_ap(name: str, form: str) -> None:
    assert str(smooth_form(parse_measure(name))) == form


def test_the_smooth_surface_is_what_approx_climbs() -> None:
    pool = CandidatePool.build(*random_collection(3, documents=60, topics=8))
    plan = Plan(tuple(parse_measures(["AP", "P(rel=9)@5"])), grid=(3, 4))
    result = run_experiment(pool, cross_validation(pool.topics, 2), plan)
    # No document has a gain of 9: there is nothing to draw.
    [(name, table)] = smooth_surfaces(pool, result, plan).items()
    assert name == "AP"
    tuner = SurrogateTuner("approx-ap").fit(pool)
    assert table["smooth"].max() <= -tuner.best_value_ + 1e-9
    assert table["smooth"].max() >= -tuner.best_value_ - 0.05
    # Every other point of each axis, both ends among them.
    assert len(table) == 2 * 3
    assert set(table["mu"]) >= {1.0, 100_000.0}
    for row in (0, 5):
        at = {"lambda": float(table["lambda"][row]), "mu": float(table["mu"][row])}
        expected = np.mean(measure(pool, at, measures=["AP"])["AP"])
        assert table["measure"][row] == pytest.approx(expected, rel=1e-12)
