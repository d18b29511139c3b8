"""The tables of the experiment on lambda-functions, against what is known of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.lambdas import __main__ as lambdas

EXAMPLES = Path(lambdas.__file__).parent / "examples.py"
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
SMALL: dict[str, Any] = {"documents": (3,), "label_vectors": 2, "points": 3, "places": 7, "deltas": (2.0,)}


@pytest.fixture(scope="module")
def small() -> Any:
    return lambdas.experiment(**SMALL)


@pytest.mark.slow
def test_verdicts_are_the_known_ones(small: Any) -> None:
    table = small["functions"]
    for row in table.to_dict("records"):
        name = str(row["function"])
        expected = ("yes", COST[name]) if name in COST else ("no", "no cost")
        assert (row["has_cost"], row["convex"]) == expected, name
    with_cost = table[table["has_cost"] == "yes"]
    assert (with_cost["gradient"] <= 10 * with_cost["gradient_error"]).all()
    assert with_cost["gradient"].between(0.0, 1e-6).all()
    assert with_cost["closed_form"].max() < 1e-9
    alphas = table.set_index("function")["alpha"]
    assert alphas["ranknet"] == 0.0
    assert alphas["margin 2"] == alphas["winner"] == math.inf
    assert 0.05 < alphas["soft_errors"] < 0.5
    assert math.isnan(alphas["lambdarank"])


@pytest.mark.slow
def test_the_walk_closes_for_ranknet_alone(small: Any) -> None:
    walk, across = small["walk"], small["across"]
    assert abs(walk["ranknet"].iloc[-1]) < 1e-12
    assert abs(walk["lambdarank"].iloc[-1]) > 0.01
    # The cost rebuilt on both sides: a gap at the tie, which RankNet's has not.
    middle = int(np.searchsorted(across["difference"], 0.0))
    steps = across.diff().abs()
    assert steps["lambdarank"].idxmax() == middle
    assert steps["lambdarank"][middle] > 5 * steps["lambdarank"].drop(middle).max()
    assert steps["ranknet"][middle] < 2 * steps["ranknet"][middle + 1]


def test_the_margin_table_is_equations_4_to_9() -> None:
    rows = pd.DataFrame(lambdas.margin_costs(delta=2.0, places=5)["margin"])
    at = {round(x, 6): n for n, x in enumerate(rows["x"])}
    assert rows["lambda"][at[0.0]] == 2.0
    assert rows["lambda"][at[0.0] - 1] == 1.0
    assert rows["paper"][at[2.0]] == -2.0
    assert np.abs(np.subtract(rows["rebuilt"], rows["paper"])).max() < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cost", "convex"),
    [("squared_hinge", "yes", "yes"), ("soft_errors", "yes", "no"), ("swap_pull", "no", "no cost")],
)
def test_a_users_function(name: str, cost: str, convex: str) -> None:
    found = lambdas.experiment(function=f"{EXAMPLES}:{name}", **SMALL)
    [row] = found["functions"].to_dict("records")
    assert (row["has_cost"], row["convex"]) == (cost, convex)
    assert name in row["function"]
