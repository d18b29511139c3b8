"""Lucene's Dirichlet score: against the formula in 50 digits, and against Lucene itself."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_lucene import require_java, write_index
from mpmath import mp, mpf
from support import COLLECTIONS, TinyIndex, random_collection

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.errors import InputError
from lmtune.index.lucene.index import LuceneIndex
from lmtune.index.quantised import quantised_lengths
from lmtune.models.kernels import Documents
from lmtune.models.model import find_model
from lmtune.models.two_stage import LUCENE_DIRICHLET, TWO_STAGE, as_topic

mp.dps = 50
MODEL = "lucene-dirichlet"
DOCUMENTS = 1700

Terms = list[tuple[int, float, int]]


def printed(terms: Terms, length: int, mu: Any) -> Any:
    """Evaluate LMDirichletSimilarity's sum as its documentation has it."""
    mu, total = mpf(mu), mpf(0)
    for tf, p, count in terms:
        if tf:
            part = mp.log(1 + mpf(tf) / (mu * mpf(p))) + mp.log(mu / (mu + length))
            total += count * max(mpf(0), part)
    return total


@st.composite
def documents(draw: st.DrawFn) -> tuple[Terms, int]:
    number = draw(st.integers(1, 6))
    probability = st.one_of(st.floats(1e-9, 1e-3), st.floats(1e-3, 1.0))
    terms = [(draw(st.integers(0, 30)), draw(probability), draw(st.integers(1, 3))) for _ in range(number)]
    return terms, max(1, sum(tf for tf, _, _ in terms)) + draw(st.integers(0, 3000))


@settings(max_examples=COLLECTIONS, deadline=None)
@given(documents(), st.floats(1e-3, 1e6))
def test_scores_and_slopes_agree_with_the_formula(document: tuple[Terms, int], mu: float) -> None:
    terms, length = document
    tf, p, count = zip(*terms, strict=True)
    topic = as_topic(np.array(tf)[:, None], [length], p, count)
    [score], [_, [dmu]] = LUCENE_DIRICHLET.differentiate(topic, np.array([0.0, mu]))
    exact = printed(terms, length, mu)
    # A term next to the floor is a logarithm of nearly 1, good to an absolute error.
    assert abs(score - exact) <= 1e-12 * abs(exact) + 1e-15 * sum(count)
    h = mpf(mu) * mpf(10) ** -20
    slope = (printed(terms, length, mu + h) - printed(terms, length, mu - h)) / (2 * h)
    size = sum(c / (mpf(t) / mpf(q) + mpf(mu)) + c / (length + mpf(mu)) for t, q, c in terms)
    assert abs(dmu - slope) <= 1e-11 * size


def test_a_term_at_the_floor_has_no_slope() -> None:
    # tf = P(w|C) |D|, and the same just below and above it.
    for length, sign in ((128, 0), (129, 0), (127, -1)):
        for mu in (1.0, 500.0, 1e5):
            topic = as_topic([[4]], [length], [4 / 128], None)
            [score], [_, [dmu]] = LUCENE_DIRICHLET.differentiate(topic, np.array([0.0, mu]))
            assert np.sign(dmu) == sign
            assert np.sign(score) == -sign


def test_scores_too_large_to_multiply_are_sums_of_logarithms() -> None:
    rng = np.random.default_rng(2)
    p = np.array([1e-9] * 80 + [0.5])  # the last term is below the floor
    tf = np.vstack([rng.integers(0, 4, (80, 30)), np.ones((1, 30))]).astype(np.int32)
    length, scores = rng.integers(200, 9000, 30).astype(np.int32), np.empty(30)
    docs, tfs, terms = (np.array([[0, size]]) for size in (length.size, tf.size, p.size))
    counts, group = np.ones(p.size, np.int64), np.zeros(p.size, np.int8)
    documents = Documents(docs, tfs, terms, length, tf.ravel(), p, counts, group, int(length.max()), 1.0)
    LUCENE_DIRICHLET.rank_scores(documents, np.array([[0.0, 500.0]]), scores)
    exact = [
        printed([*zip(own.tolist(), p.tolist(), counts.tolist(), strict=True)], words, 500.0)
        for own, words in zip(tf.T, length.tolist(), strict=True)
    ]
    assert max(exact) > 709  # of which the exponential is no double
    np.testing.assert_allclose(scores, [float(x) for x in exact], rtol=1e-14)


def test_a_pool_takes_lucenes_lengths_and_probabilities() -> None:
    index, topics, qrels = random_collection(3, documents=200)
    index.lengths = index.lengths * 29  # long enough to be rounded
    index.total_terms *= 29
    pool = CandidatePool.build(index, topics, qrels, model=MODEL)
    plain = CandidatePool.build(index, topics, qrels)
    kept = quantised_lengths(index.lengths)
    assert (kept != index.lengths).any()
    for columns in (pool.candidates, pool.judged):
        np.testing.assert_array_equal(columns.length, kept[columns.doc])
    assert pool.longest == kept.max()
    cf = plain.value * index.total_terms
    np.testing.assert_allclose(pool.value, (cf + 1) / (index.total_terms + 1), rtol=1e-15)
    assert pool.with_judgments(qrels).judged.length.tolist() == pool.judged.length.tolist()
    for t in range(len(pool.topics)):
        length = pool.candidates.length[pool.candidates.rows(t)]
        assert (np.diff(length) >= 0).all()
    # Lengths that an index has rounded already give the same pool.
    index.lengths = kept
    again = CandidatePool.build(index, topics, qrels, model=MODEL)
    for one, other in ((pool, again),):
        np.testing.assert_array_equal(one.candidates.length, other.candidates.length)
        np.testing.assert_array_equal(one.candidates.doc, other.candidates.doc)


def test_runs_are_in_the_order_of_their_exact_scores() -> None:
    index, topics, qrels = random_collection(8, documents=150)
    pool = CandidatePool.build(index, topics, qrels, model=MODEL)
    for mu in (0.5, 20.0, 3000.0):
        for ranking in rank(pool, {"lambda": 0.0, "mu": mu}):
            t = pool.topics.index(ranking.topic)
            rows, terms = pool.candidates.rows(t), pool.term_rows(t)
            docs = index.docnos(pool.candidates.doc[rows])
            block = pool.tf_block(pool.candidates, t)
            p, count = pool.value[terms].tolist(), pool.count[terms].tolist()
            exact = {
                docno: printed(list(zip(tf.tolist(), p, count, strict=True)), int(length), mu)
                for docno, tf, length in zip(docs, block.T, pool.candidates.length[rows], strict=True)
            }
            assert sorted(ranking.docnos) == sorted(docs)
            in_order = [exact[docno] for docno in ranking.docnos]
            np.testing.assert_allclose(ranking.scores, [float(x) for x in in_order], atol=1e-14)
            assert all(a > b - mpf(10) ** -13 for a, b in itertools.pairwise(in_order))
            # What no term speaks for scores exactly 0 and keeps the tie order.
            zeros = [docs.index(d) for d in ranking.docnos if exact[d] == 0]
            assert zeros == sorted(zeros)


def test_a_lambda_is_refused() -> None:
    index, topics, qrels = random_collection(1)
    pool = CandidatePool.build(index, topics, qrels, model=MODEL)
    for call in (
        lambda: list(rank(pool, {"lambda": 0.1, "mu": 10.0})),
        lambda: lmtune.measure(pool, {"lambda": 0.1, "mu": 10.0}),
        lambda: lmtune.GridSearch("AP", space=lmtune.ParameterSpace.of()).fit(pool),
        lambda: lmtune.RankNetTuner(space=lmtune.ParameterSpace.of()).fit(pool),
    ):
        with pytest.raises(InputError, match=r"lucene-dirichlet (has no|fixes) lambda"):
            call()
    # Where no space is given, it is the model's.
    assert lmtune.GridSearch("AP", shape=(3, 4)).fit(pool).best_params_["lambda"] == 0.0


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"'bm26'.*two-stage"):
        CandidatePool.build(TinyIndex({"a": "x"}), {"1": "x"}, model="bm26")
    assert CandidatePool.build(TinyIndex({"a": "x"}), {"1": "x"}, model="dirichlet").formula is TWO_STAGE


def made_collection(documents: int, seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """Make documents of Zipfian words, many of them long, and queries that repeat words."""
    rng = np.random.default_rng(seed)
    words = np.array([f"word{i}x" for i in range(1, 401)])
    weights = 1.0 / np.arange(1, words.size + 1)
    weights /= weights.sum()
    lengths = np.minimum(rng.lognormal(4.0, 1.2, documents).astype(int) + 1, 5000)
    texts = {f"d{i}": " ".join(rng.choice(words, n, p=weights)) for i, n in enumerate(lengths)}
    texts["short"] = texts["shorter"] = "word1x word300x"
    queries = {"common": "word1x word2x", "rare": "word399x word350x", "both": "word1x word333x"}
    for q in range(6):
        queries[f"q{q}"] = " ".join(rng.choice(words, 2 + q, p=weights))
    queries["repeated"] = "word20x word5x word20x word20x word77x word5x"
    return texts, queries


def lucene_scores(path: Path, terms: list[str], similarity: str, *arguments: float) -> dict[int, float]:
    """Search as Lucene does; return the scores of all hits by Lucene's document numbers."""
    load = require_java().autoclass
    directory = load("org.apache.lucene.store.FSDirectory").open(load("java.nio.file.Paths").get(str(path)))
    reader = load("org.apache.lucene.index.DirectoryReader").open(directory)
    searcher = load("org.apache.lucene.search.IndexSearcher")(reader.getContext())
    searcher.setSimilarity(load(f"org.apache.lucene.search.similarities.{similarity}")(*arguments))
    builder = load("org.apache.lucene.search.BooleanQuery$Builder")()
    should = load("org.apache.lucene.search.BooleanClause$Occur").SHOULD
    term, term_query = (load("org.apache.lucene.index.Term"), load("org.apache.lucene.search.TermQuery"))
    for text in terms:  # repeated terms are repeated clauses
        builder.add(term_query(term("contents", text)), should)
    hits = searcher.search(builder.build(), reader.numDocs()).scoreDocs
    return {hit.doc: hit.score for hit in hits}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_java()
    items = list(made_collection(DOCUMENTS, seed=0)[0].items())
    segments = [dict(items[:200]), dict(items[200:1100]), dict(items[1100:])]
    return write_index(tmp_path_factory.mktemp("lucene") / "index", segments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "similarity", "settings"),
    [
        (MODEL, "LMDirichletSimilarity", [(0.0, mu) for mu in (0.5, 50.0, 1000.0, 2500.0, 1e5)]),
        pytest.param(
            "lucene-bm25",
            "BM25Similarity",
            [(0.9, 0.4), (1.2, 0.75), (0.01, 1.0), (5.0, 0.0)],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_scores_and_top_1000_are_those_of_lucene(
    model: str, similarity: str, settings: list[tuple[float, float]], written: Path, tmp_path: Path
) -> None:
    documents, queries = made_collection(DOCUMENTS, seed=0)
    exact, rounded = (
        LuceneIndex.open(written, lengths=lengths, home=tmp_path / lengths) for lengths in ("exact", "lucene")
    )
    pool = CandidatePool.build(exact, queries, model=model)
    again = CandidatePool.build(rounded, queries, model=model)
    for part in ("doc", "length", "tf"):
        np.testing.assert_array_equal(getattr(pool.candidates, part), getattr(again.candidates, part))
    np.testing.assert_array_equal(pool.value, again.value)
    assert (pool.candidates.length != exact.lengths[pool.candidates.doc]).any()
    largest, compared, deep = 0.0, 0, 0
    for setting in settings:
        named = dict(zip(find_model(model).default, setting, strict=True))
        arguments = setting[1:] if model == MODEL else setting
        for ranking in rank(pool, named, hits=len(documents)):
            found = lucene_scores(written, exact.analyze(queries[ranking.topic]), similarity, *arguments)
            lucene = dict(zip(exact.docnos(list(found)), found.values(), strict=True))
            ours = dict(zip(ranking.docnos, ranking.scores.tolist(), strict=True))
            assert ours.keys() == lucene.keys()
            errors = [abs(ours[docno] - score) for docno, score in lucene.items()]
            largest, compared = max(largest, *errors), compared + len(errors)
            # The two top 1,000 differ at most in documents that score as the last one does.
            best = list(lucene)[:1000]
            last = lucene[best[-1]]
            for docno in set(best) ^ set(ranking.docnos[:1000]):
                assert abs(lucene[docno] - last) <= 1e-5
            deep += len(lucene) > 1000
    print(f"{compared} scores, largest difference {largest:.2g}; {deep} rankings beyond 1,000")
    assert largest <= 1e-5
    assert deep >= 8


@pytest.mark.parametrize("model", ["two-stage", MODEL])
def test_frequencies_may_exceed_a_length_that_was_rounded(model: str) -> None:
    index = TinyIndex({"a": "x " * 47, "b": "x y", "c": "y " * 400})
    index.lengths = quantised_lengths(index.lengths)
    assert index.lengths[0] == 46
    pool = CandidatePool.build(index, {"1": "x y"}, model=model)
    [ranking] = rank(pool, {"lambda": 0.0, "mu": 10.0})
    assert sorted(ranking.docnos) == ["a", "b", "c"]
    assert np.isfinite(ranking.scores).all()
