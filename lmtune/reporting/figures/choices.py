"""What was chosen: its gain on each topic, and how choices act together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby, product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.measures.significance.effects import confidence_interval
from lmtune.reporting.figures.comparisons import topic_differences
from lmtune.reporting.figures.style import Picture, drawable, finish, in_style, looks, new_panels, short
from lmtune.reporting.result_folder import file_name
from lmtune.tuning.choices.cases import case_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lmtune.reporting.choice_tables import StoredChoices
    from lmtune.tuning.choices.experiment import ChoiceResult, ChosenRow

_LONGEST_LEVEL = 16
_APART = 0.08  # of lines at one value, so that no interval covers another


@in_style
def interactions(
    values: NDArray[np.float64], levels: Mapping[str, Sequence[str]], *, measure: str, title: str = ""
) -> Figure:
    """Draw the means of every two choices' values together: lines that are parallel do not interact.

    Intervals are 95%, by Student's t, of what is left when each topic's mean over the panel's points is
    taken from it, widened by sqrt(n / (n - 1)) of n points (Morey, Confidence intervals from normalized
    data: a correction to Cousineau (2005), 2008): how hard topics are does not widen them.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (levels of each choice ..., topics)
        A case's value on each topic.
    levels : mapping of str to sequence of str
        The choices' values, in the order of the axes.
    measure : str
        Its title.
    title : str
        Put above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each pair of choices, the others averaged over; `alt_text` describes it.
    """
    names = list(levels)
    pairs = [
        sorted(pair, key=lambda axis: -len(levels[names[axis]]))  # few lines, of many points
        for pair in combinations(range(len(names)), min(2, len(names)))
    ]
    figure, panels, columns = new_panels(len(pairs), 2.7, above=0.3, sharey=True)
    said = []
    for number, (ax, pair) in enumerate(zip(panels, pairs, strict=True)):
        others = tuple(axis for axis in range(len(names)) if axis not in pair)
        cells = values.mean(axis=others)
        if pair != sorted(pair):
            cells = cells.swapaxes(0, 1)
        along, *lines = (levels[names[axis]] for axis in pair)
        cells = cells.reshape(len(along), -1, values.shape[-1])
        _panel(ax, cells, along, lines[0] if lines else [""])
        ax.set_xlabel(names[pair[0]])
        if lines:
            ax.legend(title=names[pair[1]], loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)
        if number % columns == 0:
            ax.set_ylabel(f"{measure}, held out")
        shown = product(along, *lines)
        means = map(short, cells.mean(axis=-1).ravel().tolist())
        parts = [f"{', '.join(case)} {mean}" for case, mean in zip(shown, means, strict=True)]
        said.append(f"By {' and '.join(names[axis] for axis in pair)}: {'; '.join(parts)}.")
    return finish(figure, f"Means of {measure}, held out. {' '.join(said)}", title)


def _panel(ax: Axes, cells: NDArray[np.float64], along: Sequence[str], lines: Sequence[str]) -> None:
    means, halves = cells.mean(axis=-1), within_topics(cells)
    drawn = looks(list(lines))
    for number, name in enumerate(lines):
        at = np.arange(len(along)) + _APART * (number - (len(lines) - 1) / 2)
        own = drawn[name]
        label = drawable(name, _LONGEST_LEVEL)
        ax.errorbar(at, means[:, number], halves[:, number], **own.options(), capsize=2, lw=1.0, label=label)
    ax.set_xticks(range(len(along)), [drawable(name, _LONGEST_LEVEL) for name in along])
    ax.set_xlim(-0.4, len(along) - 0.6)


def within_topics(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the half widths of the 95% intervals of `interactions`; 0 of one topic.

    Parameters
    ----------
    cells : numpy.ndarray of float64, shape (..., topics)
        The points of a panel, two or more, on each topic.
    """
    flat = cells.reshape(-1, cells.shape[-1])
    left = flat - flat.mean(axis=0)
    wider = math.sqrt(len(flat) / (len(flat) - 1))
    halves = np.array([confidence_interval(own.tolist())[1] for own in left]) * wider
    return np.nan_to_num(halves.reshape(cells.shape[:-1]))


def full_design(
    levels: Mapping[str, Sequence[str]], by_case: Mapping[str, NDArray[np.float64]]
) -> NDArray[np.float64] | None:
    """Return what `interactions` takes, of cases by their names; None where a race left some untuned."""
    names = [case_name(dict(zip(levels, values, strict=True))) for values in product(*levels.values())]
    if not all(name in by_case for name in names):
        return None
    return np.array([by_case[name] for name in names]).reshape(*map(len, levels.values()), -1)


def choice_interactions(result: ChoiceResult, one: ChosenRow | None = None, *, title: str = "") -> Figure:
    """Draw the interactions of a result's choices, for a row's measure and method.

    Raises
    ------
    InputError
        Where a race left cases untuned.
    """
    one = one or result.tuned or result.rows[0]
    rows = result.known_rows((one.row.measure, one.row.method))
    by_case = {str(result.cases[number]): row.values for number, row in rows.items()}
    levels = {choice.name: choice.values for choice in result.choices}
    values = full_design(levels, by_case)
    if values is None:
        raise InputError(
            "no picture of choices that a race left untuned", value=result.name, accepted="a full search"
        )
    return interactions(
        values, levels, measure=one.row.measure.title, title=title or f"{result.name}, {one.row.method}"
    )


def choice_pictures(stored: StoredChoices) -> Iterator[Picture]:
    """Draw what choosing gains on each topic, and how choices act together."""
    [result] = stored.results.results
    levels = stored.results.record["choices"]
    for number, (measure, rows) in enumerate(groupby(result.rows, key=lambda row: row.measure)):
        first, chosen = rows
        names = chosen.method, first.method
        figure = topic_differences(
            chosen.values,
            first.values,
            measure=measure.label,
            topics=chosen.topics,
            names=names,
            title=f"{result.name}, {' against '.join(names)}",
        )
        title = f"{result.name}, {measure.label}: {' minus '.join(names)} on each topic"
        stem = file_name(f"{result.name}-{measure}")
        yield Picture(f"{stem}-gains", title, figure, result.name, lead=not number)
        by_case = {case: own for (name, case), own in stored.values.items() if name == str(measure)}
        values = full_design(levels, by_case)
        if values is not None:
            title = f"{result.name}, {measure.title}: how the choices act together, tuned by {stored.method}"
            figure = interactions(values, levels, measure=measure.title)
            yield Picture(f"{stem}-interactions", title, figure, result.name)
