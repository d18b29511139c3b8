"""Examine lambda-functions: which have a cost, which cost is convex, and how large the violations are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import Results, chart, each, gather, main
from experiments.lambdas import functions
from experiments.lambdas.calculus import loop_across, trio_plane, work
from experiments.lambdas.examine import (
    COST_TESTS,
    Examination,
    check_cost,
    examine,
    needed_alpha,
    rebuild_cost,
)
from experiments.lambdas.functions import BUILTIN
from lmtune.losses import load_function
from lmtune.losses.lambda_functions import LambdaFunction, checked_function

QUICK = {"documents": (2, 3), "label_vectors": 2, "points": 3, "places": 19}

_LOOPS = ("loops", "trios", "paths")
# three documents; the two relevant ones tie
_WALK_LABELS, _WALK_CENTRE, _WALK_RADIUS, _WALK_STEPS = (2.0, 1.0, 0.0), (0.4, 0.4, -0.8), 0.4, 12
_FIELD = 13
_COUNTS, _SIZES = "tests violated unclear outcome", "relative tolerance violation error scale"


def experiment(
    *,
    function: str = "",
    documents: tuple[int, ...] = (2, 3, 5),
    label_vectors: int = 3,
    points: int = 8,
    deltas: tuple[float, ...] = (0.5, 1.0, 2.0),
    places: int = 41,
    seed: int = 0,
) -> Results:
    """Examine the lambda-functions of Burges, Ranking as Learning Structured Outputs (2005), or your own.

    The functions are the two-document example, those for the two conditions on lambdas and for the claim that
    piecewise constant lambdas fulfil both trivially, and RankNet's and LambdaRank's lambdas.

    Parameters
    ----------
    function : str
        FILE.py:NAME, a lambda-function to examine instead of these
    documents : tuple of int
        documents of a query

    label_vectors : int
        label vectors of each length
    points : int
        score vectors for each label vector, 3 or more
    deltas : tuple of float
        margins of the two-document example
    places : int
        scores at which a margin's cost is rebuilt
    seed : int
        seed of labels and scores
    """
    drawn = {"label_vectors": label_vectors, "points": points, "seed": seed}
    names = [function] if function else list(BUILTIN)
    tables = gather(each(examine_function, [{"name": n, "documents": documents, **drawn} for n in names]))
    results: Results = {**tables, "violations": _draw_violations(tables["evidence"])}
    if function:
        return results
    cases = [{"k": k, "documents": n, **drawn} for n in documents for k in (None, 1, 3)]
    margins = each(margin_costs, [{"delta": delta, "places": places} for delta in deltas])
    tables = gather([*each(examine_lambdarank, cases), *margins, walked()])
    pictures = {"costs": _draw_margin(tables["margin"]), "no-cost": _draw_walk(tables)}
    return {**results, **tables, **pictures}


def examine_function(
    *, name: str, documents: Sequence[int], label_vectors: int, points: int, seed: int
) -> dict[str, Any]:
    """Examine one function, and rebuild its cost if it has one.

    Parameters
    ----------
    name : str
        A name of `BUILTIN`, or FILE.py:NAME.
    documents, label_vectors, points, seed
        As for `experiment`.
    """
    known = BUILTIN.get(name)
    function = checked_function(known.function, name) if known else load_function(name)
    size: dict[str, Any] = {"label_vectors": label_vectors, "points": points, "seed": seed}
    examination = examine(function, documents=documents, name=name, **size)
    alpha, reason = needed_alpha(examination)
    row = _row(examination) | {"alpha": alpha, "alpha_reason": reason}
    row |= {"gradient": np.nan, "gradient_error": np.nan, "closed_form": np.nan}
    tables = {"functions": [row], "evidence": _evidence(examination)}
    if examination.has_cost == "no":
        return tables
    rng = np.random.default_rng([seed, 1])
    labels = np.array([2.0, 0.0, 1.0])
    # from a random origin: lines from 0 cross no tie
    cost = rebuild_cost(function, labels, origin=rng.normal(size=3))
    drawn = [rng.normal(size=3) for _ in range(40)]
    # at places with forces if possible: a zero gradient is trivially right
    chosen = sorted(drawn, key=lambda scores: not function(scores, labels).any())[:2]
    checked_cost = check_cost(cost, chosen)
    row |= {"gradient": checked_cost.largest, "gradient_error": checked_cost.error}
    if known is not None and known.cost is not None:
        first = known.cost(cost.origin, labels)
        row["closed_form"] = max(abs(cost(point) - (known.cost(point, labels) - first)) for point in chosen)
    return tables


def examine_lambdarank(*, k: int | None, documents: int, **size: Any) -> dict[str, Any]:
    """Examine LambdaRank's lambdas for nDCG@k and one number of documents."""
    function: LambdaFunction = functions.lambdarank(k)
    row = _row(examine(function, documents=(documents,), **size))
    kept = {name: row[name] for name in row if name not in ("function", "convex", "where_no_cost")}
    return {"lambdarank": [{"documents": documents, "cutoff": str(k or "all"), **kept}]}


def margin_costs(*, delta: float, places: int) -> dict[str, list[dict[str, float]]]:
    """Rebuild the cost of the two-document example, and compute equations 7 to 9: rows of ``margin``."""
    labels = np.array([1.0, 0.0])
    cost, forces = rebuild_cost(functions.margin(delta), labels), functions.margin(delta)
    rows = []
    # includes the points where the equations change, and one just before the jump
    for x in np.unique([*np.linspace(-1.5, 3.0, places), -1e-9, 0.0, delta]).tolist():
        scores = np.array([x / 2.0, -x / 2.0])
        value, error = cost.with_error(scores)
        force, paper = np.asarray(forces(scores, labels))[0], functions.margin_cost(scores, labels, delta)
        row = {"x": x, "lambda": float(force), "rebuilt": value, "error": error, "paper": paper}
        rows.append({**row, "delta": delta})
    return {"margin": rows}


def walked() -> dict[str, Any]:
    """Compute the work of RankNet's and LambdaRank's lambdas around a square across a tie.

    Returns
    -------
    dict
        Rows of tables. ``walk``: cumulative work at each step. ``corners``: the square; ``field``:
        LambdaRank's forces; both in the plane of scores with a fixed sum. ``across``: costs rebuilt from 0
        along a line through the tie.
    """
    labels, centre = np.array(_WALK_LABELS), np.array(_WALK_CENTRE)
    named = {
        "ranknet": checked_function(functions.ranknet()),
        "lambdarank": checked_function(functions.lambdarank()),
    }
    first, second = trio_plane(3, (0, 1, 2))
    corners = loop_across(centre, 0, 1, second, _WALK_RADIUS)
    closed = [*corners, corners[0]]
    shares = np.arange(_WALK_STEPS)
    stations = [
        start + (end - start) * step / _WALK_STEPS for start, end in pairwise(closed) for step in shares
    ]
    done = {
        name: np.cumsum(
            [0.0, *(work(function, labels, *ends).value for ends in pairwise([*stations, corners[0]]))]
        )
        for name, function in named.items()
    }
    field = []
    for x, y in product(np.linspace(-1.6, 1.6, _FIELD).tolist(), repeat=2):
        # shifted slightly, because ties lie on the grid
        force = named["lambdarank"]((x + 0.003) * first + (y + 0.001) * second, labels)
        field.append({"x": x, "y": y, "force_x": float(force @ first), "force_y": float(force @ second)})
    across = [
        {"difference": 2.0 * half}
        | {
            name: rebuild_cost(one, labels)(centre + np.array([half, -half, 0.0]))
            for name, one in named.items()
        }
        for half in np.linspace(-0.6, 0.6, 42).tolist()
    ]
    return {
        "walk": pd.DataFrame(done).rename_axis("step").reset_index().to_dict("records"),
        "corners": [{"x": float(corner @ first), "y": float(corner @ second)} for corner in corners],
        "field": field,
        "across": across,
    }


def _evidence(examination: Examination) -> list[dict[str, Any]]:
    """Return a row for each test."""
    counts, sizes = _COUNTS.split(), _SIZES.split()
    return [
        {
            **{"function": examination.name, "test": name},
            **{key: getattr(evidence, key) for key in counts},
            **{key: getattr(evidence.worst, key) for key in sizes},
            "where": evidence.worst.where(),
        }
        for name, evidence in examination.evidence.items()
        if evidence.worst is not None
    ]


def _row(examination: Examination) -> dict[str, Any]:
    """Return the verdicts and largest violations of a function."""
    tests, lowest = {row["test"]: row for row in _evidence(examination)}, examination.lowest
    loops = [tests[name] for name in _LOOPS if name in tests]
    circulation = max(loops, key=lambda one: (one["outcome"] == "violated", one["relative"]))
    refuting = [name for name in examination.refuting() if name in COST_TESTS]
    row = {"function": examination.name, "has_cost": examination.has_cost, "convex": examination.convex}
    row["refuted_by"] = ", ".join(refuting)
    shown = {"symmetry": tests["symmetry"], "jump": tests["jumps"], "circulation": circulation}
    for name, test in shown.items():
        row |= {name: test["relative"], f"{name}_tolerance": test["tolerance"]}
    return row | {
        "smallest_eigenvalue": examination.smallest_eigenvalue,
        "eigenvalue_error": np.nan if lowest is None else lowest.error,
        "wrong_jump": tests["kinks"]["relative"],
        "largest_slope": examination.largest_slope,
        "sums_to_zero": examination.sums_to_zero,
        "where_no_cost": tests[refuting[0]]["where"] if refuting else "",
    }


def _draw_violations(evidence: pd.DataFrame) -> Any:
    """Plot each test's largest violation relative to its estimated error."""
    share = np.maximum(evidence["relative"], 1e-17) / np.maximum(evidence["tolerance"], 1e-14)
    drawn = evidence.assign(violation=share)
    return chart(drawn, "violation", "function", line="test", dots=True, log="x")


def _draw_margin(margin: pd.DataFrame) -> Any:
    """Plot the cost of the two-document example, rebuilt and by equations 7 to 9."""
    long = margin.melt(["x", "delta"], ["lambda", "rebuilt", "paper"], "curve", "value")
    return chart(long, "x", "value", line="curve", panel="delta")


def _draw_walk(tables: dict[str, pd.DataFrame]) -> Any:
    """Plot why LambdaRank has no cost: work around a square, rebuilt costs, forces and ties."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 4.0), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    for ax, table, x in ((first, "walk", "step"), (second, "across", "difference")):
        for name in ("ranknet", "lambdarank"):
            ax.plot(tables[table][x], tables[table][name], label=name)
        ax.set(xlabel=x, title={"walk": "work around the square", "across": "cost rebuilt"}[table])
        ax.legend()
    field, corners = tables["field"], tables["corners"].to_numpy()
    # In these coordinates the ties are the lines at 90, 150 and 30 degrees.
    for angle, words in ((90, "s₁ = s₂"), (150, "s₁ = s₃"), (30, "s₂ = s₃")):
        end = 1.7 * np.array([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))])
        third.plot(*np.array([-end, end]).T, color="0.6", lw=0.7)
        third.text(*(-0.86 * end), words)
    third.quiver(field["x"], field["y"], field["force_x"], field["force_y"], angles="xy", scale=6.0)
    third.plot(*np.vstack([corners, corners[:1]]).T, color="C3")
    third.set(aspect="equal", title="LambdaRank's forces")
    return figure


if __name__ == "__main__":
    main(__spec__)
