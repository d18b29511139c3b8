"""The convergence picture of losses."""

from __future__ import annotations

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.report.figures import Course, alt_text, render, training_courses


def courses() -> list[Course]:
    rng = np.random.default_rng(0)
    made = []
    for name, epochs in (("lambdarank", 12), ("song", 9)):
        steps = np.arange(1, epochs + 1)
        made.append(
            Course(
                name,
                [np.exp(-steps / 4) * 30 + rng.normal(0, 0.1, epochs) for _ in range(3)],
                [
                    0.5 - 0.2 / steps + rng.normal(0, 0.002, epochs)[: epochs - trial]
                    if trial == 0
                    else (0.5 - 0.2 / steps)[: epochs - trial]
                    for trial in range(3)
                ],
            )
        )
    return made


def test_it_shows_means_bands_and_words() -> None:
    drawn = courses()
    drawn[1].objective[0][:3] = np.nan  # warm-up
    drawn[1].objective[1][:3] = np.nan
    drawn[1].objective[2][:3] = np.nan
    figure = training_courses(drawn, measure="nDCG@10", title="made up")
    left, right = figure.axes
    lines = {str(line.get_label()): line for line in right.get_lines()}
    assert list(lines) == ["lambdarank", "song"]
    # Trials that stopped early stay where they were.
    table = [np.pad(own, (0, 12 - len(own)), mode="edge") for own in drawn[0].validation]
    assert np.asarray(lines["lambdarank"].get_ydata()) == pytest.approx(np.mean(table, axis=0))
    assert len(right.collections) == 2
    rescaled = np.asarray(left.get_lines()[1].get_ydata(), float)
    assert np.isnan(rescaled[:3]).all()
    assert (np.nanmin(rescaled), np.nanmax(rescaled)) == pytest.approx((0.0, 1.0))
    assert lines["lambdarank"].get_linestyle() != lines["song"].get_linestyle()
    assert lines["lambdarank"].get_marker() != lines["song"].get_marker()
    assert "song: 3 trials of 9 epochs, highest mean 0.4" in alt_text(figure)
    assert render(figure, "svg") == render(figure, "svg")


def test_nothing_to_draw() -> None:
    with pytest.raises(InputError):
        training_courses([], measure="nDCG@10")
