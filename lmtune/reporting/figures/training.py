"""How losses and validation measures move from epoch to epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.reporting.figures.style import (
    PAGE,
    Look,
    finish,
    in_style,
    legend_below,
    looks,
    new_figure,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAND = 0.15


@dataclass(frozen=True)
class Course:
    """One loss's trainings.

    Attributes
    ----------
    name : str
        The loss.
    objective, validation : sequence of arrays of float, shape (epochs,)
        One array a trial; those that stopped early are shorter. An objective is NaN in epochs of
        warm-up, whose loss is another.
    """

    name: str
    objective: Sequence[NDArray[np.float64]]
    validation: Sequence[NDArray[np.float64]]


@in_style
def training_courses(courses: Sequence[Course], *, measure: str, title: str = "") -> Figure:
    """Draw objectives and the validation measure by epoch: means and ranges over trials.

    Losses have scales of their own, so that each objective is shown as a share of its way from
    the highest to the lowest mean.

    Parameters
    ----------
    courses : sequence of Course
        One a loss.
    measure : str
        The measure's title, such as ``"nDCG@10"``.
    title : str
        Put above both panels.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels; `alt_text` describes it.

    Raises
    ------
    InputError
        For no course, or one without an epoch.
    """
    from matplotlib.ticker import MaxNLocator

    if not courses or any(not own.validation or not own.objective for own in courses):
        raise InputError("no training to draw", accepted="one trial a loss at least")
    figure, [[left, right]] = new_figure(PAGE, 2.9, columns=2)
    drawn = looks([course.name for course in courses])
    floors = []
    for place, course in enumerate(courses):
        objective, validation = _over_trials(course.objective), _over_trials(course.validation)
        base = float(np.nanmin(objective[0]))
        spread = float(np.nanmax(objective[0])) - base or 1.0
        draw_course(left, course.name, drawn[course.name], place, (objective - base) / spread)
        draw_course(right, course.name, drawn[course.name], place, validation)
        low = validation[1]
        floors.append(float(low[len(low) // 10 :].min()))
    left.set_ylim(-0.1, 1.15)
    # Where trainings begin is far below where they end.
    bottom, top = right.get_ylim()
    right.set_ylim(max(bottom, min(floors) - 0.05 * (top - min(floors))), top)
    left.set_ylabel("training objective, rescaled")
    right.set_ylabel(f"{measure},\nvalidation queries")
    for ax in (left, right):
        ax.set_xlabel("epoch")
        ax.margins(x=0.02)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, 5)
    return finish(figure, _alt(courses, measure), title)


def _over_trials(trials: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return mean, lowest and highest by epoch; what has ended stays where it was."""
    longest = max(len(own) for own in trials)
    table = np.array([np.pad(own, (0, longest - len(own)), mode="edge") for own in trials])
    return np.array([table.mean(axis=0), table.min(axis=0), table.max(axis=0)])


def draw_course(ax: Axes, name: str, look: Look, place: int, band: NDArray[np.float64]) -> None:
    """Draw means by epoch, and the range about them: three rows."""
    mean, low, high = band
    epochs = np.arange(1, len(mean) + 1)
    ax.fill_between(epochs, low, high, color=look.color, alpha=_BAND, lw=0)
    # Markers of different losses stand at different epochs.
    step = max(1, len(mean) // 6)
    at = (min(place % step, len(mean) - 1), step)
    ax.plot(epochs, mean, **look.options(), ms=3.5, label=name, markevery=at)


def _alt(courses: Sequence[Course], measure: str) -> str:
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
