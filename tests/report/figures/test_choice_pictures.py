"""How choices act together, drawn: every point and interval against brute force and scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from lmtune.report.figures import alt_text, interactions, render
from lmtune.report.figures.comparisons import full_design, within_topics

LEVELS = {
    "stemmer": ("none", "porter"),
    "stopwords": ("lucene", "none", "a_$list$"),
    "model": ("bm25", "sdm"),
}


@pytest.fixture
def values() -> np.ndarray:
    rng = np.random.default_rng(4)
    return rng.random((2, 3, 2, 9)) * 0.2 + rng.random(9)


def test_every_panel_has_the_means_over_the_other_choices(values: np.ndarray) -> None:
    figure = interactions(values, LEVELS, measure="MAP", title="toy")
    panels = figure.axes
    assert [ax.get_xlabel() for ax in panels] == ["stopwords", "stemmer", "stopwords"]
    legends: list[Any] = [ax.get_legend() for ax in panels]
    assert [legend.get_title().get_text() for legend in legends] == ["stemmer", "model", "model"]
    expected = {
        0: lambda along, line: values[line, along].mean(),
        1: lambda along, line: values[along, :, line].mean(),
        2: lambda along, line: values[:, along, line].mean(),
    }
    for number, ax in enumerate(panels):
        containers: Any = ax.containers
        lines = [container.lines[0] for container in containers]
        assert len(lines) == 2
        for line, drawn in enumerate(lines):
            heights = [expected[number](along, line) for along in range(len(drawn.get_ydata()))]
            np.testing.assert_allclose(drawn.get_ydata(), heights, rtol=1e-12)
    assert f"porter, bm25 {values[1, :, 0].mean():.4f}" in alt_text(figure)
    assert b"a_$list$" in render(figure, "svg")
    assert render(figure, "png") == render(interactions(values, LEVELS, measure="MAP", title="toy"), "png")


def test_one_choice_is_a_single_line(values: np.ndarray) -> None:
    figure = interactions(values[0, :, 0], {"stopwords": LEVELS["stopwords"]}, measure="AP")
    [ax] = figure.axes
    containers: Any = ax.containers
    [line] = [container.lines[0] for container in containers]
    np.testing.assert_allclose(line.get_ydata(), values[0, :, 0].mean(axis=-1))
    assert ax.get_legend() is None


def test_of_two_points_the_interval_is_that_of_their_difference() -> None:
    first, second = np.random.default_rng(1).random((2, 30))
    found = within_topics(np.array([first, second]))
    low, high = stats.ttest_rel(first, second).confidence_interval(0.95)
    # Morey's identity: by sqrt(2) it is as wide as the paired t interval.
    np.testing.assert_allclose(np.sqrt(2.0) * found, [(high - low) / 2] * 2, rtol=1e-12)


def test_intervals_ignore_how_hard_topics_are(values: np.ndarray) -> None:
    cells = values.reshape(12, 9)
    by_hand = []
    for cell in cells:
        left = [value - np.mean([other[topic] for other in cells]) for topic, value in enumerate(cell)]
        error = stats.sem(left) * np.sqrt(12 / 11)
        by_hand.append(error * stats.t.ppf(0.975, 8))
    np.testing.assert_allclose(within_topics(values), np.reshape(by_hand, (2, 3, 2)), rtol=1e-12)
    harder = values - np.linspace(0.0, 5.0, 9)
    np.testing.assert_allclose(within_topics(harder), within_topics(values), rtol=1e-9)
    assert not within_topics(values[..., :1]).any()


def test_a_design_with_a_gap_has_no_picture() -> None:
    levels = {"stemmer": ("none", "porter"), "model": ("bm25", "sdm")}
    names = [
        f"stemmer = {stemmer}, model = {model}" for stemmer in ("none", "porter") for model in ("bm25", "sdm")
    ]
    by_case = {name: np.full(3, number) for number, name in reversed([*enumerate(names)])}
    found = full_design(levels, by_case)
    assert found is not None
    assert found[:, :, 0].tolist() == [[0, 1], [2, 3]]
    assert full_design(levels, {name: by_case[name] for name in names[:3]}) is None
