"""BM25 of several fields against the formulas in 50 digits, the text, BM25 itself, and Anserini."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_lucene import require_searcher
from mpmath import mp, mpf
from numpy.typing import NDArray
from support import COLLECTIONS, FieldedTiny

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.errors import InputError
from lmtune.models.fields import BM25F, SummedBM25
from lmtune.models.kernels import TopicDocuments
from lmtune.models.model import find_model

mp.dps = 50
NAMES = ("title", "body", "links")
# Of a term: how often it counts, and in each field tf and idf.
Term = tuple[float, list[tuple[int, float]]]
Drawn = tuple[list[Term], list[int], list[float], list[float]]


def printed(
    terms: list[Term], lengths: list[int], means: list[float], setting: list[Any], summed: bool
) -> Any:
    """Evaluate the formulas as the module prints them."""
    fields = len(lengths)
    weights, bs, k1 = setting[:fields], setting[fields:-1], mpf(setting[-1])
    s = [1 - mpf(b) + mpf(b) * length / mpf(mean) for b, length, mean in zip(bs, lengths, means, strict=True)]
    total = mpf(0)
    for count, parts in terms:
        if summed:
            for f, (tf, idf) in enumerate(parts):
                total += tf and mpf(count) * mpf(weights[f]) * mpf(idf) * tf / (tf + k1 * s[f])
        else:
            x = fields * sum(tf and mpf(weights[f]) * tf / s[f] for f, (tf, _) in enumerate(parts))
            total += mpf(count) * mpf(min(idf for _, idf in parts)) * x / (k1 + x)
    return total


@st.composite
def documents(draw: st.DrawFn) -> Drawn:
    fields = draw(st.integers(1, 3))
    part = st.tuples(st.integers(0, 30), st.floats(0.01, 12.0))
    counts = st.integers(1, 3) | st.floats(0.01, 2.0) | st.floats(-1.0, -0.01)
    terms = [(draw(counts), [draw(part) for _ in range(fields)]) for _ in range(draw(st.integers(1, 5)))]
    lengths = [sum(parts[f][0] for _, parts in terms) + draw(st.integers(1, 500)) for f in range(fields)]
    means = [draw(st.floats(0.5, 300.0)) for _ in range(fields)]
    weights = np.array([draw(st.floats(0.01, 1.0)) for _ in range(fields)])
    bs = [draw(st.floats(0.0, 1.0)) for _ in range(fields)]
    return terms, lengths, means, [*(weights / weights.sum()).tolist(), *bs, draw(st.floats(0.01, 5.0))]


def ours(drawn: Drawn, summed: bool) -> tuple[float, NDArray[np.float64]]:
    terms, lengths, means, setting = drawn
    fields = len(lengths)
    tf, idf = (np.array([part[i] for _, parts in terms for part in parts]) for i in (0, 1))
    topic = TopicDocuments(
        tf[:, None],
        np.array([sum(lengths)]),
        idf,
        np.repeat([float(count) for count, _ in terms], fields),
        np.tile(np.arange(fields, dtype=np.int8), len(terms)),
        1.0,
        np.array(lengths, np.int32)[:, None],
        np.array(means),
    )
    formula = (SummedBM25 if summed else BM25F)(NAMES[:fields])
    scores, gradients = formula.differentiate(topic, np.array(setting))
    return float(scores[0]), gradients[:, 0]


@pytest.mark.first_case
@pytest.mark.parametrize("summed", [True, False])
@settings(max_examples=COLLECTIONS, deadline=None)
@given(documents())
def test_scores_and_gradients_agree_with_the_formula(summed: bool, drawn: Drawn) -> None:
    score, gradient = ours(drawn, summed)
    terms, lengths, means, setting = drawn
    size = sum(abs(count) * max(idf for _, idf in parts) for count, parts in terms)
    assert abs(score - printed(terms, lengths, means, setting, summed)) <= 1e-13 * size
    h = mpf(10) ** -20
    for axis, value in enumerate(setting):
        high, low = ([*setting[:axis], mpf(value) + way * h, *setting[axis + 1 :]] for way in (1, -1))
        slope = printed(terms, lengths, means, high, summed) - printed(terms, lengths, means, low, summed)
        slope /= 2 * h
        # In b fields' terms of both signs cancel, and near k1 = 0 and b = 1 slopes are steep.
        assert abs(gradient[axis] - slope) <= 1e-11 * (abs(slope) + size / setting[-1])


def made(seed: int, documents: int = 120) -> tuple[FieldedTiny, dict[str, str]]:
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(12)]
    texts = {
        f"d{n:03d}": {
            "title": " ".join(rng.choice(words[:8], rng.integers(0, 5))),
            "body": " ".join(rng.choice(words[1:], rng.integers(1, 15))),
        }
        for n in range(documents)
    }
    return FieldedTiny(texts), {str(t): " ".join(rng.choice(words, 4)) for t in range(6)}


@pytest.mark.parametrize("model", ["bm25f", "bm25-fields"])
def test_rankings_are_those_of_the_text(model: str) -> None:
    index, topics = made(1)
    pool = CandidatePool.build(index, topics, model=f"{model}:title,body")
    texts = [[own[f].split() for f in ("title", "body")] for own in index.texts.values()]
    count_all = model == "bm25f"
    sizes = [sum(bool(own[f]) or count_all for own in texts) for f in (0, 1)]
    means = [sum(len(own[f]) for own in texts) / sizes[f] for f in (0, 1)]
    dfs = [Counter(word for own in texts for word in set(own[f])) for f in (0, 1)]
    for setting in ([0.5, 0.5, 0.4, 0.4, 0.9], [0.9, 0.1, 0.0, 1.0, 2.0], [0.2, 0.8, 1.0, 0.3, 0.1]):
        named = dict(zip(("w_title", "w_body", "b_title", "b_body", "k1"), setting, strict=True))
        for ranking in rank(pool, named):
            expected = {}
            for docno, own in zip(index.texts, texts, strict=True):
                query, lengths = topics[ranking.topic].split(), [len(part) for part in own]
                if not any(word in part for word in query for part in own):
                    continue
                terms: list[Term] = []
                for word in query:
                    df = [max(dfs[0][word], dfs[1][word])] * 2 if count_all else [dfs[0][word], dfs[1][word]]
                    idf = [float(np.log1p((n - d + 0.5) / (d + 0.5))) for n, d in zip(sizes, df, strict=True)]
                    terms.append((1, [(part.count(word), idf[f]) for f, part in enumerate(own)]))
                expected[docno] = float(printed(terms, lengths, means, setting, not count_all))
            found = dict(zip(ranking.docnos, ranking.scores.tolist(), strict=True))
            assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("model", ["bm25f", "bm25-fields"])
def test_one_field_of_all_documents_is_bm25(model: str) -> None:
    index, topics = made(2)
    alone = CandidatePool.build(index, topics, model=f"{model}:body")
    whole = CandidatePool.build(index.field("body"), topics, model="bm25")
    setting = {"k1": 1.3, "b": 0.6}
    for field, body in zip(rank(alone, {"k1": 1.3, "b_body": 0.6}), rank(whole, setting), strict=True):
        found, expected = (dict(zip(own.docnos, own.scores.tolist(), strict=True)) for own in (field, body))
        assert found == pytest.approx(expected, rel=1e-13)


def test_fields_that_no_document_has_and_bad_settings() -> None:
    index = FieldedTiny({f"d{n}": {"title": "", "body": "w1 w2"} for n in range(3)})
    for model in ("bm25f:title,body", "bm25-fields:title,body"):
        [ranking] = rank(CandidatePool.build(index, {"1": "w1"}, model=model), find_model(model).default)
        assert np.isfinite(ranking.scores).all()
        with pytest.raises(InputError, match=r"b is outside its domain: 1\.5; accepted: 0 <= b <= 1"):
            find_model(model).check({"b_body": 1.5})
        with pytest.raises(InputError, match="w_title is outside its domain"):
            find_model(model).check({"w_title": 0.0, "w_body": 1.0})


def test_expansion_counts_the_collection_as_its_model_does() -> None:
    index, topics = made(3)
    assert not all(own["title"] for own in index.texts.values())
    pools = [
        CandidatePool.build(index.field("title"), topics, model=model)
        for model in ("bm25:tantivy", "bm25:tantivy+weights:idf")
    ]
    np.testing.assert_array_equal(pools[0].value, pools[1].value)
    assert pools[0].mean_length == pools[1].mean_length


def test_the_sum_of_fields_is_anserinis(tmp_path: Path) -> None:
    searcher_of = require_searcher()
    from pyserini.pyclass import autoclass

    rng = np.random.default_rng(3)
    words = np.array([f"{chr(97 + n % 26)}word{n}" for n in range(150)])
    # Lengths up to 40 are exact in Lucene.
    texts = {
        f"d{n:03d}": {
            "title": " ".join(rng.choice(words, rng.integers(1, 8))),
            "body": " ".join(rng.choice(words, rng.integers(10, 40))),
        }
        for n in range(200)
    }
    (tmp_path / "documents").mkdir()
    lines = [{"id": docno, "contents": own["body"], "title": own["title"]} for docno, own in texts.items()]
    (tmp_path / "documents/all.jsonl").write_text("\n".join(map(json.dumps, lines)))
    where = ["-input", str(tmp_path / "documents"), "-index", str(tmp_path / "lucene")]
    how = ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator", "-threads", "1"]
    autoclass("io.anserini.index.IndexCollection").main([*where, *how, "-fields", "title"])
    topics = {str(t): " ".join(rng.choice(words, 3)) for t in range(20)}
    pool = CandidatePool.build(FieldedTiny(texts), topics, model="bm25-fields:title,body")
    searcher = searcher_of(str(tmp_path / "lucene"))
    searcher.set_bm25(1.2, 0.6)
    setting = {"w_title": 0.75, "w_body": 0.25, "b_title": 0.6, "b_body": 0.6, "k1": 1.2}
    for ranking in rank(pool, setting):
        hits = searcher.search(topics[ranking.topic], k=1000, fields={"title": 3.0, "contents": 1.0})
        theirs = {hit.docid: hit.score for hit in hits}
        own = dict(zip(ranking.docnos, (4.0 * ranking.scores).tolist(), strict=True))
        assert len(own) > 10
        # Anserini keeps four digits, and moves ties apart by less than one more.
        assert own == pytest.approx(theirs, abs=6e-5)
