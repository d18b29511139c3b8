"""Systems compared: topic by topic, mean differences, recall and precision; how choices act together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, groupby, product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles
from lmtune.errors import InputError
from lmtune.io.result_folders import file_name
from lmtune.measures.evaluate import LEVELS
from lmtune.measures.significance.comparison import Comparison, Contrast
from lmtune.measures.significance.tests import confidence_interval
from lmtune.report.figures.style import (
    COLUMN,
    Picture,
    drawable,
    finish,
    in_style,
    label_below,
    legend_below,
    looks,
    new_figure,
    new_panels,
    short,
)
from lmtune.report.table import listed
from lmtune.tuning.choices.experiment import case_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lmtune.tuning.choices.experiment import ChoiceResult, ChosenRow
    from lmtune.tuning.choices.stored import StoredChoices
    from lmtune.tuning.experiment.result import Row


_NAMED = 30


@in_style
def topic_differences(
    system: ArrayLike,
    baseline: ArrayLike,
    *,
    measure: str,
    names: tuple[str, str] = ("system", "baseline"),
    topics: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """Draw the sorted differences of two systems over the same topics.

    Parameters
    ----------
    system, baseline : array_like of float, shape (topics,)
        The measure on each topic; drawn is system - baseline.
    measure : str
        The measure's title, such as ``"AP"``.
    names : tuple of str
        What the two are called.
    topics : sequence of str, optional
        Topic identifiers; written below the bars where there are at most 30.
    title : str
        Put above the counts.

    Returns
    -------
    matplotlib.figure.Figure
        `alt_text` describes it.

    Raises
    ------
    InputError
        For no topics, or different numbers of them.
    """
    first, second = np.asarray(system, np.float64), np.asarray(baseline, np.float64)
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise InputError(
            "no values of two systems on the same topics",
            value=(first.shape, second.shape),
            accepted="two arrays of equal length, one value a topic",
        )
    if topics and len(topics) != first.size:
        raise InputError("another number of topics than values", value=len(topics))
    difference = first - second
    order = np.argsort(-difference, kind="stable")
    ranked = difference[order]
    wins, losses = int((ranked > 0.0).sum()), int((ranked < 0.0).sum())
    ties = ranked.size - wins - losses
    mean = float(ranked.mean())

    figure, [[ax]] = new_figure(COLUMN, 2.5)
    labels = [drawable(topics[number], 16) for number in order] if topics else []
    _bars(ax, ranked, names)
    ax.axhline(0.0, color="black", lw=0.6)
    ax.axhline(mean, color="black", lw=0.8, ls="--", label=f"mean {_signed(mean)}")
    ax.set_xlim(0.5, ranked.size + 0.5)
    ax.set_ylabel(f"{measure}: {names[0]} − {names[1]}")
    if labels and ranked.size <= _NAMED:
        ax.set_xticks(np.arange(1, ranked.size + 1), labels)
        ax.tick_params(axis="x", rotation=90, length=0)
        ax.set_xlabel("topic")
    else:
        ax.set_xlabel(f"topics, best for {names[0]} first")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    counts = f"{wins:,} wins, {ties:,} ties, {losses:,} losses"
    ax.set_title(f"{title}\n{counts}" if title else counts, loc="left")
    legend_below(figure, 2)
    first_topic, last_topic = (f" (topic {labels[number]})" if labels else "" for number in (0, -1))
    return finish(
        figure,
        f"{measure} of {names[0]} minus {names[1]} on {ranked.size:,} topics, sorted: {counts}, "
        f"mean difference {_signed(mean)}, from {_signed(ranked[0])}{first_topic} to "
        f"{_signed(ranked[-1])}{last_topic}.",
    )


def _bars(ax: Axes, ranked: Doubles, names: tuple[str, str]) -> None:
    """Draw gains and losses, as bars that can be counted where they are few."""
    for values, colour, hatch, name in (
        (np.maximum(ranked, 0.0), "#0072B2", "", names[0]),
        (np.minimum(ranked, 0.0), "#E69F00", "/////", names[1]),
    ):
        look: dict[str, Any] = {"color": colour, "label": f"{name} better"}
        if ranked.size <= _NAMED:
            look |= {"hatch": hatch, "edgecolor": "white"}
            ax.bar(np.arange(1, ranked.size + 1), values, 0.8, linewidth=0.6, **look)
        else:
            ax.stairs(values, np.arange(ranked.size + 1) + 0.5, fill=True, linewidth=0.0, **look)


def _signed(value: float) -> str:
    return ("−" if value < 0.0 else "+") + short(abs(float(value)))


_LONGEST_NAME = 24


@in_style
def difference_intervals(comparison: Comparison, *, title: str = "") -> Figure:
    """Draw each contrast's mean difference and its confidence interval.

    Parameters
    ----------
    comparison : Comparison
        What `lmtune.compare` returns.
    title : str
        Put above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        A panel a measure, a line a contrast; points are full where the difference is significant
        after correction. `alt_text` describes it.
    """
    measures = comparison.measures
    figure, panels, _ = new_panels(len(measures), 0.9 + 0.24 * comparison.family, above=0.2, sharey=True)
    for ax, measure in zip(panels, measures, strict=True):
        of_measure = [contrast for contrast in comparison.contrasts if contrast.measure == measure]
        _draw(ax, of_measure, comparison)
        ax.set_title(measure, loc="left")
    share = f"{100 * comparison.options.confidence:g}% interval"
    together = " (together)" if comparison.interval_confidence > comparison.options.confidence else ""
    label_below(figure, f"mean difference, {share}{together}; full: significant")
    return finish(
        figure, " ".join(_alt(contrast, comparison, share) for contrast in comparison.contrasts), title
    )


def contrast_differences(
    comparison: Comparison,
    system: str | None = None,
    *,
    against: str | None = None,
    measure: str | None = None,
    title: str = "",
) -> Figure:
    """Draw one contrast's differences on each topic; see `topic_differences`.

    Parameters
    ----------
    comparison : Comparison
        What `lmtune.compare` returns.
    system, against, measure : str, optional
        Of the contrast; by default the first that there is.
    title : str
        Put above the counts.

    Raises
    ------
    InputError
        For a contrast that was not made.
    """
    wanted = (system, against, measure)
    for contrast in comparison.contrasts:
        names = (contrast.system, contrast.against, contrast.measure)
        if all(wish in (None, name) for wish, name in zip(wanted, names, strict=True)):
            return _topics(comparison, contrast, title)
    pairs = dict.fromkeys(f"{contrast.system} on {contrast.measure}" for contrast in comparison.contrasts)
    raise InputError("no such contrast", value=wanted, accepted=", ".join(pairs))


def comparison_pictures(comparison: Comparison) -> Iterator[Picture]:
    """Draw all intervals, then each contrast's differences on each topic."""
    figure = difference_intervals(comparison)
    yield Picture("intervals", "Mean differences and their intervals", figure)
    for contrast in comparison.contrasts:
        title = f"{contrast.measure}: {contrast.system} minus {contrast.against}"
        figure = _topics(comparison, contrast, "")
        name = file_name(f"{contrast.measure}-{contrast.system}-{contrast.against}-topics")
        yield Picture(name, f"{title} on each topic", figure)


def _topics(comparison: Comparison, contrast: Contrast, title: str) -> Figure:
    values = comparison.values[:, :, comparison.measures.index(contrast.measure)]
    names = contrast.system, contrast.against
    first, second = (values[comparison.systems.index(name)] for name in names)
    short_names = drawable(names[0], _LONGEST_NAME), drawable(names[1], _LONGEST_NAME)
    return topic_differences(
        first, second, measure=contrast.measure, names=short_names, topics=comparison.topics, title=title
    )


def _draw(ax: Axes, contrasts: list[Contrast], comparison: Comparison) -> None:
    look = looks(["differences"])["differences"]
    ups = np.arange(len(contrasts))[::-1]
    for up, contrast in zip(ups.tolist(), contrasts, strict=True):
        significant = contrast.adjusted[comparison.options.tests[0]] < comparison.options.level
        ax.plot(contrast.interval, (up, up), color=look.color, lw=1.2, solid_capstyle="butt")
        face = look.color if significant else "white"
        ax.plot(contrast.difference, up, marker="o", ms=5, mew=1.1, color=look.color, markerfacecolor=face)
    ax.axvline(0.0, color="black", lw=0.6, zorder=0)
    ax.set_yticks(ups, [_name(contrast, comparison) for contrast in contrasts])
    ax.set_ylim(-0.6, len(contrasts) - 0.4)
    ax.margins(x=0.08)
    ax.locator_params(axis="x", nbins=4)


def _name(contrast: Contrast, comparison: Comparison) -> str:
    names = [contrast.system, contrast.against] if comparison.options.pairwise else [contrast.system]
    return " − ".join(drawable(name, _LONGEST_NAME) for name in names)


def _alt(contrast: Contrast, comparison: Comparison, share: str) -> str:
    p = contrast.adjusted[comparison.options.tests[0]]
    said = f"{contrast.measure}: {contrast.system} minus {contrast.against} {short(contrast.difference)}"
    low, high = contrast.interval
    between = "no interval" if math.isnan(low) else f"{share} {short(low)} to {short(high)}"
    return f"{said}, {between}, {'no test' if math.isnan(p) else f'p {short(p)}'}."


_SAME = 0.004  # of the axis' height: a third of a line's width


@in_style
def recall_precision_curves(curves: Mapping[str, ArrayLike], *, title: str = "") -> Figure:
    """Draw eleven-point interpolated precision of several systems.

    Parameters
    ----------
    curves : mapping of str to array_like of float, shape (11,)
        By system, the precision at recall 0, 0.1, ..., 1; see
        `lmtune.measures.evaluate.setting_recall_precision`.
    title : str
        Put above.

    Returns
    -------
    matplotlib.figure.Figure
        `alt_text` describes it.

    Raises
    ------
    InputError
        For no curve, or one with another number of points.
    """
    if not curves:
        raise InputError("no recall-precision curve", accepted="one system or more")
    figure, [[ax]] = new_figure(COLUMN, 2.6)
    drawn = {name: np.asarray(values, np.float64) for name, values in curves.items()}
    look = looks(list(curves))
    for name, precision in drawn.items():
        if precision.shape != LEVELS.shape:
            raise InputError(f"{name} has no precision at eleven recall levels", value=precision.shape)
    top = min(1.0, 1.08 * max(float(heights.max()) for heights in drawn.values())) or 1.0
    groups = _alike(drawn, _SAME * top)
    for number, names in enumerate(groups):
        # Each line has marks at levels of its own, so that none covers another's.
        marks: dict[str, Any] = {"markevery": (number % LEVELS.size, min(len(groups), LEVELS.size))}
        marks |= {"ms": 3.5, "markerfacecolor": "white", "mew": 0.9, "clip_on": False}
        label = listed(names) + (", as one" if len(names) > 1 else "")
        ax.plot(LEVELS, drawn[names[0]], **look[names[0]].options(), **marks, label=label)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, top)
    ax.set_xticks(LEVELS[::2])
    ax.set_xlabel("recall")
    ax.set_ylabel("interpolated precision")
    legend_below(figure, 3 if len(groups) == len(drawn) else 2)
    ax.set_title(title, loc="left")
    values = "; ".join(
        f"{name} {', '.join(short(float(precision[number])) for number in (0, 5, 10))}"
        for name, precision in drawn.items()
    )
    alike = "".join(
        f" {listed(names)} are drawn as one: nowhere are they {short(_SAME * top)} apart."
        for names in groups
        if len(names) > 1
    )
    return finish(figure, f"Interpolated precision at recall 0, 0.5 and 1: {values}.{alike}")


def _alike(curves: Mapping[str, Doubles], apart: float) -> list[list[str]]:
    """Put curves together that are nowhere so far apart from the first of them that it could be seen."""
    groups: list[list[str]] = []
    for name, precision in curves.items():
        near = (group for group in groups if np.abs(precision - curves[group[0]]).max() < apart)
        group = next(near, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return groups


_LONGEST_LEVEL = 16
_APART = 0.08  # of lines at one value, so that no interval covers another


@in_style
def interactions(
    values: Doubles, levels: Mapping[str, Sequence[str]], *, measure: str, title: str = ""
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


def _panel(ax: Axes, cells: Doubles, along: Sequence[str], lines: Sequence[str]) -> None:
    means, halves = cells.mean(axis=-1), within_topics(cells)
    drawn = looks(list(lines))
    for number, name in enumerate(lines):
        at = np.arange(len(along)) + _APART * (number - (len(lines) - 1) / 2)
        own = drawn[name]
        label = drawable(name, _LONGEST_LEVEL)
        ax.errorbar(at, means[:, number], halves[:, number], **own.options(), capsize=2, lw=1.0, label=label)
    ax.set_xticks(range(len(along)), [drawable(name, _LONGEST_LEVEL) for name in along])
    ax.set_xlim(-0.4, len(along) - 0.6)


def within_topics(cells: Doubles) -> Doubles:
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


def full_design(levels: Mapping[str, Sequence[str]], by_case: Mapping[str, Doubles]) -> Doubles | None:
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
        yield replace(method_differences(result.name, chosen, first, "gains"), lead=not number)
        by_case = {case: own for (name, case), own in stored.values.items() if name == str(measure)}
        values = full_design(levels, by_case)
        if values is not None:
            title = f"{result.name}, {measure.title}: how the choices act together, tuned by {stored.method}"
            figure = interactions(values, levels, measure=measure.title)
            yield Picture(file_name(f"{result.name}-{measure}-interactions"), title, figure, result.name)


def method_differences(collection: str, system: Row, baseline: Row, name: str) -> Picture:
    """Draw the differences of two methods' rows on each topic of a collection."""
    measure, names = system.measure, (system.method, baseline.method)
    title = f"{collection}, {' against '.join(names)}"
    how: Any = {"measure": measure.label, "topics": system.topics, "names": names, "title": title}
    figure = topic_differences(system.values, baseline.values, **how)
    caption = f"{collection}, {measure.label}: {' minus '.join(names)} on each topic"
    return Picture(file_name(f"{collection}-{measure}-{name}"), caption, figure, collection)
