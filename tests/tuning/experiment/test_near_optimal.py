"""The box of settings that are not significantly worse, against all boxes tried one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from lmtune.measures.measure import parse_measure
from lmtune.tuning.experiment.near_optimal import near_optimal
from lmtune.tuning.grid import Surface

AP = parse_measure("AP")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", [(5, 6), (7, 1)])
def test_the_box_is_the_largest_of_all_without_a_worse_point(seed: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    x, y = np.arange(shape[0]) * 1.0, np.arange(shape[1]) + 10.0
    settings = np.array([(a, b) for a in x for b in y])
    # A ridge: not a box itself.
    height = -0.012 * np.abs(settings[:, 0] - settings[:, 1] + 11.0 - 2.0 * (shape[1] == 1))
    values = 0.5 + height[None, :, None] + rng.normal(0.0, 0.04, (30, len(settings), 1))
    surface = Surface(("x", "y"), settings, (AP,), values)
    topics = np.arange(3, 30)
    chosen = {"x": [1.5, 2.0, 0.0][seed % 3], "y": 12.5 if shape[1] > 1 else 10.0}
    own = 0.5 + rng.normal(0.0, 0.01, topics.size)

    fine = {
        tuple(setting): not (column.mean() < own.mean() and stats.ttest_rel(column, own).pvalue < 0.05)
        for setting, column in zip(settings.tolist(), values[topics, :, 0].T, strict=True)
    }
    sizes = {}
    xs, ys = [*x, chosen["x"]], [*y, chosen["y"]]
    for (a, b), (c, d) in product(product(xs, xs), product(ys, ys)):
        points = [p for p in fine if a <= p[0] <= b and c <= p[1] <= d]
        inside = a <= chosen["x"] <= b and c <= chosen["y"] <= d
        if inside and len(points) > 1 and all(fine[p] for p in points):
            sizes[a, b, c, d] = len(points)
    found = near_optimal(surface, AP, topics, chosen, own)
    assert bool(found) == bool(sizes)
    if sizes:
        box = (*found["x"], *found.get("y", (10.0, 10.0)))
        assert sizes[box] == max(sizes.values()) < len(settings)
    assert set(found) <= ({"x", "y"} if shape[1] > 1 else {"x"})


def test_only_full_grids_of_few_parameters_have_a_box() -> None:
    settings = np.array([(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)])
    values = np.full((5, 3, 1), 0.5)
    surface = Surface(("x", "y"), settings, (AP,), values)
    assert near_optimal(surface, AP, np.arange(5), {"x": 1.0, "y": 1.0}, np.full(5, 0.5)) == {}
