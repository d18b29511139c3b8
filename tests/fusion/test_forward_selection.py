"""Weights that depend on the query, forward selection, and what else topics choose of a fusion."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_runs import made
from scripts import refusal, run_command

from lmtune.collections.folds import cross_validation, make_folds
from lmtune.fusion.fusing import FusionResult, fuse_runs
from lmtune.fusion.methods import (
    METHODS,
    MNZ_POWERS,
    SCALES,
    Chosen,
    FusionOptions,
    fit_logistic,
    fused_pool,
    rankings,
)
from lmtune.fusion.search import ForwardSelection
from lmtune.io.qrels import write_qrels
from lmtune.io.runs import write_run
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure

NAN = np.nan
AP = parse_measure("AP")
Judged = dict[str, dict[str, int]]


def test_forward_selection_adds_what_helps_most() -> None:
    runs, judged = made(11, runs=4, docs=25, topics=8)
    pool = fused_pool(runs, Chosen("forward", dict.fromkeys(runs.names, 1.0)), FusionOptions(), judged)
    found = ForwardSelection("AP").fit(pool)
    counts, best = np.zeros(4), -1.0
    while True:
        means = [
            float(measure_settings(pool, (counts + np.eye(4)[k])[None] / (counts.sum() + 1), [AP]).mean())
            for k in range(4)
        ]
        if max(means) <= best + 1e-12:
            break
        best, counts = max(means), counts + np.eye(4)[int(np.argmax(means))]
    assert found.best_value_ == pytest.approx(best, abs=1e-15)
    assert list(found.best_params_.values()) == pytest.approx(counts / counts.sum())
    assert best >= max(measure_settings(pool, np.eye(4), [AP])[:, :, 0].mean(axis=0))


def chosen_by_fold(found: FusionResult, method: str) -> list[Chosen]:
    return list(next(row for row in found.rows if row.chosen.method == method).folds)


@pytest.mark.slow
def test_normalisation_and_power_are_chosen_on_training_topics() -> None:
    runs, judged = made(5, runs=3, topics=9, docs=30, levels=30)
    options = FusionOptions(("AP",), ("equal", "combmnz-tuned"), normalise="choose", folds="3")
    found = fuse_runs(runs, judged, options)

    def fitted(name: str, topics: tuple[str, ...]) -> np.ndarray | None:
        if name != "logistic":
            return None
        relevant = np.concatenate(
            [[judged[t].get(runs.docnos[d], 0) > 0 for d in runs.docs[t]] for t in topics]
        )
        scores = np.concatenate([runs.scores[t] for t in topics], axis=1)
        return np.array([fit_logistic(s[~np.isnan(s)], relevant[~np.isnan(s)]) for s in scores]).T

    def mean(method: str, constant: float, name: str, topics: tuple[str, ...]) -> float:
        own = replace(options, normalise=name)
        pool = runs.pool(METHODS[method].columns(own, constant, fitted(name, topics)), judged, topics)
        return float(measure_settings(pool, dict.fromkeys(runs.names, 1.0), [AP]).mean())

    for method, constants in (("equal", (0.0,)), ("combmnz-tuned", MNZ_POWERS)):
        for fold, chosen in zip(
            cross_validation(found.topics, 3), chosen_by_fold(found, method), strict=True
        ):
            tried = {(k, n): mean(method, k, n, fold.train) for k in constants for n in SCALES}
            assert tried[chosen.constant, chosen.normalise] == max(tried.values())
    kept = found.selected.chosen
    own = fused_pool(runs, kept, options, judged)
    same = fused_pool(runs, replace(kept, normalise=""), replace(options, normalise=kept.normalise), judged)
    np.testing.assert_array_equal(own.value, same.value)


def test_a_split_reports_on_test_topics_alone() -> None:
    runs, judged = made(9, topics=8, levels=40)
    topics = sorted(judged)
    options = FusionOptions(("AP",), ("linear",), train_topics="0,1,2,3", test_topics="5,6")
    found = fuse_runs(runs, judged, options)
    assert found.topics == ("5", "6")
    [fold], _ = make_folds(topics, topics, train="0,1,2,3", test="5,6")
    one = fuse_runs(
        runs,
        {t: judged[t] for t in fold.train},
        replace(options, train_topics=None, test_topics=None, in_sample=True),
    )
    assert chosen_by_fold(found, "linear") == [one.selected.chosen]
    for row in found.rows:
        assert row.values.shape == (2,)
    pool = fused_pool(runs, one.selected.chosen, options, judged)
    expected = measure_settings(pool, one.selected.chosen.weights, [AP], topics=pool.positions(["5", "6"]))[
        :, 0, 0
    ]
    np.testing.assert_array_equal(found.selected.values, expected)


def test_the_command_knows_the_split_and_the_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs, judged = made(9, topics=8, levels=40)
    for name in runs.names:
        write_run(
            f"{name}.run", rankings(runs.only(name), Chosen("linear", {name: 1.0}), FusionOptions()), tag=name
        )
    write_qrels("qrels.txt", judged)
    line = "fuse qrels.txt r0.run r1.run --normalise choose --method shrunk,forward --train-topics 0-4"
    content = json.loads(run_command(line, "--format json").out)
    assert content["topics"] == ["5", "6", "7"]
    assert {row["method"] for row in content["rows"]} >= {"shrunk", "forward"}
    assert "99" in refusal("fuse qrels.txt r0.run r1.run --train-topics 99")
