"""RankNet's cost and a measure along lines through the parameters: the table and its picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure
from lmtune.models.parameter import Setting
from lmtune.reporting.figures.style import PAGE, finish, in_style, legend_below, log_ticks, new_figure
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = "across"

# From RankNet's choice at 0 to Direct's at 1, and as far again half way on both sides.
_POSITIONS = np.linspace(-0.5, 1.5, 41)
_POINTS = 31


def cost_lines(
    pool: CandidatePool, plan: Plan, measure: Measure, ranknet: Setting, direct: Setting
) -> pd.DataFrame:
    """Compute RankNet's mean cost a pair and the measure between two choices, and along each parameter.

    Returns
    -------
    pandas.DataFrame
        ``line`` (`ACROSS`, or the parameter's name, through RankNet's choice), ``position``, the
        parameters, ``cost`` and ``train``, the measure's mean over all topics.
    """
    space = plan.space
    begin, end = space.vector(ranknet), space.vector(direct)
    places = list(_across(space, begin, end)) if (begin != end).any() else []
    for axis, parameter in enumerate(space.parameters):
        if parameter in (space.free or space.parameters[:1]):
            values = np.union1d(parameter.grid(_POINTS), begin[axis]).tolist()
            places += [(parameter.name, value, space.replaced(begin, axis, value)) for value in values]
    settings = np.array([setting for _, _, setting in places])
    pairs = Pairs.build(pool, rel=plan.rel, stand_ins=plan.stand_ins)
    costs = np.array([pairs.cost(setting).value for setting in settings])
    table = pd.DataFrame([place[:2] for place in places], columns=["line", "position"])
    table[space.names] = settings
    means = measure_settings(pool, settings, [measure], depth=plan.depth)[:, :, 0].mean(axis=0)
    return table.assign(cost=costs / max(int(pairs.per_topic.sum()), 1), train=means)


def _across(
    space: ParameterSpace, begin: NDArray[np.float64], end: NDArray[np.float64]
) -> Iterator[tuple[str, float, NDArray[np.float64]]]:
    """Yield settings on the straight line through two, as far as the space goes."""
    counted = {p.name: float(v) for p, v in zip(space.parameters, begin, strict=True) if p.is_counted}
    fixed = space.fixing(counted)
    for position in _POSITIONS.round(12).tolist():
        between = zip(space.parameters, begin.tolist(), end.tolist(), strict=True)
        setting = fixed.settled(np.array([p.between(low, high, position) for p, low, high in between]))
        if position in (0.0, 1.0):
            setting = (begin, end)[int(position)]
        if (fixed.clip(setting) == setting).all():
            yield ACROSS, position, setting


@in_style
def draw_cost_lines(lines: pd.DataFrame, *, measure: str, log: tuple[str, ...] = ("mu",)) -> Figure:
    """Draw the measure above the cost along each line, with the best place of either marked."""
    names = list(dict.fromkeys(lines["line"]))
    figure, rows = new_figure(PAGE, 3.1, rows=2, columns=len(names), sharex="col")
    for column, name in enumerate(names):
        part = lines[lines["line"] == name].sort_values("position")
        best, lowest = part["train"].idxmax(), part["cost"].idxmin()
        for ax, kind, label, color in (
            (rows[0][column], "train", "measure", "#0072B2"),
            (rows[1][column], "cost", "RankNet cost", "#D55E00"),
        ):
            ax.plot(part["position"], part[kind], color=color, label=label)
            for at, mark, said in ((best, "o", "measure's maximum"), (lowest, "^", "cost's minimum")):
                ax.plot(part["position"][at], part[kind][at], mark, color="black", ms=4, label=said)
        if name in log:
            rows[1][column].set_xscale("log")
            log_ticks(rows[1][column].xaxis, *rows[1][column].get_xlim(), most=4)
        rows[1][column].set_xlabel("RankNet's choice at 0, Direct's at 1" if name == ACROSS else name)
    rows[0][0].set_ylabel(measure)
    rows[1][0].set_ylabel("cost per pair")
    legend_below(figure, 4)
    return finish(figure, f"{measure} and the RankNet cost along the same lines: {', '.join(names)}.")
