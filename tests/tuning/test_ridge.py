"""How much of a query model is taken: none on noise, the feature that helps where one does."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest
from scipy.optimize import minimize
from support import TinyIndex, random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.models.weighted import PLAIN
from lmtune.tuning.gradient import GradientTuner, RankNetTuner
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.ridge import RidgeTuner
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import SurrogateTuner

AP = parse_measure("AP")


def telling_collection(topics: int = 30) -> tuple[TinyIndex, dict[str, str], dict[str, dict[str, int]]]:
    """Make topics of two words each, of which the one with a digit tells what is relevant."""
    rng = np.random.default_rng(0)
    texts, queries, qrels = {}, {}, dict[str, dict[str, int]]()
    for t in range(topics):
        queries[str(t)] = f"noise{chr(97 + t % 26)}{'z' * (t // 26)} topic{t}"
        noise, telling = queries[str(t)].split()
        qrels[str(t)] = {}
        for d in range(12):
            is_relevant = d < 4
            words = [telling] * (1 + 2 * is_relevant) + [noise] * int(rng.integers(0, 6))
            texts[f"{t}-{d}"] = " ".join([*words, *(f"f{rng.integers(50)}" for _ in range(6))])
            qrels[str(t)][f"{t}-{d}"] = int(is_relevant)
    return TinyIndex(texts), queries, qrels


@pytest.mark.parametrize("inner", [SurrogateTuner("approx-ap"), RankNetTuner(optimizer="l-bfgs")])
def test_a_feature_that_tells_is_taken(inner: GradientTuner) -> None:
    index, queries, qrels = telling_collection()
    pool = CandidatePool.build(index, queries, qrels, model="bm25+weights:digits,length")
    tuner = RidgeTuner(inner, folds=3, ridges=(0.1, 0.001)).fit(pool)
    assert tuner.step_ != PLAIN
    assert tuner.best_params_["theta_digits"] > 0.1
    plain = SurrogateTuner("approx-ap", starts=1).fit(
        CandidatePool.build(index, queries, qrels, model="bm25"), topics=None
    )
    ours = measure_settings(pool, tuner.best_params_, [AP]).mean()
    theirs = measure_settings(
        CandidatePool.build(index, queries, qrels, model="bm25"), plain.best_params_, [AP]
    ).mean()
    assert ours > theirs + 0.05
    assert list(tuner.path_["step"]) == [PLAIN, "0.1", "0.001"]
    assert tuner.path_["from the best"].max() == 0.0


def test_a_ridge_shrinks_and_none_is_an_answer() -> None:
    index, queries, qrels = random_collection(2, documents=80, topics=12)
    pool = CandidatePool.build(index, queries, qrels, model="bm25+weights:place,characters")
    sizes = []
    for ridge in (0.0, 0.01, 10.0):
        tuner = SurrogateTuner("approx-ap", starts=1, ridge=ridge).fit(pool)
        theta = [value for name, value in tuner.best_params_.items() if name.startswith("theta_")]
        sizes.append(float(np.abs(theta).sum()))
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[2] < 0.05
    taken = []
    for within in (0.0, 0.25, 1.0, 1e6):
        chosen = RidgeTuner(folds=3, ridges=(0.01,), within=within).fit(pool)
        if chosen.step_ == PLAIN:
            assert all(v == 0.0 for name, v in chosen.best_params_.items() if name.startswith("theta_"))
        steps = zip(
            *(chosen.path_[name] for name in ("step", "from the best", "standard error")), strict=True
        )
        assert chosen.step_ == next(step for step, mean, error in steps if -mean <= within * error)
        taken.append(chosen.step_)
    assert taken == ["0.01", "0.01", PLAIN, PLAIN]
    with pytest.raises(InputError, match=r"bad number of standard errors: -1"):
        RidgeTuner(within=-1.0).fit(pool)


def test_a_step_begins_where_the_one_before_was_free_to_end() -> None:
    """Where the plain query holds the original's weight at its bound, no gradient leads away."""
    index, queries, qrels = random_collection(2, documents=80, topics=12, vocabulary=80)
    pool = CandidatePool.build(index, queries, qrels, model="bm25+rm3+weights:idf")
    begun: list[list[float]] = []

    class Seen(RankNetTuner):
        def fit(self, *args: Any, **more: Any) -> Self:
            assert self.space is not None
            begun.append(self.space.start.tolist())
            return super().fit(*args, **more)

    RidgeTuner(Seen(), folds=2, ridges=(0.01,)).fit(pool)
    plain, feedback, ridge = begun[:3]
    assert plain[2] == pytest.approx(0.999)
    assert feedback[2] == 0.5
    assert feedback[:2] != plain[:2]
    assert ridge[:4] != feedback[:4]
    assert ridge[4] == 0.0


@pytest.mark.parametrize("optimizer", ["l-bfgs", "coordinate-descent"])
def test_ranknet_minimises_its_cost_and_the_ridge(optimizer: str) -> None:
    """Against scipy on the pairs' cost and the squares of theta times the features' deviations."""
    index, queries, qrels = random_collection(3, documents=80, topics=12)
    pool = CandidatePool.build(index, queries, qrels, model="bm25+weights:idf,characters")
    pairs, strength = Pairs.build(pool), 0.05
    space = ParameterSpace.of(pool.formula, {"k1": (0.9, 0.9), "b": (0.4, 0.4)})
    tuner = RankNetTuner(optimizer=optimizer, space=space, starts=1, ridge=strength).fit(pool, pairs=pairs)
    spreads = pool.count[1:].std(axis=1)

    def cost(theta: np.ndarray) -> float:
        value = pairs.cost(np.array([0.9, 0.4, *theta])).value / pairs.per_topic.sum()
        return float(value + strength * ((theta * spreads) ** 2).sum())

    found = minimize(cost, [0.0, 0.0], bounds=[(-3, 3)] * 2, method="L-BFGS-B", options={"ftol": 1e-14})
    theta = [tuner.best_params_["theta_idf"], tuner.best_params_["theta_characters"]]
    assert tuner.best_value_ / pairs.per_topic.sum() == pytest.approx(found.fun, rel=1e-7)
    np.testing.assert_allclose(theta, found.x, atol=2e-3)
    assert max(map(abs, theta)) > 0.05


def test_what_has_no_weights_is_refused() -> None:
    index, queries, qrels = random_collection(1)
    pool = CandidatePool.build(index, queries, qrels, model="bm25")
    with pytest.raises(InputError, match="no weights"):
        RidgeTuner().fit(pool)
    pool = CandidatePool.build(index, queries, qrels, model="bm25+weights")
    with pytest.raises(InputError, match="ridges"):
        RidgeTuner(ridges=(0.1, 0.2)).fit(pool)
    with pytest.raises(InputError, match="too few topics"):
        RidgeTuner().fit(pool, topics=list(queries)[:1])
