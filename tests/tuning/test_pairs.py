"""The RankNet cost and its gradient against the paper's sums, written out."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scripts import run_python
from support import TinyIndex, random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.models.two_stage import score_and_gradient
from lmtune.tuning.gradient import RankNetTuner
from lmtune.tuning.pairs import Pairs

mp.dps = 50

TESTS = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])

SETTINGS = [(0.0, 1e-9), (0.0, 1.0), (0.0, 1e9), (0.3, 20.0), (0.95, 1e5), (1 - 1e-9, 3.0), (0.5, 1e-12)]


def paper_cost(
    index: TinyIndex, topics: dict[str, str], qrels: dict[str, dict[str, int]], lambda_: float, mu: float
) -> tuple[list[Any], list[Any]]:
    """Sum log(1 + exp(Y)) and its derivatives over all pairs in 50 digits, from the documents."""
    total = [mpf(0)] * 3
    sizes = [mpf(0)] * 3
    for topic, text in topics.items():
        terms = [term for term in text.split() if index.postings(term) is not None]
        scored = []
        for docno, gain in qrels[topic].items():
            doc = int(index.doc_numbers([docno])[0])
            if doc < 0 or gain < 0 or not terms:
                continue
            g = dl = dm = mpf(0)
            length = int(index.lengths[doc])
            for term in terms:
                postings = index.postings(term)
                assert postings is not None
                tf = dict(zip(postings.docs.tolist(), postings.tfs.tolist(), strict=True))
                p = mpf(float(postings.tfs.sum()) / index.total_terms)
                a = (tf.get(doc, 0) + mpf(mu) * p) / (mpf(mu) + length)
                x = (1 - mpf(lambda_)) * a + mpf(lambda_) * p
                g += mp.log(x)
                dl += (p - a) / x
                slope = length / (mpf(mu) + length) ** 2 * (p - mpf(tf.get(doc, 0)) / length)
                dm += (1 - mpf(lambda_)) * slope / x
            scored.append((gain, g, dl, dm))
        for gain, g, dl, dm in scored:
            for other, h, el, em in scored:
                if gain >= 1 > other:
                    y = h - g
                    share = mp.exp(y) / (1 + mp.exp(y))
                    for i, part in enumerate((mp.log1p(mp.exp(y)), share * (el - dl), share * (em - dm))):
                        total[i] += part
                        sizes[i] += abs(part)
    return total, sizes


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("lambda_", "mu"), SETTINGS)
def test_cost_and_gradient_are_the_papers(seed: int, lambda_: float, mu: float) -> None:
    index, topics, judged = random_collection(seed, documents=25, topics=4)
    # Where a topic lacks judged non-relevant documents, negatives are sampled.
    qrels = {topic: own for topic, own in judged.items() if 0 in own.values()}
    topics = {topic: topics[topic] for topic in qrels}
    pool = CandidatePool.build(index, topics, qrels)
    ours = Pairs.build(pool).cost({"lambda": lambda_, "mu": mu})
    expected, sizes = paper_cost(index, topics, qrels, lambda_, mu)
    assert sizes[0] > 0
    for own, exact, size in zip((ours.value, *ours.gradient), expected, sizes, strict=True):
        assert abs(own - exact) <= 1e-11 * size


def test_the_two_ways_of_summing_agree() -> None:
    # 40 rare terms against long documents: products of likelihood ratios overflow, so that the
    # kernel adds logarithms; scores from the scorer give the same cost.
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(40)]
    texts = {f"d{i}": " ".join(rng.choice(words, 30)) for i in range(6)}
    texts["empty"] = " ".join(f"x{i}" for i in range(5000))
    index = TinyIndex(texts)
    qrels = {"1": {"d0": 1, "d1": 0, "d2": 1, "empty": 0, "d3": 0}}
    pool = CandidatePool.build(index, {"1": " ".join(words)}, qrels)
    for mu in (1e-6, 1.0, 1e4):
        scores = dict(
            zip(
                index.docnos(pool.judged.doc),
                score_and_gradient(
                    pool.tf_block(pool.judged, 0), pool.judged.length, pool.value, lambda_=0.0, mu=mu
                ).score,
                strict=True,
            )
        )
        expected = sum(
            np.logaddexp(0.0, scores[n] - scores[r]) for r in ("d0", "d2") for n in ("d1", "d3", "empty")
        )
        assert Pairs.build(pool).cost({"lambda": 0.0, "mu": mu}).value == pytest.approx(expected, rel=1e-11)


def test_unjudged_documents_stand_in_where_none_is_judged_nonrelevant() -> None:
    texts = {f"d{i}": "x " * (i + 1) + "y" for i in range(6)} | {"other": "z"}
    index = TinyIndex(texts)
    pool = CandidatePool.build(index, {"1": "x", "2": "z"}, {"1": {"d5": 1}, "2": {"other": 2}})
    pairs = Pairs.build(pool, sampled_negatives=3)
    assert "3 unjudged documents were sampled for each" in pairs.rule
    assert pairs.has_sampled_negatives
    first, *others = index.docnos(pairs.columns.doc[pairs.columns.rows(0)])
    assert first == "d5"
    assert len(set(others)) == 3
    assert set(others) < {f"d{i}" for i in range(5)}
    for place, doc in enumerate(pairs.columns.doc[pairs.columns.rows(0)].tolist()):
        assert pairs.columns.length[place] == doc + 2
        assert pool.tf_block(pairs.columns, 0)[:, place].tolist() == [doc + 1]
    assert pairs.per_topic.tolist() == [3, 0]
    assert Pairs.build(pool).per_topic.tolist() == [5, 0]


def test_sampled_negatives_are_drawn_evenly_and_by_the_topic_alone() -> None:
    texts = {f"d{i}": "x" for i in range(10)} | {f"e{i}": "y" for i in range(10)} | {"r": "x"}
    topics = {str(t): "x" for t in range(400)}
    index = TinyIndex(texts)
    pool = CandidatePool.build(index, topics, {topic: {"r": 1} for topic in topics})
    columns = Pairs.build(pool, sampled_negatives=4).columns
    drawn = [sorted(index.docnos(columns.doc[columns.rows(t)]))[:-1] for t in range(400)]
    counts = Counter(docno for own in drawn for docno in own)
    assert set(counts) == {f"d{i}" for i in range(10)}
    # 160 of each, with a standard deviation of 9.8.
    assert all(120 < count < 200 for count in counts.values())
    turned = TinyIndex(dict(reversed(texts.items())))
    other = CandidatePool.build(turned, {"7": "x"}, {"7": {"r": 1}})
    [rows] = [Pairs.build(other, sampled_negatives=4).columns]
    assert sorted(turned.docnos(rows.doc))[:-1] == drawn[7]


def test_negatives_are_sampled_for_topics_without_judged_ones() -> None:
    index = TinyIndex({"a": "x", "b": "x y", "c": "y", "d": "x y y", "e": "x z"})
    qrels = {"1": {"a": 1, "b": 0}, "2": {"c": 1}, "3": {"b": 1}}
    pairs = Pairs.build(CandidatePool.build(index, {"1": "x", "2": "y", "3": "x"}, qrels))
    assert pairs.has_sampled_negatives
    assert pairs.rule.startswith("2 topics without judged non-relevant documents: 200 unjudged")
    assert pairs.per_topic.tolist() == [1, 2, 3]
    judged = Pairs.build(CandidatePool.build(index, {"1": "x"}, {"1": qrels["1"]}))
    assert not judged.has_sampled_negatives
    assert judged.rule == "all (relevant, nonrelevant) judged pairs"


def test_negative_gains_are_no_judgments() -> None:
    index = TinyIndex({"a": "x", "b": "x y", "c": "y x"})
    pool = CandidatePool.build(index, {"1": "x"}, {"1": {"a": 1, "b": -1, "c": 0}})
    assert index.docnos(pool.judged.doc) == ["a", "c"]
    assert Pairs.build(pool).per_topic.tolist() == [1]


def test_fitting_without_a_pair_is_an_error() -> None:
    index = TinyIndex({"a": "x"})
    pool = CandidatePool.build(index, {"1": "x"}, {"1": {"a": 1}})
    assert Pairs.build(pool).per_topic.tolist() == [0]
    with pytest.raises(InputError, match="no pair"):
        RankNetTuner().fit(pool)


def test_costs_do_not_depend_on_threads() -> None:
    index, topics, qrels = random_collection(1, topics=30)
    pairs = Pairs.build(CandidatePool.build(index, topics, qrels))
    one, four = (pairs.cost({"lambda": 0.3, "mu": 50.0}, threads=n) for n in (1, 4))
    assert (one.value, *one.gradient) == (four.value, *four.gradient)


@pytest.mark.slow
def test_bits_do_not_depend_on_who_compiled_the_kernels(tmp_path: Path) -> None:
    """A kernel fresh from the compiler and the same from numba's cache give the same bits."""
    program = """
from support import random_collection
from lmtune.candidates.pool import CandidatePool
from lmtune.tuning.pairs import Pairs
index, topics, qrels = random_collection(5, documents=400, topics=20)
pairs = Pairs.build(CandidatePool.build(index, topics, qrels))
for lambda_, mu in [(0.1, 10.0), (0.5, 100.0), (0.9, 3.0), (0.3, 1e4), (1e-6, 1e-3)]:
    cost = pairs.cost({'lambda': lambda_, 'mu': mu})
    print(cost.value.hex(), *(value.hex() for value in cost.gradient.tolist()))
"""
    shown = [run_python("-c", program, NUMBA_CACHE_DIR=str(tmp_path), PYTHONPATH=TESTS).out for _ in range(2)]
    assert list(tmp_path.rglob("*.nbc"))
    assert len(shown[0].split()) == 15
    assert shown[0] == shown[1]
