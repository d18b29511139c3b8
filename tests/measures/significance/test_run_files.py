"""Comparing run files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.measures.significance.comparison import ComparisonOptions, compare_runs, run_labels


def test_a_judged_topic_that_a_run_misses_counts_0(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lmtune")
    (tmp_path / "qrels").write_text("1 0 a 1\n2 0 a 1\n3 0 b 1\n")
    (tmp_path / "base.run").write_text("".join(f"{t} Q0 a 1 2 x\n{t} Q0 b 2 1 x\n" for t in (1, 2, 3)))
    (tmp_path / "other.run").write_text("1 Q0 a 1 2 y\n2 Q0 b 1 2 y\n2 Q0 a 2 1 y\n")
    seen = []
    runs = [tmp_path / "base.run", tmp_path / "other.run"]
    found = compare_runs(tmp_path / "qrels", runs, ["AP"], progress=lambda *given: seen.append(given))
    assert found.systems == ("base", "other")
    np.testing.assert_array_equal(found.values[:, :, 0], [[1.0, 1.0, 0.5], [1.0, 0.5, 0.0]])
    assert seen == [("reading runs", 1, 2, "base"), ("reading runs", 2, 2, "other")]
    assert caplog.messages == ["other misses 1 of 3 judged topics, which count 0"]


def test_options_and_names_are_checked_before_files_are_read() -> None:
    with pytest.raises(InputError, match="unknown correction"):
        compare_runs(Path("no"), [Path("a"), Path("b")], ["AP"], ComparisonOptions(correction="fdr"))
    with pytest.raises(InputError, match="Magic"):
        compare_runs(Path("no"), [Path("a"), Path("b")], ["Magic"])


def test_labels_tell_runs_apart() -> None:
    paths = ["x/bm25.k1=0.9.gz", "x/ql.run.gz", "y/ql.run.gz", "rm3.txt", "rm3.run", "z/same"]
    names = run_labels([Path(path) for path in paths])
    assert names == ["bm25.k1=0.9", "x/ql.run.gz", "y/ql.run.gz", "rm3.txt", "rm3.run", "same"]


def test_a_repeated_run_is_left_out_of_the_family(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lmtune")
    (tmp_path / "qrels").write_text("1 0 a 1\n2 0 a 1\n3 0 b 1\n")
    for name, best in (("base.run", "a"), ("other.run", "b")):
        lines = (f"{t} Q0 {best} 1 {t} x\n" for t in (1, 2, 3))
        (tmp_path / name).write_text("".join(lines))
    base, other = tmp_path / "base.run", tmp_path / "other.run"
    found = compare_runs(tmp_path / "qrels", [base, tmp_path / "." / "base.run", other, other], ["AP"])
    assert found.systems == ("base", "other")
    assert found.family == 1
    assert [text.partition(": ")[2] for text in caplog.messages] == [
        "left out, and not counted by the correction"
    ] * 2
    with pytest.raises(InputError, match="nothing to compare"):
        compare_runs(tmp_path / "qrels", [base, base], ["AP"])


def test_values_stand_under_their_measures_in_any_order(tmp_path: Path) -> None:
    """`evaluations` puts trec_eval's names first and what ir_measures computes last."""
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b 2\n2 0 a 1\n2 0 c 1\n")
    for name, ranks in (("base.run", "xab"), ("other.run", "cxa")):
        lines = (f"{t} Q0 {docno} 1 {9 - i} x\n" for t in (1, 2) for i, docno in enumerate(ranks))
        (tmp_path / name).write_text("".join(lines))
    runs = [tmp_path / "base.run", tmp_path / "other.run"]
    names = ["ERR@10", "AP", "Rprec", "P@1"]
    together = compare_runs(tmp_path / "qrels", runs, names)
    assert together.measures == tuple(names)
    for m, name in enumerate(names):
        alone = compare_runs(tmp_path / "qrels", runs, [name])
        np.testing.assert_array_equal(together.values[:, :, m], alone.values[:, :, 0])


def test_what_judging_could_turn() -> None:
    qrels = {"1": {"a": 1, "b": 0}, "2": {"a": 1, "c": 0}}
    runs = {
        "base": {"1": {"b": 2.0, "a": 1.0}, "2": {"x": 2.0, "a": 1.0}},
        "new": {"1": {"a": 2.0, "b": 1.0}, "2": {"a": 2.0, "c": 1.0}},
    }
    found = compare_runs(qrels, runs, ["P@1", "AP"], residuals=True)
    assert found.judged == (0.75, 1.0)
    contrasts = {one.measure: one for one in found.contrasts}
    assert contrasts["P@1"].difference == 1.0
    assert contrasts["P@1"].possible == (0.5, 1.0)  # x relevant: topic 2 ties
    assert not contrasts["P@1"].could_turn
    # x relevant: AP of topic 2 is 1 for base and 1/2 for new.
    assert contrasts["AP"].possible == pytest.approx(((0.5 - 0.5) / 2, (0.5 + 0.5) / 2))
    assert not contrasts["AP"].could_turn  # a tie at least
    turned = compare_runs(
        qrels, runs | {"base": {"1": {"a": 1.0}, "2": {"x": 2.0, "a": 1.0}}}, ["AP"], residuals=True
    )
    assert turned.contrasts[0].possible == pytest.approx((-0.25, 0.25)) and turned.contrasts[0].could_turn
    text = repr(found)
    assert "judged@10" in text.splitlines()[0]
    assert "could change the sign for AP of new" in repr(turned)
    assert "cannot change the sign for P@1 of new, AP of new" in text
    assert "may be wider than necessary for AP" in text
    frame = found.to_frame()
    assert frame.could_turn.to_list() == [False, False]
    assert frame.lowest_difference.to_list() == pytest.approx([0.5, 0.0])
    plain = compare_runs(qrels, runs, ["P@1"])
    assert plain.contrasts[0].possible is None
    assert "could_turn" not in plain.to_frame()
    assert "unjudged" not in repr(plain)


def test_a_run_against_itself_cannot_turn(capsys: pytest.CaptureFixture[str]) -> None:
    run = {"1": {"x": 3.0, "a": 2.0, "y": 1.0}, "2": {"a": 2.0, "z": 1.0}}
    for nonrelevant in (0, 1):
        qrels = {"1": {"a": 1, "b": nonrelevant}, "2": {"a": 1}}
        found = compare_runs(qrels, {"base": run, "same": run}, ["AP", "Bpref", "nDCG"], residuals=True)
        assert [one.possible for one in found.contrasts] == [(0.0, 0.0)] * 3
        assert not any(one.could_turn for one in found.contrasts)
        # Where only relevant documents are listed, judged@10 is P@10.
        assert ("judged@10" in repr(found)) == (found.judged != ()) == (nonrelevant == 0)
    assert capsys.readouterr().err.count("list only relevant documents") == 1


def test_measures_without_bounds_are_refused_before_files_are_read() -> None:
    with pytest.raises(InputError, match="'ERR@10'"):
        compare_runs(Path("no"), [Path("a"), Path("b")], ["ERR@10"], residuals=True)
