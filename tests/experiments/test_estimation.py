"""The loss of fitted settings cut in two: choices by brute force, identities, no look at other topics."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.common import call
from experiments.datasets import load_pool
from experiments.estimation.__main__ import Fitting, _fitted, experiment
from experiments.estimation.choices import (
    OPTIMUM,
    STRENGTHS,
    Grid,
    bagged,
    bayesian,
    crossed_halves,
    decompose,
    near,
    shrunk,
)
from experiments.methods import Methods, disjoint_sets
from experiments.synthetic import folder_of
from lmtune.collections.loading import load
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure

NAME = "synthetic:1000x40"
GRID = (5, 6)
SMALL: dict[str, Any] = {"datasets": (NAME,), "models": ("bm25",), "sizes": (5, 8), "draws": 3, "topics": 30}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that the index is built in."""
    return tmp_path_factory.mktemp("laboratory")


@pytest.fixture(scope="module")
def found(place: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return call(experiment, {**SMALL, "grid": GRID})


def _values(topics: int, settings: int, seed: int) -> Any:
    # Sums of eighths are exact, and equal means are common.
    return np.random.default_rng(seed).integers(0, 9, (topics, settings)) / 8.0


def test_shrinking_leaves_out_one_topic_after_the_other() -> None:
    chosen = set()
    for seed in range(40):
        values = _values(5, 7, seed)
        distance = np.random.default_rng([seed, 1]).uniform(0.1, 1.0, 7) * np.arange(7) / 6.0
        best, strength = -1.0, math.nan

        def pick(means: Any, pull: float, distance: Any = distance) -> int:
            if pull == math.inf:
                return int(np.argmin(distance))
            return int(np.argmax(means - pull * distance))

        for pull in STRENGTHS:
            held_out = [
                values[t, pick(np.delete(values, t, axis=0).sum(axis=0) / 4.0, pull)] for t in range(5)
            ]
            if np.mean(held_out) > best:
                best, strength = float(np.mean(held_out)), pull
        assert shrunk(values, distance) == pick(values.mean(axis=0), strength)
        chosen.add(strength)
    assert len(chosen) > 2


def test_near_settings_are_within_a_standard_error() -> None:
    for seed in range(20):
        values = _values(6, 9, seed)
        top = values.mean(axis=0).argmax()
        expected = []
        for column in values.T:
            losses = values[:, top] - column
            expected.append(
                losses.mean() <= np.sqrt(((losses - losses.mean()) ** 2).sum() / 5.0) / np.sqrt(6)
            )
        assert near(values).tolist() == expected
        assert near(values)[top]


def test_bags_choose_by_samples_of_topics() -> None:
    values = _values(6, 9, 1)
    chosen = bagged(values, np.random.default_rng(2))
    counts = np.random.default_rng(2).multinomial(6, [1 / 6] * 6, size=100)
    samples = [np.repeat(np.arange(6), own) for own in counts]
    assert chosen.tolist() == [int(values[sample].sum(axis=0).argmax()) for sample in samples]
    assert np.unique(chosen).size > 1


def test_the_posterior_of_topics_has_their_mean_and_a_bootstraps_spread() -> None:
    values = _values(6, 9, 1)
    chosen = bayesian(values, np.random.default_rng(2))
    weights = np.random.default_rng(2).dirichlet([1.0] * 6, size=100)
    assert weights.mean(axis=0) == pytest.approx(np.full(6, 1 / 6), abs=0.05)
    expected = [int(np.argmax([own @ setting for setting in values.T])) for own in weights]
    assert chosen.tolist() == expected
    assert np.unique(chosen).size > 1


def test_halves_are_measured_where_the_other_is_best() -> None:
    values, topics = _values(12, 6, 3), np.array([1, 2, 4, 5, 7, 8, 11])
    found = crossed_halves(values, topics, np.random.default_rng(0))
    first = np.zeros(7, bool)
    first[np.random.default_rng(0).permutation(7)[:3]] = True
    for half in (first, ~first):
        best = int(values[topics[~half]].mean(axis=0).argmax())
        assert found[half].tolist() == values[topics[half], best].tolist()


def test_parts_add_up_to_the_bit() -> None:
    train, test = np.arange(4), np.arange(4, 12)
    by_topic = {name: own / 8.0 for name, own in zip("ab", _values(2, 12, 4), strict=True)}
    by_topic[OPTIMUM] = _values(1, 12, 5)[0]
    parts = decompose(by_topic, train, test)
    for reference in (0.75, 0.875):
        for name, own in parts.items():
            estimation = reference - parts[OPTIMUM]["test"]
            assert estimation + own["part"] == reference - by_topic[name][test].sum() / 8.0
            assert own["train"] + own["optimisation"] == by_topic[OPTIMUM][train].sum() / 4.0
            assert own["train"] - own["test"] == by_topic[name][train].mean() - by_topic[name][test].mean()


@pytest.mark.slow
def test_gaps_hold_on_a_small_collection(found: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    pool = load_pool(NAME, model="bm25", topics=30)
    fits = found["fits"]
    assert (fits["optimisation"] >= 0.0).all()
    assert (fits["unproven"] <= 1e-3).all()
    assert fits["unproven"].min() >= 0.0
    assert (fits["above"] >= -fits["part"]).all()
    ap = parse_measure("AP")
    for size, rows in fits.groupby("size"):
        for number, subset in enumerate(disjoint_sets(pool.topics, size, 3, seed=0)):
            train = pool.positions(subset)
            own = rows[rows["set"] == number]
            values = measure_settings(pool, own[["k1", "b"]].to_numpy(), [ap])[:, :, 0]
            assert own["train"].tolist() == [float(one[train].mean()) for one in values.T.copy()]
            others = np.delete(values, train, axis=0)
            assert own["test"].tolist() == [float(one.mean()) for one in others.T.copy()]
            top = own.set_index("method").loc[OPTIMUM]
            assert own["part"].tolist() == (top["test"] - own["test"]).tolist()


@pytest.mark.slow
def test_intervals_are_about_the_means_of_sets(found: Any) -> None:
    cells, fits = found["cells"], found["fits"]
    means = fits.groupby(["size", "method"])["part"].mean()
    for row in cells.to_dict("records"):
        if row["method"] in ("below", "above"):
            of = fits[(fits["size"] == row["size"]) & (fits["method"] == OPTIMUM)]
            assert row["part"] == pytest.approx(of[row["method"]].mean(), abs=1e-15)
        else:
            assert row["part"] == pytest.approx(means[row["size"], row["method"]], abs=1e-15)
        assert row["low"] <= row["part"] <= row["high"]
    assert set(found["answer"]["method"]) >= {"optimum", "shrunk", "bagged", "Direct", "Approx"}


@pytest.mark.slow
def test_other_topics_do_not_change_a_fit(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    pool = load_pool(NAME, model="bm25", topics=30)
    subset = next(disjoint_sets(pool.topics, 8, 1, seed=0))
    known = load(folder_of(NAME)).qrels
    qrels = {topic: dict(known[topic]) for topic in pool.topics}
    for topic in set(pool.topics) - set(subset):
        # As many, of other documents: what some other topic has.
        others = [docno for own in pool.topics for docno in known[own] if docno not in known[topic]]
        qrels[topic] = dict(zip(others, known[topic].values(), strict=False))
    ap, chosen = parse_measure("AP"), []
    for judged in (pool, pool.with_judgments(qrels)):
        methods = Methods.over(judged, [ap], GRID, 0)
        values = np.hstack([methods.surface.values[:, :, 0]] * 2)[:, : len(methods.surface.settings) + 1]
        settings = np.concatenate([methods.surface.settings, methods.surface.settings[:1]])
        grid = Grid(methods.space, settings, values)
        found = _fitted(methods, grid, subset, np.random.default_rng(0), Fitting())
        chosen.append((found, values))
    (first, before), (second, after) = chosen
    assert not np.array_equal(before, after)
    assert first[2] == second[2]
    for name, setting in first[0].items():
        assert np.array_equal(setting, second[0][name]), name
