"""Variants of BM25 against their published formulas, on made documents and on the classics' topics."""

from __future__ import annotations

import math
import os
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from support import TinyIndex, random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.candidates.skyband import skyband
from lmtune.collections.collection import Collection
from lmtune.errors import InputError
from lmtune.models.bm25 import VARIANTS
from lmtune.models.kernels import TopicDocuments
from lmtune.models.model import find_model
from lmtune.tuning.certificate.problem import proof_of
from lmtune.tuning.space import ParameterSpace

mp.dps = 50
DATA = Path(__file__).parents[3] / "shared" / "data"


def lucene_byte(length: int) -> int:
    """Round a length as SmallFloat.byte4ToInt(intToByte4(length)) does, on the digits."""
    if length < 40:
        return length
    excess = length - 24
    low = excess.bit_length() - 4
    return 24 + (excess >> low << low)


def usual(tf: Any, k1: Any, share: Any) -> Any:
    return tf / (tf + k1 * share)


def robertson(df: int, n: int) -> Any:
    return mp.log(mpf(n - df + 0.5) / (df + 0.5))


def lucene(df: int, n: int) -> Any:
    return mp.log(1 + mpf(n - df + 0.5) / (df + 0.5))


# Of each: idf; a term's part; whether lengths are rounded, empty documents count, words count once.
# Kamphuis et al. 2020, Table 1, up to the factor k1 + 1; for engines their source code.
PUBLISHED: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "lucene": (lucene, usual, "rounded"),
    "tantivy": (lucene, usual, "rounded empty"),
    "bm25s": (lucene, usual, "empty"),
    "vespa": (lucene, usual, "empty"),
    "duckdb": (lucene, usual, "empty once"),
    "sqlite": (lambda df, n: max(robertson(df, n), mpf(0)) or mpf("1e-6"), usual, "empty"),
    "xapian": (
        lambda df, n: mp.log(x if (x := mpf(n - df + 0.5) / (df + 0.5)) >= 2 else x / 2 + 1),
        usual,
        "empty",
    ),
    "terrier": (robertson, usual, "empty"),
    "robertson": (robertson, usual, ""),
    "atire": (lambda df, n: mp.log(mpf(n) / df), usual, ""),
    "l": (
        lambda df, n: mp.log(mpf(n + 1) / (df + 0.5)),
        lambda tf, k1, share: (k1 + 1) * (tf / share + 0.5) / (k1 + tf / share + 0.5),
        "",
    ),
    "plus": (
        lambda df, n: mp.log(mpf(n + 1) / df),
        lambda tf, k1, share: (k1 + 1) * tf / (tf + k1 * share) + 1,
        "",
    ),
}


def published(
    name: str, texts: dict[str, list[str]], query: list[str], k1: float, b: float
) -> dict[str, Any]:
    """Score documents that hold a term, from the terms of texts."""
    idf, part, traits = PUBLISHED[name]
    counted = texts if "empty" in traits else {docno: terms for docno, terms in texts.items() if terms}
    mean = mpf(sum(map(len, counted.values()))) / len(counted)
    times = dict.fromkeys(query, 1) if "once" in traits else Counter(query)
    tfs = {docno: Counter(terms) for docno, terms in texts.items()}
    scores: dict[str, Any] = {}
    for term, count in times.items():
        held = {docno: tf[term] for docno, tf in tfs.items() if term in tf}
        for docno, tf in held.items():
            length = lucene_byte(len(texts[docno])) if "rounded" in traits else len(texts[docno])
            share = 1 - mpf(b) + mpf(b) * length / mean
            more = count * idf(len(held), len(counted)) * part(mpf(tf), mpf(k1), share)
            scores[docno] = scores.get(docno, mpf(0)) + more
    return scores


def test_each_variant_is_held_against_what_is_published() -> None:
    assert PUBLISHED.keys() == VARIANTS.keys()


@pytest.mark.first_case
@pytest.mark.parametrize("name", VARIANTS)
def test_scores_are_the_published_ones(name: str) -> None:
    _, topics, _ = random_collection(4, documents=150)
    made = random_collection(4, documents=150)[0].documents
    texts = {docno: text.split() * 7 for docno, text in made.items()} | {"empty": [], "emptier": []}
    topics = {topic: f"{text} {text.split()[0]}" for topic, text in topics.items()}
    index = TinyIndex({docno: " ".join(terms) for docno, terms in texts.items()})
    pool = CandidatePool.build(index, topics, model=f"bm25:{name}")
    for k1, b in [(0.9, 0.4), (0.01, 1.0), (5.0, 0.0), (1.2, 0.75)]:
        for ranking in rank(pool, {"k1": k1, "b": b}):
            expected = published(name, texts, topics[ranking.topic].split(), k1, b)
            own = dict(zip(ranking.docnos, ranking.scores.tolist(), strict=True))
            assert own.keys() == expected.keys()
            size = max(abs(float(score)) for score in expected.values())
            for docno, score in own.items():
                assert abs(score - expected[docno]) <= 1e-12 * size, (docno, k1, b)


@pytest.mark.slow
@pytest.mark.parametrize("collection", ["cacm", "cranfield", "med", "npl"])
def test_scores_on_the_classics_topics(collection: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    if not (DATA / collection).is_dir():
        pytest.skip("the classics are not beside the checkout")
    indexes = tmp_path_factory.getbasetemp() / "variants"
    named = Collection(str(DATA / collection), indexes=indexes)
    dataset = named.load(("documents", "topics"))
    index = named.open_index(dataset)
    assert dataset.documents is not None
    topics = dict([*dataset.topics.items()][:: int(os.environ.get("LMTUNE_EACH_TOPIC", "5"))])
    documents = [document for batch in dataset.documents.batches() for document in batch.read()]
    tfs = {document.docno: Counter(index.analyze(document.text)) for document in documents}
    lengths = {docno: tf.total() for docno, tf in tfs.items()}
    for name, (idf, part, traits) in PUBLISHED.items():
        pool = CandidatePool.build(index, topics, model=f"bm25:{name}")
        counted = [length for length in lengths.values() if length or "empty" in traits]
        mean, k1, b = sum(counted) / len(counted), 1.2, 0.6
        for ranking in rank(pool, {"k1": k1, "b": b}):
            query = Counter(index.analyze(topics[ranking.topic]))
            expected = np.zeros(len(ranking.docnos))
            for term, count in query.items():
                df = sum(term in tf for tf in tfs.values()) if name == "lucene" else _df(index, term)
                if not df:
                    continue
                weight = (1 if "once" in traits else count) * float(idf(df, len(counted)))
                for place, docno in enumerate(ranking.docnos):
                    if tf := tfs[docno][term]:
                        length = lengths[docno]
                        length = lucene_byte(length) if "rounded" in traits else length
                        share = 1.0 - b + b * length / mean
                        expected[place] += weight * float(part(float(tf), k1, share))
            np.testing.assert_allclose(ranking.scores, expected, rtol=1e-12, atol=1e-12)


def _df(index: Any, term: str) -> int:
    found = index.postings(term)
    return 0 if found is None else int(found.docs.size)


@pytest.mark.parametrize("name", ["l", "plus", "robertson"])
def test_gradients_are_the_formulas(name: str) -> None:
    tf, idf, counts = np.array([[0, 3, 1, 0], [2, 0, 40, 0]]), np.array([1.5, 0.25]), np.array([1, 3])
    length, mean = np.array([40, 3, 900, 0]), 55.0
    topic = TopicDocuments(tf, length, idf, counts, np.zeros(2, np.int8), mean)
    formula, part = find_model(f"bm25:{name}").formula, PUBLISHED[name][1]

    def score(document: int, k1: Any, b: Any) -> Any:
        share = 1 - mpf(b) + mpf(b) * int(length[document]) / mpf(mean)
        return sum(
            int(count) * mpf(float(weight)) * part(mpf(int(held)), mpf(k1), share)
            for count, weight, held in zip(counts, idf, tf[:, document], strict=True)
            if held
        )

    h = mpf(10) ** -20
    for k1, b in [(0.9, 0.4), (3.0, 1.0), (0.01, 1.0), (1.2, 0.0)]:
        scores, gradients = formula.differentiate(topic, np.array([k1, b]))
        for document in range(length.size):
            assert scores[document] == pytest.approx(float(score(document, mpf(k1), b)), rel=1e-13)
            in_k1 = (score(document, k1 + h, b) - score(document, k1 - h, b)) / (2 * h)
            in_b = (score(document, mpf(k1), b + h) - score(document, mpf(k1), b - h)) / (2 * h)
            assert gradients[:, document] == pytest.approx([float(in_k1), float(in_b)], rel=1e-10, abs=1e-14)


@pytest.mark.first_case
@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_proved_of_bm25_holds_for_variants_without_negative_parts(name: str) -> None:
    formula = find_model(f"bm25:{name}").formula
    assert pickle.loads(pickle.dumps(formula)).name == formula.name
    index, topics, _ = random_collection(11, documents=600, topics=12)
    pool = CandidatePool.build(index, topics, model=formula)
    if name in ("l", "plus", "robertson", "terrier"):
        with pytest.raises(InputError, match=f"this model cannot be certified: 'bm25:{name}'"):
            proof_of(formula)
        with pytest.raises(InputError):
            skyband(pool, depth=5)
        return
    assert proof_of(formula) is proof_of(find_model("bm25").formula)
    pruned = skyband(pool, depth=5)
    assert pruned.candidates.doc.size < pool.candidates.doc.size
    space, rng = ParameterSpace.of(f"bm25:{name}"), np.random.default_rng(5)
    for setting in [*(space.random(rng) for _ in range(40)), np.array([1e-9, 1.0]), np.array([1e9, 0.0])]:
        for t in range(len(pool.topics)):
            whole, left = (
                some.candidates.doc[some.candidates.rows(t)][some.top(t, setting, 5)]
                for some in (pool, pruned)
            )
            np.testing.assert_array_equal(whole, left)


def test_an_unknown_variant_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="unknown variant of BM25: 'okapi'; accepted: lucene, tantivy"):
        find_model("bm25:okapi")
    assert math.isclose(VARIANTS["sqlite"].idf(90, 100), 1e-6)
