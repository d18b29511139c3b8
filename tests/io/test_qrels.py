from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtune.errors import InputError
from lmtune.io.letor import read_letor
from lmtune.io.qrels import find_judgment, read_qrels, write_qrels

WORD = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="\ufeff"), min_size=1)


def put(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "qrels.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def failure(tmp_path: Path, content: str | bytes) -> InputError:
    path = put(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_qrels(path)
    assert caught.value.file == str(path)
    assert "\n" not in str(caught.value)
    return caught.value


def test_trec_columns_comments_and_line_ends(tmp_path: Path) -> None:
    text = "\ufeff# made by hand\n301 0 A 1\r\n301\t0\tB  -1\n\n  302 Q0 A +2 \n#302 0 B 1\n301 0 C 0"
    assert read_qrels(put(tmp_path, text)) == {"301": {"A": 1, "B": -1, "C": 0}, "302": {"A": 2}}


def test_beir(tmp_path: Path) -> None:
    path = put(tmp_path, "query-id\tcorpus-id\tscore\n1\tx\t1\n1\ty\t2\n")
    assert read_qrels(path) == {"1": {"x": 1, "y": 2}}
    assert find_judgment(path, "1", "y") == 3
    assert failure(tmp_path, "query-id\tcorpus-id\tscore\n1\t0\tx\t1\n").line == 2


@pytest.mark.parametrize(
    "comment", ["docid = D{}", "docno=D{} inc = 1 prob = 0.4", "D{} a note", " #DOCID: D{}"]
)
def test_letor_rows(tmp_path: Path, comment: str) -> None:
    rows = [f"{row % 3} qid:{row // 4} 1:0.5 3:{row}.0 # {comment.format(row)}\n" for row in range(8)]
    path = put(tmp_path, "".join(["# by hand\n", *rows]))
    data = read_letor(path)
    expected: dict[str, dict[str, int]] = {query: {} for query in data.queries}
    for row, docno in enumerate(data.docnos or ()):
        expected[str(row // 4)][docno] = int(data.labels[row])
    assert read_qrels(path) == expected
    assert len(expected["1"]) == 4


def test_find_judgment(tmp_path: Path) -> None:
    path = put(tmp_path, "# 1 0 A 1\n1 0 A 1\n2 0 A 0\n2 0 B 1\n")
    assert find_judgment(path, "1") == 2
    assert find_judgment(path, "2", "B") == 4
    assert find_judgment(path, "2", "C") is None
    assert find_judgment(path, "3") is None


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("1 0 A 1\n1 0 B\n", 2, ["3 columns", "'1 0 B'", "topic, iteration, docno, gain"]),
        ("1 0 A 1 extra\n", 1, ["5 columns", "xinfAP"]),
        ("1 A 1\n", 1, ["3 columns", "query-id corpus-id score"]),
        ("1 0 A 1\n1 0 B 1.5\n", 2, ["'1.5'", "integer"]),
        ("1 0 A one\n", 1, ["'one'"]),
        ("1 qid:1 1:0.5 #docid = A\n0 qid:1 1:0.5\n", 2, ["LETOR row without a docid", "#docid = X"]),
        ("1 qid:1 1:0.5 #A\n1.5 qid:1 #B\n", 2, ["'1.5'", "integer"]),
        ("1 qid:1 1:0.5 #A\n0 qid:1 #A\n", 2, ["twice for topic 1", "first in line 1", "'A'"]),
        ("1 0 A 1_0\n", 1, ["'1_0'"]),
        ("1 0 A 1\n2 0 A 1\n#\n1 0 A 0\n", 4, ["twice for topic 1", "first in line 1", "'A'"]),
        ("1 0 A 1\r\n1 0 A 1\r\n", 2, ["first in line 1"]),
        ("", None, ["no judgments"]),
        ("# nothing\n\n", None, ["no judgments"]),
        ("query-id corpus-id score\n", None, ["no judgments"]),
        (b"1 0 A 1\n1 0 \xff 1\n", 2, ["invalid UTF-8"]),
        (b"1 0 A 1\n\xff 0 B 1\n", 2, ["invalid UTF-8"]),
        (b"1 0 A \xff\n", 1, [r"\\xff"]),
        (b"\xff\n", 1, ["invalid UTF-8"]),
    ],
)
def test_bad_input(tmp_path: Path, content: str | bytes, line: int | None, words: list[str]) -> None:
    error = failure(tmp_path, content)
    assert error.line == line
    for word in words:
        assert word in str(error)


@given(
    st.dictionaries(
        WORD.filter(lambda topic: not topic.startswith("#")),
        st.dictionaries(WORD, st.integers(-9, 9), min_size=1),
        min_size=1,
    )
)
def test_round_trips(tmp_path_factory: pytest.TempPathFactory, qrels: dict[str, dict[str, int]]) -> None:
    path = tmp_path_factory.mktemp("qrels") / "q.txt"
    write_qrels(path, qrels)
    assert read_qrels(path) == qrels


@pytest.mark.parametrize(
    "qrels", [{"a b": {"x": 1}}, {"": {"x": 1}}, {"1": {"x y": 1}}, {"1": {"": 1}}, {"#1": {"x": 1}}]
)
def test_refuses_to_write_what_cannot_be_read(tmp_path: Path, qrels: dict[str, dict[str, int]]) -> None:
    with pytest.raises(InputError):
        write_qrels(tmp_path / "q.txt", qrels)
    assert not list(tmp_path.iterdir())


def test_real_judgments(shared_data: Path) -> None:
    files = [
        *shared_data.glob("*/qrels*.txt"),
        *shared_data.glob("trec_topics/*/qrels.txt"),
        shared_data / "trec_eval/v10.0/qrels.test.with-comments",
    ]
    assert len(files) >= 14
    for file in files:
        rows = [line.split() for line in file.read_text().splitlines() if not line.startswith("#")]
        qrels = read_qrels(file)
        assert {topic: len(judged) for topic, judged in qrels.items()} == Counter(row[0] for row in rows)
        assert all(qrels[topic][docno] == int(gain) for topic, _, docno, gain in rows)
