"""Studies and claims: every run once, options chosen by validation, figures written down."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.experiment import Claim, Run, Study, Unit, choose_by_first, figures, written


def unit(run: Run) -> Unit:
    return Unit("-".join(map(str, run)), dict, {"validation": 0.0})


def test_a_row_a_run_and_the_best_option_on_average() -> None:
    study = Study({"a": [1, 2], "b": [1]}, 2, unit, ("x", "y"))
    keys = [one.key for one in study.units()]
    assert len(set(keys)) == len(keys) == (2 + 1) * 2 * 2
    # Option 1 of "a" is better on fold 1 than it is worse on fold 0.
    results = {key: {"validation": 0.5} for key in keys}
    results |= {"0-0-1-0": {"validation": 0.4}, "1-0-1-0": {"validation": 0.9}}
    table = study.table(results)
    assert table[["fold", "case", "option", "trial"]].drop_duplicates().shape == (12, 4)
    assert set(table[table["chosen"]]["option"].groupby(table["case"]).unique().map(tuple).items()) == {
        ("a", (1,)),
        ("b", (0,)),
    }
    results["1-0-1-0"] = {"validation": 0.5}
    table = study.table(results)
    assert table[table["chosen"] & (table["case"] == "a")]["option"].tolist() == [0] * 4


def test_the_first_trial_chooses_and_is_not_run_again() -> None:
    ran = []

    def run(trial: int, rate: float) -> dict[str, Any]:
        ran.append((trial, rate))
        return {"value": -abs(rate - 2.0), "trial": trial}

    options = [{"rate": 1.0}, {"rate": 2.0}, {"rate": 3.0}]
    found = choose_by_first(run, options, [7, 8, 9], "value", ("value",))
    assert ran == [(7, 1.0), (7, 2.0), (7, 3.0), (8, 2.0), (9, 2.0)]
    assert found["tried"][1] == {"rate": 2.0, "value": 0.0, "chosen": True}
    assert [row["chosen"] for row in found["tried"]] == [False, True, False]
    assert [own["trial"] for own in found["runs"]] == [7, 8, 9]
    lowest = choose_by_first(run, options, [7], "value", (), lowest=True)
    assert [row["chosen"] for row in lowest["tried"]] == [True, False, False]


TABLE = pd.DataFrame(
    {
        "set": ["a", "a", "b"],
        "method": ["m", "n", "m"],
        "p": [0.01, 0.2, math.nan],
        "n": [1, 20_000, 3],
        "w": ["", "x", ""],
    }
)


def test_a_sentence_a_group_and_how_often_it_holds() -> None:
    claim = Claim("Better", figures("t", "set method", "p n w"), lambda rows: rows["p"] < 0.05)
    assert list(claim.sentences({"t": TABLE})) == [
        "Better, a: m p 0.01, n 1; n p 0.2, n 20,000, w x.",
        "Better, b: m n 3.",
        "Better: holds in 1 of 3.",
    ]
    sums = Claim("Sums", figures("t", "set", "sum=n", "sum", "method == 'm'", most=("n", "max")))
    assert list(sums.sentences({"t": TABLE})) == ["Sums: a sum 1, most 1; b sum 3, most 3."]
    assert list(Claim("Names", figures("t", "set method")).sentences({"t": TABLE}))[1] == "Names, b: m."
    assert list(claim.sentences({"t": pd.DataFrame()})) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "yes"),
        (np.False_, "no"),
        (1234, "1,234"),
        (0.123456, "0.1235"),
        (5432.1, "5,432"),
        (math.inf, "inf"),
        ("a", "a"),
    ],
)
def test_figures_are_written_down(value: object, text: str) -> None:
    assert written(value) == text
