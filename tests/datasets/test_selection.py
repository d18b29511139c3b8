from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtune.datasets.selection import select_topics
from lmtune.errors import InputError

TOPICS = ["51", "052", "100", "101", "q-7", "1-2", "CQ1"]


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
    assert select_topics(spec, TOPICS) == chosen


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
        select_topics(spec, TOPICS)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_with_and_without_at(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"\xef\xbb\xbf# the training topics\r\n101\r\n\r\n 51 \r\n")
    assert select_topics(f"@{path}", TOPICS) == ["51", "101"]
    assert select_topics(str(path), TOPICS) == ["51", "101"]
    path.write_text("51\n52\n")
    with pytest.raises(InputError, match=r"train\.txt:2: no such topic: '52'"):
        select_topics(f"@{path}", TOPICS)
    path.write_text("# nothing\n")
    with pytest.raises(InputError, match="names no topic"):
        select_topics(str(path), TOPICS)


def test_an_identifier_wins_over_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "51").write_text("100\n")
    assert select_topics("51", TOPICS) == ["51"]
    assert select_topics("@51", TOPICS) == ["100"]


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
        chosen = select_topics(spec, TOPICS)
    except InputError:
        return
    assert chosen
    assert set(chosen) <= set(TOPICS)
