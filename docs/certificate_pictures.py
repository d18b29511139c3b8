"""Pictures of dominated documents, and of the branch and bound over boxes of settings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from panels import BLUE, GREY, ORANGE, collection, panel, pool_of

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.measures.measure import parse_measure
from lmtune.report.figures.style import LAMBDA, MU, MU_LABEL, finish, in_style, legend_below, log_ticks
from lmtune.tuning.certificate.branch_and_bound import BranchAndBound
from lmtune.tuning.certificate.problem import Problem
from lmtune.tuning.space import ParameterSpace

WORD, DEPTH = "window", 10
FIRST, TOPICS, TOLERANCE = 120, 12, 2e-3


class Stage(NamedTuple):
    """A stage of branch and bound: limits and bounds of the remaining boxes, and the best value."""

    boxes: int
    best: float
    bound: float
    left: list[tuple[tuple[float, ...], float]]


@in_style
def pictures() -> dict[str, Figure]:
    """Return the pictures by name."""
    stages = searched()
    early = next(stage for stage in stages if stage.bound < stages[0].bound - 0.1)
    return {
        "plane": plane(),
        "closing": closing(stages),
        "boxes-early": boxes(early, early),
        "boxes-late": boxes(stages[-1], early),
    }


def plane() -> Figure:
    """Plot documents with one word by length and frequency; mark those that can be retrieved."""
    _, index = collection()
    pool = CandidatePool.build(index, {WORD: WORD}, {})
    tf, length = pool.candidates.tf, pool.candidates.length
    kept = np.isin(pool.candidates.doc, lmtune.skyband(pool, depth=DEPTH, mode="tf").candidates.doc)
    figure, ax = panel(2.7)
    for own, name, colour, marker in (
        (~kept, f"dominated by {DEPTH} or more: {(~kept).sum()}", GREY, "."),
        (kept, f"skyband: {kept.sum()}", ORANGE, "^"),
    ):
        ax.plot(length[own], tf[own], marker, color=colour, label=name, ms=3.5, mew=0, alpha=0.8)
    ax.set(xscale="log", yscale="log", xlabel="length (tokens)", ylabel=f"occurrences of {WORD}")
    for axis, values in ((ax.xaxis, length), (ax.yaxis, tf)):
        log_ticks(axis, float(values.min()), float(values.max()))
    legend_below(figure, 1)
    return finish(figure, f"Documents with {WORD}: {kept.sum()} can be in the top {DEPTH} at some setting.")


def searched() -> list[Stage]:
    """Bound the average precision of some topics over the whole range, and return each stage."""
    pool = pool_of(list(collection()[0].topics)[FIRST : FIRST + TOPICS])
    space = ParameterSpace(tuple(pool.formula.parameters))
    climb = lmtune.CoordinateAscent("AP").fit(pool)
    problem = Problem.build(pool, parse_measure("AP"), space=space, topics=pool.positions(), depth=1000)
    search = BranchAndBound(problem, TOLERANCE, climb.best_value_, lambda *_: 0.0, workers=1)
    stages = []

    def record() -> None:
        left = []
        for (s_low, s_high, u_low, u_high), bound in search.undecided:
            ends = [space.clip(problem.proof.to_setting(*end)) for end in ((s_low, u_low), (s_high, u_high))]
            left.append((tuple(np.sort(ends, axis=0).T.ravel().tolist()), bound))
        stages.append(Stage(search.boxes, search.best, search.bound, left))

    search.run(record)
    return stages


def closing(stages: list[Stage]) -> Figure:
    """Plot the bound and the best value against the number of boxes."""
    figure, ax = panel(2.7)
    seen = [stage.boxes for stage in stages]
    ax.step(seen, [stage.bound for stage in stages], where="post", color=ORANGE, label="bound")
    ax.step(seen, [stage.best for stage in stages], where="post", color=BLUE, ls="--", label="best value")
    ax.set(xlabel="boxes bounded", ylabel=f"MAP of {TOPICS} topics", ylim=(0.0, 1.0))
    legend_below(figure, 1)
    last = stages[-1]
    return finish(
        figure, f"After {last.boxes} boxes the bound is {last.bound:.4f}, the best {last.best:.4f}."
    )


def boxes(stage: Stage, early: Stage) -> Figure:
    """Plot the remaining boxes, shaded by the largest possible improvement."""
    figure, ax = panel(2.6)
    norm = LogNorm(TOLERANCE / 4.0, early.bound - early.best)
    patches = [Rectangle((a, c), b - a, d - c) for (a, b, c, d), _ in stage.left]
    over = np.array([bound - stage.best for _, bound in stage.left])
    drawn = ax.add_collection(
        PatchCollection(patches, array=over, cmap="YlOrRd", norm=norm, edgecolor="black", linewidth=0.3)
    )
    figure.colorbar(drawn, label="possible improvement", format="{x:g}")
    ax.set(yscale="log", xlim=(0.0, 1.0), ylim=(1.0, 1e5), xlabel=LAMBDA, ylabel=MU_LABEL)
    ax.set_title(f"after {stage.boxes} boxes, {len(stage.left)} remain")
    return finish(
        figure, f"Boxes of {LAMBDA} and {MU} that may contain a better setting after {stage.boxes}."
    )
