"""Synthetic collections: what they hold, against the model's own targets and other code."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support import at

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.dataset import Dataset
from lmtune.datasets.synthetic import drawing, kernels
from lmtune.datasets.synthetic import passages as drawn_passages
from lmtune.datasets.synthetic.drawing import Drawn, draw, judge
from lmtune.datasets.synthetic.model import Shape
from lmtune.datasets.synthetic.source import (
    _DIGITS,
    _DOCNO_STRIDE,
    PassageDocuments,
    SyntheticDocuments,
    docnos,
    load_synthetic,
    parse_shape,
    word,
)
from lmtune.errors import InputError, MissingExtraError
from lmtune.formats.documents import Document, ListDocuments
from lmtune.indexing.analysis import Analyzer
from lmtune.indexing.builder import build_index
from lmtune.indexing.cache import index_for
from lmtune.indexing.columnar import ColumnarIndex
from lmtune.indexing.sharding import build_sharded_index
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.models.two_stage import score

SMALL = parse_shape("small")
DENSE = Shape(20_000, 60)
PLAIN = Analyzer(stemmer="none", stopwords="none")


@pytest.fixture(scope="module")
def small() -> Dataset:
    return lmtune.load("synthetic:small")


@pytest.fixture(scope="module")
def index(small: Dataset, tmp_path_factory: pytest.TempPathFactory) -> ColumnarIndex:
    assert small.documents is not None
    return build_index(small.documents, tmp_path_factory.mktemp("indexes") / "small", PLAIN)


@pytest.fixture(scope="module")
def dense() -> Drawn:
    return draw(DENSE)


def test_the_index_has_the_generators_arrays(small: Dataset, index: ColumnarIndex) -> None:
    inverted = SyntheticDocuments("any", SMALL).invert()
    assert index.docnos(range(index.num_docs)) == inverted.docnos
    assert index.terms() == sorted(inverted.terms)
    np.testing.assert_array_equal(index.lengths, inverted.lengths)
    held = np.zeros(index.num_docs, np.int64)
    for term, (docs, tfs) in zip(inverted.terms, inverted.postings, strict=True):
        found = index.postings(term)
        assert found is not None
        np.testing.assert_array_equal(found.docs, docs)
        np.testing.assert_array_equal(found.tfs, tfs)
        assert (np.diff(docs) > 0).all()
        assert tfs.min() >= 1
        held[docs] += tfs
    np.testing.assert_array_equal(held, index.lengths)
    assert held.sum() == index.total_terms == index.lengths.sum()
    assert {term for text in small.topics.values() for term in index.analyze(text)} <= set(index.terms())


def test_indexing_the_text_gives_the_same_index(small: Dataset, index: ColumnarIndex, tmp_path: Path) -> None:
    assert small.documents is not None
    documents = [document for batch in small.documents.batches() for document in batch.read()]
    assert len(documents) == SMALL.documents
    from_text = build_index(ListDocuments("text", documents), tmp_path / "text", PLAIN)
    assert from_text.manifest.columns == index.manifest.columns
    sizes = sum(batch.size for batch in small.documents.batches())
    assert sum(len(text) for _, text in documents) <= sizes


def test_a_stopword_list_that_takes_a_word_out_is_obeyed(small: Dataset, tmp_path: Path) -> None:
    assert small.documents is not None
    lost = small.topics["1"].split()[0]
    (tmp_path / "list.txt").write_text(f"{lost}\n")
    analyzer = Analyzer(stemmer="none", stopwords=str(tmp_path / "list.txt"))
    index = build_index(small.documents, tmp_path / "index", analyzer)
    assert index.postings(lost) is None
    assert index.total_terms == index.lengths.sum()


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_does_not_matter(threads: int) -> None:
    source = SyntheticDocuments("any", replace(SMALL, seed=9))
    assert _digest(source, threads) == _digest(source, 2)


def test_the_content_is_that_of_this_version() -> None:
    """Where this fails on purpose, raise VERSION: cached indexes are of the old content."""
    source = SyntheticDocuments("any", SMALL)
    assert (source.digest(), _digest(source, None)) == (
        "a06c2c026bb19326c375c2ca39918a54",
        "a64b858f98b0fc5b6730aac01cdf7037",
    )


def _digest(source: SyntheticDocuments, threads: int | None) -> str:
    inverted = source.invert(threads=threads)
    state = hashlib.blake2b(digest_size=16)
    for part in (inverted.docnos, inverted.terms, source.topics(), source.qrels(threads=threads)):
        state.update(repr(part).encode())
    for array in (inverted.lengths, *(array for pair in inverted.postings for array in pair)):
        state.update(np.ascontiguousarray(array, "<i4").tobytes())
    return state.hexdigest()


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


def test_judgements(small: Dataset) -> None:
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


def test_an_index_is_cached_until_the_collection_is_another(tmp_path: Path) -> None:
    reasons: list[str] = []

    def open_index(shape: Shape) -> ColumnarIndex:
        source = SyntheticDocuments("synthetic:same", shape)
        return index_for(source, home=tmp_path, on_build=lambda _, reason: reasons.append(reason))

    shape = Shape(1000, 2)
    assert open_index(shape).fingerprint == open_index(shape).fingerprint
    assert len(reasons) == 1
    for other in (Shape(1001, 2), Shape(1000, 3), Shape(1000, 2, seed=1)):
        assert open_index(other).num_docs == other.documents
    assert reasons[1:] == ["the index was built from other documents"] * 3


def test_progress_comes_to_an_end() -> None:
    source = SyntheticDocuments("any", Shape(1000, 40))
    inverting: list[tuple[int, int]] = []
    source.invert(lambda *done: inverting.append(done))
    judging: list[tuple[int, int]] = []
    source.qrels(progress=lambda *done: judging.append(done))
    for told in (inverting, judging):
        assert told == sorted(told)
        assert told[-1][0] == told[-1][1] == max(done for done, _ in told)


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
    dataset = load_synthetic(name, need=("documents", "topics"))
    assert isinstance(dataset.documents, SyntheticDocuments)
    assert dataset.documents.shape.documents == documents
    assert (len(dataset.topics), dataset.qrels) == (topics, {})
    assert dataset.name == f"synthetic:{name}"
    assert dataset.versions == {"synthetic": "1"}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nope",
        "999",
        "1000000000",
        "4000x",
        "4000x0",
        "4000x401",
        "-4000",
        "4000x5x5",
        "٤٠٠٠",
        "msmarco-",
        "msmarco-1000x1001",
    ],
)
def test_bad_names(name: str) -> None:
    with pytest.raises(InputError, match=r"no such synthetic collection: .*DOCUMENTSxTOPICS"):
        lmtune.load(f"synthetic:{name}")


def test_judgements_are_drawn_where_they_are_needed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Drawn:
        raise AssertionError("drawn")

    monkeypatch.setattr(drawing, "draw", fail)
    assert lmtune.load("synthetic:small", need=("topics",)).documents is None
    with pytest.raises(AssertionError, match="drawn"):
        lmtune.load("synthetic:small")
    with pytest.raises(InputError, match="synthetic:small have a title alone"):
        lmtune.load("synthetic:small", topic_fields=("desc",))


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


@pytest.mark.parametrize("count", [1, 3])
def test_parts_are_drawn_apart_as_in_the_whole(index: ColumnarIndex, tmp_path: Path, count: int) -> None:
    source = SyntheticDocuments("any", SMALL)
    parts = source.parts(count, "")
    assert len({part.digest() for part in (source, *parts)}) == count + 1
    for part in parts:
        inverted = part.invert()
        assert part.part is not None
        docs = list(part.part)
        assert inverted.docnos == index.docnos(docs)
        assert inverted.lengths.tolist() == index.lengths[docs].tolist()
    shards = build_sharded_index(source, tmp_path / "shards", PLAIN, count)
    for term in index.terms():
        mine, theirs = shards.postings(term), index.postings(term)
        assert mine is not None
        assert theirs is not None
        assert [own.tolist() for own in mine] == [own.tolist() for own in theirs]
    assert shards.docno_rank.tolist() == index.docno_rank.tolist()


def test_a_docno_is_located() -> None:
    source = SyntheticDocuments("any", Shape(1000, 1))
    assert source.locate(docnos(range(7, 8), 1000)[0]) == [("any", 8)]
    assert source.locate("absent") == []
    documents = [Document(*d) for batch in source.batches() for d in batch.read()]
    assert documents[7].docno == docnos(range(7, 8), 1000)[0]


PASSAGES = PassageDocuments("any", parse_shape("msmarco-2000x60"))


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> ColumnarIndex:
    return build_index(PASSAGES, tmp_path_factory.mktemp("passages") / "index", PLAIN)


def test_passages_hold_the_words_that_are_drawn_one_by_one(passages: ColumnarIndex) -> None:
    streams = drawn_passages._streams(PASSAGES.shape)
    lengths, postings = drawn_passages.draw_passages(PASSAGES.shape, range(2000))
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


def test_each_query_has_one_or_two_relevant_passages(passages: ColumnarIndex) -> None:
    dataset = lmtune.load("synthetic:msmarco-2000x60")
    assert list(dataset.qrels) == list(dataset.topics) == [str(t) for t in range(1, 61)]
    assert {len(judged) for judged in dataset.qrels.values()} == {1, 2}
    assert {docno for judged in dataset.qrels.values() for docno in judged} <= set(
        passages.docnos(range(2000))
    )
    assert {len(set(text.split())) for text in dataset.topics.values()} <= {*range(1, 7)}
    pool = CandidatePool.build(passages, dataset.topics, dataset.qrels, model="bm25")
    values = measure_settings(pool, {"k1": 0.9, "b": 0.4}, parse_measures(["RR@10"]))
    assert 0.2 < values.mean() < 0.95


@pytest.mark.parametrize("count", [3, 16])
def test_passages_are_drawn_apart_as_in_the_whole(
    passages: ColumnarIndex, tmp_path: Path, count: int
) -> None:
    shards = build_sharded_index(PASSAGES, tmp_path / "shards", PLAIN, count)
    assert shards.lengths.tolist() == passages.lengths.tolist()
    for term in passages.terms()[::50]:
        mine, theirs = shards.postings(term), passages.postings(term)
        assert mine is not None
        assert theirs is not None
        assert [own.tolist() for own in mine] == [own.tolist() for own in theirs]


def test_passages_are_those_of_this_version() -> None:
    assert (PASSAGES.digest(), _digest(PASSAGES, None)) == (
        "02d70d080d48bea0611ac07197ad9764",
        "7b57e756809ff6b6435d784eed7c99fa",
    )
