"""How much of a query model is taken: none on noise, the feature that helps where one does."""

from __future__ import annotations

import numpy as np
import pytest
from support import TinyIndex, random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.models.weighted import PLAIN
from lmtune.tuning.ridge import RidgeTuner
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


def test_a_feature_that_tells_is_taken() -> None:
    index, queries, qrels = telling_collection()
    pool = CandidatePool.build(index, queries, qrels, model="bm25+weights:digits,length")
    tuner = RidgeTuner("approx-ap", folds=3, ridges=(0.1, 0.001)).fit(pool)
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
    chosen = RidgeTuner("approx-ap", folds=3, ridges=(0.01,)).fit(pool)
    if chosen.step_ == PLAIN:
        assert all(v == 0.0 for name, v in chosen.best_params_.items() if name.startswith("theta_"))
    mean, error = chosen.path_["from the best"], chosen.path_["standard error"]
    first = next(step for step, m, e in zip(chosen.path_["step"], mean, error, strict=True) if -m <= e)
    assert chosen.step_ == first


def test_what_has_no_weights_is_refused() -> None:
    index, queries, qrels = random_collection(1)
    pool = CandidatePool.build(index, queries, qrels, model="bm25")
    with pytest.raises(InputError, match="no weights"):
        RidgeTuner("approx-ap").fit(pool)
    pool = CandidatePool.build(index, queries, qrels, model="bm25+weights")
    with pytest.raises(InputError, match="ridges"):
        RidgeTuner("approx-ap", ridges=(0.1, 0.2)).fit(pool)
    with pytest.raises(InputError, match="topics"):
        RidgeTuner("approx-ap", folds=5).fit(pool, topics=list(queries)[:3])
