"""Folds of topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reported import made_results, write_made

from lmtune.collections.folds import cross_validation, make_folds, read_parts, select_topics
from lmtune.errors import InputError

SELECTION_TOPICS = ["51", "052", "100", "101", "q-7", "1-2", "CQ1"]


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        ("51-100", ["51", "052", "100"]),
        ("100-100", ["100"]),
        ("0-60,101", ["51", "052", "101"]),
        ("101, 51", ["51", "101"]),
        ("51,51-60,51", ["51", "052"]),
        ("1-2", ["1-2"]),
        ("q-7,CQ1", ["q-7", "CQ1"]),
        ("51-99999999999999999999", ["51", "052", "100", "101"]),
    ],
)
def test_items_and_ranges(spec: str, chosen: list[str]) -> None:
    assert select_topics(spec, SELECTION_TOPICS) == chosen


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("77", "no such topic: '77'"),
        ("51,nope,100", "no such topic: 'nope'"),
        ("200-300", "no topic is in the range: '200-300'"),
        ("51,200-300", "no topic is in the range: '200-300'"),
        ("100-51", "runs backwards: '100-51'"),
        ("", "an empty item"),
        ("51,,100", "an empty item among the topics: '51,,100'"),
        ("51-", "no such topic: '51-'"),
        ("-51", "no such topic: '-51'"),
        ("²-³", "no such topic"),
        ("@missing.txt", "missing.txt: cannot read"),
    ],
)
def test_bad_specs_are_named(spec: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        select_topics(spec, SELECTION_TOPICS)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_with_and_without_at(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"\xef\xbb\xbf# the training topics\r\n101\r\n\r\n 51 \r\n")
    assert select_topics(f"@{path}", SELECTION_TOPICS) == ["51", "101"]
    assert select_topics(str(path), SELECTION_TOPICS) == ["51", "101"]
    path.write_text("51\n52\n")
    with pytest.raises(InputError, match=r"train\.txt:2: no such topic: '52'"):
        select_topics(f"@{path}", SELECTION_TOPICS)
    path.write_text("# nothing\n")
    with pytest.raises(InputError, match="has no topic"):
        select_topics(str(path), SELECTION_TOPICS)


@pytest.mark.parametrize(
    "text",
    [
        "52\tbirds\n101\tred fish\n",
        "<top>\n<num> 52\n<title> birds\n</top>\n<top>\n<num> 101\n<title> a\n</top>\n",
    ],
)
def test_a_topic_file(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "topics.txt"
    path.write_text(text)
    with caplog.at_level("INFO", "lmtune"):
        assert select_topics(f"@{path}", SELECTION_TOPICS) == ["101"]
    assert "topics.txt: 1 of 2 topics can be selected" in caplog.text
    path.write_text("52\tbirds\n")
    with pytest.raises(InputError, match=r"topics\.txt: no such topic: '52'"):
        select_topics(str(path), SELECTION_TOPICS)


def test_an_identifier_wins_over_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "51").write_text("100\n")
    assert select_topics("51", SELECTION_TOPICS) == ["51"]
    assert select_topics("@51", SELECTION_TOPICS) == ["100"]


numbers = st.integers(0, 60)


@given(
    st.lists(numbers, unique=True, min_size=1),
    st.lists(st.tuples(numbers, numbers).map(sorted) | numbers.map(lambda number: [number]), min_size=1),
)
def test_selection_is_the_union_in_the_topics_order(present: list[int], items: list[list[int]]) -> None:
    topics = [str(number) for number in present]
    spec = ",".join("-".join(map(str, item)) for item in items)
    spans: list[set[int]] = [set(range(item[0], item[-1] + 1)) & set(present) for item in items]
    if all(spans):
        wanted = set.union(*spans)
        assert select_topics(spec, topics) == [str(n) for n in present if n in wanted]
    else:
        with pytest.raises(InputError) as caught:
            select_topics(spec, topics)
        assert caught.value.value == spec.split(",")[[bool(span) for span in spans].index(False)]


@given(st.lists(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,6}", fullmatch=True), unique=True))
def test_every_identifier_selects_itself(topics: list[str]) -> None:
    for topic in topics:
        assert select_topics(topic, topics) == [topic]


@given(st.text(max_size=12).filter(lambda text: "\0" not in text))
def test_any_text_selects_known_topics_or_is_an_input_error(spec: str) -> None:
    try:
        chosen = select_topics(spec, SELECTION_TOPICS)
    except InputError:
        return
    assert chosen
    assert set(chosen) <= set(SELECTION_TOPICS)


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
    with pytest.raises(InputError, match="no test topics of other, or one in two folds"):
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
