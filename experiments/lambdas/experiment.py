"""Lambda-functions: which come from a cost, which cost is convex, and how far others are from one.

Burges, Ranking as Learning Structured Outputs (2005): the two-document example, the two conditions
on lambdas, his claim that piecewise constant ones fulfil both trivially, and RankNet's and
LambdaRank's own lambdas. Or a function of the user's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from experiments.experiment import Claim, Experiment, Tables, Unit, figures
from experiments.lambdas import functions
from experiments.lambdas.calculus import loop_across, trio_plane, work
from experiments.lambdas.examine import (
    CONVEXITY_TESTS,
    COST_TESTS,
    Examination,
    check_cost,
    examine,
    needed_alpha,
    rebuild_cost,
)
from experiments.lambdas.functions import BUILTIN
from experiments.pictures import VALUE, Chart, stacked
from lmtune.options import option
from lmtune.reporting.figures.style import COLUMN, Picture, finish, in_style, new_figure, thin_outline
from lmtune.reranking.losses.lambda_functions import LambdaFunction, checked, load_function, split_name

_LOOPS = ("loops", "trios", "paths")
# Three documents, of which the two that tie are the two that are relevant.
_WALK_LABELS, _WALK_CENTRE, _WALK_RADIUS, _WALK_STEPS = (2.0, 1.0, 0.0), (0.4, 0.4, -0.8), 0.4, 12
_FIELD = 13
_FLOOR, _ROUNDING = 1e-17, 1e-14
_COUNTS, _SIZES = "tests violated unclear outcome", "relative tolerance violation error scale"
_NAMES = {"ranknet": "RankNet", "lambdarank": "LambdaRank"}


@dataclass(frozen=True)
class LambdaFunctions(Experiment):
    """Experiment.

    Lambda-functions: which come from a cost, which cost is convex, and how far others are from one.

    Burges, Ranking as Learning Structured Outputs (2005): the two-document example, the two conditions
    on lambdas, his claim that piecewise constant ones fulfil both trivially, and RankNet's and
    LambdaRank's own lambdas. Or a function of the user's.
    """

    name: ClassVar[str] = "lambdas"
    quick: ClassVar[Mapping[str, Any]] = {"documents": (2, 3), "label_vectors": 2, "points": 3, "places": 19}

    function: str = option("", "FILE.py:NAME, a lambda-function to examine instead of ours")
    documents: tuple[int, ...] = option((2, 3, 5), "documents a query", low=2, fewest=1)
    label_vectors: int = option(3, "label vectors of each length", low=1)
    points: int = option(8, "score vectors for each label vector", low=3)
    deltas: tuple[float, ...] = option(
        (0.5, 1.0, 2.0), "margins of the two-document example", low=0, fewest=1
    )
    places: int = option(41, "scores at which a margin's cost is rebuilt", low=2)
    seed: int = option(0, "of labels and scores", low=0)

    def units(self) -> list[Unit]:
        """List the pieces of work: a function each, and the example's costs."""
        if self.function:
            split_name(self.function)
        names = [self.function] if self.function else list(BUILTIN)
        units = [Unit(f"examine-{n}", self.examine, {"name": name}) for n, name in enumerate(names)]
        if self.function:
            return units
        return [
            *units,
            *(
                Unit(f"lambdarank-{n}-{k or 'all'}", self.examine_lambdarank, {"k": k, "documents": n})
                for n in self.documents
                for k in (None, 1, 3)
            ),
            *(
                Unit(f"margin-{n}", margin_costs, {"delta": delta, "places": self.places})
                for n, delta in enumerate(self.deltas)
            ),
            Unit("walk", walked, {}),
        ]

    def examine(self, name: str) -> dict[str, Any]:
        """Examine one function, and rebuild its cost where it has one.

        Parameters
        ----------
        name : str
            A name of `BUILTIN`, or FILE.py:NAME.
        """
        known = BUILTIN.get(name)
        function = checked(known.function, name) if known else load_function(name)
        examination = self._examined(function, self.documents, name)
        alpha = needed_alpha(examination)
        row = _row(examination) | {"alpha": alpha.alpha, "alpha_reason": alpha.reason}
        row |= {"gradient": np.nan, "gradient_error": np.nan, "closed_form": np.nan}
        tables = {"functions": [row], "evidence": _evidence(examination)}
        if examination.has_cost == "no":
            return tables
        rng = np.random.default_rng([self.seed, 1])
        labels = np.array([2.0, 0.0, 1.0])
        # From a random origin: the way from 0 would cross no tie.
        cost = rebuild_cost(function, labels, origin=rng.normal(size=3))
        drawn = [rng.normal(size=3) for _ in range(40)]
        # Where there are forces, if there are: no gradient is easily right.
        points = sorted(drawn, key=lambda scores: not function(scores, labels).any())[:2]
        checked_cost = check_cost(cost, points)
        row |= {"gradient": checked_cost.largest, "gradient_error": checked_cost.error}
        if known is not None and known.cost is not None:
            first = known.cost(cost.origin, labels)
            row["closed_form"] = max(
                abs(cost(point) - (known.cost(point, labels) - first)) for point in points
            )
        return tables

    def examine_lambdarank(self, k: int | None, documents: int) -> dict[str, Any]:
        """Examine LambdaRank's lambdas for nDCG@k and one number of documents."""
        row = _row(self._examined(functions.lambdarank(k), (documents,)))
        kept = {name: row[name] for name in row if name not in ("function", "convex", "where_no_cost")}
        return {"lambdarank": [{"documents": documents, "cutoff": str(k or "all"), **kept}]}

    def _examined(
        self, function: LambdaFunction, documents: Sequence[int], name: str | None = None
    ) -> Examination:
        size: dict[str, Any] = {"label_vectors": self.label_vectors, "points": self.points, "seed": self.seed}
        return examine(function, documents=documents, name=name, **size)

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw the violations and, for our own functions, the example's costs and the walk."""
        drawn = [_violations(tables)]
        if self.function:
            return drawn
        deltas = tables["margin"].assign(line=lambda rows: rows["delta"].map("δ = {:g}".format))
        paper = deltas.assign(line=deltas["line"] + ", equations 7–9", rebuilt=deltas["paper"])
        titles = {"lambda": "λ₁ = −λ₂", "rebuilt": "cost rebuilt from the λ's"}
        costs = stacked(pd.concat([deltas, paper]), ["x", "line"], titles).rename(
            columns={"x": "x = s₁ − s₂"}
        )
        chart = Chart("x = s₁ − s₂", line="line", panel="panel")
        drawn.append(chart.draw(costs, "margin", "The two-document example's cost, rebuilt"))
        way = "steps around the square; s₁ − s₂"
        titles = {"walk": "work done by the λ's around the square", "across": "cost rebuilt on either side"}
        lines = [
            tables[table]
            .rename(columns={"step": way, "difference": way, **_NAMES})
            .melt([way], [*_NAMES.values()], "line", VALUE)
            .assign(panel=title)
            for table, title in titles.items()
        ]
        chart = Chart(way, line="line", panel="panel", levels={"": (0.0,)})
        drawn.append(chart.draw(pd.concat(lines), "walk", "Why LambdaRank has no cost"))
        return [*drawn, _field(tables)]

    def claims(self) -> Sequence[Claim]:
        """Return the verdicts, and for our own functions the claims of the paper."""
        return _VERDICTS if self.function else (*_VERDICTS, *_PAPER)


def _violations(tables: Tables) -> Picture:
    """Draw each test's largest violation, of what errors explain, by function and verdict."""
    evidence = tables["evidence"].join(
        tables["functions"].set_index("function")[["has_cost", "convex"]], "function"
    )
    axis = "largest violation, of what errors explain"
    evidence[axis] = np.maximum(evidence["relative"], _FLOOR) / np.maximum(evidence["tolerance"], _ROUNDING)
    panels = {"is there a cost?": ("has_cost", COST_TESTS), "is it convex?": ("convex", CONVEXITY_TESTS)}
    drawn = pd.concat(
        evidence[evidence["test"].isin(tests) & (evidence[verdict] != "no cost")].assign(panel=title)
        for title, (verdict, tests) in panels.items()
    )
    verdicts = " ".join(_VERDICTS[0].sentences(tables))
    chart = Chart("function", axis, "test", "panel", dots=True, levels={"": (1.0,)}, wide=2)
    return chart.draw(drawn, "violations", "Which lambdas come from a cost", says=verdicts)


@in_style
def _field(tables: Tables) -> Picture:
    """Draw LambdaRank's forces where three scores have a fixed sum, the ties, and the square."""
    figure, [[ax]] = new_figure(COLUMN, COLUMN)
    field, corners = tables["field"], tables["corners"].to_numpy()
    reach = float(field["x"].max()) * 1.08
    # In these coordinates the ties are the lines at 90, 150 and 30 degrees.
    for angle, words in ((90, "s₁ = s₂"), (150, "s₁ = s₃"), (30, "s₂ = s₃")):
        end = reach * np.array([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))])
        ax.plot(*np.array([-end, end]).T, color="0.6", lw=0.7, zorder=1)
        x, y = (-0.86 * end).tolist()
        ax.text(x, y, words, ha="center", va="center", path_effects=thin_outline(3.0))
    arrows = (field[column] for column in ("x", "y", "force_x", "force_y"))
    ax.quiver(*arrows, color="#0072B2", angles="xy", scale=6.0, width=0.006, zorder=2)
    ax.plot(*np.vstack([corners, corners[:1]]).T, color="#CC79A7", lw=1.4, zorder=3)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
    ax.set_xlabel("LambdaRank's forces, and the square of the walk")
    alt = (
        "LambdaRank's forces on three documents with labels 2, 1 and 0, in the plane in which scores "
        "have a fixed sum, with the three ties and a square across the tie of documents 1 and 2."
    )
    return Picture("field", "LambdaRank's forces", finish(figure, alt))


def _distances(tables: Tables) -> pd.DataFrame:
    margin = tables["margin"].assign(distance=lambda rows: (rows["rebuilt"] - rows["paper"]).abs())
    return margin.groupby("delta").agg(
        places=("x", "size"), distance=("distance", "max"), error=("error", "max")
    )


def _gradients(tables: Tables) -> pd.DataFrame:
    rows = tables["functions"].query("has_cost != 'no'").set_index("function")
    return rows[["gradient", "gradient_error", "closed_form"]]


_VERDICTS = (
    Claim(
        "Is there a cost, and is it convex", figures("functions", "has_cost convex function", "refuted_by")
    ),
    Claim(
        "Largest violations relative to their scale, and the tolerance that errors explain",
        figures(
            "functions",
            "function",
            "symmetry symmetry_tolerance jump jump_tolerance circulation circulation_tolerance wrong_jump",
        ),
    ),
    Claim(
        "The smallest eigenvalue of the Hessian, and the alpha that makes it convex",
        figures("functions", "function", "smallest_eigenvalue alpha alpha_reason", where="has_cost != 'no'"),
    ),
    Claim(
        "No cost, for example", figures("functions", "function", "at=where_no_cost", where="has_cost == 'no'")
    ),
    Claim("Lambdas that do not add up to 0", figures("functions", "function", where="sums_to_zero == 'no'")),
    Claim(
        "The rebuilt cost has the lambdas as its negative gradient",
        _gradients,
        lambda rows: rows["gradient"] <= 10 * rows["gradient_error"],
    ),
)
_PAPER = (
    Claim("The two-document example's cost, rebuilt, against equations 7 to 9", _distances),
    Claim(
        "Work around a square across a tie",
        figures("walk", "step", "ranknet lambdarank", where="step == step.max()"),
    ),
    Claim(
        "LambdaRank by documents and cutoff",
        figures("lambdarank", "documents cutoff", "has_cost refuted_by jump"),
    ),
    Claim(
        "Piecewise constant lambdas trivially have a convex cost",
        figures("functions", "function", "has_cost convex jump", where="largest_slope == 0"),
        lambda rows: (rows["has_cost"] == "yes") & (rows["convex"] == "yes"),
    ),
)


def margin_costs(delta: float, places: int) -> dict[str, list[dict[str, float]]]:
    """Rebuild the two-document example's cost, and compute equations 7 to 9: rows of ``margin``."""
    labels = np.array([1.0, 0.0])
    cost, forces = rebuild_cost(functions.margin(delta), labels), functions.margin(delta)
    rows = []
    # With the places where the equations change, and one just before the jump.
    for x in np.unique([*np.linspace(-1.5, 3.0, places), -1e-9, 0.0, delta]).tolist():
        scores = np.array([x / 2.0, -x / 2.0])
        value, error = cost.with_error(scores)
        force, paper = np.asarray(forces(scores, labels))[0], functions.margin_cost(scores, labels, delta)
        row = {"x": x, "lambda": float(force), "rebuilt": value, "error": error, "paper": paper}
        rows.append({**row, "delta": delta})
    return {"margin": rows}


def walked() -> dict[str, Any]:
    """Walk around a square across a tie, by RankNet's forces and by LambdaRank's.

    Returns
    -------
    dict
        Rows of tables. ``walk``: work done so far at each step of the way; ``corners`` of the square,
        ``field`` of LambdaRank's forces, both in the plane in which the three scores have a fixed sum; and
        ``across``: costs rebuilt from 0 on the way through the tie.
    """
    labels, centre = np.array(_WALK_LABELS), np.array(_WALK_CENTRE)
    named = {"ranknet": checked(functions.ranknet()), "lambdarank": checked(functions.lambdarank())}
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
        # A little off the grid, for ties lie on it.
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
    """Return a row a test."""
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
    """Return a function's verdicts, and its largest violations."""
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
