"""Pictures of searches and trainings: the best value so far, losses and measures by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles
from lmtune.errors import InputError
from lmtune.report.figures.style import (
    COLUMN,
    PAGE,
    Look,
    finish,
    in_style,
    legend_below,
    log_ticks,
    looks,
    new_figure,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Searches start far below their best value: the axis starts at this share of it.
_SHOWN = 0.9
_LOOKS = {
    "grid": Look("#000000", ":", "D"),
    "coordinate ascent": Look("#0072B2", "-", "o"),
    "RankNet (iterates)": Look("#D55E00", "--", "^"),
    "Approx (iterates)": Look("#CC79A7", "-.", "D"),
    "certificate": Look("#009E73", "-", "s"),
}


@dataclass(frozen=True)
class Search:
    """A search in progress.

    Attributes
    ----------
    name : str
        Such as ``"coordinate ascent"``.
    evaluations : array_like of int, shape (steps,)
        Number of settings, iterates or boxes evaluated by each step.
    best : array_like of float, shape (steps,)
        The result if the search stopped at this step; see `best_so_far` and `at_lowest`.
    bound : array_like of float, shape (steps,), optional
        Upper bound of a certificate; drawn in a separate panel.
    seconds : array_like of float, shape (steps,), optional
        Time since the start at each step.
    topics : str
        The topics of the measure, such as ``"training topics"``; for the axis' label.
    """

    name: str
    evaluations: ArrayLike
    best: ArrayLike
    bound: ArrayLike | None = None
    seconds: ArrayLike | None = None
    topics: str = ""


def best_so_far(values: ArrayLike) -> Doubles:
    """Return the running maximum."""
    best: Doubles = np.maximum.accumulate(np.asarray(values, np.float64))
    return best


def at_lowest(cost: ArrayLike, values: ArrayLike) -> Doubles:
    """Return at each step the value of the step with the lowest cost so far."""
    costs = np.asarray(cost, np.float64)
    lowest = np.minimum.accumulate(costs)
    # The first step with the lowest cost so far.
    new = np.append(True, lowest[1:] < lowest[:-1])
    step = np.maximum.accumulate(np.where(new, np.arange(costs.size), 0))
    reached: Doubles = np.asarray(values, np.float64)[step]
    return reached


@in_style
def convergence(searches: Sequence[Search], *, measure: str, title: str = "") -> Figure:
    """Draw the best value over evaluations and, if known, over seconds.

    Parameters
    ----------
    searches : sequence of Search
        Searches with a bound have a second panel, with the best value and the bound; searches with
        seconds have another one.
    measure : str
        The measure's title, such as ``"MAP"``.
    title : str
        The title above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        `alt_text` describes it.

    Raises
    ------
    InputError
        If there is no search.

    Examples
    --------
    >>> tuner = RankNetTuner(measures=["AP"]).fit(pool, topics=train)  # doctest: +SKIP
    >>> best = at_lowest(tuner.results_["cost"], tuner.results_["AP"])  # doctest: +SKIP
    >>> steps = range(1, len(best) + 1)  # doctest: +SKIP
    >>> search = Search("RankNet", steps, best, seconds=tuner.seconds_)  # doctest: +SKIP
    >>> figure = convergence([search], measure="MAP")  # doctest: +SKIP
    """
    if not searches:
        raise InputError("no search to draw", accepted="one or more")
    kinds = (
        ("settings evaluated", [search for search in searches if search.bound is None], False),
        ("boxes bounded", [search for search in searches if search.bound is not None], False),
        ("seconds", [search for search in searches if search.seconds is not None], True),
    )
    panels = [kind for kind in kinds if kind[1]]
    figure, [axes] = new_figure(COLUMN if len(panels) == 1 else PAGE, 2.6, columns=len(panels))
    look = looks([search.name for search in searches]) | _LOOKS
    for ax, (label, chosen, by_time) in zip(axes, panels, strict=True):
        for search in chosen:
            _draw(ax, search, look[search.name], by_time=by_time)
        ax.set_xscale("log")
        ax.set_xlabel(", ".join(dict.fromkeys([label, *(s.topics for s in chosen if s.topics)])))
        _limit(ax, chosen, by_time=by_time)
        log_ticks(ax.xaxis, *ax.get_xlim(), most=6)
    axes[0].set_ylabel(f"{measure}, best so far")
    legend_below(figure, 2 if len(panels) == 1 else 5)
    return finish(figure, f"{measure} while searching. " + " ".join(map(_alt, searches)), title)


def _draw(ax: Axes, search: Search, look: Look, *, by_time: bool) -> None:
    x, best = _along(search, by_time=by_time), np.asarray(search.best, np.float64)
    name = search.name if search.bound is None else f"{search.name}: best"
    ax.step(x, best, where="post", color=look.color, ls=look.line, label=name)
    ax.plot(x[-1], best[-1], marker=look.marker, color=look.color, ms=4, ls="none", clip_on=False)
    if search.bound is not None:
        bound = np.asarray(search.bound, np.float64)
        ax.step(x, bound, where="post", color="black", lw=0.9, ls="-", label=f"{search.name}: bound")
        ax.fill_between(x, best, bound, step="post", color="black", alpha=0.08, lw=0)


def _limit(ax: Axes, searches: Sequence[Search], *, by_time: bool) -> None:
    """Limit the axes to the ends of the searches and the bounds near them."""
    values = [np.asarray(search.best, np.float64) for search in searches]
    top = max(float(np.max(line)) for line in values)
    end = min(float(line[-1]) for line in values)
    low = max(min(float(np.min(line)) for line in values), min(_SHOWN * top, end))
    bounds = [np.asarray(s.bound, np.float64) for s in searches if s.bound is not None]
    sight = (2.0 - _SHOWN) * top
    high = max([top, *(min(float(line.max()), max(sight, float(line[-1]))) for line in bounds)])
    margin = 0.06 * ((high - low) or abs(top) or 1.0)
    ax.set_ylim(low - margin, high + margin)
    steps = [_along(search, by_time=by_time) for search in searches]
    first, last = min(float(line[0]) for line in steps), max(float(line[-1]) for line in steps)
    if len(bounds) == len(searches):
        first = min(
            float(line[max(0, int((bound > high).sum()) - 1)])
            for line, bound in zip(steps, bounds, strict=True)
        )
    # Margins of a tenth; an axis of a single step gets a length too.
    more = max((last / first) ** 0.1, 1.1)
    ax.set_xlim(first / more, last * more)


def _along(search: Search, *, by_time: bool) -> Doubles:
    along = search.seconds if by_time and search.seconds is not None else search.evaluations
    return np.asarray(along, np.float64)


def _alt(search: Search) -> str:
    best, steps = np.asarray(search.best, np.float64), np.asarray(search.evaluations)
    text = f"{search.name}: from {short(float(best[0]))} to {short(float(best[-1]))}"
    unit = "boxes" if search.bound is not None else "evaluations"
    text += f" after {int(steps[-1]):,} {unit}"
    if search.bound is not None:
        bound = np.asarray(search.bound, np.float64)
        text += f", the bound from {short(float(bound[0]))} down to {short(float(bound[-1]))}"
    if search.seconds is not None:
        text += f", in {float(np.asarray(search.seconds)[-1]):.3g} seconds"
    return text + "."


_BAND = 0.15


@dataclass(frozen=True)
class Course:
    """The training history of a loss.

    Attributes
    ----------
    name : str
        The loss.
    objective, validation : sequence of arrays of float, shape (epochs,)
        One array a trial, shorter after early stopping. The objective is NaN in warm-up epochs, which
        minimise another loss.
    """

    name: str
    objective: Sequence[Doubles]
    validation: Sequence[Doubles]


@in_style
def training_courses(courses: Sequence[Course], *, measure: str, title: str = "") -> Figure:
    """Draw objectives and the validation measure by epoch: means and ranges over trials.

    Losses have different scales, so each objective is rescaled: 0 is its lowest mean, 1 its highest.

    Parameters
    ----------
    courses : sequence of Course
        One a loss.
    measure : str
        The measure's title, such as ``"nDCG@10"``.
    title : str
        The title above both panels.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels; `alt_text` describes it.

    Raises
    ------
    InputError
        If there is no course, or one without an epoch.
    """
    from matplotlib.ticker import MaxNLocator

    if not courses or any(not one.validation or not one.objective for one in courses):
        raise InputError("no training to draw", accepted="at least one trial for each loss")
    figure, [[left, right]] = new_figure(PAGE, 2.9, columns=2)
    drawn = looks([course.name for course in courses])
    floors = []
    for number, course in enumerate(courses):
        objective, validation = _over_trials(course.objective), _over_trials(course.validation)
        base = float(np.nanmin(objective[0]))
        spread = float(np.nanmax(objective[0])) - base or 1.0
        _draw_course(left, course.name, drawn[course.name], number, (objective - base) / spread)
        _draw_course(right, course.name, drawn[course.name], number, validation)
        low = validation[1]
        floors.append(float(low[len(low) // 10 :].min()))
    left.set_ylim(-0.1, 1.15)
    # Trainings start far below their final value.
    bottom, top = right.get_ylim()
    right.set_ylim(max(bottom, min(floors) - 0.05 * (top - min(floors))), top)
    left.set_ylabel("training objective, rescaled")
    right.set_ylabel(f"{measure},\nvalidation queries")
    for ax in (left, right):
        ax.set_xlabel("epoch")
        ax.margins(x=0.02)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, 5)
    return finish(figure, _describe_courses(courses, measure), title)


def _over_trials(trials: Sequence[Doubles]) -> Doubles:
    """Return mean, lowest and highest by epoch; a trial that has ended keeps its last value."""
    longest = max(len(trial) for trial in trials)
    table = np.array([np.pad(trial, (0, longest - len(trial)), mode="edge") for trial in trials])
    return np.array([table.mean(axis=0), table.min(axis=0), table.max(axis=0)])


def _draw_course(ax: Axes, name: str, look: Look, number: int, band: Doubles) -> None:
    """Draw the mean and the range by epoch; the band's rows are mean, lowest and highest."""
    mean, low, high = band
    epochs = np.arange(1, len(mean) + 1)
    ax.fill_between(epochs, low, high, color=look.color, alpha=_BAND, lw=0)
    # Markers of different losses are at different epochs.
    step = max(1, len(mean) // 6)
    at = (min(number % step, len(mean) - 1), step)
    ax.plot(epochs, mean, **look.options(), ms=3.5, label=name, markevery=at)


def _describe_courses(courses: Sequence[Course], measure: str) -> str:
    text = f"Training objective and {measure} on the validation queries by epoch. "
    parts = []
    for course in courses:
        mean = _over_trials(course.validation)[0]
        best = int(mean.argmax())
        parts.append(
            f"{course.name}: {len(course.validation)} trials of {len(mean)} epochs, highest mean "
            f"{short(float(mean[best]))} in epoch {best + 1}, {short(float(mean[-1]))} at the end."
        )
    return text + " ".join(parts)
