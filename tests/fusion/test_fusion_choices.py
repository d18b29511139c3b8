"""What a fusion says: constants that folds choose, formulas, what was left out, intervals, bounds."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_runs import made
from scipy import stats

from lmtune.collections.folds import cross_validation
from lmtune.errors import InputError
from lmtune.fusion.fusing import FusedRow, FusionResult, fuse_runs, jackknife
from lmtune.fusion.methods import RRF_KS, Chosen, FusionOptions, fused_pool
from lmtune.fusion.runs import RunSet
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.report.fusion_tables import formula, fusion_table

AP = parse_measure("AP")


def row_of(found: FusionResult, name: str) -> FusedRow:
    return next(row for row in found.rows if row.chosen.method == name)


@pytest.mark.slow
def test_window_and_constant_are_chosen_on_training_topics() -> None:
    runs, judged = made(6, runs=3, topics=9, docs=30, levels=30)
    options = FusionOptions(("AP",), ("equal", "rrf-k"), window=(0, 3, 8), folds="3")
    found = fuse_runs(runs, judged, options)
    equal = dict.fromkeys(runs.names, 1.0)
    for method, constants in (("equal", (0.0,)), ("rrf-k", RRF_KS), ("rrf", (0.0,))):
        row = row_of(found, method)
        for fold, chosen in zip(cross_validation(found.topics, 3), row.folds, strict=True):
            tried = {
                (k, window): measure_settings(
                    fused_pool(runs, Chosen(method, equal, k, window=window), options, judged, fold.train),
                    equal,
                    [AP],
                ).mean()
                for k in constants
                for window in options.window
            }
            assert tried[chosen.constant, chosen.window] == max(tried.values())
    chosen = row_of(found, "rrf-k").chosen
    assert f"rrf-k ({', '.join(chosen.details)})" in fusion_table(found)
    assert chosen.details[0] == f"k = {chosen.constant:g}"


def test_a_formula_says_all_that_scores() -> None:
    runs, judged = made(8, runs=2)
    found = fuse_runs(runs, judged, FusionOptions(("AP",), ("shrunk",), in_sample=True))
    [row] = [own for own in found.rows if own.name == "shrunk"]
    chosen = Chosen("forward", dict(zip(runs.names, (3.0, 1.0), strict=True)), normalise="z-score")
    assert formula(replace(row, chosen=chosen), found) == (
        "AP, forward, z-score: sum over runs of weight x z-score(run's score)\n  r0: 0.75\n  r1: 0.25\n"
    )


def test_a_note_says_what_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    a, b = {"d1": 3.0, "d2": 2.0, "d3": 1.0}, {"d4": 3.0, "d2": 2.0, "d3": 1.0}
    runs = RunSet.of({"a": {"1": a}, "b": {"1": b}, "c": {"1": {"d4": 1.0}}})
    judged = {"1": {"d1": 1, "d2": 1, "d3": 1, "d4": 1, "d9": 1}, "2": {"d1": 1}}
    options = FusionOptions(("AP",), ("equal",), in_sample=True, leave_out=("a",))
    with caplog.at_level("INFO", "lmtune"):
        found = fuse_runs(runs, judged, options)
    assert "left out 1 judgment, 1 of them relevant" in caplog.text
    assert "a guess; set --pool-depth" in caplog.text
    # Of four relevant documents left a has two, at ranks 2 and 3.
    assert found.rows[0].in_sample == pytest.approx((1 / 2 + 2 / 3) / 4)


def test_a_jackknife_of_means_is_their_interval() -> None:
    """Of means over groups it is Student's interval of the groups' means."""
    groups = np.random.default_rng(0).random((6, 10)) * 0.1 + 0.4
    folds = [{"a": float(np.delete(groups, out, axis=0).mean())} for out in range(6)]
    expected = stats.ttest_1samp(groups.mean(axis=1), 0.0).confidence_interval(0.95)
    assert jackknife(folds, {"a": float(groups.mean())})["a"] == pytest.approx(tuple(expected))


@pytest.mark.slow
def test_differences_have_intervals_over_topics(tmp_path: Path) -> None:
    runs, judged = made(9, runs=10, topics=20, docs=30, levels=30)
    options = FusionOptions(("AP",), ("shrunk", "equal"), folds="4")
    found = fuse_runs(runs, judged, options)
    row, equal = row_of(found, "shrunk"), row_of(found, "equal")
    assert set(row.gains) == {"best single run", "rrf", "equal"}
    assert set(equal.gains) == {"best single run", "rrf"}
    for name, other in found.baselines(AP).items():
        if np.array_equal(row.values, other.values):
            continue
        expected = stats.ttest_rel(row.values, other.values)  # shrunk is tested first, alone
        wanted = (*expected.confidence_interval(0.95), expected.pvalue)
        assert row.gains[name][1:] == pytest.approx(wanted, rel=1e-10)
    assert set(row.interval) == set(runs.names)  # ten runs: by the folds
    assert not row.flat
    text = fusion_table(found)
    assert "shrunk first, then the others with Holm's correction" in text
    assert "Jackknife" in text
    (tmp_path / "t.csv").write_text(fusion_table(found, "csv"))
    with (tmp_path / "t.csv").open() as stream:
        lines = list(csv.DictReader(stream))
    low, high = row.gains["rrf"][1:3]
    assert f"rrf={low!r} to {high!r}" in next(own for own in lines if own["method"] == "shrunk")["gains"]


@pytest.mark.slow
def test_what_is_proven_of_how_many_runs_is_said() -> None:
    runs, judged = made(3, runs=13, topics=4, docs=12)
    options = FusionOptions(("AP",), ("linear",), in_sample=True, certify=0.1)
    with pytest.raises(InputError, match="too many runs for a certificate"):
        fuse_runs(runs, judged, options)
    three = RunSet.of(
        {
            name: {
                topic: {
                    runs.docnos[doc]: float(score)
                    for doc, score in zip(runs.docs[topic], table[run], strict=True)
                    if not np.isnan(score)
                }
                for topic, table in runs.scores.items()
            }
            for run, name in enumerate(runs.names[:3])
        }
    )
    plain = replace(options, certify=None)
    assert "no certificate: see --certify" in fusion_table(fuse_runs(three, judged, plain))
    assert "no certificate" not in fusion_table(fuse_runs(three, judged, options))
