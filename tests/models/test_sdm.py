"""Sequential dependence against the formula in 50 digits, a plain ranking of the text, pruning, convexity."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.typing import NDArray
from support import COLLECTIONS, TinyIndex, random_collection

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.candidates.skyband import skyband
from lmtune.candidates.storage import stored_pool
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.models.kernels import TopicDocuments
from lmtune.models.model import MODELS
from lmtune.models.sdm import SDM
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace

mp.dps = 50
Column = tuple[int, float, int, int]
"""Frequency, P(c|C), occurrences in the query, group."""

COLUMNS = st.tuples(st.integers(0, 40), st.floats(1e-8, 0.05), st.integers(1, 3), st.integers(0, 2))
SMOOTHING = [x for _ in range(3) for x in (st.floats(0.0, 0.95), st.floats(1.0, 1e5))]
WEIGHTS = st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)).filter(lambda both: sum(both) <= 1.0)


def printed(columns: list[Column], length: int, x: list[Any]) -> Any:
    """Evaluate the formula as the module prints it."""
    weights = [1 - x[0] - x[1], x[0], x[1]]
    total = mpf(0)
    for tf, p, count, group in columns:
        lambda_, mu = x[2 + 2 * group], x[3 + 2 * group]
        total += (
            weights[group]
            * count
            * mp.log((1 - lambda_) * (tf + mu * mpf(p)) / (mu + length) + lambda_ * mpf(p))
        )
    return total


@settings(max_examples=COLLECTIONS, deadline=None)
@given(st.lists(COLUMNS, min_size=1, max_size=7), st.integers(0, 3000), WEIGHTS, st.tuples(*SMOOTHING))
def test_scores_and_gradients_agree_with_the_formula(
    columns: list[Column], more: int, weights: tuple[float, float], smoothing: tuple[float, ...]
) -> None:
    columns.sort(key=lambda column: column[3])
    tf, p, count, group = zip(*columns, strict=True)
    length, setting = max(1, sum(tf)) + more, np.array([*weights, *smoothing])
    topic = TopicDocuments(
        np.array(tf)[:, None], np.array([length]), np.array(p), np.array(count), np.array(group, np.int8), 1.0
    )
    scores, gradients = SDM.differentiate(topic, setting)
    x = [mpf(value) for value in setting.tolist()]
    exact = printed(columns, length, x)
    # 1 - ordered - unordered is good to the rounding of 1.
    size = sum(count * abs(math.log(p)) for _, p, count, _ in columns)
    assert abs(scores[0] - exact) <= 1e-12 * abs(exact) + 1e-15 * size
    for axis, own in enumerate(gradients[:, 0]):
        h = mpf(10) ** -20
        up, down = ([*x[:axis], x[axis] + way * h, *x[axis + 1 :]] for way in (1, -1))
        slope = (printed(columns, length, up) - printed(columns, length, down)) / (2 * h)
        tolerance = 1e-11 * abs(slope) + 1e-15 * size
        assert abs(own - slope) <= tolerance, axis


def windows_of(tokens: list[str], first: str, second: str) -> tuple[int, int]:
    """Count phrases and windows of 8 in a text."""
    phrases = sum(pair == (first, second) for pair in itertools.pairwise(tokens))
    near = 0
    for at, token in enumerate(tokens):
        if token in (first, second):
            near += (second if token == first else first) in tokens[at + 1 : at + 8]
    return phrases, near


def plain_scores(index: TinyIndex, query: str, x: list[float]) -> dict[str, float]:
    """Score documents that hold a term, from the text."""
    texts = {docno: text.split() for docno, text in index.documents.items()}
    whole = sum(map(len, texts.values()))
    terms = query.split()
    parts: list[tuple[int, dict[str, int]]] = [
        (0, {docno: text.count(term) for docno, text in texts.items()}) for term in terms
    ]
    for pair in itertools.pairwise(terms):
        counted = {docno: windows_of(text, *pair) for docno, text in texts.items()}
        parts += [(group, {docno: own[group - 1] for docno, own in counted.items()}) for group in (1, 2)]
    weights = [1.0 - x[0] - x[1], x[0], x[1]]
    scores = {}
    for docno, text in texts.items():
        if set(terms).isdisjoint(text):
            continue
        total = 0.0
        for group, tf in parts:
            p, lambda_, mu = sum(tf.values()) / whole, x[2 + 2 * group], x[3 + 2 * group]
            if p > 0.0:
                inner = (1.0 - lambda_) * (tf[docno] + mu * p) / (mu + len(text)) + lambda_ * p
                total += weights[group] * math.log(inner)
        scores[docno] = total
    return scores


SPACE = ParameterSpace.of(SDM)


def some_settings(count: int, seed: int = 0) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return np.array([SPACE.random(rng) for _ in range(count)])


def test_rankings_are_those_of_the_text() -> None:
    index, topics, _ = random_collection(4, documents=150)
    topics |= {"one": "w3", "twice": "w1 w1 w1", "back": "w2 w1 w2", "absent": "w1 absent w2"}
    pool = CandidatePool.build(index, topics, model="sdm")
    assert pool.unknown_terms["absent"] >= 1
    for setting in some_settings(6):
        for ranking in rank(pool, SPACE.named(setting)):
            expected = plain_scores(index, topics[ranking.topic], setting.tolist())
            own = dict(zip(ranking.docnos, ranking.scores.tolist(), strict=True))
            assert own == pytest.approx(expected, rel=1e-11, abs=1e-11)
            assert (np.diff(ranking.scores) <= 1e-11).all()


def test_a_pools_columns_are_terms_then_phrases_then_windows() -> None:
    index = TinyIndex({"a": "x y z x y", "b": "y x", "c": "z z"})
    pool = CandidatePool.build(index, {"1": "x y x q"}, model="sdm")
    assert pool.terms == (("x", "y", "x y", "y x", "x y"),)
    assert pool.group.tolist() == [0, 0, 1, 1, 2]
    assert pool.count.tolist() == [2, 1, 1, 1, 2]
    assert [index.docnos([doc])[0] for doc in pool.candidates.doc] == ["b", "a"]
    assert pool.tf_block(pool.candidates, 0).tolist() == [[1, 2], [1, 2], [0, 2], [1, 0], [1, 3]]
    np.testing.assert_allclose(pool.value * 9, [3, 3, 2, 1, 4])


@pytest.mark.parametrize("depth", [1, 5, 30])
def test_pruning_changes_no_ranking_at_any_setting(depth: int) -> None:
    index, topics, _ = random_collection(11, documents=600, topics=12)
    pool = CandidatePool.build(index, topics, model="sdm")
    pruned = skyband(pool, depth=depth)
    assert pruned.candidates.doc.size < pool.candidates.doc.size
    corners = [[0.0, 0.0, *[0.0, 1.0] * 3], [0.5, 0.5, *[0.9, 1e5] * 3], [0.0, 1.0, *[0.0, 1e-9] * 3]]
    for setting in [*np.array(corners), *some_settings(40, depth)]:
        for t in range(len(pool.topics)):
            whole, left = (
                some.candidates.doc[some.candidates.rows(t)][some.top(t, setting, depth)]
                for some in (pool, pruned)
            )
            np.testing.assert_array_equal(whole, left)


def test_kept_candidates_are_the_fresh_ones(tmp_path: Any) -> None:
    index, topics, qrels = random_collection(5, documents=120, topics=20)
    fresh, again = (stored_pool(tmp_path, index, topics, qrels, model="sdm", depth=7) for _ in range(2))
    np.testing.assert_array_equal(fresh.group, again.group)
    assert fresh.terms == again.terms
    setting = SPACE.named(some_settings(1)[0])
    names = [list(some) for some in (rank(fresh, setting, hits=7), rank(again, setting, hits=7))]
    assert [own.docnos for own in names[0]] == [own.docnos for own in names[1]]


def test_many_settings_at_once_are_each_alone() -> None:
    pool = CandidatePool.build(*random_collection(6, documents=150), model="sdm")
    drawn = some_settings(12)
    # Neighbours that share some smoothing, which is not computed anew.
    drawn[3, 2:] = drawn[2, 2:]
    drawn[6, :6] = drawn[5, :6]
    measures = parse_measures(["AP", "nDCG"])
    together = measure_settings(pool, drawn, measures)
    for s, setting in enumerate(drawn):
        np.testing.assert_array_equal(together[:, s], measure_settings(pool, setting, measures)[:, 0])


def test_at_fixed_smoothing_scores_are_linear_in_the_weights_and_the_pair_cost_is_convex() -> None:
    pool = CandidatePool.build(*random_collection(3, documents=150, topics=20), model="sdm")
    pairs, rng = Pairs.build(pool), np.random.default_rng(0)
    for setting in some_settings(15):
        ends = np.repeat(setting[None], 2, axis=0)
        ends[:, :2] = rng.uniform(0.0, 0.5, (2, 2))
        share = rng.uniform(0.1, 0.9)
        between = share * ends[0] + (1.0 - share) * ends[1]
        between[2:] = setting[2:]
        for topic in pool.documents(pool.candidates).topics():
            one, other, mixed = (SDM.differentiate(topic, x)[0] for x in (*ends, between))
            np.testing.assert_allclose(mixed, share * one + (1.0 - share) * other, rtol=1e-11)
        low, high = (pairs.cost(x) for x in ends)
        middle = pairs.cost(between)
        assert middle.value <= (share * low.value + (1.0 - share) * high.value) * (1.0 + 1e-12)
        # A tangent lies under the cost.
        step = (ends[1] - between)[:2]
        assert high.value >= middle.value + middle.gradient[:2] @ step - 1e-9 * middle.value


@pytest.mark.slow
def test_every_tuner_tunes_it() -> None:
    pool = CandidatePool.build(*random_collection(5, documents=120, topics=20), model="sdm")
    space = ParameterSpace.of("sdm")
    names = [parameter.name for parameter in space.free]
    assert names == "ordered unordered mu mu_ordered mu_unordered".split()
    measures = parse_measures(["AP"])
    begin = measure_settings(pool, space.start, measures)[:, 0, 0].mean()
    tuners: list[Any] = [
        lmtune.GridSearch("AP", space=space, shape=(2, 2, 1, 2, 1, 2, 1, 2)),
        lmtune.CoordinateAscent("AP", space=space, restarts=1),
        lmtune.SPSA("AP", space=space, evaluations=60),
        lmtune.SurrogateTuner("approx-ap", space=space, starts=2),
    ]
    for tuner in tuners:
        found = tuner.fit(pool).best_params_
        value = measure_settings(pool, found, measures)[:, 0, 0].mean()
        assert value >= begin - 0.03
    # With smoothing fixed the cost has one minimum, and every start ends there.
    fixed = dict.fromkeys(("mu", "mu_ordered", "mu_unordered"), (1000.0, 1000.0))
    convex = ParameterSpace.of("sdm", fixed)
    pairs = Pairs.build(pool)
    least = min(pairs.cost(x).value for x in convex.grid((26, 26, 1, 1, 1, 1, 1, 1)))
    ranknet = lmtune.RankNetTuner(space=convex).fit(pool)
    assert pairs.cost(convex.vector(ranknet.best_params_)).value <= least * (1.0 + 1e-6)


@pytest.mark.parametrize(
    ("ordered", "unordered"), [(-0.1, 0.2), (0.8, 0.3), (math.nan, 0.1), (0.1, math.inf)]
)
def test_weights_outside_their_domain_are_refused(ordered: float, unordered: float) -> None:
    with pytest.raises(InputError, match="weights of windows are outside their domain"):
        MODELS["sdm"].check({"ordered": ordered, "unordered": unordered})
    MODELS["sdm"].check({"ordered": 0.7, "unordered": 0.3})
