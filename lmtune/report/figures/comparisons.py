"""Pictures of comparisons: topic and mean differences, recall and precision, interactions of choices."""

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
from lmtune.report.comparison_tables import interval_kind, interval_text, measure_label, p_value_text
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
        The measure on each topic; the picture shows system - baseline.
    measure : str
        The measure's title, such as ``"AP"``.
    names : tuple of str
        The names of the two systems.
    topics : sequence of str, optional
        Topic identifiers, printed below the bars of at most 30 topics.
    title : str
        The title, above the counts.

    Returns
    -------
    matplotlib.figure.Figure
        `alt_text` describes it.

    Raises
    ------
    InputError
        If there are no topics, or the numbers of topics differ.
    """
    first, second = np.asarray(system, np.float64), np.asarray(baseline, np.float64)
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise InputError(
            "two systems need values on the same topics",
            value=(first.shape, second.shape),
            accepted="two arrays of equal length, one value a topic",
        )
    if topics and len(topics) != first.size:
        raise InputError(
            "the numbers of topics and values differ", value=len(topics), accepted=str(first.size)
        )
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
    """Draw gains and losses; few topics have separate bars."""
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
    """Draw the mean difference and confidence interval of each contrast.

    Parameters
    ----------
    comparison : Comparison
        The result of `lmtune.compare`.
    title : str
        The title above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        A panel a measure, a line a contrast; filled points are significant after correction. `alt_text`
        describes it.
    """
    measures = comparison.measures
    figure, panels, _ = new_panels(len(measures), 0.9 + 0.24 * comparison.family, above=0.2, sharey=True)
    for ax, measure in zip(panels, measures, strict=True):
        of_measure = [contrast for contrast in comparison.contrasts if contrast.measure == measure]
        _draw(ax, of_measure, comparison)
        ax.set_title(measure_label(measure), loc="left")
    share = f"{100 * comparison.options.confidence:g}% CI"
    kind = f" ({interval_kind(comparison)})" if comparison.family > 1 else ""
    label_below(figure, f"mean difference, {share}{kind}; filled: significant")
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
    """Draw the topic differences of one contrast; see `topic_differences`.

    Parameters
    ----------
    comparison : Comparison
        The result of `lmtune.compare`.
    system, against, measure : str, optional
        System, baseline and measure of the contrast; default: the first one that matches.
    title : str
        The title, above the counts.

    Raises
    ------
    InputError
        If there is no such contrast.
    """
    wanted = (system, against, measure)
    for contrast in comparison.contrasts:
        names = (contrast.system, contrast.against, contrast.measure)
        if all(wish in (None, name) for wish, name in zip(wanted, names, strict=True)):
            return _topics(comparison, contrast, title)
    pairs = dict.fromkeys(f"{contrast.system} on {contrast.measure}" for contrast in comparison.contrasts)
    raise InputError("no such contrast", value=wanted, accepted=", ".join(pairs))


def comparison_pictures(comparison: Comparison) -> Iterator[Picture]:
    """Draw all intervals, then the topic differences of each contrast."""
    figure = difference_intervals(comparison)
    yield Picture("intervals", "Mean differences and their intervals", figure)
    for contrast in comparison.contrasts:
        title = f"{measure_label(contrast.measure)}: {contrast.system} minus {contrast.against}"
        figure = _topics(comparison, contrast, "")
        name = file_name(f"{contrast.measure}-{contrast.system}-{contrast.against}-topics")
        yield Picture(name, f"{title} on each topic", figure)


def _topics(comparison: Comparison, contrast: Contrast, title: str) -> Figure:
    values = comparison.values[:, :, comparison.measures.index(contrast.measure)]
    names = contrast.system, contrast.against
    first, second = (values[comparison.systems.index(name)] for name in names)
    short_names = drawable(names[0], _LONGEST_NAME), drawable(names[1], _LONGEST_NAME)
    measure = measure_label(contrast.measure)
    return topic_differences(
        first, second, measure=measure, names=short_names, topics=comparison.topics, title=title
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
    names = f"{measure_label(contrast.measure)}: {contrast.system} minus {contrast.against}"
    has_interval = not math.isnan(contrast.interval[0])
    interval = f"{share} {interval_text(contrast.interval)}" if has_interval else "no interval"
    test = "no test" if math.isnan(p) else p_value_text(p)
    return f"{names} {short(contrast.difference)}, {interval}, {test}."


_SAME = 0.004  # as a share of the axis: a third of a line's width


@in_style
def recall_precision_curves(curves: Mapping[str, ArrayLike], *, title: str = "") -> Figure:
    """Draw eleven-point interpolated precision of several systems.

    Parameters
    ----------
    curves : mapping of str to array_like of float, shape (11,)
        By system, the precision at recall 0, 0.1, ..., 1; see
        `lmtune.measures.evaluate.setting_recall_precision`.
    title : str
        The title.

    Returns
    -------
    matplotlib.figure.Figure
        `alt_text` describes it.

    Raises
    ------
    InputError
        If there is no curve, or one with another number of points.
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
    groups = _indistinguishable(drawn, _SAME * top)
    for number, names in enumerate(groups):
        # Markers of different lines are at different levels, so that none covers another.
        marks: dict[str, Any] = {"markevery": (number % LEVELS.size, min(len(groups), LEVELS.size))}
        marks |= {"ms": 3.5, "markerfacecolor": "white", "mew": 0.9, "clip_on": False}
        label = listed(names) + (" (one line)" if len(names) > 1 else "")
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
    merged = "".join(
        f" {listed(names)} have one line: they differ by less than {short(_SAME * top)}."
        for names in groups
        if len(names) > 1
    )
    return finish(figure, f"Interpolated precision at recall 0, 0.5 and 1: {values}.{merged}")


def _indistinguishable(curves: Mapping[str, Doubles], tolerance: float) -> list[list[str]]:
    """Group the names of curves whose distance from the first of the group is below the tolerance."""
    groups: list[list[str]] = []
    for name, precision in curves.items():
        near = (group for group in groups if np.abs(precision - curves[group[0]]).max() < tolerance)
        group = next(near, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return groups


_LONGEST_LEVEL = 16
_OFFSET = 0.08  # between lines at one option, so that intervals do not overlap


@in_style
def interactions(
    values: Doubles, levels: Mapping[str, Sequence[str]], *, measure: str, title: str = ""
) -> Figure:
    """Draw the means for each pair of categorical parameters; parallel lines mean no interaction.

    The intervals are 95% intervals by Student's t within topics: each topic's mean over the n points of a
    panel is subtracted, and the width is multiplied by sqrt(n / (n - 1)) (Morey, Confidence intervals from
    normalized data: a correction to Cousineau (2005), 2008). Topic difficulty does not widen them.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (options of each choice ..., topics)
        The measure of each case on each topic.
    levels : mapping of str to sequence of str
        The options of each choice, in the order of the axes.
    measure : str
        The measure's title.
    title : str
        The title above all panels.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each pair of choices, averaged over the others; `alt_text` describes it.
    """
    names = list(levels)
    pairs = [
        sorted(pair, key=lambda axis: -len(levels[names[axis]]))  # fewer lines, more points a line
        for pair in combinations(range(len(names)), min(2, len(names)))
    ]
    figure, panels, columns = new_panels(len(pairs), 2.7, above=0.3, sharey=True)
    sentences = []
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
        sentences.append(f"By {' and '.join(names[axis] for axis in pair)}: {'; '.join(parts)}.")
    return finish(figure, f"Means of {measure}, held out. {' '.join(sentences)}", title)


def _panel(ax: Axes, cells: Doubles, along: Sequence[str], lines: Sequence[str]) -> None:
    means, halves = cells.mean(axis=-1), within_topics(cells)
    drawn = looks(list(lines))
    for number, name in enumerate(lines):
        at = np.arange(len(along)) + _OFFSET * (number - (len(lines) - 1) / 2)
        look = drawn[name].options()
        label = drawable(name, _LONGEST_LEVEL)
        ax.errorbar(at, means[:, number], halves[:, number], **look, capsize=2, lw=1.0, label=label)
    ax.set_xticks(range(len(along)), [drawable(name, _LONGEST_LEVEL) for name in along])
    ax.set_xlim(-0.4, len(along) - 0.6)


def within_topics(cells: Doubles) -> Doubles:
    """Return the half widths of the 95% intervals of `interactions`; 0 for a single topic.

    Parameters
    ----------
    cells : numpy.ndarray of float64, shape (..., topics)
        The measure of a panel's points, two or more, on each topic.
    """
    flat = cells.reshape(-1, cells.shape[-1])
    residuals = flat - flat.mean(axis=0)
    correction = math.sqrt(len(flat) / (len(flat) - 1))
    halves = np.array([confidence_interval(row.tolist())[1] for row in residuals]) * correction
    return np.nan_to_num(halves.reshape(cells.shape[:-1]))


def full_design(levels: Mapping[str, Sequence[str]], by_case: Mapping[str, Doubles]) -> Doubles | None:
    """Return the values for `interactions` from values by case; None if a case was not tuned."""
    names = [case_name(dict(zip(levels, values, strict=True))) for values in product(*levels.values())]
    if not all(name in by_case for name in names):
        return None
    return np.array([by_case[name] for name in names]).reshape(*map(len, levels.values()), -1)


def choice_interactions(result: ChoiceResult, one: ChosenRow | None = None, *, title: str = "") -> Figure:
    """Draw the interactions of categorical parameters for a row's measure and method.

    Raises
    ------
    InputError
        If a race left cases untuned.
    """
    one = one or result.tuned or result.rows[0]
    rows = result.known_rows((one.row.measure, one.row.method))
    by_case = {str(result.cases[number]): row.values for number, row in rows.items()}
    levels = {choice.name: choice.values for choice in result.choices}
    values = full_design(levels, by_case)
    if values is None:
        raise InputError(
            "the picture needs all cases tuned, but a race dropped some",
            value=result.name,
            accepted="a full search",
        )
    return interactions(
        values, levels, measure=one.row.measure.title, title=title or f"{result.name}, {one.row.method}"
    )


def choice_pictures(stored: StoredChoices) -> Iterator[Picture]:
    """Draw the topic differences of the chosen and the first case, and the interactions of choices."""
    [result] = stored.results.results
    levels = stored.results.record["choices"]
    for number, (measure, rows) in enumerate(groupby(result.rows, key=lambda row: row.measure)):
        first, chosen = rows
        yield replace(method_differences(result.name, chosen, first, "gains"), lead=not number)
        by_case = {case: by_topic for (name, case), by_topic in stored.values.items() if name == str(measure)}
        values = full_design(levels, by_case)
        if values is not None:
            title = f"{result.name}, {measure.title}: interactions of the choices, tuned by {stored.method}"
            figure = interactions(values, levels, measure=measure.title)
            yield Picture(file_name(f"{result.name}-{measure}-interactions"), title, figure, result.name)


def method_differences(collection: str, system: Row, baseline: Row, name: str) -> Picture:
    """Draw the differences between two methods on each topic of a collection."""
    measure, names = system.measure, (system.method, baseline.method)
    title = f"{collection}, {' minus '.join(names)}"
    how: Any = {"measure": measure.label, "topics": system.topics, "names": names, "title": title}
    figure = topic_differences(system.values, baseline.values, **how)
    caption = f"{collection}, {measure.label}: {' minus '.join(names)} on each topic"
    return Picture(file_name(f"{collection}-{measure}-{name}"), caption, figure, collection)
