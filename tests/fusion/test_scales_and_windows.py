"""Logistic normalisation, windows, judgments without unique contributions, features, intervals."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from made_runs import made

from lmtune.collections.folds import cross_validation
from lmtune.errors import InputError
from lmtune.fusion.fusing import FusionResult, fuse_runs, jackknife
from lmtune.fusion.methods import LOGISTIC, SCALES, FusionOptions, fit_logistic, fused_pool, normalised
from lmtune.fusion.runs import RunSet
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure

AP = parse_measure("AP")


@pytest.mark.parametrize("seed", range(5))
def test_a_logistic_function_is_platts(seed: int) -> None:
    """At the maximum of the likelihood both its derivatives are 0, in 50 digits."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(40.0, 8.0, 30)
    relevant = rng.random(30) < 0.3 if seed else scores > 40.0  # one that no finite line tells apart
    a, b = fit_logistic(scores, relevant)
    n = int(relevant.sum())
    with mpmath.workdps(50):
        targets = [mpmath.mpf(n + 1) / (n + 2) if own else mpmath.mpf(1) / (30 - n + 2) for own in relevant]
        excess = [
            1 / (1 + mpmath.exp(-(a * x + b))) - y for x, y in zip(scores.tolist(), targets, strict=True)
        ]
        assert abs(mpmath.fsum(excess)) < 1e-5
        standard = ((scores - scores.mean()) / scores.std()).tolist()
        assert abs(mpmath.fsum(e * x for e, x in zip(excess, standard, strict=True))) < 1e-5
    assert fit_logistic(np.ones(3), np.zeros(3, bool))[0] == 0.0
    columns = normalised(LOGISTIC, "zero", np.array([[a, 0.5], [b, -1.0]]))
    found = columns(np.array([[40.0, np.nan], [2.0, 4.0]]))
    np.testing.assert_allclose(found, [[1 / (1 + math.exp(-(40 * a + b))), 0], [0.5, 1 / (1 + math.exp(-1))]])


def folds_of(found: FusionResult, method: str) -> list[tuple[str, int, dict[str, tuple[float, float]]]]:
    row = next(row for row in found.rows if row.chosen.method == method)
    return [(own.normalise, own.window, own.logistic) for own in row.folds]


@pytest.mark.slow
def test_scale_and_window_are_the_best_of_each_folds_training_topics() -> None:
    runs, judged = made(5, runs=3, topics=9, docs=30, levels=30)
    options = FusionOptions(("AP",), ("equal",), "choose", window=(0, 5, 12), folds="3")
    found = fuse_runs(runs, judged, options)
    equal = next(row for row in found.rows if row.chosen.method == "equal")
    for fold, chosen in zip(cross_validation(found.topics, 3), equal.folds, strict=True):
        tried = {}
        for window in (0, 5, 12):
            for name in SCALES:
                own = replace(chosen, normalise=name, window=window, logistic={})
                if name == LOGISTIC:
                    cut = runs.first(window)
                    tables = {t: cut.scores[t] for t in fold.train}
                    for at, run in enumerate(runs.names):
                        pairs = [
                            (score, judged[t].get(runs.docnos[doc], 0) > 0)
                            for t in fold.train
                            for score, doc in zip(tables[t][at], cut.docs[t], strict=True)
                            if not np.isnan(score)
                        ]
                        scores, relevant = map(np.array, zip(*pairs, strict=True))
                        own.logistic[run] = fit_logistic(scores, relevant)
                pool = fused_pool(runs, own, options, judged, fold.train)
                tried[name, window] = float(measure_settings(pool, own.setting, [AP]).mean())
        assert tried[chosen.normalise, chosen.window] == pytest.approx(max(tried.values()), abs=1e-12)
    # Other judgments of a fold's test topics change nothing of its choice.
    fold = cross_validation(found.topics, 3)[0]
    other = {t: dict.fromkeys(own, 1) | {"d03": 0} if t in fold.test else own for t, own in judged.items()}
    again = fuse_runs(runs, other, options)
    assert folds_of(again, "equal")[0] == folds_of(found, "equal")[0]


def test_the_first_documents_of_a_run_are_trec_evals() -> None:
    runs, _ = made(3, runs=3)
    cut = runs.first(4)
    assert runs.first(0) is runs
    for topic, table in runs.scores.items():
        kept = {}
        for at, name in enumerate(runs.names):
            held = [
                (-score, -doc)
                for score, doc in zip(table[at], runs.docs[topic], strict=True)
                if score == score
            ]
            kept[name] = {-doc for _, doc in sorted(held)[:4]}
        for at, name in enumerate(cut.names):
            there = cut.docs[topic][~np.isnan(cut.scores[topic][at])]
            by_score = sorted(table[at][~np.isnan(table[at])])[::-1][:4]
            assert sorted(cut.scores[topic][at][~np.isnan(cut.scores[topic][at])])[::-1] == by_score
            assert len(there) == min(4, len(kept[name]))
        assert set(cut.docs[topic]) <= set(runs.docs[topic])


def test_unique_contributions_are_left_out() -> None:
    given = {
        "a": {"1": {"x": 3.0, "y": 2.0, "z": 1.0}, "2": {"x": 1.0}},
        "b": {"1": {"y": 5.0, "w": 4.0, "z": 1.0}},
        "c": {"1": {"y": 1.0}},
    }
    runs = RunSet.of(given)
    judged = {"1": {"x": 1, "y": 1, "z": 0, "w": 2, "never": 1}, "2": {"x": 1}, "3": {"x": 1}}
    assert runs.without_unique(judged, ["a"], 2) == {
        **judged,
        "1": {"y": 1, "z": 0, "w": 2, "never": 1},
        "2": {},
    }
    assert runs.without_unique(judged, ["a", "b"], 3)["1"] == {"y": 1, "never": 1}
    assert runs.without_unique(judged, ["c"], 3) == judged
    for names in (["nobody"], ["a", "b", "c"]):
        with pytest.raises(InputError, match="bad --leave-out"):
            runs.without_unique(judged, names, 2)


def test_the_jackknife_is_the_formula() -> None:
    folds = [{"a": 0.5, "b": 0.5}, {"a": 0.6, "b": 0.4}, {"a": 0.4, "b": 0.6}]
    found = jackknife(folds, {"a": 0.5, "b": 0.5})
    half = 4.302652729911275 * math.sqrt(2 / 3 * (0.1**2 + 0.1**2))  # Student's t, two degrees of freedom
    assert found["a"] == pytest.approx((max(0.0, 0.5 - half), min(1.0, 0.5 + half)))
    assert jackknife(folds[:1], {"a": 1.0}) == {}
