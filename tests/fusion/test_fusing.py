"""Runs read, normalised and fused, held against formulas written out and against trec_eval's values."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from made_runs import made

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import cross_validation
from lmtune.errors import InputError
from lmtune.fusion.fusing import FusionResult, fuse_runs, jackknife
from lmtune.fusion.methods import (
    METHODS,
    NORMALISATIONS,
    Chosen,
    FusionOptions,
    borda,
    counted_scores,
    normalised,
    rankings,
    reciprocal_ranks,
)
from lmtune.fusion.runs import RunSet, ranks
from lmtune.fusion.search import ExactLineSearch, Fitting, climb_starts, coordinate_line, fit_linear
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run, write_run
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.report.fusion_tables import fusion_table
from lmtune.tuning.surrogate import SurrogateTuner

DL19 = Path(__file__).parents[3] / "shared/data/trec_dl19"
NAN = np.nan
SCORES = np.array([[3.0, NAN, 1.0, 2.0], [5.0, 5.0, NAN, NAN]])


def test_normalisations_of_one_topic() -> None:
    third = np.sqrt(2.0 / 3.0)
    expected = {
        "min-max": [[1.0, NAN, 0.0, 0.5], [1.0, 1.0, NAN, NAN]],
        "z-score": [[1 / third, NAN, -1 / third, 0.0], [1.0, 1.0, NAN, NAN]],
        "sum": [[2 / 3, NAN, 0.0, 1 / 3], [0.5, 0.5, NAN, NAN]],
        "rank": [[1.0, NAN, 1 / 3, 2 / 3], [1.0, 0.5, NAN, NAN]],
        "none": SCORES,
    }
    for name, values in expected.items():
        np.testing.assert_allclose(NORMALISATIONS[name](SCORES), np.array(values), atol=1e-15)
    np.testing.assert_array_equal(ranks(SCORES), [[1, NAN, 3, 2], [1, 2, NAN, NAN]])
    np.testing.assert_allclose(normalised("none", "minimum")(SCORES), [[2, 0, 0, 1], [5, 5, 0, 0]])
    np.testing.assert_allclose(normalised("none", "minimum")(-SCORES), [[0, 0, 2, 1], [0, 0, 0, 0]])
    np.testing.assert_allclose(normalised("none", "zero")(SCORES), [[3, 0, 1, 2], [5, 5, 0, 0]])


@pytest.mark.parametrize("missing", ["minimum", "zero"])
@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_the_only_document_of_a_run_counts(normalise: str, missing: str) -> None:
    """As in Elasticsearch and OpenSearch, whose min-max and z-score give it 1."""
    [only, nothing, other] = normalised(normalise, missing)(np.array([[NAN, 7.0], [NAN, NAN], [2.0, 1.0]]))
    assert only.tolist() == [0.0, 7.0 if normalise == "none" else 1.0]
    assert nothing.tolist() == [0.0, 0.0]
    assert other[0] > other[1]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (counted_scores("min-max", 0), [2.0, 1.0, 0.0, 0.5]),
        (counted_scores("min-max", 1), [4.0, 1.0, 0.0, 0.5]),
        (counted_scores("min-max", -1), [1.0, 1.0, 0.0, 0.5]),
        (reciprocal_ranks(60.0), [2 / 61, 1 / 62, 1 / 63, 1 / 62]),
        # 4, 3, 2 points and the last one; 4, 3 and (2 + 1) / 2 for each of two: less 1 and 1.5.
        (borda, [8 - 2.5, 4 - 2.5, 3.5 - 2.5, 4.5 - 2.5]),
    ],
)
def test_sums_of_one_topic(columns: Callable[[np.ndarray], np.ndarray], expected: list[float]) -> None:
    np.testing.assert_allclose(columns(SCORES).sum(axis=0), expected, rtol=1e-14)


@pytest.mark.slow
def test_every_written_run_is_measured_by_trec_eval_as_the_table_says(tmp_path: Path) -> None:
    runs, judged = made(7, runs=3, docs=25)
    options = FusionOptions(measure=("AP", "nDCG@5"), method=tuple(METHODS), in_sample=True)
    found = fuse_runs(runs, judged, options)
    assert [row.chosen.method for row in found.rows[: 3 + len(METHODS)]] == ["single"] * 3 + list(METHODS)
    for row in found.rows:
        if row.chosen.method == "single":
            continue
        write_run(tmp_path / "run", rankings(runs, row.chosen, options), tag="t")
        measure = ir_measures.parse_measure(str(row.measure))
        [metric] = ir_measures.calc_aggregate([measure], judged, read_run(tmp_path / "run")).values()
        assert metric == pytest.approx(row.in_sample, abs=1e-12), row.chosen.method
    by_method = {row.chosen.method: row for row in found.rows[: 3 + len(METHODS)]}
    assert by_method["linear"].in_sample >= by_method["equal"].in_sample
    assert by_method["rrf-tuned"].in_sample >= by_method["rrf"].in_sample
    assert set(by_method["linear"].gains) == {"best single run", "rrf", "equal"}
    assert set(by_method["rrf"].gains) == {"best single run"}


def test_single_runs_are_measured_as_they_are() -> None:
    runs, judged = made(8, levels=4)
    found = fuse_runs(runs, judged, FusionOptions(measure=("AP",), method=("borda",), in_sample=True))
    for row, name in zip(found.rows, runs.names, strict=False):
        own = {
            topic: {
                runs.docnos[doc]: score
                for doc, score in zip(runs.docs[topic], table[runs.names.index(name)], strict=True)
                if not np.isnan(score)
            }
            for topic, table in runs.scores.items()
        }
        [expected] = ir_measures.calc_aggregate([ir_measures.AP], judged, own).values()
        assert row.in_sample == pytest.approx(expected, abs=1e-12)


def test_held_out_values_are_those_of_weights_from_other_topics() -> None:
    runs, judged = made(9, topics=8, levels=40)
    options = FusionOptions(measure=("AP",), method=("linear",), folds="4")
    found = fuse_runs(runs, judged, options)
    row = found.selected
    assert row.bound is not None
    assert row.in_sample == pytest.approx(row.bound, abs=1e-9)
    assert row.mean <= row.bound + 1e-12
    pool = runs.pool(normalised("min-max", "minimum"), judged, found.topics)
    for fold in cross_validation(found.topics, 4):
        tuner, _ = fit_linear(Fitting(pool, row.measure, fold.train))
        places = pool.positions(fold.test)
        values = measure_settings(pool, tuner.best_params_, [row.measure], topics=places)
        np.testing.assert_array_equal(values[:, 0, 0], row.values[places])
    for name, (low, high) in row.flat.items():
        share = row.chosen.weights[name] / sum(row.chosen.weights.values())
        assert 0.0 <= low <= share <= high <= 1.0
        assert 0.0 <= row.interval[name][0] <= share <= row.interval[name][1] <= 1.0


@pytest.mark.slow
def test_ranges_and_intervals_contain_shrunk_weights() -> None:
    runs, judged = made(21, runs=3, topics=12, docs=30, levels=40)
    row = fuse_runs(runs, judged, FusionOptions(("AP",), ("shrunk",), folds="3")).selected
    pool = runs.pool(normalised("min-max", "minimum"), judged)
    for name, share in row.chosen.shares.items():
        low, high = row.flat[name]
        assert low <= share <= high
        assert row.interval[name] == jackknife([fold.shares for fold in row.folds], row.chosen.shares)[name]
        assert row.interval[name][0] <= share <= row.interval[name][1]
        # Within the range the mean is at most 0.001 below that of the weights; just outside it is lower.
        others = {run: own / (1.0 - share) for run, own in row.chosen.shares.items() if run != name}
        for at, is_inside in (
            (low + 1e-7, True),
            (high - 1e-7, True),
            (low - 1e-7, False),
            (high + 1e-7, False),
        ):
            if 0.0 < at < 1.0:
                weights = {run: own * (1.0 - at) for run, own in others.items()} | {name: at}
                mean = measure_settings(pool, weights, [row.measure])[:, 0, 0].mean()
                assert (mean >= row.in_sample - 0.001 - 1e-12) == is_inside


def test_no_random_weights_beat_the_optimum_of_two_runs() -> None:
    runs, judged = made(10, topics=20, docs=40, levels=30)
    pool = runs.pool(normalised("min-max", "minimum"), judged)
    for name in ("AP", "nDCG@5", "RR"):
        found = ExactLineSearch(name).fit(pool)
        shares = np.random.default_rng(0).random(3000)
        weights = np.stack((shares, 1.0 - shares), axis=1)
        best = measure_settings(pool, weights, [parse_measure(name)])[:, :, 0].mean(axis=0).max()
        assert best <= found.best_value_ + 1e-12
        assert found.bound_ == pytest.approx(found.best_value_, abs=1e-12)


@pytest.mark.slow
def test_climbs_never_end_below_their_starts_and_lines_stay_on_the_simplex() -> None:
    runs, judged = made(11, runs=4, topics=10, docs=30, levels=30)
    pool = runs.pool(normalised("min-max", "minimum"), judged)
    starts, taken = climb_starts(Fitting(pool, parse_measure("AP"), pool.topics))
    # Equal weights, a gradient's end, four runs, eight of the weights drawn.
    assert len(starts) == 14 and taken > 1000
    tuner, evaluations = fit_linear(Fitting(pool, parse_measure("AP"), pool.topics))
    assert evaluations == taken + tuner.n_evaluations_
    assert (tuner.results_[list(runs.names)] >= 0.0).all(axis=None)
    for start in starts:
        alone = ExactLineSearch("AP", starts=[start]).fit(pool)
        first = measure_settings(pool, start, [parse_measure("AP")])[:, 0, 0].mean()
        assert first - 1e-12 <= alone.best_value_
        assert first - 1e-12 <= tuner.best_value_
    begin, end = coordinate_line(np.array([0.2, 0.3, 0.5]), 1)
    np.testing.assert_allclose(begin, [2 / 7, 0, 5 / 7])
    np.testing.assert_array_equal(end, [0, 1, 0])


def test_runs_that_cannot_be_fused(caplog: pytest.LogCaptureFixture) -> None:
    a, b = {"1": {"x": 1.0, "y": 0.5}}, {"1": {"x": 2.0, "y": 2.0}, "2": {"x": 1.0}}
    with pytest.raises(InputError, match="no topic in common"):
        RunSet.of({"a": a, "b": {"9": {"x": 1.0}}})
    with pytest.raises(InputError, match="beyond 32 bits"):
        RunSet.of({"a": a, "b": {"1": {"x": 1e300}}})
    with caplog.at_level("INFO", "lmtune"):
        runs = RunSet.of({"a": a, "b": b, "c": a})
    assert "run c is identical to run a" in caplog.text
    assert "1 of 2 topics are missing from some runs" in caplog.text
    assert "run b: all scores are equal for 1 topic" in caplog.text
    with pytest.raises(InputError, match="nothing to fuse"):
        fuse_runs(runs.only("a"), {"1": {"x": 1}})
    with pytest.raises(InputError, match="no topic of the runs has relevant documents"):
        fuse_runs(runs, {"1": {"x": 0}})
    with caplog.at_level("INFO", "lmtune"):
        fuse_runs(
            runs,
            {"1": {"x": 1}, "3": {"x": 1}, "4": {"x": 0}},
            FusionOptions(in_sample=True, method=("rrf",)),
        )
    assert "left out 1 topic of the runs without judgments" in caplog.text
    assert "left out 1 judged topic without a relevant document" in caplog.text
    assert "left out 1 judged topic in no run" in caplog.text


def telling_runs(runs: int, telling: int, topics: int = 15) -> tuple[RunSet, dict[str, dict[str, int]]]:
    """Make runs of noise, of which some know what is relevant."""
    rng = np.random.default_rng(0)
    judged = {str(t): {f"d{d:02}": int(d < 6) for d in range(30)} for t in range(topics)}
    given = {
        f"r{run:02}": {
            topic: {doc: float(rng.normal() + 1.5 * gain * (run < telling)) for doc, gain in own.items()}
            for topic, own in judged.items()
        }
        for run in range(runs)
    }
    return RunSet.of(given), judged


@pytest.mark.slow
def test_many_runs_share_their_weights_as_held_out_topics_ask() -> None:
    runs, judged = telling_runs(12, 2)
    found = fuse_runs(runs, judged, FusionOptions(measure=("AP",), folds="3"))
    assert [row.chosen.method for row in found.rows[12:]] == [
        name for name, method in METHODS.items() if method.is_default and not method.is_for_few_runs
    ]
    shrunk, equal = (next(row for row in found.rows if row.name == name) for name in ("shrunk", "equal"))
    shares = shrunk.chosen.shares
    assert shares["r00"] + shares["r01"] > 0.5
    assert shrunk.mean > equal.mean + 0.1
    assert found.selected is found.recommended
    text = fusion_table(found)
    assert "r00" in text
    assert "Within 0.001" not in text


@pytest.mark.slow
def test_progress_moves_within_each_choice_and_never_back() -> None:
    runs, judged = telling_runs(4, 2)
    shares: dict[str, list[float]] = {}

    def report(stage: str, done: int, total: int, detail: str = "") -> None:
        assert stage == "fusing"
        shares.setdefault(detail, []).append(done / total)

    methods = ("shrunk", "forward")
    fuse_runs(runs, judged, FusionOptions(measure=("AP",), method=methods, folds="2"), progress=report)
    together = list(itertools.chain.from_iterable(shares.values()))
    assert together == sorted(together)
    assert together[-1] == 1.0
    for method in methods:  # three choices each: on all topics, and in two folds
        assert len(set(shares[f"AP, {method}"])) > 6


@pytest.mark.slow
def test_where_no_weights_help_equal_ones_are_taken() -> None:
    runs, judged = telling_runs(4, 4)
    found = fuse_runs(runs, judged, FusionOptions(measure=("AP",), method=("shrunk", "equal"), folds="3"))
    shrunk, equal = (next(row for row in found.rows if row.name == name) for name in ("shrunk", "equal"))
    assert set(shrunk.chosen.shares.values()) == {0.25}
    few = fuse_runs(
        runs, dict(list(judged.items())[:4]), FusionOptions(method=("shrunk", "equal"), in_sample=True)
    )
    assert [row.in_sample for row in few.rows if row.name == "shrunk"] == [
        row.in_sample for row in few.rows if row.name == "equal"
    ]
    assert equal.mean >= shrunk.mean - 1e-12


def test_a_ridge_of_weights_is_the_mean_square_of_what_is_not_equal() -> None:
    runs, judged = telling_runs(3, 1)
    pool = runs.pool(normalised("min-max", "minimum"), judged)
    centre, scale = pool.formula.ridge(pool.count)
    weights = np.array([0.5, 0.3, 0.1])
    expected = np.mean((3 * weights - 1.0) ** 2)
    assert np.sum((scale * (weights - centre)) ** 2) == pytest.approx(expected, rel=1e-14)
    sizes = []
    for ridge in (0.0, 0.01, 10.0):
        found = SurrogateTuner("approx-ap", starts=1, ridge=ridge).fit(pool).best_params_
        sizes.append(float(np.ptp(list(found.values()))))
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[2] < 0.02


def bits(result: FusionResult) -> dict[tuple[str, str], object]:
    """Return all that a fusion says of each method, by run where it is of runs."""
    return {
        (str(row.measure), row.name): (
            row.chosen.constant,
            sorted(row.chosen.weights.items()),
            row.in_sample.hex(),
            row.values.tobytes(),
            row.bound,
            row.evaluations,
            sorted(row.flat.items()),
            sorted(row.interval.items()),
            sorted(row.gains.items()),
            [sorted(own.weights.items()) for own in row.folds],
        )
        for row in result.rows
    }


def reordered(runs: RunSet, names: Sequence[str]) -> RunSet:
    given = {
        name: {
            topic: {
                runs.docnos[doc]: float(score)
                for doc, score in zip(runs.docs[topic], table[runs.names.index(name)], strict=True)
                if not np.isnan(score)
            }
            for topic, table in runs.scores.items()
        }
        for name in names
    }
    return RunSet.of(given)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        FusionOptions(("nDCG@5",), ("linear", "combmnz"), folds="2", restarts=1),
        FusionOptions(("AP",), ("rrf-tuned",), normalise="z-score", in_sample=True, restarts=1),
    ],
)
def test_every_order_of_runs_gives_the_same_bits(options: FusionOptions, tmp_path: Path) -> None:
    runs, judged = made(20, runs=3, topics=6, docs=10, levels=40)
    expected = fuse_runs(runs, judged, options)
    write_run(tmp_path / "run", rankings(runs, expected.selected.chosen, options), tag="t")
    for names in itertools.permutations(runs.names):
        given = reordered(runs, names)
        found = fuse_runs(given, judged, options)
        assert bits(found) == bits(expected)
        assert found.runs == names
        assert [row.name for row in found.rows[:3]] == list(names)
        tuned = found.fixed(found.rows[0].measure)
        assert list(tuned.chosen.weights) == list(tuned.flat) == list(names)
        write_run(tmp_path / "other", rankings(given, found.selected.chosen, options), tag="t")
        assert (tmp_path / "other").read_bytes() == (tmp_path / "run").read_bytes()


def random_best(pool: CandidatePool, measure: str, draws: int = 10_000) -> float:
    runs, rng = len(pool.formula.parameters), np.random.default_rng(1)
    weights = [rng.dirichlet(np.full(runs, spread), draws // 2) for spread in (1.0, 0.3)]
    values = measure_settings(pool, np.concatenate(weights), [parse_measure(measure)])
    return float(values[:, :, 0].mean(axis=0).max())


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("seed", "runs", "measure"), [(1, 4, "RR"), (9, 4, "RR"), (11, 3, "nDCG@5"), (5, 6, "AP")]
)
def test_no_random_weights_beat_a_climb(seed: int, runs: int, measure: str) -> None:
    given, judged = made(seed, runs=runs, topics=12, docs=30, levels=40)
    pool = given.pool(normalised("min-max", "minimum"), judged)
    tuner, _ = fit_linear(Fitting(pool, parse_measure(measure), pool.topics))
    assert random_best(pool, measure) <= tuner.best_value_ + 1e-12


@pytest.mark.slow
@pytest.mark.skipif(not DL19.is_dir(), reason="needs ../shared/data/trec_dl19")
@pytest.mark.parametrize("measure", ["nDCG@10", "P@10"])
def test_no_random_weights_beat_a_climb_among_six_real_runs(measure: str) -> None:
    given = {path.stem: read_run(path) for path in (DL19 / "runs").iterdir()}
    runs, judged = RunSet.of(given), read_qrels(DL19 / "qrels.txt")
    topics = [t for t in judged if t in runs.docs][:: int(os.environ.get("LMTUNE_EACH_TOPIC", "3"))]
    pool = runs.pool(normalised("min-max", "minimum"), judged, topics)
    tuner, _ = fit_linear(Fitting(pool, parse_measure(measure), pool.topics))
    assert random_best(pool, measure) <= tuner.best_value_ + 1e-12


def test_unequal_scores_stay_unequal(caplog: pytest.LogCaptureFixture) -> None:
    # The largest of another topic, and of another run, is no measure of how fine scores are.
    low = {"1": {"a": 0.9, "b": 3e-8, "c": 2e-8, "d": 1e-8}, "2": {"a": 1e9, "b": 1.0}}
    other = {"1": {"a": 2e6, "b": 1e6, "c": 1e6, "d": 1e6}, "2": {"a": 1.0, "b": 1e9}}
    runs, judged = RunSet.of({"low": low, "other": other}), {"1": {"b": 1}, "2": {"a": 1}}
    for normalise in NORMALISATIONS:
        pool = runs.pool(normalised(normalise, "zero"), judged, ["1"])
        assert pool.formula.tied == 0  # type: ignore[attr-defined]
        assert measure_settings(pool, {"low": 1.0, "other": 0.0}, [parse_measure("RR")])[0, 0, 0] == 0.5
    close = {"1": {"a": 1.0, "b": 3e-13, "c": 2e-13, "d": 1e-13}}
    options = FusionOptions(("RR",), ("equal",), in_sample=True)
    with caplog.at_level("INFO", "lmtune"):
        fuse_runs(RunSet.of({"close": close, "other": {"1": other["1"]}}), {"1": {"b": 1}}, options)
    assert "rounding made 2 scores equal to a neighbour" in caplog.text


def test_single_runs_have_ranks_as_deep_as_they_are() -> None:
    deep = 50_000
    names = [f"d{number:05}" for number in range(deep)]
    run = {"1": dict(zip(names, np.arange(deep, 0.0, -1.0).tolist(), strict=True))}
    runs = RunSet.of({"deep": run, "short": {"1": {names[0]: 1.0, names[1]: 0.5}}})
    options = FusionOptions(("RR", f"R@{deep - 1}"), ("equal",), in_sample=True, depth=deep)
    found = fuse_runs(runs, {"1": {names[-1]: 1}}, options)
    rows = {(str(row.measure), row.name): row.in_sample for row in found.rows}
    assert (rows["RR", "deep"], rows[f"R@{deep - 1}", "deep"]) == (1.0 / deep, 0.0)


def test_runs_that_retrieve_nothing_relevant() -> None:
    runs, _ = made(3, topics=3)
    with pytest.raises(InputError, match=r"no run retrieves a relevant .*: \['r0', 'r1'\];"):
        fuse_runs(runs, {"0": {"unknown": 1}, "1": {"d00": 0}})


@pytest.mark.slow
@pytest.mark.skipif(not DL19.is_dir(), reason="needs ../shared/data/trec_dl19")
def test_real_runs() -> None:
    names = ("bm25", "splade-pp", "tas-b")
    runs = RunSet.of({name: read_run(DL19 / f"runs/{name}.run") for name in names})
    judged = read_qrels(DL19 / "qrels.txt")
    pool = runs.pool(normalised("min-max", "minimum"), judged, [t for t in judged if t in runs.docs])
    tuner, _ = fit_linear(Fitting(pool, parse_measure("nDCG@10"), pool.topics))
    ranked = {r.topic: r for r in rankings(runs, Chosen("linear", tuner.best_params_), FusionOptions())}
    run = {
        t: dict(zip(r.docnos, -np.arange(len(r.docnos), dtype=float), strict=True)) for t, r in ranked.items()
    }
    [value] = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], judged, run).values()
    assert value == pytest.approx(tuner.best_value_, abs=1e-12)
    assert tuner.best_value_ > 0.755
