"""Measures over a pool against trec_eval's own code, on the ranking that the pool defines."""

from __future__ import annotations

import itertools
import math

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from mpmath import mp, mpf
from support import TinyIndex, at, random_collection

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure, measure_settings
from lmtune.measures.measure import parse_measure, parse_measures

mp.dps = 50

SETTINGS = [(0.0, 1e-9), (0.0, 1.0), (0.0, 1e9), (0.3, 20.0), (0.9, 5.0), (1 - 1e-9, 3.0), (0.5, 0)]
TREC_EVAL = {
    1: {
        "AP": "map",
        "Bpref": "bpref",
        "P@10": "P_10",
        "P@3": "P_3",
        "AP@5": "map_cut_5",
        "nDCG": "ndcg",
        "nDCG@4": "ndcg_cut_4",
        "RR": "recip_rank",
        "R@7": "recall_7",
        "Success@2": "success_2",
    },
    2: {
        "AP(rel=2)": "map",
        "Bpref(rel=2)": "bpref",
        "P(rel=2)@10": "P_10",
        "RR(rel=2)": "recip_rank",
        "R(rel=2)@7": "recall_7",
        "Success(rel=2)@2": "success_2",
    },
}
MEASURES = parse_measures([name for names in TREC_EVAL.values() for name in names])


def oracle_ranking(pool: CandidatePool, t: int, lambda_: float, mu: float) -> list[int]:
    """Rank by sorting the product form of the likelihood, computed by numpy."""
    rows, terms = pool.candidates.rows(t), pool.term_rows(t)
    y = pool.tf_block(pool.candidates, t) * (1.0 / pool.value[terms, None])
    factors = (y + mu) * ((1.0 - lambda_) / (mu + pool.candidates.length[rows])) + lambda_
    product = np.repeat(factors, pool.count[terms], axis=0).prod(axis=0)
    return [int(i) for i in np.argsort(-product, kind="stable")]


def exact_scores(pool: CandidatePool, t: int, lambda_: float, mu: float) -> list[mpf]:
    """Evaluate the model's sum of logarithms in 50 digits."""
    rows, terms = pool.candidates.rows(t), pool.term_rows(t)
    lengths = pool.candidates.length[rows]
    scores = []
    for tfs, length in zip(pool.tf_block(pool.candidates, t).T, lengths, strict=True):
        g = mpf(0)
        for tf, p, c in zip(tfs, pool.value[terms], pool.count[terms], strict=True):
            a = (int(tf) + mpf(mu) * mpf(p)) / (mpf(mu) + int(length))
            g += int(c) * mp.log((1 - mpf(lambda_)) * a + mpf(lambda_) * mpf(p))
        scores.append(g)
    return scores


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("lambda_", "mu"), [(0.0, 1.0), (0.3, 20.0), (0.9, 5.0), (0.0, 1e6)])
def test_the_order_is_that_of_the_exact_scores(seed: int, lambda_: float, mu: float) -> None:
    index, topics, _ = random_collection(seed)
    pool = CandidatePool.build(index, topics)
    for t in range(len(topics)):
        exact = exact_scores(pool, t, lambda_, mu)
        ranking = oracle_ranking(pool, t, lambda_, mu)
        for better, worse in itertools.pairwise(ranking):
            assert exact[better] > exact[worse] - mpf("1e-13")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("depth", [1000, 12])
def test_values_equal_trec_evals(seed: int, depth: int) -> None:
    index, topics, qrels = random_collection(seed)
    pool = CandidatePool.build(index, topics, qrels)
    lambdas, mus = zip(*SETTINGS, strict=True)
    ours = measure_settings(pool, at(lambdas, mus), MEASURES, depth=depth)
    for s, (lambda_, mu) in enumerate(SETTINGS):
        run = {}
        for t, topic in enumerate(pool.topics):
            ranking = oracle_ranking(pool, t, lambda_, mu)[:depth]
            docs = pool.candidates.doc[pool.candidates.rows(t)][ranking]
            run[topic] = {d: float(-i) for i, d in enumerate(index.docnos(docs))}
        for rel, names in TREC_EVAL.items():
            oracle = pytrec_eval.RelevanceEvaluator(qrels, set(names.values()), relevance_level=rel)
            values = oracle.evaluate(run)
            for name, trec_name in names.items():
                m = MEASURES.index(parse_measure(name))
                for t, topic in enumerate(pool.topics):
                    expected = values.get(topic, {}).get(trec_name, 0.0)
                    assert ours[t, s, m] == pytest.approx(expected, abs=1e-12), (topic, name)


def test_exponential_gains_are_those_of_learning_to_rank() -> None:
    index = TinyIndex({"a": "x", "b": "x y", "c": "x y z", "d": "w"})
    pool = CandidatePool.build(index, {"1": "x"}, {"1": {"a": 0, "b": 3, "c": 1, "d": 2}})
    values = measure(
        pool, {"lambda": 0.5, "mu": 10.0}, measures=["nDCG(dcg='exp-log2')@10", "nDCG(dcg=exp-log2)@2"]
    )
    # The ranking is a, b, c; d is relevant and never retrieved.
    gained = 7 / math.log2(3)
    ideal = 7 + 3 / math.log2(3)
    assert values.to_numpy()[0] == pytest.approx([(gained + 1 / 2) / (ideal + 1 / 2), gained / ideal])


def test_the_result_does_not_depend_on_threads() -> None:
    index, topics, qrels = random_collection(3, topics=40)
    pool = CandidatePool.build(index, topics, qrels)
    one, four = (measure_settings(pool, at([0.1, 0.5], [10.0, 100.0]), MEASURES, threads=n) for n in (1, 4))
    assert np.array_equal(one, four)


def test_long_queries_do_not_overflow() -> None:
    words = [f"w{i}" for i in range(400)]
    index = TinyIndex({"a": " ".join(words), "b": " ".join(words[:200]), "c": "w1"})
    pool = CandidatePool.build(index, {"1": " ".join(words)}, {"1": {"a": 1, "c": 0}})
    for lambda_, mu in [(0.0, 1e-12), (0.0, 1e9), (0.9, 1.0)]:
        assert measure(pool, {"lambda": lambda_, "mu": mu}).at["1", "AP"] == 1.0


def test_equal_documents_rank_by_docno_descending() -> None:
    index = TinyIndex({"b": "x y", "c": "x y", "a": "x y"})
    pool = CandidatePool.build(index, {"1": "x"}, {"1": {"c": 1, "a": 0}})
    assert index.docnos(pool.candidates.doc) == ["c", "b", "a"]
    assert measure(pool, {"lambda": 0.2, "mu": 10.0}).to_numpy().tolist() == [[1.0, 1.0, 0.1]]


def test_shorter_documents_win_ties() -> None:
    # With mu = 0 and lambda near 1 every score rounds to the same number.
    index = TinyIndex({"long": "x y z", "short": "x y"})
    pool = CandidatePool.build(index, {"1": "x"}, {"1": {"short": 1}})
    assert measure(pool, {"lambda": 1 - 1e-16, "mu": 0.0}, measures=["AP"])["AP"].tolist() == [1.0]


def test_a_topic_that_matches_nothing_counts_zero() -> None:
    index = TinyIndex({"a": "x"})
    pool = CandidatePool.build(index, {"1": "absent", "2": "x"}, {"1": {"a": 1}, "2": {"a": 1}})
    assert pool.unknown_terms == {"absent": 1}
    assert measure(pool, {"lambda": 0.5, "mu": 1.0})["AP"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("AP", "AP"),
        ("map", "AP"),
        ("P@10", "P@10"),
        ("P_10", "P@10"),
        ("P.10", "P@10"),
        ("bpref", "Bpref"),
        ("Bpref", "Bpref"),
        ("AP(rel=2)@100", "AP(rel=2)@100"),
        ("map_cut_100", "AP@100"),
        ("ndcg", "nDCG"),
        ("ndcg_cut.5", "nDCG@5"),
        ("recip_rank", "RR"),
        ("RR@10", "RR@10"),
        ("recall_1000", "R@1000"),
        ("R@5", "R@5"),
        ("success_5", "Success@5"),
        ("NDCG@10", "nDCG@10"),
        ("nDCG(dcg='exp-log2')@10", "nDCG(dcg='exp-log2')@10"),
        ("map_cut.7", "AP@7"),
        ("P(rel=3)@5", "P(rel=3)@5"),
    ],
)
def test_names_are_read_in_both_spellings(name: str, canonical: str) -> None:
    assert str(parse_measure(name)) == canonical
    assert parse_measure(canonical) == parse_measure(name)


UNKNOWN = "P map_cut Bpref@10 P@0 R AP(rel=0) RR(dcg=log2) nDCG(rel=2)@5 nDCG(dcg=other) Foo@20 RBP(p=2)"


@pytest.mark.parametrize("name", ["", *UNKNOWN.split(), "alpha_nDCG", "AP(rel=2", "P@x"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="accepted"):
        parse_measure(name)


def test_all_unknown_names_are_reported_together() -> None:
    with pytest.raises(InputError, match=r"'Foo', 'Bar'"):
        parse_measures(["Foo", "AP", "Bar"])


@pytest.mark.parametrize("seed", range(3))
def test_other_measures_come_from_ir_measures(seed: int) -> None:
    index, topics, qrels = random_collection(seed)
    qrels = {t: {d: g for d, g in judged.items() if g >= 0} for t, judged in qrels.items()}
    pool = CandidatePool.build(index, topics, qrels)
    names = ["Rprec", "AP", "nDCG(judged_only=True)@5", "infAP", "P@5"]
    measures = parse_measures(names)
    assert [m.is_slow for m in measures] == [True, False, True, True, False]
    assert str(parse_measure("set_recall")) == "SetR"
    ours = measure_settings(pool, at([0.1, 0.6], [5.0, 50.0]), measures)
    for s, (lambda_, mu) in enumerate([(0.1, 5.0), (0.6, 50.0)]):
        run = {}
        for ranking in rank(pool, {"lambda": lambda_, "mu": mu}):
            run[ranking.topic] = {d: float(-i) for i, d in enumerate(ranking.docnos)}
        oracle = {ir_measures.parse_measure(name): m for m, name in enumerate(names)}
        places = {topic: t for t, topic in enumerate(pool.topics)}
        for value in ir_measures.iter_calc(list(oracle), qrels, run):
            own = ours[places[value.query_id], s, oracle[value.measure]]
            assert own == pytest.approx(value.value, abs=1e-12), value


def test_inferred_ap_is_its_formula() -> None:
    """Yilmaz and Aslam (CIKM 2006), as trec_eval smooths it, over judgments that are a sample."""
    rng, smallest = np.random.default_rng(0), 1e-5
    for _ in range(30):
        docnos = [f"d{n}" for n in range(40)]
        pool = {docno: int(rng.choice([-1, 0, 1, 2])) for docno in docnos if rng.random() < 0.6}
        ranked = [str(docno) for docno in rng.permutation(docnos)[:30]]
        relevant = pooled = judged = 0
        total = 0.0
        for above, docno in enumerate(ranked):
            gain = pool.get(docno)
            if gain is not None and gain > 0:
                precision = (relevant + smallest) / (judged + 2 * smallest)
                total += (1 + (pooled * precision if above else 0.0)) / (above + 1)
                relevant += 1
            if gain is not None:
                pooled, judged = pooled + 1, judged + (gain >= 0)
        known = sum(gain > 0 for gain in pool.values())
        run = {"1": {docno: -float(place) for place, docno in enumerate(ranked)}}
        [value] = lmtune.evaluate({"1": pool}, run, ["infAP"]).to_numpy().ravel()
        assert value == pytest.approx(total / known if known else 0.0, rel=1e-9)
