"""No weights exceed the bound, and it comes down to the best."""

from __future__ import annotations

import numpy as np
import pytest
from made_runs import made

from lmtune.fusion.certificate import certify
from lmtune.fusion.fusing import fuse_runs
from lmtune.fusion.methods import FusionOptions, normalised
from lmtune.fusion.search import Line, best_steps
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure

MEASURES = ["AP", "AP(rel=2)@5", "nDCG@3", "nDCG(dcg='exp-log2')", "P@4", "R@6", "RR", "Bpref", "Success@2"]


@pytest.mark.parametrize("name", MEASURES)
def test_the_bound_holds_and_is_reached(name: str) -> None:
    runs, judged = made(12, runs=3, docs=20, levels=1000)
    pool, measure = runs.pool(normalised("min-max", "minimum"), judged), parse_measure(name)
    weights = np.concatenate((np.eye(3), np.random.default_rng(0).dirichlet(np.ones(3), 4000)))
    best = measure_settings(pool, weights, [measure])[:, :, 0].mean(axis=0).max()
    at_once = certify(pool, measure, {}, boxes=1)
    assert at_once.boxes == 7  # the triangle, its sides and corners
    assert at_once.bound >= best - 1e-12
    found = certify(pool, measure, {}, tolerance=0.005)
    assert best - 1e-12 <= found.bound <= found.value + 0.005 + 1e-12
    [value] = measure_settings(pool, found.weights, [measure])[:, :, 0].mean(axis=0)
    assert value == found.value


@pytest.mark.parametrize("name", ["AP", "nDCG@5"])
def test_two_runs_have_the_bound_of_their_line(name: str) -> None:
    runs, judged = made(13, docs=30, levels=1000)
    pool, measure = runs.pool(normalised("min-max", "minimum"), judged), parse_measure(name)
    begin, end = np.eye(2)
    _, highest = best_steps(Line(pool, measure, pool.positions()).steps(begin, end))
    assert certify(pool, measure, {}, tolerance=1e-9).bound == pytest.approx(highest, abs=1e-9)


def test_fusing_with_a_proof(caplog: pytest.LogCaptureFixture) -> None:
    runs, judged = made(14, runs=3, docs=20, levels=1000)
    options = FusionOptions(("AP",), ("linear",), in_sample=True, certify=0.002)
    with caplog.at_level("INFO", "lmtune"):
        row = fuse_runs(runs, judged, options).selected
    assert row.bound is not None
    assert row.in_sample <= row.bound <= row.in_sample + 0.002 + 1e-12
    assert "no weights exceed linear's in-sample mean by more than" in caplog.text
    assert "boxes bounded" in caplog.text


def test_a_proof_stops_by_its_work_alone() -> None:
    runs, judged = made(14, runs=4, docs=20, levels=1000)
    pool, measure = runs.pool(normalised("min-max", "minimum"), judged), parse_measure("AP")
    few, again, more = (certify(pool, measure, {}, tolerance=0.0, boxes=boxes) for boxes in (200, 200, 2000))
    assert few == again
    assert 200 <= few.boxes < 300 and 2000 <= more.boxes < 2100
    assert more.bound <= few.bound
