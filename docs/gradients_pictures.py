"""Pictures of a measure without a useful gradient, and of its smooth approximations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from panels import BLUE, GREEN, ORANGE, collection, panel, pool_of, reported

from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.report.figures.style import MU, MU_LABEL, finish, in_style, legend_below, log_ticks, looks
from lmtune.tuning.pairs import Lists, Pairs
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import SurrogateCost, parse_objective

FEW, MANY, FIRST = 4, 40, 120
ALPHAS = {2.0: (GREEN, ":"), 8.0: (BLUE, "--"), 64.0: (ORANGE, "-")}
MUS = np.geomspace(1.0, 1e4, 241)
LINE = np.column_stack([np.zeros_like(MUS), MUS])
METHODS = {
    "Direct": "Direct: settings",
    "coordinate ascent": "coordinate ascent, 5 starts",
    "RankNet": "RankNet, coordinate descent",
    "Approx": "Approx | 71,",
}
"""First cells of the rows with settings per fold, in a table of `PARAMETERS`."""
PARAMETERS = "experiments/parameters/README.md"


class Lines(NamedTuple):
    """Values against mu at lambda 0: measure, smooth approximations with slopes in ln mu, RankNet's cost."""

    measure: NDArray[np.float64]
    smooth: dict[float, NDArray[np.float64]]
    slope: dict[float, NDArray[np.float64]]
    cost: NDArray[np.float64]

    @classmethod
    def of(cls, topics: int) -> Lines:
        """Compute the values for some topics of the collection."""
        names = list(collection()[0].topics)[FIRST : FIRST + topics]
        pool = pool_of(names)
        lists = Lists.build(pool, ParameterSpace(tuple(pool.formula.parameters)))
        stand_in = SurrogateCost(lists, parse_objective("approx-ap"), pool.positions())
        costs = {alpha: [stand_in(setting, alpha) for setting in LINE] for alpha in ALPHAS}
        pairs = Pairs.build(pool)
        return cls(
            measure_settings(pool, LINE, [parse_measure("AP")])[:, :, 0].mean(axis=0),
            {alpha: np.array([-cost.value for cost in own]) for alpha, own in costs.items()},
            {alpha: np.array([-cost.gradient[1] for cost in own]) * MUS for alpha, own in costs.items()},
            np.array([pairs.cost(setting).value for setting in LINE]) / pairs.per_topic.sum(),
        )


@in_style
def pictures() -> dict[str, Figure]:
    """Return the pictures by name."""
    few, many = Lines.of(FEW), Lines.of(MANY)
    return {
        "staircase": staircase(few),
        "slopes": slopes(few),
        "measure": lowest(many, is_cost=False),
        "cost": lowest(many, is_cost=True),
        "growth": growth(),
    }


def staircase(lines: Lines) -> Figure:
    """Plot the measure of few topics with its smooth approximations."""
    figure, ax = panel(2.7)
    ax.step(MUS, lines.measure, where="mid", color="black", lw=0.9, label="MAP")
    for alpha, (colour, line) in ALPHAS.items():
        ax.plot(MUS, lines.smooth[alpha], color=colour, ls=line, label=f"smooth, {alpha:g}")
    ax.set(xscale="log", xlabel=MU_LABEL, ylabel=f"MAP of {FEW} topics")
    legend_below(figure, 2)
    return finish(
        figure, f"MAP of {FEW} topics against {MU}, a step function, and its smooth approximations."
    )


def slopes(lines: Lines) -> Figure:
    """Plot the gradients of the smooth approximations; the measure's gradient is 0."""
    figure, ax = panel(2.7)
    ax.axhline(0.0, color="black", lw=0.9, label="MAP: 0 or undefined")
    for alpha, (colour, line) in ALPHAS.items():
        ax.plot(MUS, lines.slope[alpha], color=colour, ls=line, label=f"smooth, {alpha:g}")
    ax.set(xscale="log", xlabel=MU_LABEL, ylabel=f"gradient in ln {MU}")
    legend_below(figure, 2)
    return finish(figure, "Gradients of the smooth approximations; they change sign at the optima.")


def lowest(lines: Lines, *, is_cost: bool) -> Figure:
    """Plot MAP or RankNet's cost of many topics, with the optima of MAP, smooth MAP and the cost."""
    figure, ax = panel(2.7)
    look = looks(["Direct", "RankNet", "Approx"])
    best = {
        "MAP": (look["Direct"], int(lines.measure.argmax())),
        "smooth MAP": (look["Approx"], int(lines.smooth[max(ALPHAS)].argmax())),
        "RankNet's cost": (look["RankNet"], int(lines.cost.argmin())),
    }
    values = lines.cost if is_cost else lines.measure
    ax.plot(MUS, values, color="black", lw=0.9)
    for name, (own, place) in best.items():
        ax.axvline(MUS[place], color=own.color, lw=0.8, zorder=0)
        ax.plot(MUS[place], values[place], own.marker, color=own.color, label=f"best by {name}")
    ax.set(xscale="log", xlabel=MU_LABEL)
    ax.set_ylabel("RankNet's cost a pair (nats)" if is_cost else f"MAP of {MANY} topics")
    legend_below(figure, 2)
    places = ", ".join(f"{name} {MUS[place]:,.0f}" for name, (_, place) in best.items())
    return finish(figure, f"Optimal {MU} by objective: {places}.")


def growth() -> Figure:
    """Plot settings per fold against the number of free parameters, from a table of `PARAMETERS`."""
    figure, ax = panel(2.7)
    parameters = [cell[0] for cell in reported(PARAMETERS, "free parameters | 1 | 2 |")]
    look = looks(list(METHODS))
    for method, row in METHODS.items():
        taken = [cell[0] for cell in reported(PARAMETERS, row)]
        ax.plot(parameters, taken, label=method, **look[method].options())
    ax.set(yscale="log", xlabel="free parameters", ylabel="settings a fold", xticks=parameters)
    log_ticks(ax.yaxis, *ax.get_ylim())
    legend_below(figure, 2)
    return finish(figure, "Settings per fold, by method and number of free parameters.")
