"""The line on trust against Judged@10 of the runs that the settings write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import random_collection

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.fusion.fusing import fuse_runs
from lmtune.fusion.methods import FusionOptions, rankings
from lmtune.fusion.runs import RunSet
from lmtune.reporting.trust import fusion_trust, judged_share


def judged_of(run: Any, qrels: dict[str, dict[str, int]]) -> float:
    import ir_measures

    frame = lmtune.run_frame(run)
    found = ir_measures.calc_aggregate(
        [ir_measures.Judged @ 10],
        qrels,
        {str(q): dict(zip(own["docno"], own["score"], strict=True)) for q, own in frame.groupby("qid")},
    )
    return float(found[ir_measures.Judged @ 10])


def test_of_a_setting() -> None:
    index, topics, qrels = random_collection(2)
    qrels = {t: {d: gain for d, gain in own.items() if gain >= 0} for t, own in qrels.items()}
    pool = CandidatePool.build(index, topics, qrels, model="bm25")
    setting = {"k1": 1.3, "b": 0.6}
    share = judged_share(pool, setting)
    assert 0.1 < share < 0.9
    assert share == pytest.approx(judged_of(lmtune.rank(pool, setting), qrels))


def test_of_runs() -> None:
    rng = np.random.default_rng(0)
    judged = {str(t): {f"d{d:02}": int(d % 4 == 0) for d in range(0, 40, 2)} for t in range(1, 9)}
    runs = RunSet.of(
        {
            name: {t: {f"d{d:02}": float(rng.normal() + d % 2) for d in range(40)} for t in judged}
            for name in ("a", "b")
        }
    )
    options = FusionOptions(method=("equal", "rrf"), folds="2", bootstrap=0)
    fused = fuse_runs(runs, judged, options)
    line = fusion_trust(fused, runs, judged, Path("qrels.txt"))
    written = rankings(runs, fused.baselines(fused.rows[0].measure)["rrf"].chosen, options)
    share = f"{judged_of(written, judged):.4f}".removeprefix("0")
    assert f"{share} by rrf; judgements: qrels.txt" in line
    assert line.startswith("Judged of the first 10: ")
