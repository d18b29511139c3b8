"""Weights that depend on the query, forward selection, and what else topics choose of a fusion."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from made_runs import made

from lmtune.cli.main import app
from lmtune.datasets.folds import cross_validation, make_folds
from lmtune.formats.qrels import write_qrels
from lmtune.formats.runs import read_run, write_run
from lmtune.fusion.fusing import FusionResult, fuse_runs
from lmtune.fusion.methods import (
    FEW,
    METHODS,
    MNZ_POWERS,
    SCALES,
    Chosen,
    FusionOptions,
    fused_pool,
    rankings,
)
from lmtune.fusion.normalisation import fit_logistic, normalised
from lmtune.fusion.query_features import QUERY_FEATURES, features_of
from lmtune.fusion.runs import RunSet
from lmtune.fusion.search import Fitting, ForwardSelection, fit_per_query, fit_shrunk
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure

NAN = np.nan
AP = parse_measure("AP")
Judged = dict[str, dict[str, int]]


def by_query(seed: int, *, topics: int = 60, told: bool = True) -> tuple[RunSet, Judged]:
    """Make two runs: where told each right on half of the topics and flat on others, else equally good."""
    rng = np.random.default_rng(seed)
    runs: dict[str, dict[str, dict[str, float]]] = {"a": {}, "b": {}}
    judged: Judged = {}
    for topic in map(str, range(topics)):
        relevant = rng.permutation(30)[:5]
        judged[topic] = {f"d{d:02}": int(d in relevant) for d in range(30)}
        right = "ab"[int(rng.integers(2))]
        for name, own in runs.items():
            gain = np.isin(np.arange(30), relevant) * 2.0 + rng.normal(size=30) * 0.7
            scores = gain if not told else gain**3 if name == right else rng.random(30)
            own[topic] = {f"d{d:02}": float(scores[d]) for d in range(30)}
    return RunSet.of(runs), judged


def test_features_of_one_topic() -> None:
    """Two runs of twelve documents, by hand."""
    scores = np.array([[*np.arange(12.0, 0.0, -1.0)], [5.0, NAN, 3.0, *[NAN] * 8, 5.0]])
    values = {name: feature.of(scores).tolist() for name, feature in QUERY_FEATURES.items()}
    assert values["drop"] == pytest.approx([9 / 11, 1.0])
    assert values["spread"] == pytest.approx([2 * np.arange(12.0).std() / 11, np.std([5, 3, 5])])
    # Of the second's three, one (the last) is not among the first's ten.
    assert values["agreement"] == pytest.approx([2 / 10, 2 / 3])
    assert values["overlap"] == pytest.approx([(2 / 10 + 2 / 3) / 2] * 2)
    assert values["retrieved"] == pytest.approx([1.0, 0.25])
    for name, feature in QUERY_FEATURES.items():
        nothing = feature.of(np.full((2, 3), NAN)).tolist()
        assert nothing == [0.0, 0.0], name
    runs, _ = by_query(1, topics=1)
    by_name = features_of(runs, FEW)
    assert by_name["overlap b"]("0", scores).tolist() == [0.0, values["overlap"][1]]
    assert not any(name.startswith("overlap") for name in features_of(runs, 1))


def test_scores_and_gradients_are_those_of_the_formula() -> None:
    runs, judged = made(3, runs=3, docs=20)
    chosen = Chosen("per-query", dict.fromkeys(runs.names, 1.0))
    pool = fused_pool(runs, chosen, FusionOptions(), judged)
    names = [*features_of(runs, FEW)]
    rng = np.random.default_rng(0)
    setting = np.concatenate((rng.random(3), rng.normal(size=len(names))))
    for t, topic in enumerate(pool.topics):
        columns = normalised("min-max", "minimum")(runs.scores[topic])
        x = np.array([of(topic, runs.scores[topic]) for of in features_of(runs, FEW).values()])
        expected = (setting[:3] * np.exp(setting[3:] @ x)) @ columns
        places = np.arange(columns.shape[1])
        documents = pool.topic_documents(t, places)
        scores, gradients = pool.formula.differentiate(documents, setting)
        np.testing.assert_allclose(scores, expected, atol=1e-7)  # columns are rounded to 2^-25
        for k in range(setting.size):
            step = np.zeros(setting.size)
            step[k] = 1e-6
            ends = [pool.formula.differentiate(documents, setting + sign * step)[0] for sign in (1.0, -1.0)]
            np.testing.assert_allclose(gradients[k], (ends[0] - ends[1]) / 2e-6, atol=1e-7)


@pytest.mark.slow
def test_weights_follow_the_query_where_its_features_tell() -> None:
    runs, judged = by_query(1)
    found = fuse_runs(runs, judged, FusionOptions(("AP",), ("shrunk", "per-query"), bootstrap=0))
    rows = {row.chosen.method: row for row in found.rows}
    assert rows["per-query"].mean > rows["shrunk"].mean + 0.05
    assert any(rows["per-query"].chosen.powers.values())


@pytest.mark.parametrize("seed", [2, 3])
def test_weights_are_one_for_all_queries_where_features_tell_nothing(seed: int) -> None:
    runs, judged = by_query(seed, told=False)
    chosen = Chosen("per-query", dict.fromkeys(runs.names, 1.0))
    pool = fused_pool(runs, chosen, FusionOptions(), judged)
    plain = fused_pool(runs, replace(chosen, method="shrunk"), FusionOptions(), judged)
    own, _ = fit_per_query(Fitting(pool, AP, pool.topics))
    shared, _ = fit_shrunk(Fitting(plain, AP, pool.topics))
    assert {name: own.best_params_[name] for name in runs.names} == shared.best_params_
    assert not any(own.best_params_[name] for name in own.best_params_ if name not in runs.names)


def test_other_topics_and_names_get_the_weights_of_their_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept ranks further topics as the formula written out does, for runs of other names too."""
    monkeypatch.chdir(tmp_path)
    runs, judged = by_query(1)
    found = fuse_runs(runs, judged, FusionOptions(("AP",), ("per-query",), in_sample=True))
    content = {"output": asdict(found.selected.chosen), "options": asdict(found.options)}
    Path("kept.json").write_text(json.dumps(content))
    others, _ = by_query(5, topics=4)
    for name, file in (("a", "new-a.run"), ("b", "new-b.run")):
        chosen = Chosen("linear", {name: 1.0})
        write_run(file, rankings(others.only(name), chosen, FusionOptions()), tag="t")
    line = "fuse --from kept.json new-a.run new-b.run --output o.run"
    status = CliRunner().invoke(app, line.split())
    assert status.exit_code == 0, status.stderr
    written = read_run("o.run")
    weights, powers = found.selected.chosen.weights, found.selected.chosen.powers
    for topic in written:
        table = np.array(
            [[read_run(f"new-{name}.run")[topic][d] for d in sorted(written[topic])] for name in "ab"]
        )
        x = {name: of(topic, table) for name, of in features_of(others, FEW).items()}
        own = np.array([weights["a"], weights["b"]]) * np.exp(sum(powers[name] * x[name] for name in powers))
        scores = own @ normalised("min-max", "minimum")(table)
        order = [sorted(written[topic])[at] for at in np.argsort(-scores, kind="stable")]
        assert order[:10] == sorted(written[topic], key=lambda d: -written[topic][d])[:10]


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


def test_normalisation_and_power_are_chosen_on_training_topics() -> None:
    runs, judged = made(5, runs=3, topics=9, docs=30, levels=30)
    options = FusionOptions(("AP",), ("equal", "combmnz-tuned"), normalise="choose", folds="3", bootstrap=0)
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
    options = FusionOptions(("AP",), ("linear",), train_topics="0,1,2,3", test_topics="5,6", bootstrap=0)
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
    line = "fuse qrels.txt r0.run r1.run --normalise choose --method per-query,forward --train-topics 0-4"
    found = CliRunner().invoke(app, [*line.split(), "--format", "json"])
    assert found.exit_code == 0, found.stderr
    content = json.loads(found.stdout)
    assert content["topics"] == ["5", "6", "7"]
    assert {row["method"] for row in content["rows"]} >= {"per-query", "forward"}
    assert set(content["rows"][2]["powers"]) == set(features_of(runs, FEW))
    bad = CliRunner().invoke(app, ["fuse", "qrels.txt", "r0.run", "r1.run", "--train-topics", "99"])
    assert bad.exit_code == 2
    assert "99" in bad.stderr
