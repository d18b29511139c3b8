"""SPSA against finite differences, at a size for tests."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from same_results import assert_same_results

from experiments.data import load_split
from experiments.running import Result, run
from experiments.spsa import LinearRankNet, SpsaVersusFdsa, first_weights
from lmtune.errors import InputError
from lmtune.gradient_free import Gains, minimise

SETTINGS = SpsaVersusFdsa(
    data="artificial:20x10",
    runs=2,
    evaluations=420,
    rates=(0.3, 3.0),
    per_step=(2, 4),
    features=(3, 300),
    seed=1,
)


@pytest.fixture(scope="module")
def found() -> Result:
    return run(SETTINGS)


def test_the_same_bytes_again(found: Result) -> None:
    again = run(SETTINGS)
    assert_same_results(found, again)


def test_a_step_of_spsa_costs_the_same_for_every_net(found: Result) -> None:
    steps = found.tables["steps"].set_index(["method", "features"])["evaluations"].to_dict()
    assert steps == {
        ("FDSA", 3): 6,
        ("FDSA", 300): 600,
        ("SPSA:2", 3): 2,
        ("SPSA:2", 300): 2,
        ("SPSA:4", 3): 4,
        ("SPSA:4", 300): 4,
    }
    assert (
        "FDSA fewest 6, most 600; SPSA:2 fewest 2, most 2; SPSA:4 fewest 4, most 4." in found.conclusions[-1]
    )


def _keep(iterates: dict[int, NDArray[np.float64]], step: int, spent: int, x: NDArray[np.float64]) -> None:
    assert spent >= step
    iterates[step] = x


def test_costs_are_those_of_the_iterates(found: Result) -> None:
    """Run the second run of SPSA:4 again, without the experiment's way of noting costs."""
    net = LinearRankNet(load_split(SETTINGS.data, 1).train)
    methods = found.tables["methods"].set_index("method")
    steps = (420 - 2) // 4
    gains = Gains(methods["rate"]["SPSA:4"] * (0.1 * steps + 1.0) ** 0.602, 0.01, 0.1 * steps)
    finals = []
    for number in (1, 2):
        iterates: dict[int, NDArray[np.float64]] = {}
        alone = minimise(
            net.costs,
            first_weights(net.features, 1, number),
            evaluations_per_step=4,
            budget=420,
            gains=gains,
            seed=1000 + number,
            together=True,
            observe=partial(_keep, iterates),
        )
        finals.append(alone.value)
        # After 210 evaluations, one of which was the start's, 52 steps have been made.
        assert alone.spent[52] <= 210 < alone.spent[53]
        middle = float(net.exact_costs(iterates[52][None])[0])
        table = found.tables["costs"]
        [row] = table[table["method"].eq("SPSA:4") & table["evaluations"].eq(210)].to_dict("records")
        assert any(middle == pytest.approx(row[end], rel=1e-12) for end in ("lowest", "highest"))
    assert methods["final"]["SPSA:4"] == pytest.approx(np.mean(finals), rel=1e-6)
    assert methods["deviation"]["SPSA:4"] == pytest.approx(np.std(finals, ddof=1), rel=1e-3)


def test_no_method_beats_the_minimum_and_all_descend(found: Result) -> None:
    for row in found.tables["methods"].to_dict("records"):
        assert row["minimum"] - 1e-6 < row["final"] < row["start"]
    chosen = found.tables["rates"][found.tables["rates"]["chosen"]]
    assert list(chosen["method"]) == ["FDSA", "SPSA:2", "SPSA:4"]
    for _, part in found.tables["rates"].groupby("method"):
        assert part["mean"].min() == part.loc[part["chosen"], "mean"].iloc[0]


def test_finite_differences_are_the_closed_form(found: Result) -> None:
    small = found.tables["gradient"].query("c < 0.001")
    assert (small["largest_difference"] < 1e-8).all()
    wide = found.tables["gradient"].query("c > 0.001")
    assert (wide["largest_difference"] < 1e-4).all()
    assert (wide["largest_difference"].to_numpy() > small["largest_difference"].to_numpy()).all()


@pytest.mark.parametrize(
    ("there", "holds"),
    [
        ((800.0, 200.0, 400.0), 2),
        ((300.0, 200.0, 400.0), 1),
        ((100.0, 200.0, 400.0), 0),
        ((math.nan, 210.0, 400.0), 2),
        ((100.0, math.nan, math.nan), 0),
        ((math.nan, math.nan, math.nan), 0),
    ],
)
def test_either_outcome_is_said(found: Result, there: tuple[float, ...], holds: int) -> None:
    tables = {**found.tables, "methods": found.tables["methods"].assign(evaluations_to_95=there)}
    words = "SPSA is 95% of the way to the minimum in fewer evaluations than FDSA"
    assert f"{words}: holds in {holds} of 2." in SETTINGS.conclusions(tables)


def test_who_is_ahead_at_the_end(found: Result) -> None:
    def sentence(fdsa: float, spsa_: float) -> str:
        final = [fdsa, spsa_, spsa_ + 1.0]
        costs = pd.DataFrame(
            [
                {"method": name, "evaluations": 10 * k, "cost": end + (4 - k)}
                for name, end in zip(["FDSA", "SPSA:2", "SPSA:4"], final, strict=True)
                for k in range(5)
            ]
        )
        methods = found.tables["methods"].assign(final=final)
        said = SETTINGS.conclusions({**found.tables, "methods": methods, "costs": costs})
        return next(
            text for text in said if text.startswith("Evaluations for the cost at which the other ends")
        )

    assert sentence(2.0, 1.0).endswith(": SPSA:2 evaluations 30.")
    assert sentence(1.0, 3.0).endswith(": FDSA evaluations 20.")


@pytest.mark.parametrize(
    "changes",
    [
        {"runs": 0},
        {"evaluations": 9},
        {"rates": ()},
        {"rates": (0.0,)},
        {"width": math.inf},
        {"per_step": (3,)},
        {"per_step": (2, 2)},
        {"features": ()},
        {"seed": -1},
    ],
)
def test_bad_settings(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        SpsaVersusFdsa(**changes)


def test_too_few_evaluations_for_a_step() -> None:
    with pytest.raises(InputError, match="too few evaluations: 50; accepted: 102"):
        SpsaVersusFdsa(data="artificial:5x5", runs=1, evaluations=50, rates=(0.1,)).descend(None)
