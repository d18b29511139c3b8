"""A topic of weight 2 counts as two topics of weight 1, whatever searches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import cross_validation
from lmtune.errors import InputError
from lmtune.fusion.fusing import fuse_runs
from lmtune.fusion.methods import FusionOptions, normalised
from lmtune.fusion.runs import RunSet
from lmtune.fusion.search import Line, join_steps
from lmtune.io.term_values import read_topic_weights
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.direct import CoordinateAscent, GridSearch
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import OPTIMAL
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.gradient import RankNetTuner
from lmtune.tuning.gradient_free import SPSA
from lmtune.tuning.pairs import Lists, Pairs
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import SurrogateCost, SurrogateTuner, parse_objective
from lmtune.tuning.tuner import Tuner

AP = parse_measure("AP")
TIMES = (1, 3, 2, 1, 4, 1)
WEIGHTS = {str(t): float(times) for t, times in enumerate(TIMES, 1)}


def both(model: str = "bm25") -> tuple[CandidatePool, CandidatePool]:
    """Return a pool of weighted topics, and one in which topics stand as often as they weigh."""
    index, topics, qrels = random_collection(5)
    names = {f"{topic}.{n}": topic for topic in topics for n in range(int(WEIGHTS[topic]))}
    weighted = CandidatePool.build(index, topics, qrels, model=model).with_topic_weights(WEIGHTS)
    queries = {name: topics[topic] for name, topic in names.items()}
    judged = {name: qrels[topic] for name, topic in names.items()}
    return weighted, CandidatePool.build(index, queries, judged, model=model)


@pytest.mark.parametrize(
    "tuner",
    [GridSearch("AP", shape=(6, 7)), CoordinateAscent("nDCG@10", seed=1), SPSA("AP", evaluations=60, seed=2)],
    ids=["grid", "climbs", "spsa"],
)
def test_direct_searches_count_topics_by_their_weights(tuner: Tuner) -> None:
    weighted, repeated = both()
    by_weight = type(tuner)(**tuner.get_params()).fit(weighted)
    by_number = tuner.fit(repeated)
    assert by_weight.best_value_ == pytest.approx(by_number.best_value_, abs=1e-12)
    assert by_weight.best_params_ == pytest.approx(by_number.best_params_, abs=1e-9)
    plain = type(tuner)(**tuner.get_params()).fit(replace(weighted, topic_weights=None))
    assert plain.best_value_ != pytest.approx(by_weight.best_value_, abs=1e-6)


@pytest.mark.parametrize(
    "tuner", [RankNetTuner(starts=1), SurrogateTuner("approx-ap", starts=1)], ids=["ranknet", "approx"]
)
def test_gradients_count_topics_by_their_weights(tuner: Any) -> None:
    weighted, repeated = both()
    by_weight = type(tuner)(**tuner.get_params()).fit(weighted)
    by_number = tuner.fit(repeated)
    assert by_weight.best_value_ == pytest.approx(by_number.best_value_, rel=1e-9)
    assert by_weight.best_params_ == pytest.approx(by_number.best_params_, rel=1e-4)


def test_costs_and_their_gradients_count_topics_by_their_weights() -> None:
    at = {"k1": 1.1, "b": 0.4}
    weighted, repeated = both()
    for pairs in (False, True):
        costs = []
        for pool in (weighted, repeated):
            if pairs:
                costs.append(Pairs.build(pool).cost(at))
            else:
                lists = Lists.build(pool, ParameterSpace.of("bm25"))
                costs.append(
                    SurrogateCost(lists, parse_objective("approx-ndcg@5"), pool.positions())(at, 2.0)
                )
        (value, slope), (expected, slopes) = costs
        assert value == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(slope, slopes, rtol=1e-10)


def runs_of(topics: int) -> tuple[RunSet, dict[str, dict[str, int]]]:
    rng = np.random.default_rng(3)
    judged = {str(t): {f"d{d:02}": int(rng.random() < 0.3) for d in range(20)} for t in range(1, topics + 1)}
    runs = {
        f"r{n}": {t: {d: float(rng.normal() + gain) for d, gain in own.items()} for t, own in judged.items()}
        for n in range(3)
    }
    return RunSet.of(runs), judged


def test_a_line_of_weights_of_runs_counts_topics_by_theirs() -> None:
    runs, judged = runs_of(6)
    pool = runs.pool(normalised("min-max", "zero"), judged).with_topic_weights(WEIGHTS)
    begin, end = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.5, 0.5])
    steps = join_steps(Line(pool, AP, pool.positions()).steps(begin, end))
    middles = (steps.at + np.append(steps.at[1:], 1.0)) / 2.0
    some = np.linspace(0, middles.size - 1, 25).astype(int)
    settings = np.array([(1.0 - t) * begin + t * end for t in middles[some]])
    values = measure_settings(pool, settings, [AP])[:, :, 0]
    np.testing.assert_allclose(steps.value[some], np.array(TIMES) @ values / sum(TIMES), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["linear", "forward", "shrunk", "rrf-k"])
def test_fusion_weighs_topics_in_fits_alone(method: str) -> None:
    """A topic that counts 10^6 times as much as the others decides; the mean counts each alike."""
    runs, judged = runs_of(10)
    heavy = {topic: 1e6 if topic == "4" else 1.0 for topic in judged}
    options = FusionOptions(method=(method,), in_sample=True, topic_weights=heavy)
    found = next(row for row in fuse_runs(runs, judged, options).rows if row.name == method)
    alike = next(
        row
        for row in fuse_runs(runs, judged, replace(options, topic_weights=None)).rows
        if row.name == method
    )
    assert found.mean == pytest.approx(found.values.mean())
    assert found.values[3] > alike.values[3]
    assert found.mean < alike.mean


def test_the_experiment_weighs_topics_in_training_alone() -> None:
    weighted, _ = both()
    plan = Plan(measures=(AP,), model="bm25", grid=(16,), ascents=1, restarts=0, starts=1)
    folds = cross_validation(weighted.topics, 2)
    for row in run_experiment(weighted, folds, plan).rows:
        assert row.mean == pytest.approx(row.values.mean())
        if row.method != OPTIMAL:
            fit = row.fits[0]
            values = measure_settings(weighted, fit.params, [AP], topics=weighted.positions(folds[0].train))
            counts = np.array([WEIGHTS[topic] for topic in folds[0].train])
            assert fit.train_value == pytest.approx(counts @ values[:, 0, 0] / counts.sum())


def test_what_has_no_proof_of_weighted_topics_says_so() -> None:
    runs, judged = runs_of(6)
    with pytest.raises(InputError, match="weighted topics cannot be certified"):
        CertifiedOptimum("AP").fit(both()[0])
    with pytest.raises(InputError, match="weighted topics cannot be certified"):
        fuse_runs(runs, judged, FusionOptions(topic_weights=WEIGHTS, certify=0.01))
    with pytest.raises(InputError, match="topic 6 has no weight"):
        fuse_runs(runs, judged, FusionOptions(topic_weights={str(t): 1.0 for t in range(6)}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no topic weights: the file is empty"),
        ("1\t1\n2\n", "tsv:2: bad weight of a topic: '2'"),
        ("1\t0\n", "tsv:1: bad weight of a topic"),
        ("1\t-1\n", "bad weight"),
        ("1\tnan\n", "bad weight"),
        ("1\t1_0\n", "bad weight"),
        ("1\t1\n1\t2\n", "tsv:2: a second weight of a topic"),
    ],
)
def test_bad_files_are_told(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "weights.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read_topic_weights(tmp_path / "weights.tsv")


def test_a_file_of_weights(tmp_path: Path) -> None:
    (tmp_path / "weights.tsv").write_text("1\t1\n\n a b\t.25\n", encoding="utf-8")
    assert read_topic_weights(tmp_path / "weights.tsv") == {"1": 1.0, "a b": 0.25}
