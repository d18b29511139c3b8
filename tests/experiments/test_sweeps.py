"""Sweeps: units, tables and comparisons, against scipy and statsmodels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

from experiments.experiment import Tables
from experiments.sweeps import Case, Pair, Sweep, key
from lmtune.errors import InputError
from lmtune.options import option

LABELS = ["0.1", "Two, warm", "3"]


@dataclass(frozen=True)
class Toy(Sweep):
    name: ClassVar[str] = "toy"
    quick: ClassVar[Mapping[str, Any]] = {}
    measured_at: ClassVar[tuple[int, ...]] = (5, 10)

    labels: tuple[str, ...] = option(tuple(LABELS), "values")
    trials: int = option(4, "trials", low=2)
    network: str = option("linear", "network")

    def cases(self) -> list[Case]:
        return [(label, {"loss": "listnet", "network": self.network}) for label in self.labels]

    def comparisons(self) -> list[list[Pair]]:
        return [[("0.1", "3"), ("Two, warm", "3"), ("0.1", "Two, warm")], []]

    def conclusions(self, found: Tables) -> list[str]:
        return list(found)


def results(trials: int = 4, epochs: int = 3) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        key(label, trial): {
            "validation": random.random(2).tolist(),
            "test": (place + 0.1 * random.random(2)).tolist(),
            "best_epoch": trial,
            "courses": {
                "objective": random.random(epochs).tolist(),
                "validation": random.random(epochs).tolist(),
            },
        }
        for place, label in enumerate(LABELS)
        for trial in range(trials)
    }


def made(found: dict[str, Any]) -> Any:
    return Toy().tables(found)


def of(found: dict[str, Any], label: str, queries: str, place: int) -> list[float]:
    return [found[key(label, trial)][queries][place] for trial in range(4)]


def test_every_case_and_trial_is_a_unit_with_a_seed_of_its_own() -> None:
    found = Toy(labels=("Two, warm", "0.1"), trials=2, seed=7).units()
    assert [unit.key for unit in found] == ["two-warm-run1", "two-warm-run2", "0.1-run1", "0.1-run2"]
    assert [unit.arguments["settings"]["seed"] for unit in found] == [7, 8, 7, 8]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 1}, "bad trials: 1; accepted: 2 or more"),
        ({"seed": -1}, "bad seed: -1; accepted: 0 or more"),
        ({"labels": ("a b", "A-b")}, "a value comes twice: 'A-b'"),
    ],
)
def test_bad_sweeps(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Toy(**options).units()


def test_what_a_network_is_trained_with() -> None:
    unit = Toy(data="x", epochs=7, batch_size=3, seed=5).units()[0]
    trained = {"epochs": 7, "batch_size": 3, "measure": "ndcg@5", "loss": "listnet", "network": "linear"}
    shared = {"data": "x", "data_seed": 5, "cutoffs": [5, 10]}
    assert unit.arguments == {**shared, "settings": {**trained, "seed": 5}}
    with pytest.raises(InputError, match="unknown network"):
        Toy(network="b65").units()


def test_means_and_intervals_are_students() -> None:
    found = results()
    table = made(found)["summary"]
    assert len(table) == 3 * 2 * 2
    for row in table.itertuples():
        values = of(found, row.value, row.queries, {5: 0, 10: 1}[row.cutoff])
        low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
        assert row.mean == pytest.approx(np.mean(values))
        assert (row.mean - row.half, row.mean + row.half) == pytest.approx((low, high))
        assert row.trials == 4


def test_differences_are_paired_and_corrected() -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    found = results()
    table = made(found)["differences"]
    for (queries, cutoff), own in table.groupby(["queries", "cutoff"]):
        place = {5: 0, 10: 1}[cutoff]
        tests = [
            stats.ttest_rel(of(found, row.a, queries, place), of(found, row.b, queries, place))
            for row in own.itertuples()
        ]
        p_values = [test.pvalue for test in tests]
        assert own["p"].tolist() == pytest.approx(p_values)
        assert own["p_holm"].tolist() == pytest.approx(multitest.multipletests(p_values, method="holm")[1])
        for row, test in zip(own.itertuples(), tests, strict=True):
            interval = test.confidence_interval(0.95)
            assert (row.low, row.high) == pytest.approx((interval.low, interval.high))


def test_courses() -> None:
    found = results()
    table = made(found)
    assert Toy().conclusions(table) == ["trials", "summary", "differences", "courses"]
    assert list(table["courses"].columns) == ["value", "trial", "epoch", "objective", "validation"]
    assert len(table["courses"]) == 3 * 4 * 3
    last = [found[key("3", trial)]["courses"]["objective"][-1] for trial in range(4)]
    assert table["courses"].query("value == '3' and epoch == 3")["objective"].tolist() == last
