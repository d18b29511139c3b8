"""Folds of topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reported import made_results, write_made

from lmtune.datasets.folds import cross_validation, make_folds, read_parts
from lmtune.errors import InputError

TOPICS = [str(t) for t in range(1, 21)]


@given(st.integers(2, 20), st.integers(0, 5))
def test_folds_partition_the_topics(folds: int, seed: int) -> None:
    made = cross_validation(TOPICS, folds, seed=seed)
    tests = [topic for fold in made for topic in fold.test]
    assert sorted(tests) == sorted(TOPICS)
    assert len(made) == folds
    for fold in made:
        assert sorted(fold.train + fold.test) == sorted(TOPICS)
    sizes = [len(fold.test) for fold in made]
    assert max(sizes) - min(sizes) <= 1
    assert made == cross_validation(TOPICS, folds, seed=seed)


@pytest.mark.parametrize("folds", ["0", "1", "21", "-2", "--2", "²", "٣٣"])
def test_impossible_folds_are_refused(folds: str) -> None:
    with pytest.raises(InputError, match=r"folds|cannot read"):
        make_folds(TOPICS, TOPICS, folds=folds)


def test_a_split_is_read_from_selections() -> None:
    [fold], how = make_folds(TOPICS, TOPICS, train="1-5", test="7,9")
    assert fold.train == ("1", "2", "3", "4", "5")
    assert fold.test == ("7", "9")
    assert "5" in how
    [fold], _ = make_folds(TOPICS[:10], TOPICS, train="1-5")
    assert fold.test == ("6", "7", "8", "9", "10")
    with pytest.raises(InputError, match="both"):
        make_folds(TOPICS, TOPICS, train="1-5", test="5-9")
    with pytest.raises(InputError, match="no test topic"):
        make_folds(TOPICS[:5], TOPICS, train="1-5", test="6-9")


def test_folds_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "folds.json"
    path.write_text(json.dumps([[1, 2], ["3"]]))
    assert read_parts(path) == [["1", "2"], ["3"]]
    folds, _ = make_folds(TOPICS, TOPICS, folds=str(path))
    assert [fold.test for fold in folds] == [("1", "2"), ("3",)]
    for bad in ("{", "[]", '[["1"]]', '[["1"], []]', '[["1"], ["1"]]', "[" * 100_000):
        path.write_text(bad)
        with pytest.raises(InputError, match=r"folds\.json"):
            read_parts(path)
    for parts, problem in [
        ([["1", "2"], ["3-5"]], "'3-5'"),
        ([["1", "2"], ["99"]], "'99'"),
        ([["1", "2"], ["20"]], "no topic with a relevant"),
    ]:
        path.write_text(json.dumps(parts))
        with pytest.raises(InputError, match=problem):
            make_folds(TOPICS[:19], TOPICS, folds=str(path))
    path.write_text(json.dumps([["1", "2"], ["3"]]))
    assert "17 topics are in no fold" in make_folds(TOPICS, TOPICS, folds=str(path))[1]


def test_folds_that_tune_wrote_are_folds(tmp_path: Path) -> None:
    folder = write_made(tmp_path / "kept", made_results(names=("plain", "other")))
    content = json.loads((folder / "folds.json").read_text())
    topics = [topic for fold in content["plain"] for topic in fold["test"]]
    path = tmp_path / "folds.json"
    path.write_text(json.dumps({"plain": content["plain"]}))
    folds, how = make_folds(topics, topics, folds=str(path))
    assert [set(fold.test) for fold in folds] == [set(fold["test"]) for fold in content["plain"]]
    assert [set(fold.train) for fold in folds] == [set(fold["train"]) for fold in content["plain"]]
    assert how == "2-fold cross-validation (folds.json)"
    # Of several collections the one whose topics these are.
    path.write_text(json.dumps({"far": [{"train": ["y"], "test": ["x"]}], **content, "other": []}))
    with pytest.raises(InputError, match="no test topics, or one in two folds, of other"):
        make_folds(topics, topics, folds=str(path))
    far = [{"train": ["y"], "test": ["x"]}, {"train": ["x"], "test": ["y"]}]
    path.write_text(json.dumps({"far": far, "plain": content["plain"]}))
    assert make_folds(topics, topics, folds=str(path))[0] == folds
    path.write_text(json.dumps({"far": far, "away": far}))
    with pytest.raises(InputError, match="not the folds of one collection"):
        make_folds(topics, topics, folds=str(path))
    path.write_text(json.dumps({"plain": [{"train": topics[:2], "test": topics[2:]}]}))
    with pytest.raises(InputError, match="not a partition"):
        make_folds(topics, topics, folds=str(path))
