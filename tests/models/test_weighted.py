"""Weights of query terms: against the formula in 50 digits, repeated words, and brute force."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from support import COLLECTIONS, TinyIndex, random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank, topic_notes, unexpanded_topics
from lmtune.candidates.skyband import skyband
from lmtune.errors import InputError
from lmtune.io.topics import LARGEST_WEIGHT, WeightedQuery
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.models.feedback import (
    EXPANSIONS,
    Corpus,
    FeedbackDocument,
    TermStatistics,
    feedback_weights,
    term_statistics,
)
from lmtune.models.model import MODELS, find_model
from lmtune.models.term_features import TERM_FEATURES
from lmtune.models.weighted import Feedback, Weighted
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.gradient import RankNetTuner
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import SurrogateTuner

mp.dps = 50
BASES = ("bm25", "two-stage", "lucene-dirichlet", "jelinek-mercer")
BM25 = MODELS["bm25"].formula


def weighted_pool(seed: int, name: str) -> CandidatePool:
    index, queries, qrels = random_collection(seed, vocabulary=80)
    return CandidatePool.build(index, queries, qrels, model=name)


def drawn(pool: CandidatePool, seed: int) -> Any:
    space = ParameterSpace.of(pool.formula)
    return space.random(np.random.default_rng(seed))


@pytest.mark.parametrize("base", BASES)
def test_whole_weights_are_repeated_words(base: str) -> None:
    """A query with whole weights ranks and scores as one with that many words, to the bit or nearly."""
    for seed in range(COLLECTIONS // 10):
        index, queries, qrels = random_collection(seed)
        weights = {topic: WeightedQuery.of(Counter(text.split())) for topic, text in queries.items()}
        plain = CandidatePool.build(index, queries, qrels, model=base)
        ours = CandidatePool.build(index, weights, qrels, model=base)
        assert plain.count.dtype == np.int64
        own = {p.name: float(x) for p, x in zip(plain.formula.parameters, drawn(plain, seed), strict=True)}
        for one, other in zip(rank(plain, own), rank(ours, own), strict=True):
            assert list(one.docnos) == list(other.docnos)
            np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.parametrize("base", BASES)
def test_weights_score_as_a_sum_of_terms(base: str) -> None:
    """Fractional and negative weights: a document's score is each single-term query's, times its weight."""
    for seed in range(COLLECTIONS // 10):
        index, queries, _ = random_collection(seed)
        rng = np.random.default_rng(seed)
        weights = {
            topic: {term: float(rng.normal()) for term in text.split() if term != "absent"}
            for topic, text in queries.items()
        }
        weights = {topic: own for topic, own in weights.items() if own}
        if not weights:
            continue
        pool = CandidatePool.build(index, weights, model=base)
        setting = drawn(pool, seed)
        for t, topic in enumerate(pool.topics):
            documents = pool.topic_documents(t, np.arange(len(pool.candidates.doc[pool.candidates.rows(t)])))
            expected = np.zeros(documents.length.size)
            for row, term in enumerate(pool.terms[t]):
                alone = documents._replace(
                    tf=documents.tf[row : row + 1],
                    value=documents.value[row : row + 1],
                    counts=np.ones(1, np.int64),
                    group=documents.group[row : row + 1],
                )
                expected += weights[topic][term] * pool.formula.differentiate(alone, setting)[0]
            np.testing.assert_allclose(
                pool.formula.differentiate(documents, setting)[0], expected, rtol=1e-12, atol=1e-12
            )
            best = pool.top(t, setting, 5)
            shown = pool.formula.differentiate(pool.topic_documents(t, best), setting)[0]
            assert (np.diff(shown) <= 1e-12).all()


def printed(rows: Any, setting: list[Any], norm: float | None) -> list[Any]:
    """Evaluate the weights as the module's text has them."""
    own = [mpf(x) for x in setting]
    if norm is None:
        return [mpf(c) * mp.exp(sum(a * mpf(x) for a, x in zip(own, xs, strict=True))) for c, *xs in rows]
    original, sharpness, *theta = own

    def size(values: list[Any]) -> Any:
        return max(values) if math.isinf(norm) else sum(v**norm for v in values) ** (1 / mpf(norm))

    powers = [mpf(f) ** sharpness if f else mpf(0) for _, f, *_ in rows]
    scale = size([mpf(f) for _, f, *_ in rows]) / (size(powers) or 1)
    return [
        original * mpf(c) * mp.exp(sum(a * mpf(x) for a, x in zip(theta, xs, strict=True)))
        + (1 - original) * scale * power
        for (c, _, *xs), power in zip(rows, powers, strict=True)
    ]


@pytest.mark.parametrize("kind", [None, *EXPANSIONS])
def test_weights_and_derivatives_are_those_of_the_formula(kind: str | None) -> None:
    features = ("idf", "length")
    formula = Weighted(BM25, None if kind is None else Feedback(kind), features)
    for seed in range(COLLECTIONS // 5):
        rng = np.random.default_rng(seed)
        count = rng.integers(0, 3, 6).astype(float)
        count[0] = 1.0
        feedback = rng.random(6) * (rng.random(6) < 0.7)
        feedback[1] += 0.1
        rows = np.stack((count, *(() if kind is None else (feedback,)), *rng.normal(size=(2, 6))))
        setting = np.concatenate(
            (
                [0.9, 0.4],
                () if kind is None else (rng.random() * 0.9, rng.uniform(0.3, 3.0)),
                rng.normal(size=2),
            )
        )
        weights, slopes = formula.weights(rows, setting)
        own = setting[2:].tolist()
        expected = printed(rows.T.tolist(), own, formula.norm)
        np.testing.assert_allclose(weights, [float(x) for x in expected], rtol=1e-12)
        step = mpf(10) ** -20
        for at in range(len(own)):
            up, down = ([mpf(x) + sign * step * (i == at) for i, x in enumerate(own)] for sign in (1, -1))
            ends = (printed(rows.T.tolist(), side, formula.norm) for side in (up, down))
            slope = [float((a - b) / (2 * step)) for a, b in zip(*ends, strict=True)]
            np.testing.assert_allclose(slopes[at], slope, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["bm25+weights", "two-stage+rm3", "bm25+kld:5,7+weights:idf,count", "lucene-dirichlet+bo1"]
)
def test_gradients_are_those_of_the_scores(name: str) -> None:
    for seed in range(COLLECTIONS // 10):
        pool = weighted_pool(seed, name)
        setting = drawn(pool, seed)
        t = int(np.argmax(np.diff(pool.candidates.start)))
        documents = pool.topic_documents(t, np.arange(int(np.diff(pool.candidates.start)[t])))
        scores, gradients = pool.formula.differentiate(documents, setting)
        for at in range(setting.size):
            step = 1e-6 * max(1.0, abs(setting[at]))
            ends = [setting + sign * step * (np.arange(setting.size) == at) for sign in (1, -1)]
            up, down = (pool.formula.differentiate(documents, end)[0] for end in ends)
            # Scores can be great: their rounding, divided by the step, is an error of the differences.
            rounding = 4 * np.finfo(float).eps * np.abs(scores) / step
            error = np.abs(gradients[at] - (up - down) / (2 * step))
            assert (error <= 2e-5 * np.abs(gradients[at]) + 2e-6 + rounding).all()
        # What orders documents is the same sum, computed by the base's kernels, or its exponential.
        ranked = np.empty((2, scores.size))
        prepared = pool.documents(pool.candidates).of(slice(t, t + 1))
        pool.formula.rank_scores(prepared, np.stack((setting, setting)), ranked.reshape(-1))
        np.testing.assert_array_equal(ranked[0], ranked[1])
        gaps = np.diff(scores[np.argsort(-ranked[0], kind="stable")])
        assert gaps.max(initial=0.0) <= 1e-9 * max(1.0, np.abs(scores).max())


def test_settings_together_measure_as_one_by_one() -> None:
    pool = weighted_pool(3, "two-stage+rm3+weights:idf")
    space, rng = ParameterSpace.of(pool.formula), np.random.default_rng(0)
    settings = np.array([space.random(rng) for _ in range(5)])
    measures = parse_measures(["AP", "nDCG@10"])
    together = measure_settings(pool, settings, measures)
    one_by_one = [measure_settings(pool, setting[None], measures)[:, 0] for setting in settings]
    np.testing.assert_array_equal(together, np.stack(one_by_one, axis=1))


def test_plain_parameters_are_the_plain_model() -> None:
    """With the original query alone, and no power of a feature, rankings are the base's own."""
    for seed in range(COLLECTIONS // 10):
        index, queries, qrels = random_collection(seed)
        plain = CandidatePool.build(index, queries, qrels, model="bm25")
        ours = CandidatePool.build(index, queries, qrels, model="bm25+weights")
        base = dict(zip(("k1", "b"), drawn(plain, seed).tolist(), strict=True))
        for one, other in zip(rank(plain, base), rank(ours, base), strict=True):
            assert list(one.docnos) == list(other.docnos)
            np.testing.assert_allclose(one.scores, other.scores, rtol=1e-14)


@pytest.mark.parametrize("name", ["bm25+rm3+weights", "two-stage+kld"])
def test_pruning_keeps_every_ranking(name: str) -> None:
    for seed in range(COLLECTIONS // 10):
        pool = weighted_pool(seed, name)
        small = skyband(pool, depth=3)
        assert small.candidates.doc.size < pool.candidates.doc.size
        for draw in range(5):
            setting = drawn(pool, draw)
            for t in range(len(pool.topics)):
                whole = pool.candidates.doc[pool.candidates.rows(t)][pool.top(t, setting, 3)]
                kept = small.candidates.doc[small.candidates.rows(t)][small.top(t, setting, 3)]
                np.testing.assert_array_equal(whole, kept)


def test_the_pairwise_cost_has_the_gradient_in_all_parameters() -> None:
    pool = weighted_pool(5, "bm25+rm3+weights:idf,place")
    pairs, setting = Pairs.build(pool), drawn(pool, 1)
    cost = pairs.cost(setting)
    for at in range(setting.size):
        step = 1e-6 * np.eye(setting.size)[at]
        slope = (pairs.cost(setting + step).value - pairs.cost(setting - step).value) / 2e-6
        assert cost.gradient[at] == pytest.approx(slope, rel=1e-4, abs=1e-4)


DOCUMENTS = [
    FeedbackDocument({"oil": 3, "fish": 1, "a": 9}, 2.0),
    FeedbackDocument({"oil": 1, "tank": 1}, 1.0),
]
COUNTS = {
    "oil": TermStatistics(8, 4),
    "fish": TermStatistics(2, 2),
    "tank": TermStatistics(1, 1),
    "a": TermStatistics(90, 10),
}
COLLECTION = Corpus(COUNTS, 100, 1000)
E, TWO, TEN = math.e, math.sqrt(2), math.sqrt(10)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # By hand: "a" is one letter. P(oil|D1) = 3/4, P(fish|D1) = 1/4, P(oil|D2) = P(tank|D2) = 1/2.
        ("rm3", {"oil": (0.75 * E + 0.5) / (E + 1), "fish": 0.25 * E / (E + 1), "tank": 0.5 / (E + 1)}),
        ("anserini-rm3", {"oil": 2.0, "fish": 0.5, "tank": 0.5}),
        ("rocchio", {"oil": 1.5 / TEN + 0.5 / TWO, "tank": 0.5 / TWO, "fish": 0.5 / TEN}),
        (
            "bo1",
            {
                "oil": 4 * math.log2(1.08 / 0.08) + math.log2(1.08),
                "tank": math.log2(1.01 / 0.01) + math.log2(1.01),
                "fish": math.log2(1.02 / 0.02) + math.log2(1.02),
            },
        ),
    ],
)  # fmt: skip
def test_feedback_by_hand(kind: str, expected: dict[str, float]) -> None:
    found = feedback_weights(EXPANSIONS[kind], DOCUMENTS, 10, COLLECTION)
    assert found == pytest.approx(expected)
    assert list(found) == sorted(found, key=lambda term: (-found[term], term))
    assert list(feedback_weights(EXPANSIONS[kind], DOCUMENTS, 1, COLLECTION)) == ["oil"]


def test_divergence_is_of_the_relevance_model() -> None:
    shares = feedback_weights(EXPANSIONS["rm3"], DOCUMENTS, 10, COLLECTION)
    found = feedback_weights(EXPANSIONS["kld"], DOCUMENTS, 10, COLLECTION)
    assert found == pytest.approx(
        {term: p * math.log(p * 1000 / COUNTS[term].cf) for term, p in shares.items()}
    )


def test_features_and_feedback_come_from_the_index_alone() -> None:
    """Rows of the pool against counting by hand; judgments change nothing."""
    index = TinyIndex({"1": "oil oil tank", "2": "fish tank", "3": "oil fish fish x1", "4": "sea"})
    names = ",".join(TERM_FEATURES)
    pool = CandidatePool.build(index, {"q": "fish x1 fish none"}, model=f"bm25+rm3:1,9+weights:{names}")
    assert dict(zip(pool.terms[0], pool.count[0].tolist(), strict=True)) == {"fish": 2.0, "x1": 1.0}
    rows = dict(zip(TERM_FEATURES, pool.count[2:], strict=True))
    np.testing.assert_allclose(rows["burstiness"], [math.log(3 / 2), 0.0])
    np.testing.assert_allclose(rows["count"], [math.log(2), 0.0])
    np.testing.assert_allclose(rows["place"], [0.0, 0.5])
    np.testing.assert_allclose(rows["length"], [math.log(2)] * 2)
    np.testing.assert_allclose(rows["characters"], [0.4, 0.2])
    np.testing.assert_allclose(rows["digits"], [0.0, 1.0])
    np.testing.assert_allclose(rows["idf"][0], math.log(math.log1p(2.5 / 2.5) + 0.05))
    # All terms of the four documents are in more than a tenth of them: nothing to feed back.
    assert not pool.count[1].any()
    other = CandidatePool.build(
        index, {"q": "fish x1 fish none"}, {"q": {"1": 1}}, model=f"bm25+rm3:1,9+weights:{names}"
    )
    np.testing.assert_array_equal(pool.count, other.count)
    assert term_statistics(index, "none") == TermStatistics(0, 0)


@pytest.mark.parametrize(
    "name", ["bm25+", "bm25+rm4", "bm25+rm3+kld", "bm25+weights:speed", "bm25+rm3:0,3", "sdm+rm3"]
)
def test_names_that_say_nothing_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        find_model(name)


def test_a_term_is_part_of_a_phrase_where_its_neighbour_stands_beside_it() -> None:
    texts = {"1": "new york city", "2": "york new york", "3": "new city", "4": "york is new york is york"}
    index = TinyIndex(texts)
    pool = CandidatePool.build(index, {"q": "new york city new"}, model="bm25+weights:phrase")
    # By hand: new york in 1, 2 and 4, york city in 1, city new nowhere; new 4 times, york 6, city 2.
    shares = dict(zip(pool.terms[0], pool.count[1].tolist(), strict=True))
    assert shares == pytest.approx({"new": 3 / 4, "york": 4 / 6, "city": 1 / 2})
    weighted = CandidatePool.build(
        index, {"q": WeightedQuery.of({"new": 2.0, "york": 1.0})}, model="bm25+weights:phrase"
    )
    assert not weighted.count[1].any()
    assert find_model("bm25+weights:idf,phrase").formula.needs_positions
    assert not find_model("bm25+weights").formula.needs_positions


@pytest.mark.parametrize("name", ["bm25+rm3", "two-stage+weights:idf"])
def test_no_certificate_is_of_weights(name: str) -> None:
    """Its proof is of the formula's own parameters: one line says so, before anything is read."""
    with pytest.raises(InputError, match="this model cannot be certified") as refused:
        Plan(model=name, certify=1e-3)
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="cannot be certified"):
        CertifiedOptimum("AP").fit(weighted_pool(1, name))


def test_names_say_what_they_hold() -> None:
    model = find_model("dirichlet+rm3+weights:idf")
    assert [p.name for p in model.parameters] == ["lambda", "mu", "original", "sharpness", "theta_idf"]
    assert model.fixed == {"lambda": 0.0}
    assert find_model(model.formula.name.replace("two-stage", "dirichlet")).formula.name == model.formula.name


@pytest.mark.parametrize("base", ["two-stage", "dirichlet", "jelinek-mercer", "fields:title,contents"])
def test_scores_that_are_log_probabilities_weigh_no_feedback_documents(base: str) -> None:
    with pytest.raises(InputError, match=r"anserini-rm3 weights feedback documents by their scores.*bm25"):
        find_model(f"{base}+anserini-rm3")
    find_model(f"{base}+rm3")
    find_model("lucene-dirichlet+anserini-rm3")


def test_feedback_documents_of_score_0_add_no_term() -> None:
    """ATIRE's idf of a word that all documents have is 0, and so are their scores."""
    index = TinyIndex({f"d{i}": f"common rare{i}" for i in range(20)})
    pool = CandidatePool.build(index, {"1": "common"}, model="bm25:atire+anserini-rm3")
    assert pool.terms == (("common",),)
    np.testing.assert_array_equal(pool.count, [[1.0], [0.0]])
    assert unexpanded_topics(pool) == ["1"]


def test_a_repeated_word_counts_as_the_formula_counts_it() -> None:
    """DuckDB's BM25 counts a word of the query once, with an expansion too."""
    index, _, _ = random_collection(4, vocabulary=80)
    for model in ("bm25:duckdb", "bm25:duckdb+rm3", "bm25:duckdb+weights:idf"):
        pools = [CandidatePool.build(index, {"1": query}, model=model) for query in ("w3 w7", "w3 w7 w7")]
        setting = find_model(model).default
        [one], [other] = (list(rank(pool, setting)) for pool in pools)
        assert (one.docnos, one.scores.tolist()) == (other.docnos, other.scores.tolist())
    twice = CandidatePool.build(index, {"1": "w3 w7 w7"}, model="bm25+rm3")
    assert twice.count[0, :2].tolist() == [1.0, 2.0]


def test_topics_without_expansion_terms_are_named() -> None:
    index = TinyIndex({"d1": "golden retriever", "d2": "dogs poodles", "d3": "poodles", "d4": "12345"})
    pool = CandidatePool.build(index, {"a": "poodles", "b": "zebra", "c": "golden"}, model="bm25+rm3")
    assert unexpanded_topics(pool) == ["a", "c"]  # each term is in more than a tenth of four documents
    assert any("2 of 3 topics without an expansion term (a, c)" in note for note in topic_notes(pool))
    assert unexpanded_topics(CandidatePool.build(index, {"a": "poodles"}, model="bm25")) == []


@pytest.mark.slow
def test_the_largest_weights_are_tuned_without_overflow(recwarn: pytest.WarningsRecorder) -> None:
    """Every method ends with finite parameters, and ranks as with weights of 1."""
    index, queries, qrels = random_collection(5)
    for base in ("bm25", "two-stage", "bm25+rocchio"):
        pools = [
            CandidatePool.build(
                index,
                {
                    topic: WeightedQuery.of(dict.fromkeys(text.split(), size))
                    for topic, text in queries.items()
                },
                qrels,
                model=base,
            )
            for size in (1.0, LARGEST_WEIGHT)
        ]
        for tuner in (RankNetTuner(rel=1), SurrogateTuner("approx-ap")):
            assert all(map(math.isfinite, tuner.fit(pools[1]).best_params_.values()))
        for one, other in zip(*(rank(pool, {}) for pool in pools), strict=True):
            assert one.docnos == other.docnos
    assert [str(own.message) for own in recwarn if own.category is RuntimeWarning] == []
