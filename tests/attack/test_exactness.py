"""Rankings, measures, pruning and certificates of random collections against brute force.

Collections are small and full of ties: equal documents, the same words in another order or twice,
docnos whose order is easily got wrong. `make attack` makes more of them: ``LMTUNE_COLLECTIONS`` is
their number.
"""

from __future__ import annotations

import io
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
import pytrec_eval
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.candidates.regions import Regions
from lmtune.candidates.skyband import MODES, skyband
from lmtune.errors import InputError
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.io.documents import Document, ListDocuments
from lmtune.io.runs import read_run, write_run
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.from_files import evaluations
from lmtune.measures.measure import parse_measures
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.space import ParameterSpace

COLLECTIONS = int(os.environ.get("LMTUNE_COLLECTIONS", "40"))
SHARES = 2  # for as many processes

MEASURES = {
    "AP": "map",
    "P@5": "P_5",
    "Bpref": "bpref",
    "nDCG@10": "ndcg_cut_10",
    "RR": "recip_rank",
    "R@5": "recall_5",
    "Success@5": "success_5",
}
"""Measures, and what trec_eval calls them."""

GRADED = ["AP(rel=2)", "Bpref(rel=2)", "AP@3", "nDCG@2"]
CERTIFIED = ["AP", "AP@3", "P@3", "Bpref", "RR", "R@4", "Success@2", "AP(rel=2)"]
WORDS = ("a", "b", "c", "d", "e", "f")
HOSTILE = (
    *("1", "10", "9", "01", "-1", "+1", "1e3", "a", "A", "ab", "aB", "a-b", "a_b", "a.", "#", "$a", '"a"'),
    *("é", "e\u0301", "\uff5e", "\U0001f600", "\ufffd", "\u05d0", "z" * 70, "nan", "Q0", "0x1", "\x7f"),
)
"""Docnos that sort otherwise as numbers, without case, or in UTF-16."""


class Collection(NamedTuple):
    """Documents, topics and judgments, and the rest of the random numbers."""

    documents: dict[str, str]
    topics: dict[str, str]
    qrels: dict[str, dict[str, int]]
    rng: np.random.Generator


def made(number: int, most: int = 40) -> Collection:
    rng = np.random.default_rng([number, 14])
    words = WORDS[: rng.integers(1, len(WORDS) + 1)]
    texts = [["a"]]
    for _ in range(rng.integers(1, most)):
        old = texts[rng.integers(len(texts))]
        ways = [
            list(old),
            list(rng.permutation(old)),
            [*old, *old][:60],
            list(rng.choice(words, rng.integers(0, 12))),
            list(rng.choice(words[::-1], rng.integers(1, 4))),
        ]
        texts.append(ways[rng.integers(len(ways))])
    names = [*HOSTILE, *(f"d{n}" for n in range(len(texts)))]
    docnos = rng.permutation(np.array(names, object))[: len(texts)]
    documents = {str(docno): " ".join(text) for docno, text in zip(docnos, texts, strict=True)}
    topics = {
        str(topic): " ".join(rng.choice([*words, "absent"], rng.integers(1, 7)))
        for topic in rng.permutation(12)[: rng.integers(1, 6)]
    }
    qrels = {topic: judged for topic in topics if (judged := judgments(list(documents), rng))}
    return Collection(documents, topics, qrels, rng)


def judgments(docnos: Sequence[str], rng: np.random.Generator) -> dict[str, int]:
    """Judge some documents; perhaps none of them, only absent ones, or none nonrelevant."""
    chosen = [docno for docno in docnos if rng.random() < 0.5]
    absent = {f"absent-{number}": int(rng.integers(-1, 3)) for number in range(rng.integers(3))}
    low, high = [(-1, 4), (0, 2), (0, 2), (1, 3), (0, 1), (0, 0)][rng.integers(6)]
    if (low, high) == (0, 0):
        return absent
    return {docno: int(rng.integers(low, high)) for docno in chosen} | absent


def drawn_settings(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Draw settings (lambda, mu) inside, at the ends, and round numbers at which documents tie."""
    lambdas = [0.0, 0.5, rng.random(), 1 - 10 ** -rng.uniform(0, 9)]
    mus = [1.0, 8.0, 1e5, 10 ** rng.uniform(-3, 6)]
    pairs = [(rng.choice(lambdas), rng.choice(mus)) for _ in range(count - 1)]
    return np.array([*pairs, (rng.choice([0.1, 0.7]), 0.0)])


def pool_of(collection: Collection, folder: Path, model: str = "two-stage") -> CandidatePool:
    documents = [Document(docno, text) for docno, text in collection.documents.items()]
    analyzer = Analyzer(stemmer="none", stopwords="none")
    index = build_index(ListDocuments("made", documents), folder, analyzer, workers=1)
    return CandidatePool.build(index, collection.topics, collection.qrels, model=model)


class Scored(NamedTuple):
    """A document's exact likelihood, and what its score is computed from."""

    likelihood: Fraction
    seen: tuple[int, ...]


def brute_force(
    collection: Collection, query: str, lambda_: float, mu: float, floored: bool
) -> dict[str, Scored]:
    """Score every document that holds a query term, by Zhai and Lafferty's formula, in integers."""
    texts = {docno: text.split() for docno, text in collection.documents.items()}
    found = Counter(word for text in texts.values() for word in text)
    counts = {word: times for word, times in Counter(query.split()).items() if found[word]}
    size = found.total() + floored
    keep, m = 1 - Fraction(lambda_), Fraction(mu)
    scored = {}
    for docno, text in texts.items():
        tf = [text.count(word) for word in counts]
        if not any(tf):
            continue
        likelihood = Fraction(1)
        for (word, times), t in zip(counts.items(), tf, strict=True):
            p = Fraction(found[word] + floored, size)
            factor = keep * (t + m * p) / (m + len(text)) + (1 - keep) * p
            likelihood *= (max(factor / p, Fraction(1)) if floored else factor) ** times
        scored[docno] = Scored(likelihood, (len(text), *tf))
    return scored


def check_ranking(scored: Mapping[str, Scored], ranked: Sequence[str], hits: int, weight: int) -> None:
    """Check that no document stands below a worse one, nor below one that it ties with and follows."""
    assert len(ranked) == min(hits, len(scored)) == len(set(ranked))
    # A factor takes nine rounded operations on numbers that are not negative; one more multiplies.
    slack = 1 + Fraction(2 * 10 * weight, 2**53)
    lowest = None
    for docno in ranked:
        assert lowest is None or scored[docno].likelihood <= lowest * slack, docno
        lowest = min(lowest or scored[docno].likelihood, scored[docno].likelihood)
    missed = [own.likelihood for docno, own in scored.items() if docno not in ranked]
    assert lowest is None or max(missed, default=lowest) <= lowest * slack
    twins: dict[tuple[int, ...], list[str]] = {}
    for docno in [*ranked, *sorted(scored.keys() - set(ranked), reverse=True)]:
        twins.setdefault(scored[docno].seen, []).append(docno)
    for alike in twins.values():
        assert alike == sorted(alike, reverse=True)


def plain_measure(name: str, ranked: Sequence[str], judged: Mapping[str, int]) -> float:
    """Compute a measure of a ranking by its definition in trec_eval's documentation."""
    name, _, cutoff = name.partition("@")
    kind, rel = (name.removesuffix("(rel=2)"), 2) if "rel" in name else (name, 1)
    k = int(cutoff or len(ranked))
    relevant = {docno for docno, gain in judged.items() if gain >= rel}
    others = {docno for docno, gain in judged.items() if 0 <= gain < rel}
    if not relevant:
        return 0.0
    hits = [docno in relevant for docno in ranked[:k]]
    if kind == "AP":
        return sum(sum(hits[: i + 1]) / (i + 1) for i, hit in enumerate(hits) if hit) / len(relevant)
    if kind == "RR":
        return max((1 / (i + 1) for i, hit in enumerate(hits) if hit), default=0.0)
    if kind == "nDCG":
        gains = [max(judged.get(docno, 0), 0) for docno in ranked[:k]]
        best = sorted((max(gain, 0) for gain in judged.values()), reverse=True)[:k]
        dcg, ideal = (sum(g / math.log2(i + 2) for i, g in enumerate(own)) for own in (gains, best))
        return dcg / ideal
    if kind == "Bpref":
        total = 0.0
        for i, hit in enumerate(hits):
            above = sum(docno in others for docno in ranked[:i])
            if hit:
                total += 1 - min(above, len(relevant)) / min(len(relevant), len(others)) if above else 1
        return total / len(relevant)
    return {"P": sum(hits) / k, "R": sum(hits) / len(relevant), "Success": float(any(hits))}[kind]


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_rankings_and_measures(share: int, tmp_path: Path) -> None:
    trec_eval_tried = 0
    for number in range(share, COLLECTIONS, SHARES):
        collection = made(number)
        model = "lucene-dirichlet" if number % 5 == 4 else "two-stage"
        pool = pool_of(collection, tmp_path / f"index{number}", model)
        settings = drawn_settings(collection.rng, 5)
        if model != "two-stage":
            settings = settings[settings[:, 1] > 0] * (0, 1)
        hits = int(collection.rng.choice([1, 3, 1000]))
        names = [*MEASURES, *GRADED]
        values = measure_settings(pool, settings, parse_measures(names), depth=hits)
        for s, vector in enumerate(settings):
            lambda_, mu = vector.tolist()
            setting = {"lambda": lambda_, "mu": mu}
            rankings = list(rank(pool, setting, hits=hits))
            for t, (topic, docnos, scores) in enumerate(rankings):
                where = f"collection {number}, topic {topic}, {setting}"
                query = collection.topics[topic]
                scored = brute_force(collection, query, lambda_, mu, model != "two-stage")
                weight = len(query.split())
                try:
                    check_ranking(scored, docnos, hits, weight)
                except AssertionError as error:
                    raise AssertionError(where) from error
                for docno, score in list(zip(docnos, scores, strict=True))[:: max(1, len(docnos) - 1)]:
                    exact = scored[docno].likelihood
                    logarithm = float(mpmath.log(mpmath.mpf(exact.numerator) / exact.denominator))
                    assert score == pytest.approx(logarithm, rel=1e-12, abs=1e-14 * weight), where
                judged = collection.qrels.get(topic, {})
                for m, name in enumerate(names):
                    expected = plain_measure(name, docnos, judged)
                    assert values[t, s, m] == pytest.approx(expected, abs=1e-13), f"{where}, {name}"
            if any(docnos and topic in collection.qrels for topic, docnos, _ in rankings):
                write_run(tmp_path / "run.txt", rankings, tag="t")
                trec_eval_tried += check_files(tmp_path, collection, values[:, s], pool.topics)
    assert trec_eval_tried > 5 * COLLECTIONS


def check_files(
    folder: Path, collection: Collection, values: NDArray[np.float64], topics: Sequence[str]
) -> int:
    """Evaluate a run file by trec_eval and by lmtune's own reader; return how many values agree."""
    lines = [
        f"{topic} 0 {docno} {gain}\n"
        for topic, judged in collection.qrels.items()
        for docno, gain in judged.items()
    ]
    (folder / "qrels.txt").write_text("".join(lines))
    run = read_run(folder / "run.txt")
    judge = pytrec_eval.RelevanceEvaluator(collection.qrels, set(MEASURES.values()))
    by_trec_eval = judge.evaluate(run)
    [found] = evaluations(folder / "qrels.txt", folder / "run.txt", list(MEASURES))
    for topic, judged in by_trec_eval.items():
        for m, (name, its_name) in enumerate(MEASURES.items()):
            value = judged[its_name]
            assert values[topics.index(topic), m] == pytest.approx(value, abs=1e-13), (topic, name)
            own = found.column(name).values[found.topics.index(topic)]
            assert own == pytest.approx(value, abs=1e-13), (topic, name)
    return len(by_trec_eval) * len(MEASURES)


def ranked_bytes(pool: CandidatePool, settings: NDArray[np.float64], depth: int) -> list[str]:
    runs = []
    for lambda_, mu in settings:
        stream = io.StringIO()
        write_run(stream, rank(pool, {"lambda": lambda_, "mu": mu}, hits=depth), tag="t")
        runs.append(stream.getvalue())
    return runs


@pytest.mark.first_case
@pytest.mark.parametrize("share", range(SHARES))
def test_pruned_pools(share: int, tmp_path: Path) -> None:
    measures = parse_measures([*MEASURES, *GRADED])
    kept = whole_size = 0
    for number in range(share, COLLECTIONS, SHARES):
        collection = made(number, most=150)
        pool = pool_of(collection, tmp_path / f"index{number}")
        depth = int(collection.rng.integers(1, 12))
        settings = drawn_settings(collection.rng, 12)
        # What e-dominance is asked for: not both parameters next to 0.
        settings = settings[settings.max(axis=1) >= 1e-3]
        runs = ranked_bytes(pool, settings, depth)
        values = measure_settings(pool, settings, measures, depth=depth)
        for mode in MODES:
            pruned = skyband(pool, depth=depth, mode=mode, lambda_high=1 - 1e-9, mu_high=1e6)
            where = f"collection {number}, mode {mode}, depth {depth}"
            assert ranked_bytes(pruned, settings, depth) == runs, where
            assert np.array_equal(measure_settings(pruned, settings, measures, depth=depth), values), where
            shape = tuple(collection.rng.integers(1, 9, 2).tolist())
            regions = Regions.build(pruned, depth=depth, shape=shape)
            cell_by_cell = measure_settings(pruned, settings, measures, depth=depth, regions=regions)
            assert np.array_equal(cell_by_cell, values), where
            kept, whole_size = kept + pruned.candidates.doc.size, whole_size + pool.candidates.doc.size
    assert kept < 0.7 * whole_size


@pytest.mark.parametrize("share", [pytest.param(0, marks=pytest.mark.slow), *range(1, SHARES)])
def test_certificates(share: int, tmp_path: Path) -> None:
    proved = refused = 0
    for number in range(share, COLLECTIONS, SHARES):
        collection = made(number, most=60)
        rng = collection.rng
        pool = pool_of(collection, tmp_path / f"index{number}")
        if not np.diff(pool.judgment_start).any():
            with pytest.raises(InputError, match="no topic is judged"):
                CertifiedOptimum("AP", workers=1).fit(pool)
            refused += 1
            continue
        name = str(rng.choice(CERTIFIED))
        depth = int(rng.choice([2, 7, 1000]))
        low, high = np.sort(rng.random(2)) * (rng.random(2) < 0.7) * 0.99
        ranges = {"lambda": (low, max(low, high)), "mu": tuple(np.sort(10 ** rng.uniform(-3, 6, 2)).tolist())}
        space = ParameterSpace.of("two-stage", ranges if rng.random() < 0.5 else None)
        optimum = CertifiedOptimum(
            name, tolerance=10 ** -rng.uniform(1, 3), space=space, depth=depth, workers=1, max_seconds=10.0
        ).fit(skyband(pool, depth=depth) if rng.random() < 0.3 else pool)
        best = space.vector(optimum.best_params_)
        points = [space.random(rng) for _ in range(2000)] + [
            space.clip(best * np.exp(rng.normal(size=2) * 10 ** -rng.uniform(0, 8))) for _ in range(500)
        ]
        values = measure_settings(pool, np.array(points), parse_measures([name]), depth=depth)
        values = values[:, :, 0].mean(axis=0)
        where = f"collection {number}, {name}, depth {depth}, {space}"
        assert values.max() <= optimum.bound_, where
        assert optimum.best_value_ <= optimum.bound_, where
        proved += optimum.certified_
    assert proved > 0.8 * (COLLECTIONS // SHARES - refused)
