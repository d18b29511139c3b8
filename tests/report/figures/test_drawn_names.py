"""Names of the user's are drawn as they are: no mathematics, no control characters, never too long."""

from __future__ import annotations

import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from reported import made_results, write_made

from lmtune.report.figures import (
    Course,
    Search,
    SurfacePanel,
    best_profiles,
    convergence,
    draw,
    parameter_spread,
    recall_precision_curves,
    render,
    surface,
    topic_differences,
    training_courses,
)
from lmtune.report.figures.style import ParameterAxis, drawable
from lmtune.tuning.space import ParameterSpace

NAMES = [r"a$\frac{$b", "$x^{$", "two\nlines", "\u05d0\u05d1\u202eab", "\x1b]0;title\x07", "x" * 300, "&<"]
LAMBDAS, MUS = ParameterSpace.of().grid((3, 4)).T


def all_figures(name: str) -> list[Figure]:
    axes = ParameterAxis(name, name), ParameterAxis("mu", name, is_log=True)
    parameters = pd.DataFrame(
        {"measure": [name] * 2, "method": [name, "other"], "fold": 1, name: [0.4, 0.5], "mu": [5.0, 10.0]}
    )
    lines = pd.DataFrame(
        {"line": f"best {name}", "position": [0.0, 1.0], name: [0.1, 0.2], "mu": [10.0, 1000.0]}
        | {column: [0.3, 0.4] for column in ("train", "test")}
    )
    panel = SurfacePanel(name, LAMBDAS, MUS, LAMBDAS * MUS, points={name: (0.4, 20.0)})
    epochs = np.arange(3.0)
    return [
        parameter_spread(parameters, axes, title=name),
        best_profiles(lines, axes, {name: {name: 0.1, "train": 0.3}}, measure=name, title=name),
        surface([panel], axes, measure=name, title=name),
        convergence([Search(name, epochs + 1, epochs, topics=name)], measure=name, title=name),
        recall_precision_curves({name: np.linspace(1, 0, 11)}, title=name),
        topic_differences([0.5], [0.3], measure=name, names=(name, name), topics=[name], title=name),
        training_courses([Course(name, [epochs], [epochs])], measure=name, title=name),
    ]


@pytest.mark.first_case
@pytest.mark.parametrize("name", NAMES)
def test_every_picture_draws_every_name(name: str) -> None:
    for figure in all_figures(name):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")
            warnings.simplefilter("error")
            svg = render(figure, "svg")
        ElementTree.fromstring(svg)
        drawn = "\n".join(text.get_text() for text in figure.findobj(Text))
        assert drawable(name.split("\n")[0], 48)[:9] in drawn
        assert max(map(len, drawn.split("\n"))) <= 80
        assert "\x1b" not in drawn and "\u202e" not in drawn


@pytest.mark.slow
def test_dollars_are_drawn_as_text(tmp_path: Path) -> None:
    name = r"a$\frac{$b"
    results = made_results([name], topics=["$x^{$", "2", "3", "4"])
    folder = write_made(tmp_path / "results", results)
    pictures = list(draw(folder, results))
    assert len(pictures) > 1
    for picture in pictures:
        svg = ElementTree.fromstring(render(picture.figure, "svg"))
        assert any(name in (text or "") for text in svg.itertext())
