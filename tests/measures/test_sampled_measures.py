"""xinfAP and infNDCG against NIST's sample_eval, their definition, AP, and over all samples of a pool."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import lmtune
from lmtune.errors import InputError
from lmtune.measures import parse_measures, topic_values
from lmtune.tuning.experiment.plan import Plan

Pool = Mapping[str, tuple[str, int]]
SMALLEST = Fraction(1, 100_000)
NAMES = ["xinfAP", "infNDCG"]
RANKED = ["d3", "d9", "d2", "d7", "d1", "x4", "d12", "d5", "d10", "d4", "x2", "d8"]
"""Of the golden values; d6 and d11 are not ranked."""
POOLS: list[Pool] = [
    {
        "d1": ("1", 2),
        "d2": ("1", 0),
        "d3": ("1", 1),
        "d4": ("1", 0),
        "d5": ("2", 1),
        "d6": ("2", 3),
        "d7": ("2", -1),
        "d8": ("2", -1),
        "d9": ("2", 0),
        "d10": ("3", -1),
        "d11": ("3", -1),
        "d12": ("3", 2),
    },
    {"d1": ("a", 0), "d3": ("b", -1), "d5": ("b", 0)},
    {"d1": ("a", 1), "d2": ("b", -1), "d9": ("b", -1), "d12": ("a", -1), "d7": ("a", 3)},
]
GOLDEN = [("0.4223", "0.4067"), ("0.0000", "0.0000"), ("0.4750", "0.4324"), ("0.2991", "0.2797")]
"""What sample_eval of 10 October 2011 printed of these pools and this ranking, by topic; then the means."""


def written(folder: Path, pools: Sequence[Pool], ranked: Sequence[str]) -> tuple[Path, Path]:
    """Write pools and one ranking, for each of them, as files."""
    qrels, run = folder / "qrels", folder / "run"
    qrels.write_text(
        "".join(
            f"{t} 0 {docno} {stratum} {gain}\n"
            for t, pool in enumerate(pools, 1)
            for docno, (stratum, gain) in pool.items()
        )
    )
    run.write_text(
        "".join(
            f"{t} Q0 {docno} {rank} {-rank} test\n"
            for t in range(1, len(pools) + 1)
            for rank, docno in enumerate(ranked, 1)
        )
    )
    return qrels, run


def weight(documents: list[tuple[str, int]], stratum: str) -> Fraction:
    """Return the documents of a stratum by those that were judged."""
    gains = [gain for own, gain in documents if own == stratum]
    return Fraction(len(gains), max(1, sum(gain >= 0 for gain in gains)))


def relevant(pool: Pool) -> Fraction:
    """Estimate the relevant documents of a pool."""
    documents = list(pool.values())
    return sum((weight(documents, stratum) for stratum, gain in documents if gain > 0), Fraction(0))


def by_definition(pool: Pool, ranked: Sequence[str]) -> Fraction:
    """Compute xinfAP: the expected precision at a relevant document of the pool, drawn by its stratum."""
    documents, total = list(pool.values()), Fraction(0)
    for k, docno in enumerate(ranked, 1):
        stratum, gain = pool.get(docno, ("", -1))
        if gain > 0:
            above = [pool[one] for one in ranked[: k - 1] if one in pool]
            expected = Fraction(0)
            for own in {one for one, _ in above}:
                gains = [gain for one, gain in above if one == own]
                found, judged = sum(gain > 0 for gain in gains), sum(gain >= 0 for gain in gains)
                precision = (found + SMALLEST) / (judged + 3 * SMALLEST)
                expected += Fraction(len(gains), len(above)) * precision
            at_k = Fraction(1, k) + Fraction(len(above), k) * expected
            total += weight(documents, stratum) * at_k
    return total / relevant(pool) if relevant(pool) else total


def ideal_dcg(pool: Pool) -> float:
    """Return the DCG of the best ranking of as many documents of each gain as are estimated."""
    documents, best = list(pool.values()), []
    for level in sorted({gain for _, gain in documents if gain > 0}, reverse=True):
        count = sum(weight(documents, stratum) for stratum, gain in documents if gain == level)
        best += [level] * math.floor(count + Fraction(1, 2))
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(best, 1))


def samples(whole: Pool, sizes: Mapping[str, int]) -> Iterator[Pool]:
    """Yield what is judged of a pool, in all ways to draw so many documents of each stratum."""
    strata = {own: [docno for docno, (s, _) in whole.items() if s == own] for own in sizes}
    for drawn in itertools.product(*(itertools.combinations(strata[s], sizes[s]) for s in sizes)):
        kept = set(itertools.chain(*drawn))
        yield {docno: (s, gain if docno in kept else -1) for docno, (s, gain) in whole.items()}


def test_values_are_those_of_sample_eval(tmp_path: Path) -> None:
    files = written(tmp_path, POOLS, RANKED)
    found = topic_values(*files, NAMES)
    rows = [*found.to_numpy().tolist(), found.mean().tolist()]
    assert [(f"{one:.4f}", f"{other:.4f}") for one, other in rows] == GOLDEN


def test_xinfap_is_its_definition(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    docnos = [f"d{n}" for n in range(30)]
    ranked = [str(docno) for docno in rng.permutation(docnos)[:22]]
    pools = [
        {
            docno: (str(rng.choice(["a", "b", "c"])), int(rng.choice([-1, 0, 1, 2])))
            for docno in docnos
            if rng.random() < 0.7
        }
        for _ in range(25)
    ]
    found = topic_values(*written(tmp_path, pools, ranked), "xinfAP")["xinfAP"]
    for t, pool in enumerate(pools, 1):
        assert found[str(t)] == pytest.approx(float(by_definition(pool, ranked)), rel=1e-12)


@pytest.mark.parametrize("strata", ["a", "ab"])
def test_of_a_pool_judged_whole_they_are_ap_and_ndcg(tmp_path: Path, strata: str) -> None:
    rng = np.random.default_rng(1)
    ranked = [f"d{n}" for n in range(40)]
    pool = {f"d{n}": (str(rng.choice([*strata])), int(rng.choice([0, 0, 1, 3]))) for n in range(50)}
    files = written(tmp_path, [pool], ranked)
    known = {"1": {docno: gain for docno, (_, gain) in pool.items()}}
    values = topic_values(files[0], files[1], [*NAMES, "infNDCG(dcg='exp-log2')", "xinfAP(rel=2)"])
    names = ["AP", "nDCG", "nDCG(dcg='exp-log2')", "AP(rel=2)"]
    truth = topic_values(known, files[1], names)
    assert values.to_numpy()[0] == pytest.approx(truth.to_numpy()[0], abs=1e-4)  # what smoothing adds
    assert values.to_numpy()[0, 1:3] == pytest.approx(truth.to_numpy()[0, 1:3], abs=1e-14)


def test_sums_over_the_ranking_are_unbiased(tmp_path: Path) -> None:
    """Over all samples; of what is ranked above a relevant document, one of each stratum is always judged."""
    ranked = ["a1", "b1", "a2", "x", "b2", "a3", "b3", "a4", "b4"]
    gains = {"a1": 1, "a2": 0, "a3": 2, "a4": 1, "b1": 0, "b2": 0, "b3": 1, "b4": 0}
    # a3 and b3 have two documents of both strata above, of which one at most is left out.
    whole = {docno: (docno[0], gain) for docno, gain in gains.items()}
    pools = list(samples(whole, {"a": 3, "b": 3}))
    assert len(pools) == 16
    found = topic_values(*written(tmp_path, pools, ranked), NAMES)
    values = found.loc[[str(t) for t in range(1, 17)]].to_numpy()
    sums = values * np.array([(float(relevant(pool)), ideal_dcg(pool)) for pool in pools])
    precisions = [sum(gains.get(one, 0) > 0 for one in ranked[:k]) / k for k in range(1, 10)]
    truth = (
        sum(precisions[ranked.index(docno)] for docno, gain in gains.items() if gain > 0),
        sum(gain / math.log2(ranked.index(docno) + 2) for docno, gain in gains.items()),
    )
    assert sums.mean(axis=0) == pytest.approx(truth, abs=1e-4)


def test_a_thousand_documents_count(tmp_path: Path) -> None:
    ranked = [f"d{n}" for n in range(1010)]
    files = written(tmp_path, [{"d0": ("a", 1), "d1000": ("a", 1)}], ranked)
    assert topic_values(*files, NAMES).iloc[0].tolist() == pytest.approx([0.5, 1 / (1 + 1 / math.log2(3))])


def test_judgments_without_strata_are_refused(tmp_path: Path) -> None:
    qrels, run = written(tmp_path, POOLS, RANKED)
    with pytest.raises(
        InputError, match=r"5 columns.*xinfAP and infNDCG, 5: topic, iteration, docno, stratum"
    ):
        topic_values(qrels, run, "AP")
    with pytest.raises(InputError, match="judged-only"):
        list(lmtune.measures.evaluations(qrels, run, "xinfAP", settings=only_judged()))
    with pytest.raises(InputError, match="need judgments with strata"):
        topic_values({"1": {"d1": 1}}, run, "infNDCG")
    with pytest.raises(InputError, match="only `evaluate` and `compare` compute this measure: 'xinfAP'"):
        Plan(measures=tuple(parse_measures(["AP", "xinfAP"])))
    for text, words in (
        ("1 0 d1 1\n", "1: 4 columns.*5 columns: topic, iteration, docno, stratum, gain"),
        ("1 0 d1 a 1\n1 0 d2 a x\n", "2: the gain is not an integer"),
        ("1 0 d1 a 1\n1 0 d1 b 1\n", "2: document judged twice for topic 1, first in line 1"),
        ("", "no judgments"),
    ):
        qrels.write_text(text)
        with pytest.raises(InputError, match=words):
            topic_values(qrels, run, "xinfAP")
    (tmp_path / "qrels.csv").write_text("qid,docno,label\n1,d1,1\n")
    with pytest.raises(InputError, match="a table has no strata"):
        topic_values(tmp_path / "qrels.csv", run, "xinfAP")


def only_judged() -> lmtune.measures.EvaluationOptions:
    """Return settings that drop documents without judgments."""
    return lmtune.measures.EvaluationOptions(judged_only=True)
