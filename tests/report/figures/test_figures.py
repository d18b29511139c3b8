"""What is drawn is what was given; files are reproducible; nothing global is touched."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from scripts import run_python

from lmtune.errors import InputError
from lmtune.measures.measure import parse_measure
from lmtune.report.figures import (
    Search,
    SurfacePanel,
    alt_text,
    at_lowest,
    best_profiles,
    best_so_far,
    convergence,
    parameter_spread,
    recall_precision_curves,
    render,
    save,
    surface,
    topic_differences,
)
from lmtune.report.figures.style import TWO_STAGE
from lmtune.tuning.space import ParameterSpace

LAMBDAS, MUS = ParameterSpace.of().grid((5, 6)).T
VALUES = 0.3 - 0.1 * (LAMBDAS - 0.475) ** 2 - 0.01 * np.log(MUS / 100.0) ** 2
NEAR = 0.9 * VALUES.max() < VALUES
BOXES = pd.DataFrame(
    [(0.4, 0.5, 50.0, 100.0, 0.31), (0.5, 0.6, 50.0, 100.0, 0.305)],
    columns=["lambda_low", "lambda_high", "mu_low", "mu_high", "bound"],
)
LINES = pd.DataFrame(
    {
        "line": ["best lambda"] * 3 + ["best mu"] * 3,
        "position": [0.1, 0.2, 0.3, 10.0, 100.0, 1000.0],
        "lambda": [0.1, 0.2, 0.3, 0.1, 0.1, 0.1],
        "mu": [100.0, 100.0, 100.0, 10.0, 100.0, 1000.0],
        "train": [0.20, 0.24, 0.25, 0.21, 0.20, 0.10],
        "test": [0.22, 0.23, 0.21, 0.2, 0.22, 0.11],
    }
)

CHOSEN = {"Direct": {"lambda": 0.3, "mu": 100.0, "train": 0.25}}


def panel(**more: object) -> SurfacePanel:
    return SurfacePanel("training topics", LAMBDAS, MUS, VALUES, **more)  # type: ignore[arg-type]


def all_figures() -> dict[str, Figure]:
    parameters = pd.DataFrame(
        {
            "measure": ["MAP", "MAP", "P@10", "P@10"],
            "method": ["Direct", "Direct", "RankNet", "RankNet"],
            "fold": [1, 2, 1, 2],
            "lambda": [0.4, 0.5, 0.7, 0.7],
            "mu": [50.0, 100.0, 90.0, 95.0],
        }
    )
    steps = np.arange(1, 5)
    return {
        "surface": surface(
            [
                panel(
                    paths={"RankNet:'s iterates": [([0.1, 0.2], [10.0, 20.0])]},
                    evaluations={"Direct:'s evaluations": ([0.3, 0.4], [30.0, 40.0])},
                    points={"Direct": (0.5, 100.0)},
                ),
                panel(boxes=BOXES, near=NEAR),
            ],
            measure="MAP",
        ),
        "profiles": best_profiles(LINES, TWO_STAGE, CHOSEN, measure="MAP"),
        "topics": topic_differences([0.5, 0.2, 0.4], [0.3, 0.2, 0.5], measure="AP"),
        "recall": recall_precision_curves({"a": np.linspace(1, 0, 11), "b": np.full(11, 0.3)}),
        "convergence": convergence(
            [
                Search("grid", steps, [0.1, 0.2, 0.2, 0.3], seconds=[1.0, 2.0, 3.0, 4.0]),
                Search("certificate", 16 * steps, [0.3] * 4, bound=[0.9, 0.5, 0.32, 0.301]),
            ],
            measure="MAP",
        ),
        "spread": parameter_spread(parameters),
    }


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    return all_figures()


@pytest.fixture(scope="module")
def again() -> dict[str, Figure]:
    return all_figures()


NAMES = ["surface", "profiles", "topics", "recall", "convergence", "spread"]


@pytest.mark.first_case
@pytest.mark.parametrize("name", NAMES)
def test_every_picture_is_labelled_and_described(name: str, figures: dict[str, Figure]) -> None:
    figure = figures[name]
    assert alt_text(figure).endswith(".")
    assert any(character.isdigit() for character in alt_text(figure))
    axes = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    last_row = [ax for ax in axes if ax.get_subplotspec().is_last_row()]  # type: ignore[union-attr]
    assert all(ax.get_xlabel() for ax in last_row)
    first = [ax for ax in axes if ax.get_subplotspec().is_first_col()]  # type: ignore[union-attr]
    assert all(ax.get_ylabel() for ax in first)
    assert figure.get_figwidth() <= 7.0


@pytest.mark.first_case
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "surface")) for name in NAMES]
)
def test_equal_files(name: str, figures: dict[str, Figure], again: dict[str, Figure], tmp_path: Path) -> None:
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for suffix in starts:
        save(figures[name], tmp_path / f"one.{suffix}")
    assert {path.name for path in tmp_path.iterdir()} == {f"one.{suffix}" for suffix in starts}
    files = {suffix: (tmp_path / f"one.{suffix}").read_bytes() for suffix in starts}
    for suffix in reversed(starts):  # in another order: what a figure was drawn as before does not show
        assert render(again[name], suffix) == files[suffix]
        assert files[suffix].startswith(starts[suffix])
    assert render(again[name], "svg") == files["svg"]
    # Text is text, and the description goes with the file.
    assert b"<text" in files["svg"]
    assert alt_text(figures[name])[:30].encode() in files["svg"].replace(b"&#x27;", b"'")
    assert b"/Type3" not in files["pdf"]
    assert b"CreationDate" not in files["pdf"]


def test_other_suffixes_are_refused(figures: dict[str, Figure], tmp_path: Path) -> None:
    for name in ("a.jpg", "a", "a.svg.gz"):
        with pytest.raises(InputError, match="unknown picture format"):
            save(figures["recall"], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_no_global_state_and_no_display() -> None:
    script = """
import sys
import matplotlib as mpl
mpl.rcParams["font.size"] = 31.0
before = mpl.rcParams.copy()
sys.path.insert(0, "tests/report/figures")
from test_figures import all_figures
from lmtune.report.figures import render
for figure in all_figures().values():
    assert figure.axes[0].xaxis.label.get_fontsize() == 8.0
    render(figure, "png")
assert mpl.rcParams.copy() == before
assert "matplotlib.pyplot" not in sys.modules
"""
    root = Path(__file__).resolve().parents[3]
    run_python("-W", "error", "-c", script, cwd=root, PATH="", PYTHONPATH=f"{root}:{root / 'tests'}")


def test_importing_the_figures_does_not_import_matplotlib() -> None:
    script = "import sys, lmtune.report.figures; assert 'matplotlib' not in sys.modules"
    run_python("-c", script)


def lines_of(ax: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        str(line.get_label()): (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
        for line in ax.lines
    }


def test_surface_draws_bands_paths_points_and_region(figures: dict[str, Figure]) -> None:
    train, test, bar = figures["surface"].axes
    assert train.get_yscale() == "log"
    assert train.get_xlim() == pytest.approx((0.0, 0.95))
    assert train.get_ylim() == pytest.approx((1.0, 1e5))
    drawn = [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in train.lines]
    expected = [([0.3, 0.4], [30.0, 40.0]), ([0.1, 0.2], [10.0, 20.0]), ([0.5], [100.0])]
    for (x, y), (expected_x, expected_y) in zip(drawn, expected, strict=True):
        assert (x.ravel().tolist(), y.ravel().tolist()) == (expected_x, expected_y)
    assert [text.get_text() for text in bar.get_yticklabels()] == [
        "0.5 %",
        "1 %",
        "2 %",
        "5 %",
        "10 %",
        "20 %",
    ]
    assert f"best on the grid {VALUES.max():.4f}" in train.get_title("left")
    # The heat map once, and once more clipped to the boxes' region.
    maps = [artist for artist in test.collections if isinstance(artist, QuadContourSet)]
    assert len(maps) == 2
    clip, _ = maps[1].get_clip_path().get_transformed_path_and_affine()  # type: ignore[union-attr]
    assert np.asarray(clip.vertices).shape == (2 * 5, 2)
    [outline] = [artist for artist in test.collections if isinstance(artist, LineCollection)]
    upright = [side for side in np.array(outline.get_segments()) if side[0, 0] == side[1, 0]]
    # The outermost points are on the outline; these are just inside.
    xs, ys = (np.clip(own, own.min() + 1e-3, own.max() - 1e-3) for own in (LAMBDAS, MUS))
    for x, y, is_near in zip(xs, ys, NEAR, strict=True):
        # A point is in a region if a ray to the left crosses its sides an odd number of times.
        crossed = sum(side[0, 0] <= x and side[:, 1].min() < y < side[:, 1].max() for side in upright)
        assert crossed % 2 == is_near
    assert 1 < NEAR.sum() < NEAR.size
    assert "proven near-optimal" in [text.get_text() for text in figures["surface"].legends[0].texts][-2]
    assert f"has {NEAR.sum()} of the grid points" in alt_text(figures["surface"])
    assert "2 boxes (1.3% of the area)" in alt_text(figures["surface"])
    assert "λ from 0.400 to 0.600, μ (tokens) from 50 to 100" in alt_text(figures["surface"])


def test_a_surface_over_one_lambda_or_setting_is_drawn() -> None:
    for space in (
        ParameterSpace.of("two-stage", {"lambda": (0.5, 0.5)}),
        ParameterSpace.of("two-stage", {"lambda": (0.5, 0.5), "mu": (10.0, 10.0)}),
    ):
        lambdas, mus = space.grid((5, 6)).T
        values = np.linspace(0.1, 0.2, lambdas.size)
        figure = surface([SurfacePanel("all", lambdas, mus, values)], measure="MAP")
        assert render(figure, "png")
    with pytest.raises(InputError, match="not a full grid"):
        surface([SurfacePanel("all", LAMBDAS[1:], MUS[1:], VALUES[1:])], measure="MAP")


def test_an_all_zero_surface_is_drawn() -> None:
    figure = surface([SurfacePanel("all", LAMBDAS, MUS, np.zeros(LAMBDAS.size))], measure="MAP")
    assert render(figure, "png")


def test_differences_are_sorted_and_counted() -> None:
    rng = np.random.default_rng(0)
    for count in (12, 400):
        system, baseline = rng.random((2, count)).round(2)
        baseline[:4] = system[:4]
        difference = system - baseline
        topics = [f"t{number}" for number in range(count)]
        figure = topic_differences(
            system, baseline, measure="AP", names=("new", "old"), topics=topics, title="made"
        )
        [ax] = figure.axes
        if count == 12:
            heights = np.array([bar.get_height() for bar in ax.patches]).reshape(2, count)  # type: ignore[attr-defined]
            labels = [text.get_text() for text in ax.get_xticklabels()]
            assert labels == [topics[place] for place in np.argsort(-difference, kind="stable")]
        else:
            heights = np.array([stair.get_data().values for stair in ax.patches])  # type: ignore[attr-defined]
        np.testing.assert_array_equal(heights.sum(axis=0), np.sort(difference)[::-1])
        assert (heights[0] >= 0.0).all()
        assert (heights[1] <= 0.0).all()
        wins, losses = (difference > 0).sum(), (difference < 0).sum()
        counted = f"{wins} wins, {count - wins - losses} ties, {losses} losses"
        assert ax.get_title("left") == f"made\n{counted}"
        assert counted in alt_text(figure)
        assert f"(topic {topics[int(difference.argmin())]})" in alt_text(figure)
    with pytest.raises(InputError, match="same topics"):
        topic_differences([0.1], [0.1, 0.2], measure="AP")
    with pytest.raises(InputError, match="same topics"):
        topic_differences([], [], measure="AP")


def test_recall_precision_curves_are_the_arrays(figures: dict[str, Figure]) -> None:
    [ax] = figures["recall"].axes
    drawn = lines_of(ax)
    assert list(drawn) == ["a", "b"]
    np.testing.assert_allclose(drawn["a"], [np.linspace(0, 1, 11), np.linspace(1, 0, 11)])
    looks = {(line.get_linestyle(), line.get_marker()) for line in ax.lines}
    assert len(looks) == 2
    with pytest.raises(InputError, match="eleven"):
        recall_precision_curves({"a": [0.1, 0.2]})
    with pytest.raises(InputError, match="no recall"):
        recall_precision_curves({})


def test_many_systems_differ_in_more_than_colour() -> None:
    figure = recall_precision_curves({f"s{number}": np.full(11, 0.1 * (number + 1)) for number in range(7)})
    looks = {(str(line.get_linestyle()), line.get_marker()) for line in figure.axes[0].lines}
    assert len(looks) == 7


def test_running_bests() -> None:
    assert best_so_far([0.1, 0.3, 0.2, 0.4]).tolist() == [0.1, 0.3, 0.3, 0.4]
    assert at_lowest([5, 3, 4, 3, 1], [0.1, 0.2, 0.9, 0.8, 0.3]).tolist() == [0.1, 0.2, 0.2, 0.2, 0.3]


def test_convergence_has_panels_for_evaluations_bounds_and_seconds(figures: dict[str, Figure]) -> None:
    settings, boxes, seconds = figures["convergence"].axes
    assert [ax.get_xlabel() for ax in (settings, boxes, seconds)] == [
        "settings evaluated",
        "boxes bounded",
        "seconds",
    ]
    assert lines_of(settings)["grid"] == ([1, 2, 3, 4], [0.1, 0.2, 0.2, 0.3])
    assert lines_of(seconds)["grid"] == ([1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.2, 0.3])
    assert lines_of(boxes)["certificate: best"][1] == [0.3] * 4
    assert lines_of(boxes)["certificate: bound"] == ([16, 32, 48, 64], [0.9, 0.5, 0.32, 0.301])
    assert not any(isinstance(artist, PathCollection) for artist in settings.collections)
    text = alt_text(figures["convergence"])
    assert "grid: from 0.1000 to 0.3000 after 4 evaluations, in 4 seconds" in text
    assert "after 64 boxes, the bound from 0.9000 down to 0.3010" in text
    with pytest.raises(InputError, match="no search"):
        convergence([], measure="MAP")


def test_spread_draws_every_fold(figures: dict[str, Figure]) -> None:
    first, second = figures["spread"].axes
    assert lines_of(first)["Direct"] == ([0.4, 0.5], [50.0, 100.0])
    assert lines_of(second)["RankNet"] == ([0.7, 0.7], [90.0, 95.0])
    assert [text.get_text() for text in first.texts] == ["1", "2"]
    assert first.get_title("left") == "MAP"
    low, high = first.get_ylim()
    assert low < 50.0 < 100.0 < high
    assert high / low >= 9.99
    with pytest.raises(InputError, match="no parameters"):
        parameter_spread(pd.DataFrame({"measure": [], "method": []}))


def test_settings_of_the_caller_are_not_used() -> None:
    with mpl.rc_context({"font.size": 30.0, "svg.fonttype": "path"}):
        own = recall_precision_curves({"a": np.linspace(1, 0, 11)}, title="λ")
        drawn = render(own, "svg")
    assert drawn == render(own, "svg")
    other = recall_precision_curves({"a": np.linspace(1, 0, 11)}, title="λ")
    assert drawn == render(other, "svg")


def test_recall_curves_that_look_alike_are_one_with_all_names() -> None:
    curve = np.linspace(0.6, 0.1, 11)
    figure = recall_precision_curves({"Direct": curve, "RankNet": curve - 0.02, "Approx": curve + 0.001})
    [ax] = figure.axes
    assert [str(line.get_label()) for line in ax.lines] == ["Direct and Approx (one line)", "RankNet"]
    assert "Direct and Approx have one line" in alt_text(figure)
    every: list[Any] = [line.get_markevery() for line in ax.lines]
    marked = [set(range(11)[first::step]) for first, step in every]
    assert not marked[0] & marked[1]


def test_methods_that_chose_the_same_are_all_seen() -> None:
    grid = np.array([(x, y) for x in (0.1, 0.5, 0.9) for y in (10.0, 100.0, 1000.0)])
    names = ("Direct", "RankNet", "Approx", "Optimal")
    panel = SurfacePanel(
        "topics", grid[:, 0], grid[:, 1], np.arange(9.0), points=dict.fromkeys(names, (0.5, 100.0))
    )
    [ax, *_] = surface([panel], measure="MAP").axes
    sizes = [float(line.get_markersize()) for line in ax.lines]
    assert len(sizes) == 4
    assert all(below - above >= 2 for below, above in itertools.pairwise(sizes))


def test_a_columns_svg_is_wide_enough_for_a_screen() -> None:
    figure = recall_precision_curves({"a": np.full(11, 0.5)})
    root = ElementTree.fromstring(render(figure, "svg"))
    width, shown = float(root.attrib["width"].removesuffix("pt")), root.attrib["viewBox"].split()
    assert width / 0.75 > 480  # CSS pixels; 326 before
    assert width / float(shown[2]) == pytest.approx(
        float(root.attrib["height"].removesuffix("pt")) / float(shown[3]), rel=1e-4
    )


def test_titles_are_for_readers() -> None:
    measure = parse_measure("nDCG(dcg='exp-log2')@10")
    assert measure.title == measure.label == "nDCG@10 (gains 2^g - 1)"
    assert [parse_measure(name).title for name in ("AP", "nDCG@10", "RR@10")] == ["MAP", "nDCG@10", "MRR@10"]
    assert [parse_measure(name).label for name in ("AP", "nDCG", "AP(rel=2)@5")] == [
        "AP",
        "nDCG",
        "AP(rel=2)@5",
    ]
