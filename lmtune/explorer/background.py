"""Many settings, planned and measured while the page is in use: a grid of two parameters, or lines."""

from __future__ import annotations

import math
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from lmtune.arrays import Doubles
from lmtune.errors import InputError
from lmtune.explorer.view import View
from lmtune.measures.measure import Measure
from lmtune.models.parameter import Parameter, shares
from lmtune.progress import note
from lmtune.tuning.pairs import Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import ALPHAS, SurrogateCost, lists_depth, objective_for, smooth_form

_SECONDS = 0.01  # of a turn: what a drag may have to wait
_HELD = 1 << 28  # bytes of values by topic, as long as that is more than what is shown
_KNOWN = 64  # grids and lines that are kept: a drag of three parameters asks for new ones at each step
_WAITING = 4  # of these, not measured yet: those of two pages

_T = TypeVar("_T")


class OutdatedError(Exception):
    """A page has asked for something else meanwhile."""


class Turns:
    """One piece of work at a time; of a page's questions only the latest."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._latest: dict[tuple[str, str], int] = {}

    def take(self, page: str, kind: str, serial: int, work: Callable[[], _T]) -> _T:
        """Do some work for a page, unless it has asked for more of this kind since.

        Raises
        ------
        OutdatedError
            If it has.
        """
        key = page, kind
        self._latest[key] = max(serial, self._latest.get(key, serial))
        with self._turn:
            if self._latest[key] > serial:
                raise OutdatedError
            return work()

    def between(self, work: Callable[[], _T]) -> _T:
        """Do a short piece of other work."""
        with self._turn:
            return work()


def told(error: BaseException) -> str:
    """Return an error as a line for a page; where it lies inside lmtune the log says where."""
    if isinstance(error, InputError):
        return str(error)
    note("".join(traceback.format_exception(error)).rstrip())
    return " ".join(f"an error inside lmtune, see its terminal: {type(error).__name__}: {error}".split())


@dataclass(eq=False)
class Points:
    """Settings and what is known of them so far; equal to nothing but itself.

    Attributes
    ----------
    settings : numpy.ndarray of float64, shape (points, parameters)
        In the order in which they are drawn; NaN for what lies on no plane.
    shape : tuple of int
        Of a grid over two parameters, or (lines, points of each).
    values : numpy.ndarray of float64, shape (points, measures, topics), or (points, 1, 1) of a smooth form
        That of a smooth form is the mean over topics. NaN where nothing is known yet.
    order : sequence of int
        In which the points are measured: coarse first.
    """

    settings: Doubles
    shape: tuple[int, int]
    values: Doubles
    order: Sequence[int]
    done: int = 0
    error: str = ""
    fill: Callable[[Doubles], Doubles] = field(repr=False, default=np.asarray)


_Key = tuple[str, tuple[int, ...], tuple[float, ...]]
"""The function of some points: all measures, or a measure's smooth form; the plane, and around what."""


class Surfaces:
    """The points that pages have asked for: measured in a thread, and kept."""

    def __init__(self, view: View, turns: Turns) -> None:
        self._view, self._turns = view, turns
        self._known: dict[_Key, Points] = {}
        self._lists: dict[int, Lists] = {}
        self._waiting: list[Points] = []
        self._more = threading.Condition()
        self._ended = False
        self._worker = threading.Thread(target=self._work, daemon=True)
        self._worker.start()

    def ask(self, setting: Doubles, smooth: Measure | None = None, plane: Sequence[int] = ()) -> Points:
        """Return the known points of a plane, or of the lines through a setting; the others follow.

        Parameters
        ----------
        setting : numpy.ndarray of float64, shape (parameters,)
            Where the plane or the lines go through.
        smooth : Measure, optional
            Its smooth form instead of the measures.
        plane : sequence of int
            Two of the view's axes; none for a line along each.
        """
        around = _settled_apart(self._view, setting, plane)
        key = "" if smooth is None else str(smooth), tuple(plane), tuple(around.tolist())
        with self._more:
            if key not in self._known:
                self._known[key] = self._new(around, smooth, plane)
                self._waiting.append(self._known[key])
                while len(self._known) > _KNOWN or (len(self._known) > 1 and self._held() > _HELD):
                    self._drop(self._known[next(iter(self._known))])
                while len(self._waiting) > _WAITING:  # nobody has asked for it since
                    self._drop(self._waiting[0])
                self._more.notify()
            elif self._known[key] in self._waiting:  # what was asked for last comes first
                self._waiting.remove(self._known[key])
                self._waiting.append(self._known[key])
            return self._known[key]

    def _held(self) -> int:
        return sum(points.values.nbytes for points in self._known.values())

    def _new(self, setting: Doubles, smooth: Measure | None, plane: Sequence[int]) -> Points:
        settings, shape = plan(self._view, setting, plane, is_coarse=smooth is not None)
        order = [at for at in coarse_first(shape) if not np.isnan(settings[at, 0])]
        if smooth is not None:
            unknown = np.full((len(settings), 1, 1), np.nan)
            return Points(settings, shape, unknown, order, fill=self._smooth(smooth))
        each_topic = len(settings), len(self._view.measures), len(self._view.pool.topics)
        return Points(settings, shape, np.full(each_topic, np.nan), order, fill=self._measured)

    def _measured(self, settings: Doubles) -> Doubles:
        return self._view.values(settings).transpose(1, 2, 0)

    def _smooth(self, measure: Measure) -> Callable[[Doubles], Doubles]:
        view, made = self._view, list[SurrogateCost]()

        def fill(settings: Doubles) -> Doubles:
            if not made:
                objective = objective_for(smooth_form(measure), view.pool, view.depth)
                depth = lists_depth(objective, view.pool, view.depth)
                if depth not in self._lists:
                    self._lists[depth] = Lists.build(view.pool, view.space, depth=depth)
                made.append(SurrogateCost(self._lists[depth], objective, view.pool.positions()))
            found = [-made[0](setting, ALPHAS[-1]).value for setting in settings]
            return np.array(found).reshape(-1, 1, 1)

        return fill

    def end(self) -> None:
        """Measure no more: a thread that still computes when Python ends would abort it."""
        with self._more:
            self._ended = True
            self._more.notify()
        self._worker.join()

    def _work(self) -> None:
        while (points := self._next()) is not None:
            try:
                self._measure(points)
            except BaseException as error:  # told, and begun again when it is asked for again
                points.error = told(error)
            with self._more:
                if points.error:
                    self._drop(points)
                elif points.done >= len(points.order) and points in self._waiting:
                    self._waiting.remove(points)

    def _next(self) -> Points | None:
        """Wait for points to measure; None once there is no more to do."""
        with self._more:
            self._more.wait_for(lambda: self._ended or bool(self._waiting))
            return None if self._ended else self._waiting[-1]

    def _measure(self, points: Points) -> None:
        """Measure points, many at a time where they are quick, until others are asked for."""
        together = 1
        while not self._ended and points.done < len(points.order) and points is self._latest():
            begun = time.perf_counter()
            self._turns.between(partial(_some, points, together))
            spent = max(time.perf_counter() - begun, 1e-6)
            together = max(1, min(2 * together, int(together * _SECONDS / spent)))

    def _latest(self) -> Points | None:
        with self._more:
            return self._waiting[-1] if self._waiting else None

    def _drop(self, points: Points) -> None:
        """Forget points, so that they are measured anew where they are asked for again."""
        self._known = {key: kept for key, kept in self._known.items() if kept is not points}
        self._waiting = [kept for kept in self._waiting if kept is not points]


def _some(points: Points, count: int) -> None:
    at = list(points.order[points.done : points.done + count])
    points.values[at] = points.fill(points.settings[at])
    points.done += len(at)


_POINTS = 33
"""Along each of two parameters, and along a line; half as many of many, and of a smooth form."""

_MANY = 8  # lines: more have half the points
_DIGITS = 9  # significant ones, by which two settings are told apart


def shared(space: ParameterSpace, plane: Sequence[int]) -> list[int]:
    """Return the places of all parameters that share 1 with both of a plane's: it is a triangle then."""
    return next((axes for axes in shares(space.parameters).values() if set(plane) <= {*axes} and plane), [])


def _settled_apart(view: View, setting: Doubles, plane: Sequence[int]) -> Doubles:
    """Return what all settings of a plane, or of a single line, have in common: one of them."""
    apart, group = setting.copy(), shared(view.space, plane) if len(plane) > 1 else []
    if group:
        rest = [axis for axis in group if axis not in plane]
        total = apart[rest].sum()
        apart[rest] = apart[rest] / total if total > 0.0 else 1.0 / len(rest)
        apart[list(plane)] = 0.0
    else:
        for axis in plane or (view.axes if len(view.axes) == 1 else ()):
            apart = view.space.with_value(apart, axis, view.space.parameters[axis].low)
    return np.array([float(f"{value:.{_DIGITS}g}") for value in apart])


def plan(
    view: View, setting: Doubles, plane: Sequence[int], *, is_coarse: bool = False
) -> tuple[Doubles, tuple[int, int]]:
    """Return settings to measure through a setting, shape (points, parameters), and the shape of the picture.

    Parameters
    ----------
    view : View
        Whose parameters.
    setting : numpy.ndarray of float64, shape (parameters,)
        Where the plane, or the lines, go through.
    plane : sequence of int
        Two of the view's axes; none for a line along each.
    is_coarse : bool
        Whether half the points do.

    Returns
    -------
    settings, shape
        A grid over two parameters, or lines, each from its low end to its high one, evenly on its scale. Of
        parameters that share 1 a plane is a triangle: a point has as much of the two as it is far along the
        grid, from 0 to 1, and the others what is left, in their proportions. Where the two are more than 1
        there is no setting: NaN.
    """
    space = view.space
    is_whole = len(view.axes) == len(plane) or (not plane and len(view.axes) <= _MANY)
    each = _POINTS if is_whole and not is_coarse else (_POINTS + 1) // 2
    if not plane:
        lines = [
            space.with_value(setting, axis, value)
            for axis in view.axes
            for value in _along(space.parameters[axis], each)
        ]
        return np.stack(lines), (len(view.axes), each)
    if group := shared(space, plane):
        return _triangle(space, setting, plane, group, each), (each, each)
    across, up = (_along(space.parameters[axis], each) for axis in plane)
    grid = [
        space.with_value(space.with_value(setting, plane[0], one), plane[1], other)
        for one in across
        for other in up
    ]
    return np.stack(grid), (each, each)


def _triangle(
    space: ParameterSpace, setting: Doubles, plane: Sequence[int], group: list[int], each: int
) -> Doubles:
    rest = [axis for axis in group if axis not in plane]
    first, second = (own.ravel() for own in np.mgrid[:each, :each])
    grid = np.tile(setting, (each * each, 1))
    grid[:, plane[0]], grid[:, plane[1]] = first / (each - 1), second / (each - 1)
    grid[:, rest] = setting[rest] * ((each - 1 - first - second) / (each - 1))[:, None]
    grid[:, group] = np.maximum(grid[:, group], space.low[group])
    grid = space.normalise_shares(grid)
    grid[first + second >= each] = np.nan
    return grid


def _along(parameter: Parameter, each: int) -> list[float]:
    """Return values from a parameter's low end to its high one, evenly on its scale."""
    places = np.linspace(0.0, 1.0, each).tolist()
    return [parameter.clip(parameter.between(parameter.low, parameter.high, share)) for share in places]


def coarse_first(shape: tuple[int, int]) -> list[int]:
    """Return a grid's places, every eighth along both sides first, then those between."""
    rows, columns = shape
    return sorted(range(rows * columns), key=lambda at: -math.gcd(*divmod(at, columns), 8))
