"""Background evaluation of a page's pictures: grids over two parameters, and lines."""

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

_SECONDS = 0.01  # the duration of a turn, and so the delay of a slider
_MOST_BYTES = 1 << 28  # of cached values by topic; the latest picture is always kept
_MOST_PICTURES = 64  # cached grids and lines: with three parameters each slider step needs new ones
_MOST_WAITING = 4  # unfinished pictures: those of two pages

_T = TypeVar("_T")


class OutdatedError(Exception):
    """The page has sent a later question of the same kind."""


class Turns:
    """Run one piece of work at a time, and only the latest question of each kind and page."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._latest: dict[tuple[str, str], int] = {}

    def take(self, page: str, kind: str, serial: int, work: Callable[[], _T]) -> _T:
        """Run a page's work, unless the page has sent a later question of this kind.

        Raises
        ------
        OutdatedError
            If there is a later question.
        """
        key = page, kind
        self._latest[key] = max(serial, self._latest.get(key, serial))
        with self._turn:
            if self._latest[key] > serial:
                raise OutdatedError
            return work()

    def between(self, work: Callable[[], _T]) -> _T:
        """Run a short piece of other work."""
        with self._turn:
            return work()


def error_line(error: BaseException) -> str:
    """Return an error as one line for a page; print the traceback of an internal error."""
    if isinstance(error, InputError):
        return str(error)
    note("".join(traceback.format_exception(error)).rstrip())
    return " ".join(f"internal error, details in the terminal: {type(error).__name__}: {error}".split())


@dataclass(eq=False)
class Points:
    """The settings of a picture and their values so far; compared by identity.

    Attributes
    ----------
    settings : numpy.ndarray of float64, shape (points, parameters)
        In drawing order; NaN for points outside a triangle.
    shape : tuple of int
        The shape of the grid, or (lines, points a line).
    values : numpy.ndarray of float64, shape (points, measures, topics), or (points, 1, 1) for a smooth form
        The measures; a smooth form has its mean over topics. NaN for points not yet evaluated.
    order : sequence of int
        The order of evaluation, coarse to fine.
    done : int
        The number of evaluated points.
    error : str
        The error that ended the evaluation, if any.
    fill : callable
        Evaluates settings.
    """

    settings: Doubles
    shape: tuple[int, int]
    values: Doubles
    order: Sequence[int]
    done: int = 0
    error: str = ""
    fill: Callable[[Doubles], Doubles] = field(repr=False, default=np.asarray)


_Key = tuple[str, tuple[int, ...], tuple[float, ...]]
"""The identity of a picture: smooth form (or "" for all measures), plane, and the fixed parameters."""


class Surfaces:
    """The pictures that pages have requested: evaluated in a thread, and cached."""

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
        """Return the points of a plane, or of lines through a setting; missing values are computed later.

        Parameters
        ----------
        setting : numpy.ndarray of float64, shape (parameters,)
            A setting on the plane or the lines.
        smooth : Measure, optional
            The measure whose smooth form to evaluate instead of the measures.
        plane : sequence of int
            Two of the view's axes; empty for a line along each axis.
        """
        fixed = _fixed_part(self._view, setting, plane)
        key = "" if smooth is None else str(smooth), tuple(plane), tuple(fixed.tolist())
        with self._more:
            if key not in self._known:
                self._known[key] = self._new(fixed, smooth, plane)
                self._waiting.append(self._known[key])
                while len(self._known) > _MOST_PICTURES or (
                    len(self._known) > 1 and self._cached_bytes() > _MOST_BYTES
                ):
                    self._drop(self._known[next(iter(self._known))])
                while len(self._waiting) > _MOST_WAITING:  # the least recently requested
                    self._drop(self._waiting[0])
                self._more.notify()
            elif self._known[key] in self._waiting:  # the latest request is first
                self._waiting.remove(self._known[key])
                self._waiting.append(self._known[key])
            return self._known[key]

    def _cached_bytes(self) -> int:
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
        view, costs = self._view, list[SurrogateCost]()

        def fill(settings: Doubles) -> Doubles:
            if not costs:
                objective = objective_for(smooth_form(measure), view.pool, view.depth)
                depth = lists_depth(objective, view.pool, view.depth)
                if depth not in self._lists:
                    self._lists[depth] = Lists.build(view.pool, view.space, depth=depth)
                costs.append(SurrogateCost(self._lists[depth], objective, view.pool.positions()))
            values = [-costs[0](setting, ALPHAS[-1]).value for setting in settings]
            return np.array(values).reshape(-1, 1, 1)

        return fill

    def end(self) -> None:
        """Stop the thread; Python would abort if it still computed at exit."""
        with self._more:
            self._ended = True
            self._more.notify()
        self._worker.join()

    def _work(self) -> None:
        while (points := self._next()) is not None:
            try:
                self._measure(points)
            except BaseException as error:  # sent to the page; a new request starts again
                points.error = error_line(error)
            with self._more:
                if points.error:
                    self._drop(points)
                elif points.done >= len(points.order) and points in self._waiting:
                    self._waiting.remove(points)

    def _next(self) -> Points | None:
        """Wait for a picture to evaluate; None after `end`."""
        with self._more:
            self._more.wait_for(lambda: self._ended or bool(self._waiting))
            return None if self._ended else self._waiting[-1]

    def _measure(self, points: Points) -> None:
        """Evaluate points, in batches if fast, until another picture is requested."""
        together = 1
        while not self._ended and points.done < len(points.order) and points is self._latest():
            begun = time.perf_counter()
            self._turns.between(partial(_fill_next, points, together))
            spent = max(time.perf_counter() - begun, 1e-6)
            together = max(1, min(2 * together, int(together * _SECONDS / spent)))

    def _latest(self) -> Points | None:
        with self._more:
            return self._waiting[-1] if self._waiting else None

    def _drop(self, points: Points) -> None:
        """Remove a picture from the cache; a new request evaluates it again."""
        self._known = {key: other for key, other in self._known.items() if other is not points}
        self._waiting = [other for other in self._waiting if other is not points]


def _fill_next(points: Points, count: int) -> None:
    at = list(points.order[points.done : points.done + count])
    points.values[at] = points.fill(points.settings[at])
    points.done += len(at)


_POINTS = 33
"""Points along each parameter of a plane, and along a line; half as many for many lines and smooth forms."""

_MANY = 8  # with more lines, each has half the points
_DIGITS = 9  # significant digits in comparisons of settings


def shared(space: ParameterSpace, plane: Sequence[int]) -> list[int]:
    """Return the indices of the shares that a plane's two parameters belong to; the plane is a triangle."""
    return next((axes for axes in shares(space.parameters).values() if set(plane) <= {*axes} and plane), [])


def _fixed_part(view: View, setting: Doubles, plane: Sequence[int]) -> Doubles:
    """Return a setting that is the same for all settings of a plane, or of a single line."""
    fixed, group = setting.copy(), shared(view.space, plane) if len(plane) > 1 else []
    if group:
        rest = [axis for axis in group if axis not in plane]
        total = fixed[rest].sum()
        fixed[rest] = fixed[rest] / total if total > 0.0 else 1.0 / len(rest)
        fixed[list(plane)] = 0.0
    else:
        for axis in plane or (view.axes if len(view.axes) == 1 else ()):
            fixed = view.space.with_value(fixed, axis, view.space.parameters[axis].low)
    return np.array([float(f"{value:.{_DIGITS}g}") for value in fixed])


def plan(
    view: View, setting: Doubles, plane: Sequence[int], *, is_coarse: bool = False
) -> tuple[Doubles, tuple[int, int]]:
    """Return the settings of a picture and its shape.

    Parameters
    ----------
    view : View
        The view.
    setting : numpy.ndarray of float64, shape (parameters,)
        A setting on the plane or the lines.
    plane : sequence of int
        Two of the view's axes; empty for a line along each axis.
    is_coarse : bool
        Whether to use half the points.

    Returns
    -------
    settings : numpy.ndarray of float64, shape (points, parameters)
        A grid over two parameters, or lines, evenly spaced on the parameters' scales. For two of several
        shares the plane is a triangle: the two shares are the grid coordinates, from 0 to 1, and the
        other shares divide the rest in proportion. Points where the two add up to more than 1 are NaN.
    shape : tuple of int
        The shape of the grid, or (lines, points a line).
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
    first, second = (index.ravel() for index in np.mgrid[:each, :each])
    grid = np.tile(setting, (each * each, 1))
    grid[:, plane[0]], grid[:, plane[1]] = first / (each - 1), second / (each - 1)
    grid[:, rest] = setting[rest] * ((each - 1 - first - second) / (each - 1))[:, None]
    grid[:, group] = np.maximum(grid[:, group], space.low[group])
    grid = space.normalise_shares(grid)
    grid[first + second >= each] = np.nan
    return grid


def _along(parameter: Parameter, each: int) -> list[float]:
    """Return values of a parameter from low to high, evenly spaced on its scale."""
    fractions = np.linspace(0.0, 1.0, each).tolist()
    return [parameter.clip(parameter.between(parameter.low, parameter.high, share)) for share in fractions]


def coarse_first(shape: tuple[int, int]) -> list[int]:
    """Return the indices of a grid's points, every eighth along both sides first, then the finer ones."""
    rows, columns = shape
    return sorted(range(rows * columns), key=lambda at: -math.gcd(*divmod(at, columns), 8))
