"""Features against the formulas, written out document by document and term by term."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support import FieldedTiny, TinyIndex, random_collection

from lmtune.errors import InputError
from lmtune.io.letor import write_letor
from lmtune.io.runs import read_run, write_run
from lmtune.rerank.data import RankingData
from lmtune.rerank.features import FEATURES, features_of
from lmtune.rerank.sources import reranked, run_data

NAMES = [feature.name for feature in FEATURES]


def expected_features(
    index: TinyIndex, query: str, docno: str, score: float, rank: int, lambda_: float, mu: float
) -> dict[str, float]:
    """Compute one document's features from the collection's text alone."""
    texts = {name: Counter(text.split()) for name, text in index.documents.items()}
    tokens = sum(sum(text.values()) for text in texts.values())
    counts = Counter(term for term in query.split() if any(term in t for t in texts.values()))
    terms = list(counts)
    held = texts.get(docno, Counter())
    length = sum(held.values())
    tf = [held[term] for term in terms]
    p = [sum(text[term] for text in texts.values()) / tokens for term in terms]
    df = [sum(term in text for text in texts.values()) for term in terms]
    idf = [math.log(len(texts) / d) for d in df]
    weights = [counts[term] for term in terms]

    def likelihood(lam: float, m: float) -> float:
        total = 0.0
        for c, t, pw in zip(weights, tf, p, strict=True):
            prior = (t + m * pw) / (m + length) if m + length else 0.0
            total += c * math.log((1 - lam) * prior + lam * pw)
        return total

    def bm25(k1: float, b: float) -> float:
        total = 0.0
        for c, t, d in zip(weights, tf, df, strict=True):
            weight = math.log(1 + (len(texts) - d + 0.5) / (d + 0.5))
            norm = k1 * (1 - b + b * length / (tokens / len(texts)))
            total += c * weight * t / (t + norm) if t else 0.0
        return total

    matched = [i for t, i in zip(tf, idf, strict=True) if t]
    out = {
        "ql_tuned": likelihood(lambda_, mu),
        "ql_dirichlet_1000": likelihood(0, 1000),
        "ql_dirichlet_2500": likelihood(0, 2500),
        "ql_jm_0.1": likelihood(0.1, 0),
        "ql_jm_0.7": likelihood(0.7, 0),
        "bm25": bm25(0.9, 0.4),
        "bm25_classic": bm25(1.2, 0.75),
        "log_bm25": math.log(1 + bm25(0.9, 0.4)),
        "log_tf_idf": sum(c * i * (1 + math.log(t)) for c, t, i in zip(weights, tf, idf, strict=True) if t),
        "log_tf": sum(c * math.log(1 + t) for c, t in zip(weights, tf, strict=True)),
        "matched_terms": len(matched),
        "matched_ratio": len(matched) / len(terms) if terms else 0,
        "matched_idf_ratio": sum(matched) / sum(idf) if sum(idf) else 0,
        "length": length,
        "log_length": math.log(1 + length),
        "query_length": sum(weights),
        "query_idf": sum(idf),
        "run_score": score,
        "run_reciprocal_rank": 1 / rank,
        "run_log_rank": math.log(rank),
    }
    tables = {
        "tf": [float(t) for t in tf],
        "ntf": [t / length if length else 0 for t in tf],
        "tf_idf": [t * i for t, i in zip(tf, idf, strict=True)],
        "idf": matched,
    }
    for name, values in tables.items():
        out[f"{name}_sum"] = sum(values)
        out[f"{name}_min"] = min(values, default=0)
        out[f"{name}_max"] = max(values, default=0)
        out[f"{name}_mean"] = sum(values) / len(values) if values else 0
    return out


def made_run(index: TinyIndex, topics: dict[str, str], seed: int, size: int) -> dict[str, dict[str, float]]:
    random = np.random.default_rng(seed)
    return {
        topic: {
            str(docno): float(random.integers(-20, 20)) / 4  # ties
            for docno in random.choice([*index.documents, "not-here"], size, replace=False)
        }
        for topic in topics
    }


@pytest.mark.parametrize("seed", range(4))
def test_every_feature(seed: int) -> None:
    index, topics, qrels = random_collection(seed)
    topics["none"] = "absent absent"
    topics["everywhere"] = "w0 w0 w0"
    run = made_run(index, topics, seed, 25)
    data = run_data(run, index, topics, qrels, lambda_=0.3, mu=7.0)
    assert data.queries == tuple(topics)
    assert data.features.shape == (25 * len(topics), len(FEATURES))
    assert data.docnos is not None
    for q, topic in enumerate(data.queries):
        rows = data.rows(q)
        docnos = data.docnos[rows]
        assert list(docnos) == sorted(run[topic], key=lambda d: (run[topic][d], d), reverse=True)
        for rank, docno in enumerate(docnos, 1):
            found = data.features[rows.start + rank - 1]
            expected = expected_features(index, topics[topic], docno, run[topic][docno], rank, 0.3, 7.0)
            assert expected.keys() == set(NAMES)
            for name, value in zip(NAMES, found, strict=True):
                assert value == pytest.approx(expected[name], rel=3e-6, abs=1e-6), (name, docno)
            gain = max(0, qrels.get(topic, {}).get(docno, 0))
            assert data.labels[rows.start + rank - 1] == gain


def test_a_field_has_the_features_that_its_text_would_have() -> None:
    titles, topics, _ = random_collection(0)
    texts = {docno: {"title": text, "body": "w3 w9 " + text[:20]} for docno, text in titles.documents.items()}
    run = made_run(titles, topics, 0, 25)
    data = run_data(run, FieldedTiny(texts), topics, fields=["body", "title"])
    alone = run_data(run, titles, topics).features
    names = [feature.name for feature in features_of(["body", "title"])]
    assert data.features.shape[1] == len(names) == len(set(names)) == len(NAMES) + 2 * (len(NAMES) - 4)
    for name in names[len(NAMES) :]:
        field, _, own = name.partition("_")
        if field == "title":
            np.testing.assert_array_equal(data.features[:, names.index(name)], alone[:, NAMES.index(own)])
    bodies = data.features[:, names.index("body_length")], data.features[:, names.index("length")]
    assert (bodies[0] != bodies[1]).any()


def windows_in(tokens: list[str], pair: tuple[str, str], kind: str) -> int:
    """Count a phrase, or a pair within eight tokens from each occurrence that begins one."""
    if kind == "#1":
        return sum(both == pair for both in pairwise(tokens))
    others = {pair[0]: pair[1], pair[1]: pair[0]}
    return sum(others.get(token) in tokens[at + 1 : at + 8] for at, token in enumerate(tokens))


@pytest.mark.parametrize("kind", ["#1", "#uw8"])
def test_windows_have_the_features_of_terms(kind: str) -> None:
    index, topics, _ = random_collection(0)
    run = made_run(index, topics, 0, 25)
    data = run_data(run, index, topics, fields=[kind])
    names = [feature.name for feature in features_of([kind])]
    assert data.features.shape[1] == len(names) == len(set(names)) == len(NAMES) + len(NAMES) - 6
    texts = {docno: text.split() for docno, text in index.documents.items()}
    size = sum(map(len, texts.values()))
    seen = 0
    for q, topic in enumerate(data.queries):
        pairs = pairwise(topics[topic].split())
        counts = Counter(pair if kind == "#1" else (min(pair), max(pair)) for pair in pairs)
        tfs = {pair: {d: windows_in(text, pair, kind) for d, text in texts.items()} for pair in counts}
        held = {pair: times for pair, times in counts.items() if any(tfs[pair].values())}
        rows = data.rows(q)
        assert data.docnos is not None
        for row, docno in enumerate(data.docnos[rows], rows.start):
            length = len(texts.get(docno, []))
            expected = dict.fromkeys(("tf_sum", "matched_terms", "log_tf", "ql_dirichlet_1000", "bm25"), 0.0)
            for pair, times in held.items():
                tf, cf = tfs[pair].get(docno, 0), sum(tfs[pair].values())
                df = sum(count > 0 for count in tfs[pair].values())
                idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
                norm = 0.9 * (0.6 + 0.4 * length * len(texts) / size)
                expected["tf_sum"] += tf
                expected["matched_terms"] += tf > 0
                expected["log_tf"] += times * math.log1p(tf)
                expected["ql_dirichlet_1000"] += times * math.log((tf + 1000 * cf / size) / (1000 + length))
                expected["bm25"] += times * idf * tf / (tf + norm)
            for name, value in expected.items():
                found = data.features[row, names.index(f"{kind}_{name}")]
                assert found == pytest.approx(value, rel=3e-6, abs=1e-6), (topic, docno, name)
            seen += expected["tf_sum"] > 0
    assert seen > 5


def test_names_and_lines() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 30
    for name, what, _ in FEATURES:
        assert name.split() == [name]
        assert 5 < len(what) < 90


def test_depth_and_topics() -> None:
    index, topics, qrels = random_collection(1)
    run = made_run(index, topics, 1, 20)
    whole = run_data(run, index, topics, qrels)
    some = run_data({"2": run["2"], "1": run["1"]}, index, topics, qrels, depth=7)
    assert some.queries == ("2", "1")
    assert some.lengths.tolist() == [7, 7]
    for topic in some.queries:
        one, other = (d.features[d.rows(d.queries.index(topic))][:7] for d in (some, whole))
        assert (one == other).all()
    assert run_data(run, index, topics).labels.max() == 0


def test_documents_that_the_index_lacks() -> None:
    index, topics, _ = random_collection(2)
    told = []
    run = {"1": {"not-here": 3.0, next(iter(index.documents)): 2.0}, "2": {"not-here": 1.0}}
    data = run_data(run, index, topics, on_missing=lambda n, name: told.append((n, name)))
    assert told == [(1, "not-here")]
    assert data.features[0, NAMES.index("length")] == 0
    with pytest.raises(InputError, match="has none of the run's documents: 'x'"):
        run_data({"1": {"x": 1.0}}, index, topics)


def test_bad_runs() -> None:
    index, topics, _ = random_collection(2)
    docno = next(iter(index.documents))
    with pytest.raises(InputError, match="the collection has no topic of the run: '99'"):
        run_data({"99": {docno: 1.0}}, index, topics)
    assert run_data({"99": {docno: 1.0}, "1": {docno: 1.0}}, index, topics).queries == ("1",)
    empties: list[dict[str, dict[str, float]]] = [{}, {"1": {}}]
    for empty in empties:
        with pytest.raises(InputError, match="the run is empty"):
            run_data(empty, index, topics)
    with pytest.raises(InputError, match="not a finite number: nan"):
        run_data({"1": {docno: math.nan}}, index, topics)
    with pytest.raises(InputError, match="bad depth"):
        run_data({"1": {docno: 1.0}}, index, topics, depth=0)
    with pytest.raises(InputError, match="lambda is outside"):
        run_data({"1": {docno: 1.0}}, index, topics, lambda_=2)


def test_written_as_letor_and_read_back(tmp_path: Path) -> None:
    index, topics, qrels = random_collection(3)
    data = run_data(made_run(index, topics, 3, 12), index, topics, qrels)
    write_letor(tmp_path / "run.txt.gz", data)
    again = RankingData.read(tmp_path / "run.txt.gz")
    assert (again.features == data.features).all()
    assert (again.labels == data.labels).all()
    assert (again.docnos, again.queries) == (data.docnos, data.queries)


def test_reranked(tmp_path: Path) -> None:
    index, topics, _ = random_collection(4)
    run = made_run(index, topics, 4, 9)
    data = run_data(run, index, topics)
    same = data.features[:, NAMES.index("run_score")]
    write_run(tmp_path / "same.txt", reranked(run, data, same), tag="same")
    assert list(read_run(tmp_path / "same.txt")) == list(run)
    scores = np.random.default_rng(0).integers(0, 4, len(same)).astype(float)
    write_run(tmp_path / "new.txt", reranked(run, data, scores), tag="new")
    written = read_run(tmp_path / "new.txt")
    assert data.docnos is not None
    for q, topic in enumerate(data.queries):
        rows = data.rows(q)
        pairs = sorted(
            zip(-scores[rows], range(9), data.docnos[rows], strict=True)
        )  # ties keep the run's order
        by_trec_eval = sorted(written[topic], key=lambda d: (written[topic][d], d), reverse=True)
        assert by_trec_eval == [docno for _, _, docno in pairs]
    with pytest.raises(InputError, match="bad scores"):
        list(reranked(run, data, same[:-1]))
    unnamed = RankingData(data.features, data.labels, data.starts, data.queries)
    with pytest.raises(InputError, match="no docnos"):
        list(reranked(run, unnamed, same))


def test_what_was_not_scored_stays_beneath() -> None:
    run = {"1": {"a": 3.0, "b": 2.0, "c": 2.0, "d": 1.0}, "2": {"a": 1.0}}
    scored = RankingData.from_lengths(
        np.zeros((3, 1)), np.zeros(3), [2, 1], queries=["1", "2"], docnos=["a", "b", "a"]
    )
    first, second = reranked(run, scored, [-4.0, 0.5, 1.0])
    assert first.docnos == ["b", "a", "c", "d"]
    assert list(first.scores) == [0.5, -4.0, -5.0, -6.0]
    assert second.docnos == ["a"]
