"""The skyband against its definition, and rankings with it against rankings without it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import COLLECTIONS, at, best_documents, random_collection, random_pool

import lmtune
from lmtune.candidates import skyband as module
from lmtune.candidates.dominance import LARGEST_LOG, LARGEST_WEIGHT, margin, smallest_factor
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.regions import regions_for
from lmtune.candidates.skyband import skyband
from lmtune.errors import InputError
from lmtune.io.topics import WeightedQuery
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.models.kernels import scores_as_product
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace

WEIGHTS = [(1,), (3,), (1, 1), (2, 1), (1, 1, 1), (1, 2, 3), (1, 1, 1, 1, 1), (1,) * 9]
MEASURES = parse_measures(["AP", "Bpref", "P@10", "AP(rel=2)"])

weights = st.sampled_from(WEIGHTS)
pools = st.builds(
    lambda seed, w, documents, equal_p, longest, rate, p_range: random_pool(
        seed, documents=documents, weights=[w], equal_p=equal_p, longest=longest, rate=rate, p_range=p_range
    ),
    seed=st.integers(0, 2**32 - 1),
    w=weights,
    documents=st.integers(1, 120),
    equal_p=st.booleans(),
    longest=st.sampled_from([1, 3, 40, 100_000]),
    rate=st.sampled_from([0.2, 0.7, 5.0, 300.0]),
    p_range=st.sampled_from([(1e-7, 1e-1), (1e-9, 2e-9), (0.1, 0.4), (0.3, 0.999)]),
)
highs = st.sampled_from([0.5, 0.95, 0.999999, 1 - 1e-9, 1 - 1e-12, 1 - 2**-53, 1.0])


def corner_settings(lambda_high: float, mu_high: float, mu_low: float = 1e-20) -> list[tuple[float, float]]:
    """Give settings over the range, its corners among them, and Jelinek-Mercer smoothing."""
    lambda_high = min(lambda_high, 1 - 2**-53)
    lambdas = [0.0, 1e-20, 1e-9, 0.3 * lambda_high, 0.9 * lambda_high, lambda_high]
    mus = [0.0, mu_low, 1e3 * mu_low, 0.1, 7.0, 2500.0, mu_high / 3, mu_high]
    return [
        (lambda_, mu)
        for lambda_, mu in itertools.product(lambdas, mus)
        if max(lambda_, mu) >= mu_low and mu <= mu_high
    ]


def definition(pool: CandidatePool, depth: int, by_e: bool, high: tuple[float, float]) -> set[int]:
    """Count every document's dominators in exact arithmetic."""
    rows, terms = pool.candidates.rows(0), pool.term_rows(0)
    tf = [tuple(int(x) for x in column) for column in pool.tf_block(pool.candidates, 0).T]
    length = pool.candidates.length[rows]
    p, count = pool.value[terms], pool.count[terms]
    weight = int(count.sum())
    relative, absolute = (Fraction(x) for x in margin(weight, pool.longest, min(high[0], 0.999), high[1]))
    e = []
    for column in tf:
        y = [Fraction(x * (1.0 / w)) for x, w in zip(column, p, strict=True)]
        words = [value for value, times in zip(y, count, strict=True) for _ in range(times)]
        poly = [Fraction(1)]
        for value in words:  # the coefficients of the product of (1 + value x)
            raised = [Fraction(0), *(value * c for c in poly)]
            poly = [a + b for a, b in zip([*poly, Fraction(0)], raised, strict=True)]
        e.append(poly[1:])

    def beats(a: int, b: int) -> bool:
        if length[a] > length[b] or a == b:
            return False
        if not by_e:
            return a < b and all(x >= z for x, z in zip(tf[a], tf[b], strict=True))
        if tf[a] == tf[b]:
            return a < b
        return all(
            x >= z * (1 + relative) + (absolute if k == 0 else 0)
            for k, (x, z) in enumerate(zip(e[a], e[b], strict=True))
        )

    docs = range(len(tf))
    return {b for b in docs if sum(beats(a, b) for a in docs) < depth}


@settings(max_examples=COLLECTIONS, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    weights,
    st.integers(1, 45),
    st.booleans(),
    st.integers(1, 60),
    st.sampled_from(["e", "tf"]),
)
def test_the_skyband_is_what_its_definition_says(
    seed: int, w: tuple[int, ...], documents: int, equal_p: bool, depth: int, mode: str
) -> None:
    pool = random_pool(seed, documents=documents, weights=[w], equal_p=equal_p, longest=8)
    high = (0.999, 1e6)
    pruned = skyband(pool, depth=depth, mode=mode, lambda_high=high[0], mu_high=high[1])
    expected = definition(pool, depth, mode == "e", high)
    docs = pool.candidates.doc.tolist()
    assert pruned.candidates.doc.tolist() == [docs[place] for place in sorted(expected)]


@pytest.mark.slow
@settings(max_examples=COLLECTIONS, deadline=None)
@given(pools, st.integers(1, 60), st.sampled_from(["auto", "e", "tf"]), highs)
def test_rankings_stay_the_same(pool: CandidatePool, depth: int, mode: str, lambda_high: float) -> None:
    for mu_high in (10.0, 1e5, 1e9):
        pruned = skyband(pool, depth=depth, mode=mode, lambda_high=lambda_high, mu_high=mu_high)
        for lambda_, mu in corner_settings(lambda_high, mu_high):
            whole = best_documents(pool, 0, lambda_, mu, depth)
            assert best_documents(pruned, 0, lambda_, mu, depth) == whole


@settings(max_examples=60, deadline=None)
@given(pools, st.integers(1, 60), st.floats(0.0, 0.9999), st.floats(1e-6, 1e6))
def test_rankings_at_random_settings(pool: CandidatePool, depth: int, lambda_: float, mu: float) -> None:
    pruned = skyband(pool, depth=depth)
    assert best_documents(pruned, 0, lambda_, mu, depth) == best_documents(pool, 0, lambda_, mu, depth)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_measures_stay_the_same_to_the_last_bit(seed: int, depth: int) -> None:
    pool = random_pool(seed, documents=90, weights=WEIGHTS)
    lambdas, mus = zip(*corner_settings(0.9999, 1e6), strict=True)
    whole = measure_settings(pool, at(lambdas, mus), MEASURES, depth=depth)
    for mode in module.MODES:
        pruned = skyband(pool, depth=depth, mode=mode)
        assert np.array_equal(measure_settings(pruned, at(lambdas, mus), MEASURES, depth=depth), whole)


@settings(max_examples=60, deadline=None)
@given(pools, st.integers(1, 30), highs)
def test_auto_never_keeps_more_than_tf(pool: CandidatePool, depth: int, lambda_high: float) -> None:
    auto = skyband(pool, depth=depth, lambda_high=lambda_high).candidates.doc
    assert set(auto) <= set(skyband(pool, depth=depth, mode="tf").candidates.doc)


def test_rounding_decides_between_e_and_tf() -> None:
    pool = random_pool(1, documents=400, weights=[(1, 1, 1)], p_range=(1e-4, 1e-2))
    assert skyband(pool, depth=5).pruning.by_e.all()  # type: ignore[union-attr]
    near_one = skyband(pool, depth=5, lambda_high=1 - 1e-13)
    assert near_one.pruning is not None
    assert not near_one.pruning.by_e.any()
    assert near_one.pruning.lambda_high == 1.0  # tf-dominance holds everywhere
    e = skyband(pool, depth=5).candidates.doc.size
    assert e < near_one.candidates.doc.size < pool.candidates.doc.size


def test_documents_that_differ_by_rounding_alone_are_both_kept() -> None:
    # Permuted frequencies of equally probable terms: equal in real arithmetic, not in doubles.
    pool = random_pool(3, documents=300, weights=[(1, 1, 1)], equal_p=True, rate=3.0, longest=1)
    for lambda_, mu in corner_settings(0.99, 1e5):
        for depth in (1, 7):
            pruned = skyband(pool, depth=depth)
            whole = best_documents(pool, 0, lambda_, mu, depth)
            assert best_documents(pruned, 0, lambda_, mu, depth) == whole


def test_topics_that_match_nothing_or_little() -> None:
    pool = random_pool(0, documents=5, weights=[(1,), (1, 1)], rate=1e-9)
    assert skyband(pool).candidates.doc.size == pool.candidates.doc.size == 0
    pool = random_pool(0, documents=5, weights=[(1,), (1, 1)])
    assert np.array_equal(skyband(pool).candidates.tf, pool.candidates.tf)


def test_long_queries_fall_back_to_tf_or_run_out_of_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = random_pool(0, documents=300, weights=[(1,) * 60], p_range=(1e-9, 1e-8), rate=0.3)
    pruned = skyband(pool, depth=3)
    assert not pruned.pruning.by_e.any()  # type: ignore[union-attr]
    with pytest.raises(InputError, match="overflows"):
        skyband(pool, depth=3, mode="e")
    small = random_pool(0, documents=300, weights=[(1, 1)])
    whole = skyband(small, depth=3).candidates.doc
    monkeypatch.setattr(module, "_BUDGET", 100)
    hurried = skyband(small, depth=3)
    assert set(whole) < set(hurried.candidates.doc) < set(small.candidates.doc)
    for lambda_, mu in corner_settings(0.99, 1e5):
        whole_best = best_documents(small, 0, lambda_, mu, 3)
        assert best_documents(hurried, 0, lambda_, mu, 3) == whole_best


def test_long_queries_use_tf_where_small_mu_would_need_logarithms() -> None:
    pool = random_pool(4, documents=300, weights=[(1,) * 50], p_range=(0.1, 0.3), rate=0.1)
    assert not skyband(pool, depth=3).pruning.by_e.any()  # type: ignore[union-attr]
    pruned = skyband(pool, depth=3, mu_low=1.0)
    assert pruned.pruning is not None
    assert pruned.pruning.by_e.all()
    for lambda_, mu in corner_settings(0.999, 1e6, mu_low=1.0):
        if mu > 0.0:
            whole = best_documents(pool, 0, lambda_, mu, 3)
            assert best_documents(pruned, 0, lambda_, mu, 3) == whole
    with pytest.raises(InputError, match="close to 0"):
        best_documents(pruned, 0, 0.0, 1e-6, 3)


def test_judgments_and_columns_stay_consistent() -> None:
    pool = random_pool(7, documents=80, weights=WEIGHTS)
    pruned = skyband(pool, depth=4)
    assert pruned.judged is pool.judged
    assert np.array_equal(pruned.judged_counts()[0], pool.judged_counts()[0])
    for t in range(len(WEIGHTS)):
        place = {int(d): i for i, d in enumerate(pool.candidates.doc[pool.candidates.rows(t)])}
        rows = pruned.candidates.rows(t)
        kept = [place[int(d)] for d in pruned.candidates.doc[rows]]
        assert kept == sorted(kept)
        whole = pool.candidates.rows(t)
        for column in ("length", "gain"):
            expected = getattr(pool.candidates, column)[whole][kept]
            assert np.array_equal(getattr(pruned.candidates, column)[rows], expected)
        expected = pool.tf_block(pool.candidates, t)[:, kept]
        assert np.array_equal(pruned.tf_block(pruned.candidates, t), expected)


def test_the_result_does_not_depend_on_threads() -> None:
    pool = random_pool(7, documents=80, weights=WEIGHTS * 3)
    one, four = (skyband(pool, depth=4, threads=n).candidates.doc for n in (1, 4))
    assert np.array_equal(one, four)


def test_what_a_pruned_pool_is_not_exact_for_is_refused() -> None:
    pool = random_pool(1, documents=100, weights=[(1, 1)])
    pruned = skyband(pool, depth=10, lambda_high=0.9, mu_high=100.0)
    measures = parse_measures(["AP"])
    measure_settings(pruned, at([0.9], [100.0]), measures, depth=10)
    for lambda_, mu, depth in [(0.9, 100.0, 11), (0.95, 10.0, 10), (0.5, 101.0, 10), (0, 1e-200, 1)]:
        with pytest.raises(InputError, match="pruned for a smaller"):
            measure_settings(pruned, at([0.5, lambda_], [10.0, mu]), measures, depth=depth)
        with pytest.raises(InputError, match="pruned for a smaller"):
            best_documents(pruned, 0, lambda_, mu, depth)
    with pytest.raises(InputError, match="already pruned for a smaller depth"):
        skyband(pruned, depth=11)
    twice = skyband(pruned, depth=5, lambda_high=0.99, mu_high=50.0).pruning
    assert twice is not None
    assert (twice.depth, twice.lambda_high, twice.mu_high) == (5, 0.9, 50.0)


@pytest.mark.parametrize(
    "bad", [{"mode": "x"}, {"depth": 0}, {"lambda_high": 1.1}, {"mu_low": 0}, {"mu_high": 1e-9}]
)
def test_arguments_outside_their_domain_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError, match="accepted"):
        skyband(random_pool(0), **bad)  # type: ignore[arg-type]


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["cranfield", "cacm", "npl", "med"])
def test_classics_rank_the_same(name: str, shared_data: Path, tmp_path: Path) -> None:
    data = lmtune.load(str(shared_data / name))
    index = lmtune.index_for(data.documents, home=tmp_path)
    pool = CandidatePool.build(index, data.topics, data.qrels)
    rng = np.random.default_rng(0)
    points = corner_settings(0.9999, 1e6, module.DEFAULT_EXACTNESS["mu_low"])
    points = [(lambda_, mu) for lambda_, mu in points if mu > 0.0 or lambda_ > 1e-3]
    points += list(zip(rng.uniform(0, 0.95, 20), np.exp(rng.uniform(0, 11, 20)), strict=True))
    lambdas, mus = zip(*points, strict=True)
    depth = 50
    whole = measure_settings(pool, at(lambdas, mus), MEASURES, depth=depth)
    docs = {}
    for mode in ("auto", "tf"):
        pruned = skyband(pool, depth=depth, mode=mode)
        docs[mode] = pruned.candidates.doc.size
        assert docs[mode] < pool.candidates.doc.size
        assert np.array_equal(measure_settings(pruned, at(lambdas, mus), MEASURES, depth=depth), whole)
        for t in range(0, len(pool.topics), 7):
            for lambda_, mu in points[::5]:
                expected = best_documents(pool, t, lambda_, mu, depth)
                assert best_documents(pruned, t, lambda_, mu, depth) == expected
    print(f"{name}: {pool.candidates.doc.size} candidates, {docs}")
    assert docs["auto"] < docs["tf"]


def test_repeated_words_count_as_often_as_they_occur() -> None:
    # With the repeated word counted once, the second document would dominate the first.
    pool = random_pool(11, documents=200, weights=[(5, 1)], p_range=(1e-4, 1e-3))
    once = replace(pool, count=np.array([1, 1]))
    assert set(skyband(pool, depth=3, mode="e").candidates.doc) != set(
        skyband(once, depth=3, mode="e").candidates.doc
    )


def test_sampled_negatives_stay_the_same() -> None:
    index, topics, _ = random_collection(2, documents=200, topics=2)
    # No document is judged nonrelevant: RankNet takes unjudged ones, which pruning has dropped.
    pool = CandidatePool.build(index, topics, {topic: {index.docnos([5])[0]: 1} for topic in topics})
    pruned_pool = skyband(pool, depth=2)
    assert pruned_pool.candidates.doc.size < pool.candidates.doc.size / 2
    whole, pruned = (Pairs.build(own, sampled_negatives=30) for own in (pool, pruned_pool))
    assert pruned.rule == whole.rule
    assert "unjudged" in whole.rule
    one, two = (pairs.cost({"lambda": 0.3, "mu": 50.0}) for pairs in (pruned, whole))
    assert (one.value, *one.gradient) == (two.value, *two.gradient)
    assert np.array_equal(pruned.columns.doc, whole.columns.doc)


def test_scores_are_products_where_e_dominance_takes_them_to_be() -> None:
    longest, p_min = 1000, 1e-6
    for weight in (1, 5, 20, LARGEST_WEIGHT):
        mu = longest * smallest_factor(weight) * 1.0001
        if weight * -math.log(p_min) < LARGEST_LOG:
            assert scores_as_product(p_min, longest, weight, 0.0, mu)
            assert not scores_as_product(p_min, longest, weight, 0.0, mu * math.exp(-2.0 / weight))
    assert scores_as_product(0.5, longest, LARGEST_WEIGHT, 0.5, 1000.0)


NEGATIVE: list[dict[str, float | tuple[float, ...]]] = [
    {"w0": 1, "w1": -2},
    {"w0": 1, "w1": -2, "w3": 1},
    {"w0": 0.5, "w2": -0.25},
]


@pytest.mark.parametrize("model", ["two-stage", "bm25", "lucene-dirichlet"])
def test_topics_with_negative_weights_keep_their_rankings(model: str) -> None:
    """The best documents are those of the whole pool, whose scores are a plain sum over the terms."""
    for seed in range(COLLECTIONS // 10):
        index, queries, _ = random_collection(seed, documents=200)
        topics = queries | {f"n{i}": WeightedQuery.of(own) for i, own in enumerate(NEGATIVE)}
        whole = CandidatePool.build(index, topics, model=model)
        assert whole.negative == ["n0", "n1", "n2"]
        setting = {own.name: own.default for own in whole.formula.parameters}
        small = skyband(whole, depth=5)
        ranked = lmtune.rank(small, setting, hits=5)
        for one, other in zip(lmtune.rank(whole, setting, hits=5), ranked, strict=True):
            assert (one.docnos, one.scores.tolist()) == (other.docnos, other.scores.tolist())
        assert small.candidates.doc.size < whole.candidates.doc.size  # the others are still pruned


def test_negative_weights_are_neither_certified_nor_cut_into_regions() -> None:
    index, queries, qrels = random_collection(3, documents=200)
    topics = queries | {"1": WeightedQuery.of({"w0": 1, "w1": -2})}
    for model in ("two-stage", "bm25"):
        pool = CandidatePool.build(index, topics, qrels, model=model)
        with pytest.raises(InputError, match="a topic with a negative term weight cannot be certified"):
            lmtune.CertifiedOptimum("AP").fit(pool)
        with pytest.raises(InputError, match="regions are not valid for a topic"):
            lmtune.Regions.build(pool)
        many = ParameterSpace.of(pool.formula).grid((50, 50))
        assert regions_for(pool, many, depth=1) is None
