"""Sweeps: units, tables and comparisons, against scipy and statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from lmtune.errors import InputError
from lmtune.laboratory.surrogates.sweep_words import at_end, difference_of, in_words, mean_of, verdict
from lmtune.laboratory.surrogates.sweeps import Case, key, tables, units

LABELS = ["0.1", "Two, warm", "3"]


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
    pairs = [("0.1", "3"), ("Two, warm", "3"), ("0.1", "Two, warm")]
    return tables(LABELS, found, trials=4, cutoffs=(5, 10), pairs=pairs)


def of(found: dict[str, Any], label: str, queries: str, place: int) -> list[float]:
    return [found[key(label, trial)][queries][place] for trial in range(4)]


def test_every_case_and_trial_is_a_unit_with_a_seed_of_its_own() -> None:
    case = Case("Two, warm", dict, {"data": "x", "settings": {"epochs": 3}})
    found = units([case, Case("0.1", dict, {"settings": {}})], 2, 7)
    assert [unit.key for unit in found] == ["two-warm-run1", "two-warm-run2", "0.1-run1", "0.1-run2"]
    assert found[1].arguments == {"data": "x", "settings": {"epochs": 3, "seed": 8}}
    assert found[3].arguments["settings"] == {"seed": 8}


@pytest.mark.parametrize(
    ("labels", "trials", "seed", "message"),
    [(["a"], 1, 0, "too few trials: 1"), (["a"], 2, -1, "bad seed"), (["a b", "A-b"], 2, 0, "twice: 'A-b'")],
)
def test_bad_sweeps(labels: list[str], trials: int, seed: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        units([Case(label, dict, {"settings": {}}) for label in labels], trials, seed)


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


def test_rows_are_found_and_said() -> None:
    found = results()
    made_tables = made(found)
    assert mean_of(made_tables, "3", 10, "test") == pytest.approx(np.mean(of(found, "3", "test", 1)))
    row = difference_of(made_tables, "Two, warm", "3", 5, "test")
    assert verdict(row) == "worse"
    assert in_words(row).startswith("-1.0")
    assert "p < .001" in in_words(row)
    likely = {"difference": 0.01, "low": -0.02, "high": 0.04, "p": 0.2, "p_holm": 0.4}
    assert in_words(likely) == "+.0100 (95% interval -.0200 to .0400, p = .400)"
    assert verdict(likely) == "not significantly different"
    assert verdict({**likely, "p_holm": 0.01}) == "better"


def test_courses() -> None:
    found = results()
    table = made(found)
    assert list(table["courses"].columns) == ["value", "trial", "epoch", "objective", "validation"]
    assert len(table["courses"]) == 3 * 4 * 3
    last = [found[key("3", trial)]["courses"]["objective"][-1] for trial in range(4)]
    assert at_end(table, "3", "objective") == pytest.approx(np.mean(last))
