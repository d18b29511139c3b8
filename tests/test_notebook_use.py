"""In Python and notebooks: what is in memory goes in, and tables, frames and pictures come out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import AP, P, nDCG
from matplotlib import colormaps
from matplotlib.figure import Figure
from support import random_collection

import lmtune
from lmtune.errors import InputError
from lmtune.fusion import FusionOptions, RunSet, fuse_runs
from lmtune.io.frames import as_documents, as_run
from lmtune.measures import EvaluationOptions, Measure, evaluations
from lmtune.report.comparison_tables import comparison_table
from lmtune.report.figures import alt_text

MEASURES = [AP @ 100, nDCG @ 10, P(rel=2) @ 5]


@pytest.fixture(scope="module")
def pool() -> lmtune.CandidatePool:
    index, topics, qrels = random_collection(3, topics=12)
    queries = pd.DataFrame(topics.items(), columns=["qid", "query"])
    judged = [(topic, docno, gain) for topic, own in qrels.items() for docno, gain in own.items()]
    return lmtune.CandidatePool.build(
        index, queries, pd.DataFrame(judged, columns=["qid", "docno", "label"]), name="made"
    )


@pytest.fixture(scope="module")
def judged(pool: lmtune.CandidatePool) -> dict[str, dict[str, int]]:
    del pool
    return random_collection(3, topics=12)[2]


def test_frames_make_the_pool_that_dictionaries_make(pool: lmtune.CandidatePool) -> None:
    same = lmtune.CandidatePool.build(*random_collection(3, topics=12), name="made")
    np.testing.assert_array_equal(same.candidates.gain, pool.candidates.gain)
    assert same.topics == pool.topics


def test_ir_measures_agrees_on_frames(pool: lmtune.CandidatePool, judged: dict[str, dict[str, int]]) -> None:
    frame = lmtune.run_frame(lmtune.rank(pool, {"lambda": 0.5, "mu": 10}))
    means = lmtune.evaluate(judged, frame, MEASURES, settings=EvaluationOptions(complete=True))
    [found] = evaluations(judged, frame, MEASURES, settings=EvaluationOptions(complete=True))
    theirs = ir_measures.calc_aggregate(
        MEASURES, judged, frame.rename(columns={"qid": "query_id", "docno": "doc_id"})
    )
    assert {column.label: column.mean for column in found.columns} == pytest.approx(
        {str(measure): value for measure, value in theirs.items()}
    )
    assert list(means.index) == ["run"]
    assert means.loc["run"].to_dict() == {column.label: column.mean for column in found.columns}
    values = found.to_frame(per_topic=True)
    assert values.groupby("measure")["value"].mean().to_dict() == pytest.approx(
        {str(measure): value for measure, value in theirs.items()}
    )
    direct = lmtune.measure(pool, {"lambda": 0.5, "mu": 10}, measures=MEASURES)
    run = lmtune.rank(pool, {"lambda": 0.5, "mu": 10})
    own = lmtune.topic_values(judged, run, MEASURES)
    np.testing.assert_allclose(direct.loc[list(own.index)], own)
    pd.testing.assert_frame_equal(lmtune.topic_values(judged, run, MEASURES), own)  # the same run again
    pd.testing.assert_frame_equal(run.to_frame(), frame)
    assert [one.topic for one in run[-2:]] == [run[len(run) - 2].topic, run[-1].topic]
    with pytest.raises(InputError, match="no such parameter"):
        lmtune.rank(pool, {"k1": 1.0})  # said at once


def test_runs_of_any_kind_are_compared(pool: lmtune.CandidatePool, judged: dict[str, dict[str, int]]) -> None:
    settings = {"low": {"lambda": 0.05, "mu": 1}, "high": {"lambda": 0.9, "mu": 500}}
    runs: dict[str, Any] = {name: lmtune.run_frame(lmtune.rank(pool, own)) for name, own in settings.items()}
    found = lmtune.compare_runs(judged, runs, AP)
    values = [lmtune.measure(pool, own, measures="AP").sort_index() for own in settings.values()]
    same = lmtune.compare(values[0], {"high": values[1]}, baseline="low")
    assert found.contrasts == same.contrasts
    runs["high"] = {t: dict(zip(own.docno, own.score, strict=True)) for t, own in runs["high"].groupby("qid")}
    assert lmtune.compare_runs(judged, runs, "AP").contrasts == same.contrasts
    with pytest.raises(InputError, match="two runs have one name"):
        lmtune.compare_runs(judged, iter([FakeRanx(runs["high"])] * 2), "AP")
    with pytest.raises(InputError, match="no judgments"):
        lmtune.evaluate({}, runs, "AP")


class FakeRanx:
    name = "mine"

    def __init__(self, run: Any) -> None:
        self.run = run

    def to_dict(self) -> Any:
        return self.run


@pytest.mark.parametrize("given", [AP, "AP", [AP], Measure("AP"), ("map",)])
def test_measures_are_names_or_objects(given: Any, pool: lmtune.CandidatePool) -> None:
    assert lmtune.Plan(measures=given).measures == (Measure("AP"),)
    assert list(lmtune.measure(pool, {}, measures=given)) == ["AP"]
    if not isinstance(given, list | tuple):
        assert lmtune.GridSearch(given, shape=(2, 2)).fit(pool).best_value_ > 0


def test_tuners_show_what_they_found(pool: lmtune.CandidatePool) -> None:
    grid = lmtune.GridSearch(AP @ 10, shape=(3, 4))
    assert "not fitted yet" in grid._repr_html_()
    with pytest.raises(InputError, match="not fitted yet"):
        grid.plot()
    grid.fit(pool)
    assert '<th style="text-align: right">AP@10</th>' in grid._repr_html_()
    assert len(grid.to_frame()) == 12
    assert "On the GridSearch the best of 12 grid points" in alt_text(grid.plot())
    ascent = lmtune.CoordinateAscent("AP").fit(pool)
    assert "CoordinateAscent: from" in alt_text(ascent.plot())
    ranknet = lmtune.RankNetTuner(starts=1).fit(pool)
    frame = ranknet.to_frame()
    assert list(frame)[-1] == "seconds"
    assert "cost while searching" in alt_text(ranknet.plot(title="$x_1$"))


def test_results_are_tables_frames_and_pictures(pool: lmtune.CandidatePool) -> None:
    measures: Any = ("AP", P @ 5)
    plan = lmtune.Plan(measures=measures, grid=(3, 3), ascents=1, restarts=0, starts=1, approx=False)
    result = lmtune.run_experiment(pool, lmtune.cross_validation(pool.topics, 2), plan)
    assert repr(result).startswith("Measure  Method   made\nMAP      Direct")
    assert "<strong>" in result._repr_html_() or "<td" in result._repr_html_()
    means = result.to_frame().set_index(["measure", "method"])["mean"]
    topics = result.to_frame(per_topic=True)
    assert topics.groupby(["measure", "method"])["value"].mean().to_dict() == pytest.approx(means.to_dict())
    assert set(topics["fold"]) == {1, 2}
    assert "Chosen" in alt_text(result.plot())


def test_comparisons_are_tables_frames_and_pictures() -> None:
    random = np.random.default_rng(1)
    base = random.random(20)
    found = lmtune.compare(base, {"<b>": base + 0.1 + 0.05 * random.random(20), "like": base[::-1]})
    assert repr(found).startswith("System    value\nbaseline")
    shown = found._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert found.to_frame()["difference"].tolist() == [own.difference for own in found.contrasts]
    assert len(found.to_frame(per_topic=True)) == 40
    picture = found.plot()
    assert "value: <b> minus baseline" in alt_text(picture)
    [ax] = picture.axes
    filled = [line.get_markerfacecolor() != "white" for line in ax.lines if line.get_marker() == "o"]
    assert filled == [True, False]
    assert "like minus baseline" in alt_text(found.plot(system="like"))
    with pytest.raises(InputError, match=r"no such contrast.*accepted: <b> on value, like on value"):
        found.plot(system="nobody")


def test_runs_of_any_kind_are_fused(pool: lmtune.CandidatePool, judged: dict[str, dict[str, int]]) -> None:
    settings = {"a": {"lambda": 0.1, "mu": 10}, "b": {"lambda": 0.9, "mu": 1000}}
    runs = {name: lmtune.run_frame(lmtune.rank(pool, own)) for name, own in settings.items()}
    options = FusionOptions(measure=("AP",), method=("linear",), folds="2")
    found = fuse_runs(RunSet.of(runs), judged, options)
    same = fuse_runs(RunSet.of({name: as_run(run) for name, run in runs.items()}), judged, options)
    assert repr(found) == repr(same)
    assert "<caption>Runs fused</caption>" in found._repr_html_()
    means = found.to_frame(per_topic=True).groupby("method")["value"].mean()
    assert means.to_dict() == pytest.approx({row.name: row.mean for row in found.rows})
    assert set(means.index) == {"a", "b", "linear", "rrf"}
    alone = lmtune.measure(pool, settings["a"], measures="AP", topics=found.topics)["AP"].mean()
    assert means["a"] == pytest.approx(alone)
    assert found.to_frame()["held_out"].tolist() == [row.mean for row in found.rows]


def test_pools_and_collections_are_small_tables(pool: lmtune.CandidatePool) -> None:
    assert repr(pool).splitlines()[0].split() == [
        *("Collection", "model", "topics", "documents", "candidates", "relevant", "judged", "non-relevant"),
        *("exact", "to", "depth"),
    ]
    assert pool.to_frame()["candidates"].sum() == pool.candidates.doc.size
    _, topics, qrels = random_collection(3, topics=12)
    data = lmtune.Dataset("made", None, topics, qrels)
    assert repr(data).splitlines()[1].split()[:3] == ["made", "12", "12"]
    assert "<caption>Test collection</caption>" in data._repr_html_()
    frame = data.to_frame()
    assert dict(zip(frame["qid"], frame["query"], strict=True)) == topics
    assert not frame.isna().any(axis=None)
    assert not math.isnan(frame["relevant"].mean())


def test_progress_draws_bars(capsys: pytest.CaptureFixture[str]) -> None:
    index, topics, qrels = random_collection(3, topics=4)
    made = lmtune.CandidatePool.build(index, topics, qrels, progress=True)
    lmtune.GridSearch("AP", shape=(2, 2)).fit(made, progress=True)
    lmtune.CoordinateAscent("AP").fit(made, progress=True)
    lmtune.SPSA("AP", evaluations=20).fit(made, progress=True)
    shown = capsys.readouterr().err
    for name in ("reading postings", "GridSearch", "CoordinateAscent", "SPSA"):
        assert f"{name}: 100%" in shown, name


def test_pictures_are_drawn_where_and_as_asked(pool: lmtune.CandidatePool) -> None:
    grid = lmtune.GridSearch("AP", shape=(3, 4)).fit(pool)
    found = lmtune.compare(np.arange(9.0) % 4, {"other": np.arange(9.0) % 3}, measures=["AP"])
    assert tuple(grid.plot(figsize=(5.0, 2.0)).get_size_inches()) == (5.0, 2.0)
    figure = Figure(figsize=(9.0, 3.0))
    surface, course, intervals, topics = figure.subplots(1, 4)
    for ax, picture in (
        (surface, grid.plot(ax=surface, cmap="magma", title="mine")),
        (course, lmtune.CoordinateAscent("AP").fit(pool).plot(ax=course)),
        (intervals, found.plot(ax=intervals)),
        (topics, found.plot(ax=topics, system="other")),
    ):
        assert picture is figure
        assert ax.has_data()
        assert ax.get_xlabel()
    assert figure.get_suptitle() == "" and figure.legends == []
    assert surface.get_title("left").startswith("mine\nGridSearch: best on the grid")
    assert tuple(figure.get_size_inches()) == (9.0, 3.0)
    best = surface.collections[0].get_facecolor()[0]
    np.testing.assert_allclose(best, colormaps["magma"](1.0))


def test_pictures_that_cannot_be_drawn_so_are_refused(pool: lmtune.CandidatePool) -> None:
    grid = lmtune.GridSearch("AP", shape=(3, 4)).fit(pool)
    several = lmtune.compare(np.eye(9)[:, :2], {"other": np.eye(9)[:, 1:3]}, measures=["AP", "P@1"])
    ax = Figure().subplots()
    for shown, options, message in (
        (several, {"ax": ax}, "several panels, but ax is a single one"),
        (grid, {"ax": ax, "figsize": (3, 3)}, "figsize and ax exclude each other"),
        (grid, {"ax": Figure()}, "bad ax"),
        (grid, {"cmap": "no such"}, "unknown cmap: 'no such'"),
        (several, {"cmap": "magma"}, "cmap is for surfaces; this picture has none"),
    ):
        with pytest.raises(InputError, match=message):
            shown.plot(**options)
    assert tuple(several.plot().get_size_inches()) != (3, 3)


def test_tables_are_latex_too(pool: lmtune.CandidatePool) -> None:
    found = lmtune.compare(np.arange(9.0) % 4, {"a_b": np.arange(9.0) % 3}, measures=["AP"])
    assert found.to_latex() == comparison_table(found, "latex")
    for shown in (pool, lmtune.GridSearch("AP", shape=(2, 2)).fit(pool)):
        assert shown.to_latex().count(r"\toprule") == shown.to_latex().count(r"\end{tabular}") == 1


def test_large_results_have_short_representations(pool: lmtune.CandidatePool) -> None:
    rankings = lmtune.rank(pool, {"lambda": 0.5, "mu": 10}, hits=7)
    assert repr(rankings) == (
        "Rankings(12 topics of made, up to 7 documents each, two-stage with lambda = 0.5, mu = 10)"
    )
    best = rankings[0].docnos
    assert repr(rankings[0]) == f"Ranking(topic 1, {len(best)} documents: {', '.join(best[:3])}, ...)"
    frame = lmtune.run_frame(rankings)
    counts = f"{frame['qid'].nunique()} topics, {frame['docno'].nunique()} documents"
    assert repr(RunSet.of({"b": frame, "a": lmtune.run_frame(rankings[:3])})) == f"RunSet(b, a: {counts})"
    assert repr(as_documents({"x": "a text", "y": "another"})) == "ListDocuments('documents', 2 documents)"


def test_two_runs_in_the_place_of_a_list_are_reported(judged: dict[str, dict[str, int]]) -> None:
    runs: list[Any] = [
        {topic: {docno: float(n) for docno in own} for topic, own in judged.items()} for n in (1, 2)
    ]
    with pytest.raises(
        InputError, match=r"not ComparisonOptions: \['AP'\]; accepted: compare_runs\(qrels, \["
    ):
        lmtune.compare_runs(judged, runs[0], runs[1], ["AP"])  # type: ignore[arg-type]


def test_files_are_fused_as_they_are(
    pool: lmtune.CandidatePool, judged: dict[str, dict[str, int]], tmp_path: Path
) -> None:
    settings = {"a": {"lambda": 0.1, "mu": 10}, "b": {"lambda": 0.9, "mu": 1000}}
    for name, own in settings.items():
        lmtune.write_run(tmp_path / f"{name}.run", lmtune.rank(pool, own), tag=name)
    lines = [f"{topic} 0 {docno} {gain}\n" for topic, own in judged.items() for docno, gain in own.items()]
    (tmp_path / "qrels.txt").write_text("".join(lines))
    options = FusionOptions(measure=("AP",), method=("rrf",))
    files = [tmp_path / "a.run", tmp_path / "b.run"]
    found = fuse_runs(files, str(tmp_path / "qrels.txt"), options)
    read = RunSet.of({name: lmtune.read_run(tmp_path / f"{name}.run") for name in "ab"})
    assert found.to_frame().equals(fuse_runs(read, judged, options).to_frame())
