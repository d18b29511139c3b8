"""The experiment on lambda-functions: our own at a small size, and a user's."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.catalogue import find_experiment
from experiments.lambdas.experiment import LambdaFunctions, margin_costs, walked
from experiments.running import Result, run, settings_of
from lmtune.errors import InputError
from lmtune.reporting.figures.style import render

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "experiments" / "lambdas" / "examples.py"
COST = {
    "margin 0.5": "yes",
    "margin 1": "yes",
    "margin 2": "no",
    "ranknet": "yes",
    "listnet": "yes",
    "constant pairs": "yes",
    "by rank": "yes",
    "by rank, reversed": "no",
    "winner": "no",
    "soft_errors": "no",
    "squared_hinge": "yes",
}
SMALL = replace(
    settings_of(LambdaFunctions, {}, quick=True), documents=(3,), label_vectors=2, places=7, deltas=(2.0,)
)


@pytest.fixture(scope="module")
def small() -> Result:
    return run(SMALL)


def test_verdicts_are_the_known_ones(small: Result) -> None:
    table = small.tables["functions"]
    for _, row in table.iterrows():
        name = str(row["function"])
        expected = ("yes", COST[name]) if name in COST else ("no", "no cost")
        assert (row["has_cost"], row["convex"]) == expected, name
    with_cost = table[table["has_cost"] == "yes"]
    assert len(with_cost) == len(COST)
    assert (with_cost["gradient"] <= 10 * with_cost["gradient_error"]).all()
    assert with_cost["gradient"].between(0.0, 1e-6).all()
    assert with_cost["closed_form"].max() < 1e-9
    alphas = table.set_index("function")["alpha"]
    assert alphas["ranknet"] == 0.0
    assert alphas["margin 2"] == alphas["winner"] == math.inf
    assert 0.05 < alphas["soft_errors"] < 0.5
    assert math.isnan(alphas["lambdarank"])


def test_pictures_are_the_same_bytes_and_say_what_they_show(small: Result) -> None:
    names = ["violations", "margin", "walk", "field"]
    assert [picture.name for picture in small.pictures] == names
    again = SMALL.pictures(small.tables)
    for first, second in zip(small.pictures, again, strict=True):
        assert render(first.figure, "svg") == render(second.figure, "svg")
    assert render(small.pictures[1].figure, "png") == render(again[1].figure, "png")
    assert "no, no cost: lambdarank refuted by jumps" in small.pictures[0].alt
    assert walked() == walked()


def test_conclusions_follow_from_the_numbers(small: Result) -> None:
    said = " ".join(small.conclusions)
    assert "yes, yes: margin 0.5; margin 1; ranknet" in said
    assert "yes, no: margin 2; by rank, reversed; winner" in said
    assert "swap_pull refuted by jumps" in said
    assert "lambdarank refuted by jumps" in said
    assert "The rebuilt cost has the lambdas as its negative gradient: holds in 11 of 11." in said
    assert "Piecewise constant lambdas trivially have a convex cost: holds in 2 of 6." in said


def test_the_walk_closes_for_ranknet_alone(small: Result) -> None:
    walk, across = small.tables["walk"], small.tables["across"]
    assert abs(walk["ranknet"].iloc[-1]) < 1e-12
    assert abs(walk["lambdarank"].iloc[-1]) > 0.01
    # The cost rebuilt on both sides: a gap at the tie, which RankNet's has not.
    middle = int(np.searchsorted(across["difference"], 0.0))
    steps = across.diff().abs()
    assert steps["lambdarank"].idxmax() == middle
    assert steps["lambdarank"][middle] > 5 * steps["lambdarank"].drop(middle).max()
    assert steps["ranknet"][middle] < 2 * steps["ranknet"][middle + 1]


def test_the_margin_table_is_equations_4_to_9() -> None:
    rows = pd.DataFrame(margin_costs(2.0, 5)["margin"])
    at = {round(x, 6): n for n, x in enumerate(rows["x"])}
    assert rows["lambda"][at[0.0]] == 2.0
    assert rows["lambda"][at[0.0] - 1] == 1.0
    assert rows["paper"][at[2.0]] == -2.0
    assert np.abs(np.subtract(rows["rebuilt"], rows["paper"])).max() < 1e-10


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("squared_hinge", ["convex, yes, yes: ", "negative gradient: holds in 1 of 1"]),
        ("soft_errors", ["convex, yes, no: ", "The smallest eigenvalue is -"]),
        ("swap_pull", ["refuted by jumps, loops, trios, paths", "No cost, for example: ", "at labels ("]),
    ],
)
def test_a_users_function(name: str, says: list[str], tmp_path: Path) -> None:
    settings = replace(SMALL, function=f"{EXAMPLES}:{name}")
    found = run(settings, folder=tmp_path / "out")
    assert [picture.name for picture in found.pictures] == ["violations"]
    assert (tmp_path / "out" / "violations.svg").is_file()
    again = settings.pictures(found.tables)
    assert render(found.pictures[0].figure, "svg") == render(again[0].figure, "svg")
    text = " ".join(found.conclusions)
    for words in says:
        assert words in text
    assert name in text


def test_lambdas_that_do_not_add_up_are_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def pull(scores, labels):\n    return labels - scores\n", encoding="utf-8")
    found = run(replace(SMALL, function=f"{file}:pull"))
    assert f"Lambdas that do not add up to 0: {file}:pull." in found.conclusions
    assert found.tables["functions"]["convex"].tolist() == ["yes"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"function": "nowhere.py:f"}, "nowhere.py: no such file"),
        ({"function": "f"}, "bad name of a lambda-function"),
        ({"points": 2}, "bad points: 2"),
        ({"label_vectors": 0}, "bad label vectors: 0"),
        ({"places": 1}, "bad places: 1"),
        ({"deltas": (-1.0,)}, "bad deltas: -1.0"),
        ({"documents": (3, 1)}, "bad documents: 1; accepted: 2 or more"),
    ],
)
def test_bad_settings(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(LambdaFunctions(), **changed).units()


def test_it_is_in_the_catalogue() -> None:
    assert find_experiment("lambdas") is LambdaFunctions
