"""The mean of the best settings of resampled topics: by brute force, and as a row of an experiment."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold, cross_validation
from lmtune.measures.measure import parse_measure
from lmtune.tuning.bagging import RESAMPLES, bagged_setting
from lmtune.tuning.direct import Surface
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import APPROX, BAGGED, DIRECT
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.space import ParameterSpace

AP = parse_measure("AP")
SPACE = ParameterSpace.of("two-stage")


@pytest.mark.parametrize("weights", [None, np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])])
def test_it_is_the_mean_over_resamples_on_the_scale_of_each_parameter(weights: np.ndarray | None) -> None:
    settings = SPACE.grid((3, 4))
    # Few different values, so that settings tie.
    values = np.random.default_rng(0).integers(0, 3, (6, len(settings), 1)) / 2.0
    surface = Surface(tuple(SPACE.names), settings, (AP,), values, weights)
    topics = np.array([0, 1, 2, 4, 5])
    lambdas, logarithms, ties = 0.0, 0.0, 0
    for draw in np.random.default_rng(7).multinomial(5, [0.2] * 5, RESAMPLES):
        sample = [topic for topic, times in zip(topics, draw, strict=True) for _ in range(times)]
        sums = [
            sum(values[topic, row, 0] * (1.0 if weights is None else weights[topic]) for topic in sample)
            for row in range(len(settings))
        ]
        best = [row for row, own in enumerate(sums) if own > max(sums) - 1e-9]
        lambdas += sum(settings[row, 0] for row in best) / len(best)
        logarithms += sum(math.log(settings[row, 1]) for row in best) / len(best)
        ties += len(best) > 1
    expected = [lambdas / RESAMPLES, math.exp(logarithms / RESAMPLES)]
    assert bagged_setting(surface, AP, topics, SPACE, seed=7) == pytest.approx(expected, rel=1e-12)
    assert ties > RESAMPLES / 10


def test_one_topic_gives_its_best_setting_and_fixed_parameters_stay() -> None:
    space = ParameterSpace.of("two-stage", {"lambda": (0.1, 0.9), "mu": (0.0, 0.0)})
    settings = space.grid((5, 1))
    values = np.array([[0.1, 0.2, 0.5, 0.4, 0.3]])[..., None]
    surface = Surface(tuple(space.names), settings, (AP,), values)
    assert bagged_setting(surface, AP, np.array([0]), space).tolist() == settings[2].tolist()


def test_it_is_a_row_that_replaces_direct_for_few_topics_and_parameters() -> None:
    pool = CandidatePool.build(*random_collection(7, documents=60, topics=8))
    plan = Plan((AP,), grid=(4, 5), approx=False, restarts=0)
    folds = cross_validation(pool.topics, 2, seed=0)
    result = run_experiment(pool, folds, plan)
    [row] = [row for row in result.rows if row.method == BAGGED]
    assert result.surface is not None and result.fixed_method == BAGGED
    for fold, fit in zip(folds, row.fits, strict=True):
        expected = bagged_setting(result.surface, AP, pool.positions(fold.train), plan.space)
        assert list(fit.params.values()) == expected.tolist()
    assert row.final is not None and plan.space.contains(row.final.params)
    many = [Fold(tuple(map(str, range(51))), ("x",))]
    assert plan.fixed_method(many) == DIRECT
    assert Plan((AP,), model="sdm").fixed_method(folds) == APPROX
    without = replace(plan, bag=False)
    assert without.fixed_method(folds) == DIRECT
    assert BAGGED not in {row.method for row in run_experiment(pool, folds, without).rows}
