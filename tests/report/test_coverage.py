"""The share of judged documents and the bounds, against ir_measures and against every way to judge."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
from support import TinyIndex, random_collection

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.fusion.fusing import fuse_runs
from lmtune.fusion.methods import FusionOptions, rankings
from lmtune.fusion.runs import RunSet
from lmtune.measures.measure import parse_measure
from lmtune.report.coverage import _of_settings, fusion_coverage, judgment_coverage
from lmtune.report.table import short


def judged_of(run: Any, qrels: dict[str, dict[str, int]]) -> float:
    import ir_measures

    frame = lmtune.run_frame(run)
    found = ir_measures.calc_aggregate(
        [ir_measures.Judged @ 10],
        qrels,
        {str(q): dict(zip(own["docno"], own["score"], strict=True)) for q, own in frame.groupby("qid")},
    )
    return float(found[ir_measures.Judged @ 10])


def test_of_two_settings() -> None:
    index, topics, qrels = random_collection(2)
    qrels = {t: {d: gain for d, gain in own.items() if gain >= 0} for t, own in qrels.items()}
    pool = CandidatePool.build(index, topics, qrels, model="bm25")
    made = {name: rank(pool, {"k1": k1, "b": 0.6}) for name, k1 in (("one", 1.3), ("two", 0.2))}
    runs = {
        name: {r.topic: dict(zip(r.docnos, r.scores, strict=True)) for r in own} for name, own in made.items()
    }
    line = judgment_coverage(qrels, runs, "P@3", with_bounds=True)
    for name, own in made.items():
        assert f"{short(judged_of(own, qrels))} ({name})" in line
    best = {name: judging_of(runs[name], qrels) for name in runs}
    for name, (low, high) in best.items():
        assert f"[{short(low)}, {short(high)}] ({name})" in line
    assert "difference in [" in line
    for line in (
        judgment_coverage(qrels, runs, "ERR@10", with_bounds=True),
        judgment_coverage(qrels, runs, "P@3"),
    ):
        assert line.startswith("Judged@10: ") and "unjudged" not in line
    assert judgment_coverage(qrels, runs, "P@3", weights=[2.0]).endswith("not to means\n")


def test_of_settings_of_two_indexes() -> None:
    index, topics, qrels = random_collection(3)
    other = TinyIndex(dict(reversed(index.documents.items())))
    settings, ranked = {}, {}
    for name, own, k1 in (("it", index, 0.7), ("that", other, 1.9)):
        pool, setting = CandidatePool.build(own, topics, qrels, model="bm25"), {"k1": k1, "b": 0.4}
        prepared: Any = SimpleNamespace(pool=pool)
        settings[name] = prepared, setting
        ranked[name] = {
            r.topic: {docno: -float(place) for place, docno in enumerate(r.docnos)}
            for r in rank(pool, setting, hits=20)
        }
    for names in (["it"], ["it", "that"]):
        line = _of_settings({name: settings[name] for name in names}, parse_measure("AP"), 20, True)
        runs = {name: ranked[name] for name in names}
        assert line == judgment_coverage(qrels, runs, "AP", with_bounds=True)
        assert "unjudged documents: MAP in [" in line
        assert ("difference in [" in line) == (len(names) == 2)
        few = _of_settings({name: settings[name] for name in names}, parse_measure("AP"), 4, False)
        assert few.startswith("Judged@4: ")


def test_nothing_is_printed_where_only_relevant_documents_are_listed() -> None:
    index, topics, qrels = random_collection(3)
    relevant = {t: {d: g for d, g in own.items() if g > 0} for t, own in qrels.items()}
    pool = CandidatePool.build(index, topics, relevant, model="bm25")
    prepared: Any = SimpleNamespace(pool=pool)
    settings = {"it": (prepared, {"k1": 0.7, "b": 0.4})}
    assert _of_settings(settings, parse_measure("AP"), 20, True) == ""
    run = {r.topic: dict(zip(r.docnos, r.scores, strict=True)) for r in rank(pool, {"k1": 0.7, "b": 0.4})}
    assert judgment_coverage(relevant, {"it": run}, "AP", with_bounds=True) == ""
    line = judgment_coverage(relevant, {"it": run}, "AP", weights=[2.0])
    assert line == "Topic weights apply to fitting, not to means\n"


def judging_of(run: dict[str, dict[str, float]], qrels: dict[str, dict[str, int]]) -> tuple[float, float]:
    """Return the least and the most P@3 over all ways to judge what is not judged, one by one."""
    ends = []
    for topic, judged in qrels.items():
        scores = run.get(topic, {})
        first = sorted(scores, key=lambda docno: (scores[docno], docno), reverse=True)[:3]
        gains = [[judged[docno]] if docno in judged else [0, 1] for docno in first]
        hits = [sum(gain >= 1 for gain in own) / 3 for own in itertools.product(*gains)]
        ends.append((min(hits), max(hits)))
    return tuple(np.mean(ends, axis=0).tolist())


def test_of_runs() -> None:
    rng = np.random.default_rng(0)
    judged = {str(t): {f"d{d:02}": int(d % 4 == 0) for d in range(0, 40, 2)} for t in range(1, 9)}
    runs = RunSet.of(
        {
            name: {t: {f"d{d:02}": float(rng.normal() + d % 2) for d in range(40)} for t in judged}
            for name in ("a", "b")
        }
    )
    options = FusionOptions(method=("equal", "rrf"), folds="2")
    fused = fuse_runs(runs, judged, options)
    line = fusion_coverage(fused, runs, judged)
    written = rankings(runs, fused.baselines(fused.rows[0].measure)["rrf"].chosen, options)
    share = f"{judged_of(written, judged):.4f}"
    assert line.startswith("Judged@10: ") and f"{share} (rrf)" in line
