"""Every step of a line, held against the measure of the weights themselves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from made_runs import made

from lmtune.errors import InputError
from lmtune.fusion import search
from lmtune.fusion.methods import borda, normalised
from lmtune.fusion.runs import RunSet, prune
from lmtune.fusion.search import Line, Steps, best_steps, weights_at
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure

MEASURES = [
    "AP", "AP(rel=2)@5", "nDCG@3", "nDCG", "nDCG(dcg='exp-log2')@5", "P@4", "R@6", "RR", "Bpref", "Success@2",
]  # fmt: skip


def whole(pieces: list[Steps]) -> Steps:
    return Steps(
        np.concatenate([p.at for p in pieces]), np.concatenate([p.value for p in pieces]), pieces[-1].end
    )


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("depth", [1000, 7])
def test_two_runs_are_measured_at_and_between_all_breakpoints(measure: str, depth: int) -> None:
    runs, judged = made(1)
    parsed = parse_measure(measure)
    begin, end = np.eye(2)
    points = 0
    for columns in (normalised("min-max", "minimum"), normalised("rank", "zero"), borda):
        pool = runs.pool(columns, judged)
        found = whole(list(Line(pool, parsed, pool.positions(), depth).steps(begin, end)))
        assert found.at[0] == 0.0
        assert found.end == 1.0
        assert (found.width >= 0.0).all()
        places = found.at + 0.5 * found.width
        weights = np.array([weights_at(begin, end, t) for t in places.tolist()])
        direct = measure_settings(pool, weights, [parsed], depth=depth)[:, :, 0].mean(axis=0)
        np.testing.assert_allclose(found.value, direct, atol=1e-12)
        points += int((found.width == 0.0).sum())
    assert points > 0 or parsed.kind == "Success"


def test_a_point_may_be_better_than_both_of_its_sides() -> None:
    # Both relevant documents tie with others at equal weights, and come first there by their docnos.
    runs = RunSet.of(
        {
            "a": {"1": {"z": 0.0, "y": 1.0}, "2": {"z": 1.0, "y": 0.0}},
            "b": {"1": {"z": 1.0, "y": 0.0}, "2": {"z": 0.0, "y": 1.0}},
        }
    )
    pool = runs.pool(normalised("none", "zero"), {"1": {"z": 1}, "2": {"z": 1}})
    line = Line(pool, parse_measure("P@1"), pool.positions())
    begin, end = np.eye(2)
    [found] = line.steps(begin, end)
    assert found.at.tolist() == [0.0, 0.5, 0.5]
    assert found.value.tolist() == [0.5, 1.0, 0.5]
    [best, *_], highest = best_steps(iter([found]))
    assert (best.at, best.width, highest) == (0.5, 0.0, 1.0)
    assert weights_at(begin, end, 0.5).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("measure", ["AP", "nDCG@3", "RR", "Bpref"])
def test_lines_among_four_runs_and_in_pieces(measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, judged = made(2, runs=4, levels=50)
    pool = runs.pool(normalised("z-score", "minimum"), judged)
    parsed, rng = parse_measure(measure), np.random.default_rng(0)
    begin, end = rng.dirichlet(np.ones(4), size=2)
    line = Line(pool, parsed, pool.positions())
    found = whole(list(line.steps(begin, end)))
    wide = found.width > 1e-9
    weights = np.array([weights_at(begin, end, t) for t in (found.at + 0.5 * found.width)[wide].tolist()])
    direct = measure_settings(pool, weights, [parsed])[:, :, 0].mean(axis=0)
    np.testing.assert_allclose(found.value[wide], direct, atol=1e-12)

    monkeypatch.setattr(search, "_PAIRS", 10)
    pieces = list(line.steps(begin, end))
    assert len(pieces) > 3
    again = whole(pieces)
    at = np.searchsorted(again.at, (found.at + 0.5 * found.width)[wide], "right") - 1
    np.testing.assert_allclose(again.value[at], found.value[wide], atol=1e-12)
    for one, other in itertools.pairwise(pieces):
        assert one.end == other.at[0]


def test_pruned_candidates_have_the_same_steps() -> None:
    runs, judged = made(3, runs=3, docs=40, levels=9)
    pool = runs.pool(normalised("min-max", "minimum"), judged)
    pruned = prune(pool, 5)
    assert pruned.candidates.doc.size < 0.8 * pool.candidates.doc.size
    parsed, rng = parse_measure("nDCG@5"), np.random.default_rng(5)
    weights = np.concatenate((np.eye(3), np.ones((1, 3)), rng.dirichlet(np.ones(3), 200)))
    values = [measure_settings(p, weights, [parsed], depth=5) for p in (pool, pruned)]
    np.testing.assert_array_equal(values[0], values[1])
    with pytest.raises(InputError, match="pruned for a smaller run depth"):
        Line(pruned, parsed, pruned.positions(), 6)


def test_topics_may_count_by_columns() -> None:
    runs, judged = made(4)
    pool = runs.pool(normalised("min-max", "minimum"), judged)
    line = Line(pool, parse_measure("AP"), pool.positions())
    begin, end = np.eye(2)
    shares = np.random.default_rng(1).dirichlet(np.ones(5), 3).T
    [found] = line.steps(begin, end, shares)
    for column in range(3):
        [alone] = line.steps(begin, end, shares[:, column])
        np.testing.assert_allclose(found.value[:, column], alone.value, atol=1e-12)


def test_a_measure_without_an_exact_search() -> None:
    runs, judged = made(4)
    pool = runs.pool(borda, judged)
    with pytest.raises(InputError, match="no exact line search"):
        Line(pool, parse_measure("ERR@10"), pool.positions())
