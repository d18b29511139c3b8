"""Pictures of fused runs show what was measured."""

from __future__ import annotations

import numpy as np
import pytest
from made_runs import made

from lmtune.fusion.fusing import fuse_runs
from lmtune.fusion.methods import FusionOptions, normalised
from lmtune.fusion.search import Line, join_steps
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.report.figures import fusion_pictures, parameters
from lmtune.report.table import short


@pytest.mark.first_case
@pytest.mark.parametrize("runs", [2, 3])
def test_steps_and_choices_are_drawn_where_they_are(runs: int) -> None:
    loaded, judged = made(3, runs=runs, topics=6, levels=9)
    options = FusionOptions(measure=("AP",), method=("linear",), folds="2")
    result = fuse_runs(loaded, judged, options)
    row = result.selected
    [picture] = fusion_pictures(result, loaded, judged)
    assert picture.name == "AP-linear-weights"
    axes = [ax for ax in picture.figure.axes if ax.axison]
    assert len(axes) == (1 if runs == 2 else 3)
    pool = loaded.pool(normalised("min-max", "minimum"), judged, result.topics)
    for run, ax in enumerate(axes):
        drawn = {str(line.get_label()): np.array(line.get_data(), np.float64).T for line in ax.lines}
        name = loaded.names[run]
        assert drawn[parameters.CHOSEN].ravel().tolist() == [row.chosen.shares[name], row.in_sample]
        assert drawn[parameters.FOLDS][:, 0].tolist() == [own.shares[name] for own in row.folds]
        t, value = drawn["the measure"].T
        some = np.flatnonzero(np.diff(t) > 1e-6)  # the middles of steps that are no points
        share = 0.5 * (t[some] + t[some + 1])
        rest = np.array([row.chosen.weights[other] for other in loaded.names])
        rest[run] = 0.0
        weights = (1.0 - share)[:, None] * rest / rest.sum() + share[:, None] * np.eye(runs)[run]
        direct = measure_settings(pool, weights, [row.measure])[:, :, 0].mean(axis=0)
        np.testing.assert_allclose(value[some], direct, atol=1e-12)
    assert f"chosen {short(row.chosen.shares['r0'])}" in picture.alt


def test_ranges_of_many_steps_hold_every_step() -> None:
    loaded, judged = made(4, topics=9, docs=90, levels=10**6)
    pool = loaded.pool(normalised("min-max", "minimum"), judged)
    steps = join_steps(Line(pool, parse_measure("AP"), pool.positions()).steps(*np.eye(2)))
    assert steps.at.size > 1000
    at, low, high = parameters._ranges(steps)
    for t, least, most in zip(at, low, high, strict=True):
        begin, end = t - 0.0005 + 1e-12, t + 0.0005 - 1e-12
        # Points alone, such as the line's ends, are inside too.
        ends = np.append(steps.at[1:], 1.0)
        inside = ((steps.at < end) | ((t > 0.999) & (steps.at == 1.0))) & (
            (ends > begin) | (steps.at > begin - 2e-12)
        )
        assert (least, most) == (steps.value[inside].min(), steps.value[inside].max())
