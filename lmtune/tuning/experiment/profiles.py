"""Profiles of cost and measures along lines through the parameters, and the settings near the best."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.folds import Fold
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure
from lmtune.measures.significance.tests import paired_t_test
from lmtune.models.parameter import Setting
from lmtune.progress import Count
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import DIRECT, RANKNET, SIGNIFICANCE, CollectionResult, Fit
from lmtune.tuning.grid import Surface
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace

if TYPE_CHECKING:
    import pandas as pd


_MOST_AXES = 2
Box = dict[str, tuple[float, float]]


def near_optimal(
    surface: Surface,
    measure: Measure,
    topics: NDArray[np.int64],
    setting: Setting,
    values: NDArray[np.float64],
) -> Box:
    """Return the box of grid points around a setting of which none is significantly worse.

    Of all such boxes with the setting inside or on their edge, it holds the most grid points; of equals,
    the first.

    Parameters
    ----------
    surface : Surface
        A full grid of one or two free parameters; others have no box.
    measure : Measure
        One of the surface's.
    topics : numpy.ndarray of int64, shape (topics,)
        Places in the pool.
    setting : mapping of str to float
        What to compare with.
    values : numpy.ndarray of float64, shape (topics,)
        The measure with it on these topics.

    Returns
    -------
    dict of str to (low, high)
        By free parameter; empty where no two grid points are such a box. A paired t-test over topics,
        two-sided, says which points are worse.
    """
    axes = [np.unique(column) for column in surface.settings.T]
    free = [number for number, axis in enumerate(axes) if axis.size > 1]
    shape = [axes[number].size for number in free]
    if not 0 < len(free) <= _MOST_AXES or np.prod(shape) != len(surface.settings):
        return {}
    at = surface.values[topics, :, surface.measures.index(measure)].T
    worse = significantly_worse(at, values)
    places = tuple(np.searchsorted(axes[n], surface.settings[:, n]) for n in free)
    bad = np.zeros(shape, np.int64)
    bad[places] = worse
    # How many are worse before each corner: a box's count is a sum over its corners.
    before = np.pad(bad, [(1, 0)] * len(free))
    for dimension in range(len(free)):
        before = before.cumsum(axis=dimension)
    sides = []
    for number in free:
        axis, value = axes[number], setting[surface.names[number]]
        # The grid points from low to high, those next to the setting among them; the setting may be an end.
        above, below = (int(np.searchsorted(axis, value, side)) for side in ("left", "right"))
        sides.append(list(product(range(above + 1), range(below - 1, axis.size))))
    best, most = None, 1
    for box in product(*sides):
        size = int(np.prod([high - low + 1 for low, high in box]))
        if size > most and _inside(before, box) == 0:
            best, most = box, size
    if best is None:
        return {}
    return {
        name: (min(value, *ends), max(value, *ends))
        for n, (low, high) in zip(free, best, strict=True)
        for name in [surface.names[n]]
        for value, ends in [(setting[name], axes[n][low : high + 1].tolist())]
    }


def significantly_worse(at: NDArray[np.float64], values: NDArray[np.float64]) -> list[bool]:
    """Say of each of values, shape (settings, topics), whether it is worse by a two-sided paired t-test."""
    mean = values.mean()
    return [bool(own.mean() < mean and paired_t_test(own, values) < SIGNIFICANCE) for own in at]


def _inside(before: NDArray[np.int64], box: tuple[tuple[int, int], ...]) -> int:
    """Sum over a box's corners, with signs."""
    total = 0
    for corner in product((0, 1), repeat=len(box)):
        place = tuple(high + 1 if end else low for end, (low, high) in zip(corner, box, strict=True))
        total += (-1) ** (len(box) - sum(corner)) * int(before[place])
    return total


ACROSS = "across"
BEST = "best "
"""Before a parameter's name: the line along it through Direct's choice for the measure."""

_PLANE = 2  # parameters, over which a surface shows what such lines would

# From RankNet's choice at 0 to Direct's at 1, and as far again half way on both sides.
_ACROSS = np.linspace(-0.5, 1.5, 41)
_POINTS = 31


def measure_profiles(
    pool: CandidatePool, result: CollectionResult, plan: Plan, *, progress: Count | None = None
) -> dict[str, pd.DataFrame]:
    """Compute the RankNet cost and the measure along three lines, for each measure and fold.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    result : CollectionResult
        Its experiment.
    plan : Plan
        The experiment's.
    progress : callable, optional
        Called with (folds done, folds in all).

    Returns
    -------
    dict of str to pandas.DataFrame
        By ``MEASURE-foldN``. One row a setting: ``line``, ``position``, the parameters,
        ``cost`` (RankNet's mean over the pairs of the training topics), ``train`` and ``test``
        (the measure's means). The line ``across`` is straight in the parameters, or in the
        logarithms of those on a logarithmic scale, with RankNet's choice at position 0 and Direct's
        at 1; it is missing where the two are the same. The others, named after a parameter, go
        along it through RankNet's choice; the position is the parameter. A parameter that the
        model fixes has no line. Where more than two are free, lines with `BEST` before the name go
        through Direct's choice.
    """
    import pandas as pd

    pairs = Pairs.build(pool, rel=plan.rel, stand_ins=plan.stand_ins)
    fits = {(row.measure, row.method): row.fits for row in result.rows}
    lines: dict[str, pd.DataFrame] = {}
    for number, fold in enumerate(result.folds):
        along = _along(plan.space, fits[result.measures[0], RANKNET][number])
        shared = _Settings(pool, pairs, fold, plan, along, result.measures)
        for measure in result.measures:
            across = _across(plan.space, *(fits[measure, m][number] for m in (RANKNET, DIRECT)))
            if len(plan.space.free) > _PLANE:
                across += _along(plan.space, fits[measure, DIRECT][number], BEST)
            own = _Settings(pool, pairs, fold, plan, across, (measure,)) if len(across) else None
            tables = [part.table(measure) for part in (own, shared) if part is not None]
            lines[f"{measure}-fold{number + 1}"] = pd.concat(tables, ignore_index=True)
        if progress is not None:
            progress(number + 1, len(result.folds))
    return lines


Place = tuple[str, float, NDArray[np.float64]]
"""A line, a position on it, and the setting there."""


def _along(space: ParameterSpace, fit: Fit, prefix: str = "") -> list[Place]:
    """Return settings along each parameter through a setting, itself included.

    There is no line along a parameter that the space fixes, unless it fixes all: then along one.
    """
    through = space.vector(fit.params)
    places: list[Place] = []
    for parameter in space.free or space.parameters[:1]:
        axis = space.parameters.index(parameter)
        values = np.union1d(parameter.grid(_POINTS), through[axis]).tolist()
        name = prefix + parameter.name
        places += [(name, value, space.replaced(through, axis, value)) for value in values]
    return places


def _across(space: ParameterSpace, begin: Fit, end: Fit) -> list[Place]:
    """Return settings on the straight line through two, as far as the space goes."""
    if begin.params == end.params:
        return []
    ends = space.vector(begin.params), space.vector(end.params)
    space = space.fixing({p.name: begin.params[p.name] for p in space.parameters if p.is_counted})
    places: list[Place] = []
    for position in _ACROSS.round(12).tolist():
        between = zip(space.parameters, *(end.tolist() for end in ends), strict=True)
        setting = space.settled(np.array([p.between(low, high, position) for p, low, high in between]))
        if position in (0.0, 1.0):
            setting = ends[int(position)]
        if (space.clip(setting) == setting).all():
            places.append((ACROSS, position, setting))
    return places


class _Settings:
    """The cost and the measures at some settings."""

    def __init__(
        self,
        pool: CandidatePool,
        pairs: Pairs,
        fold: Fold,
        plan: Plan,
        places: list[Place],
        measures: tuple[Measure, ...],
    ) -> None:
        self.places = places
        self.names = plan.space.names
        self.measures = measures
        settings = np.array([setting for _, _, setting in places])
        train = pool.positions(fold.train)
        count = int(pairs.per_topic[train].sum())
        self.cost = [pairs.cost(setting, topics=train).value / max(count, 1) for setting in settings]

        def means(topics: NDArray[np.int64]) -> NDArray[np.float64]:
            values = measure_settings(pool, settings, self.measures, topics=topics, depth=plan.depth)
            mean: NDArray[np.float64] = values.mean(axis=0)
            return mean

        self.train, self.test = means(train), means(pool.positions(fold.test))

    def table(self, measure: Measure) -> pd.DataFrame:
        import pandas as pd

        column = self.measures.index(measure)
        table = pd.DataFrame([place[:2] for place in self.places], columns=["line", "position"])
        table[self.names] = np.array([setting for _, _, setting in self.places])
        return table.assign(cost=self.cost, train=self.train[:, column], test=self.test[:, column])
