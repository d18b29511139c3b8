"""The settings near the best, and the measure along each parameter."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure
from lmtune.measures.significance.tests import paired_t_test
from lmtune.models.parameter import Setting
from lmtune.progress import Count
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import DIRECT, SIGNIFICANCE, CollectionResult, Fit
from lmtune.tuning.grid import Surface
from lmtune.tuning.space import ParameterSpace

if TYPE_CHECKING:
    import pandas as pd


_MOST_AXES = 2
Box = dict[str, tuple[float, float]]


def near_optimal(
    surface: Surface, measure: Measure, topics: Integers, setting: Setting, values: Doubles
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


def significantly_worse(at: Doubles, values: Doubles) -> list[bool]:
    """Say of each of values, shape (settings, topics), whether it is worse by a two-sided paired t-test."""
    mean = values.mean()
    return [bool(own.mean() < mean and paired_t_test(own, values) < SIGNIFICANCE) for own in at]


def _inside(before: Integers, box: tuple[tuple[int, int], ...]) -> int:
    """Sum over a box's corners, with signs."""
    total = 0
    for corner in product((0, 1), repeat=len(box)):
        place = tuple(high + 1 if end else low for end, (low, high) in zip(corner, box, strict=True))
        total += (-1) ** (len(box) - sum(corner)) * int(before[place])
    return total


BEST = "best "
"""Before a parameter's name: the line along it through Direct's choice for the measure."""

_PLANE = 2  # parameters, over which a surface shows what such lines would
_POINTS = 31


def measure_profiles(
    pool: CandidatePool, result: CollectionResult, plan: Plan, *, progress: Count | None = None
) -> dict[str, pd.DataFrame]:
    """Measure along each free parameter through Direct's choice, where more than two are free.

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
        By ``MEASURE-foldN``. One row a setting: ``line`` (`BEST` and the parameter's name),
        ``position`` (the parameter's value), the parameters, and ``train`` and ``test``, the measure's
        means on the fold's topics. Empty for models of one or two free parameters.
    """
    if len(plan.space.free) <= _PLANE:
        return {}
    fits = {row.measure: row.fits for row in result.rows if row.method == DIRECT}
    lines: dict[str, pd.DataFrame] = {}
    for number, fold in enumerate(result.folds, 1):
        for measure in result.measures:
            table = _along(plan.space, fits[measure][number - 1])
            settings = table[list(plan.space.names)].to_numpy(np.float64)
            for name, topics in (("train", fold.train), ("test", fold.test)):
                how: Any = {"topics": pool.positions(topics), "depth": plan.depth}
                table[name] = measure_settings(pool, settings, [measure], **how)[:, :, 0].mean(axis=0)
            lines[f"{measure}-fold{number}"] = table
        if progress is not None:
            progress(number, len(result.folds))
    return lines


def _along(space: ParameterSpace, fit: Fit) -> pd.DataFrame:
    """Return settings along each free parameter through a setting, itself included."""
    import pandas as pd

    through = space.vector(fit.params)
    rows = [
        (f"{BEST}{parameter.name}", value, *space.replaced(through, axis, value).tolist())
        for parameter in space.free
        for axis in [space.parameters.index(parameter)]
        for value in np.union1d(parameter.grid(_POINTS), through[axis]).tolist()
    ]
    return pd.DataFrame(rows, columns=["line", "position", *space.names])
