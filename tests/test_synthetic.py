"""Synthetic collections: what they hold, against the model's own targets and other code."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support import at
from synthetic import drawing, kernels
from synthetic import passages as drawn_passages
from synthetic.drawing import Drawn, draw, judge
from synthetic.model import Shape
from synthetic.source import _DIGITS, _DOCNO_STRIDE, Articles, Passages, collection, docnos, parse_shape, word

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.dataset import Dataset
from lmtune.errors import InputError, MissingExtraError
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.columnar import ColumnarIndex
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.models.two_stage import score

SMALL = parse_shape("small")
DENSE = Shape(20_000, 60)
PASSAGES = parse_shape("msmarco-2000x60")
PLAIN = Analyzer(stemmer="none", stopwords="none")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("synthetic")


@pytest.fixture(scope="module")
def small(home: Path) -> Dataset:
    return lmtune.load(collection("small", home))


@pytest.fixture(scope="module")
def index(small: Dataset, home: Path) -> ColumnarIndex:
    assert small.documents is not None
    return build_index(small.documents, home / "index", PLAIN)


@pytest.fixture(scope="module")
def dense() -> Drawn:
    return draw(DENSE)


def test_the_index_has_the_generators_arrays(small: Dataset, index: ColumnarIndex) -> None:
    terms, postings = Articles(SMALL).invert(range(SMALL.documents))
    assert index.docnos(range(index.num_docs)) == docnos(range(SMALL.documents), SMALL.documents)
    assert index.terms() == sorted(terms)
    held = np.zeros(index.num_docs, np.int64)
    for term, (docs, tfs) in zip(terms, postings, strict=True):
        found = index.postings(term)
        assert found is not None
        np.testing.assert_array_equal(found.docs, docs)
        np.testing.assert_array_equal(found.tfs, tfs)
        held[docs] += tfs
    np.testing.assert_array_equal(held, index.lengths)
    np.testing.assert_array_equal(held, draw(SMALL).lengths)
    assert {term for text in small.topics.values() for term in index.analyze(text)} <= set(index.terms())


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("made", "digest"),
    [
        (Articles(SMALL), "a64b858f98b0fc5b6730aac01cdf7037"),
        (Passages(PASSAGES), "7b57e756809ff6b6435d784eed7c99fa"),
    ],
)
def test_the_content_is_that_of_this_version(made: Articles, digest: str) -> None:
    """Where this fails on purpose, raise VERSION: cached collections are of the old content."""
    every = range(made.shape.documents)
    terms, postings = made.invert(every)
    lengths = np.zeros(len(every), np.int64)
    for docs, tfs in postings:
        lengths[docs] += tfs
    state = hashlib.blake2b(digest_size=16)
    for part in (docnos(every, len(every)), terms, made.topics(), made.qrels()):
        state.update(repr(part).encode())
    for array in (lengths, *(array for pair in postings for array in pair)):
        state.update(np.ascontiguousarray(array, "<i4").tobytes())
    assert state.hexdigest() == digest


@pytest.mark.first_case
@pytest.mark.parametrize("made", [Articles(SMALL), Passages(PASSAGES)])
def test_parts_are_drawn_apart_as_in_the_whole(made: Articles, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(made.documents())
    monkeypatch.setattr("synthetic.source._AT_A_TIME", 700)
    assert [(docno, sorted(text.split())) for docno, text in made.documents()] == [
        (docno, sorted(text.split())) for docno, text in whole
    ]


def test_lengths_are_lognormal(dense: Drawn) -> None:
    """Mean 300 and sigma 0.75 have the median 300 exp(-0.75**2 / 2) = 226.5."""
    lengths = dense.lengths
    assert lengths.mean() == pytest.approx(300, rel=0.03)
    assert np.median(lengths) == pytest.approx(226.5, rel=0.03)
    assert np.log(lengths).std() == pytest.approx(0.75, rel=0.03)
    assert 10 <= lengths.min() < lengths.max() <= 30_000
    assert (dense.free >= 0).all()


def test_frequencies_meet_their_targets(dense: Drawn) -> None:
    """Outside the topical area a term has the df and cf/df that its model says."""
    ratios = []
    for topic in dense.topics:
        outside = np.ones(DENSE.documents, np.bool_)
        outside[topic.area] = False
        for term, (docs, tfs) in zip(topic.model.terms, topic.postings, strict=True):
            assert 9 < term.df <= DENSE.documents * 150_000 / 528_155
            assert tfs.max() <= 2 * dense.lengths.max()
            if term.df > 200:
                kept = outside[docs]
                share = kept.sum() / outside.sum() * DENSE.documents
                ratios.append((share / term.df, tfs[kept].mean() / term.burstiness))
    df, burstiness = np.array(ratios).T
    assert len(df) > 100
    # Areas take more long documents than short ones, so what is left has a little less of all.
    assert 0.93 < np.median(df) <= 1.02
    assert np.percentile(df, 2) > 0.9
    assert np.percentile(df, 98) < 1.1
    assert np.median(burstiness) == pytest.approx(1, abs=0.06)


def test_the_area_stands_out(dense: Drawn) -> None:
    """Documents of the area hold their topic's words more often, and are longer."""
    for topic in dense.topics:
        inside = np.zeros(DENSE.documents, np.bool_)
        inside[topic.area] = True
        assert topic.area.size == pytest.approx(topic.model.area * DENSE.documents, rel=0.35)
        frequent = np.zeros(DENSE.documents)
        for docs, tfs in topic.postings:
            frequent[docs] += tfs / (tfs.sum() or 1)
        rates = frequent / dense.lengths
        assert rates[inside].mean() > 1.1 * rates[~inside].mean()
    areas = np.concatenate([topic.area for topic in dense.topics])
    assert dense.lengths[areas].mean() > 1.3 * dense.lengths.mean()


def test_common_words_follow_zipfs_law(dense: Drawn) -> None:
    words = drawing.draw_common_words(DENSE, dense.free)
    cfs = np.array([tfs.sum(dtype=np.int64) for _, tfs in words])
    assert cfs.sum() == dense.free.sum()
    np.testing.assert_allclose(cfs * np.arange(1, cfs.size + 1) / cfs[0], 1, rtol=0.06)


def test_judgments(small: Dataset) -> None:
    assert list(small.qrels) == list(small.topics) == [str(t) for t in range(1, 51)]
    names = set(docnos(range(SMALL.documents), SMALL.documents))
    relevant, nonrelevant = [], []
    for judged in small.qrels.values():
        assert set(judged) <= names
        assert list(judged) == sorted(judged)
        gains = Counter(judged.values())
        assert set(gains) <= {0, 1, 2}
        relevant.append(gains[1] + gains[2])
        nonrelevant.append(gains[0])
    assert min(relevant) >= 2
    assert 8 < np.mean(relevant) < 20
    assert 100 < np.mean(nonrelevant) < 250


def test_relevance_is_affinity_with_errors(dense: Drawn) -> None:
    for topic, judged in zip(dense.topics, judge(DENSE, dense), strict=True):
        relevant = judged.docs[judged.gains > 0]
        assert relevant.size <= round(topic.model.relevant)
        assert np.isin(relevant, topic.area).all()
        affinity = dict(zip(topic.area.tolist(), topic.affinity, strict=True))
        by_gain = [
            np.mean([affinity.get(doc, 0.0) for doc in judged.docs[judged.gains == gain].tolist()])
            for gain in (0, 1)
        ]
        assert by_gain[0] < by_gain[1]


def test_the_best_documents_of_a_run_are_judged(pool: CandidatePool) -> None:
    """Checked with the likelihood itself, not the product that the generator orders by."""
    depth = SMALL.pool_depth
    for t, terms in enumerate(pool.terms):
        rows = pool.candidates.rows(t)
        g = score(
            pool.tf_block(pool.candidates, t),
            pool.candidates.length[rows],
            pool.value[pool.term_rows(t)],
            lambda_=0.0,
            mu=1000.0,
        )
        assert len(terms) >= 2
        boundary = np.sort(g)[::-1][min(depth, g.size) - 1]
        assert (pool.candidates.gain[rows][g > boundary + 1e-9] >= 0).all()


@pytest.fixture(scope="module")
def pool(small: Dataset, index: ColumnarIndex) -> CandidatePool:
    return CandidatePool.build(index, small.topics, small.qrels)


def test_measures_are_plausible_and_best_inside_the_box(pool: CandidatePool) -> None:
    lambdas, mus = np.array([0.0, 0.1, 0.5, 0.8, 0.95]), np.array([1, 30, 250, 1e3, 1e4, 1e5])
    points = np.meshgrid(lambdas, mus, indexing="ij")
    values = measure_settings(pool, at(points[0].ravel(), points[1].ravel()), parse_measures(["AP"]))
    surface: NDArray[np.float64] = values.mean(axis=0).reshape(len(lambdas), len(mus))
    assert 0.15 < surface[0, 3] < 0.35
    best = np.unravel_index(surface.argmax(), surface.shape)
    assert 0 < best[0] < len(lambdas) - 1
    assert 0 < best[1] < len(mus) - 1
    assert surface.max() > 1.2 * surface.min()


@pytest.mark.parametrize(
    ("name", "documents", "topics"),
    [
        ("robust04", 528_155, 250),
        ("small", 4000, 50),
        ("1000", 1000, 250),
        ("2000x7", 2000, 7),
        ("msmarco", 8_841_823, 6980),
        ("msmarco-1000x1000", 1000, 1000),
    ],
)
def test_names(name: str, documents: int, topics: int) -> None:
    shape = parse_shape(name)
    assert (shape.documents, shape.topics) == (documents, topics)


BAD_NAMES = "nope 999 1000000000 4000x 4000x0 4000x401 -4000 4000x5x5 ٤٠٠٠ msmarco- msmarco-1000x1001"


@pytest.mark.parametrize("name", ["", *BAD_NAMES.split()])
def test_bad_names(name: str) -> None:
    with pytest.raises(InputError, match=r"no such synthetic collection: .*DOCUMENTSxTOPICS"):
        parse_shape(name)


def test_words_differ_and_no_analysis_changes_them() -> None:
    words = [word(number, 3) for number in range(5 * 400)] + [word(rank, 2) for rank in range(32)]
    assert len(set(words)) == len(words)
    for analyzer in _analyzers():
        assert analyzer.analyze(" ".join(words)) == words
    assert len({word(number, 2) for number in range(42 * 70)}) == 42 * 70


def _analyzers() -> Iterator[Analyzer]:
    for stemmer in ("porter", "krovetz", "none"):
        for stopwords in ("lucene", "none"):
            try:
                yield Analyzer(stemmer=stemmer, stopwords=stopwords)
            except MissingExtraError:
                assert stemmer == "krovetz"


def test_docnos_differ() -> None:
    names = [*docnos(range(20_000), 10**7), *docnos(np.arange(4_980_000, 5_000_000), 10**7)]
    assert len(set(names)) == len(names)
    assert {len(name) for name in names} == {11}
    assert names[:1000] != sorted(names[:1000])
    assert math.gcd(_DOCNO_STRIDE, 10**_DIGITS) == 1


def test_docnos_beyond_ten_million_have_more_digits() -> None:
    names = docnos(np.array([0, 1, 137_999_999]), 138_000_000)
    assert {len(name) for name in names} == {13}
    assert len(set(names)) == 3


@pytest.fixture(scope="module")
def passages(home: Path) -> ColumnarIndex:
    documents = lmtune.load(collection("msmarco-2000x60", home)).documents
    assert documents is not None
    return build_index(documents, home / "passages", PLAIN)


def test_passages_hold_the_words_that_are_drawn_one_by_one(passages: ColumnarIndex) -> None:
    streams = drawn_passages._streams(PASSAGES)
    lengths, postings = drawn_passages.draw_passages(PASSAGES, range(2000))
    assert lengths.mean() == pytest.approx(drawn_passages.MEAN_LENGTH, rel=0.03)
    held: list[Counter[int]] = [Counter() for _ in lengths]
    for number, (docs, tfs) in enumerate(postings):
        for document, tf in zip(docs.tolist(), tfs.tolist(), strict=True):
            held[document][number] = tf
    for document, length in enumerate(lengths.tolist()):
        tokens = np.empty(length, np.int32)
        kernels.draw_passage(streams, document, tokens)
        assert held[document] == Counter(tokens.tolist())
    assert passages.lengths.tolist() == lengths.tolist()
    found = [passages.postings(term) for term in passages.terms()]
    assert sum(own.docs.size for own in found if own is not None) == sum(docs.size for docs, _ in postings)


def test_each_query_has_one_or_two_relevant_passages(passages: ColumnarIndex, home: Path) -> None:
    dataset = lmtune.load(collection("msmarco-2000x60", home))
    assert list(dataset.qrels) == list(dataset.topics) == [str(t) for t in range(1, 61)]
    assert {len(judged) for judged in dataset.qrels.values()} == {1, 2}
    assert {docno for judged in dataset.qrels.values() for docno in judged} <= set(
        passages.docnos(range(2000))
    )
    assert {len(set(text.split())) for text in dataset.topics.values()} <= {*range(1, 7)}
    pool = CandidatePool.build(passages, dataset.topics, dataset.qrels, model="bm25")
    values = measure_settings(pool, {"k1": 0.9, "b": 0.4}, parse_measures(["RR@10"]))
    assert 0.2 < values.mean() < 0.95
