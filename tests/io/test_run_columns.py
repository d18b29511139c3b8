from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lmtune.errors import InputError
from lmtune.io.columns import read_run_columns

BAD = {
    # content: (line, words of the message, words of lenient's count, lines kept)
    b"1 Q0 A 1 2 t\n1 Q0 B 2 1\n": (2, "5 columns", "wrong number of columns skipped", 1),
    b"1 Q0 A 1 2 t\n1 Q0 A 2 1 t\n": (2, "twice.*first in line 1", "repeated documents skipped", 1),
    b"1 Q0 A 1 2 t\n1 Q0 B 2 nan t\n": (2, "not a finite number: 'nan'", "bad scores skipped", 1),
    b"1 Q0 A 1 2 t\n1 Q0 B 2 -inf t\n": (2, "'-inf'", "bad scores skipped", 1),
    b"1 Q0 A 1 2 t\n1 Q0 B 2 high t\n": (2, "'high'", "bad scores skipped", 1),
    b"1 Q0 A 1 2 t\n1 Q0 B two 1 t\n": (2, "rank is not an integer: 'two'", "bad ranks kept", 2),
    b"1 Q0 A 1 2 t\n1 Q0 B 2 1 u\n": (2, "second run tag: 'u'", "second run tags kept", 2),
    b"1 Q0 A 1 2 t\n1 Q0 \xff 2 1 t\n": (2, "invalid UTF-8 at byte 6", "invalid UTF-8 skipped", 1),
    b"1 Q0 A 1 2 t\n1 Q0 B 2 1 t\r1 Q0 C 3 0 t\n": (2, "carriage return", "carriage returns skipped", 1),
}


@pytest.mark.parametrize("content", BAD)
def test_bad_lines(content: bytes, tmp_path: Path) -> None:
    line, words, kind, kept = BAD[content]
    path = tmp_path / "run"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_run_columns(path, like_trec_eval=kind.endswith("skipped"))
    assert (caught.value.file, caught.value.line) == (str(path), line)
    assert caught.value.accepted
    assert "\n" not in str(caught.value)
    run = read_run_columns(path, lenient=True, like_trec_eval=True)
    assert run.passed == {kind: 1}
    assert sum(len(docnos) for docnos, _ in run.topics.values()) == kept


def test_lenient_keeps_the_first_of_two_and_the_last_tag(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(b"1 Q0 A 1 2 t\n1 Q0 A 2 1 t\n1 Q0 B x 1 u\nnonsense\n")
    run = read_run_columns(path, lenient=True)
    assert run.topics == {b"1": ([b"A", b"B"], [2.0, 1.0])}
    assert run.tag == "u"
    assert run.passed == {
        "repeated documents skipped": 1,
        "bad ranks kept": 1,
        "second run tags kept": 1,
        "wrong number of columns skipped": 1,
    }


def test_what_follows_the_tag(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(b"1 Q0 A 1 2 t and more\n")
    assert read_run_columns(path, like_trec_eval=True).topics == {b"1": ([b"A"], [2.0])}
    with pytest.raises(InputError, match="8 columns"):
        read_run_columns(path)


@pytest.mark.parametrize("lenient", [False, True])
def test_files_as_a_whole(lenient: bool, tmp_path: Path) -> None:
    path = tmp_path / "run"
    for content in (b"", b"\xef\xbb\xbf", b"\r\n \n"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="empty"):
            read_run_columns(path, lenient=lenient)
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"1 Q0 A 1 2 t\n" * 100)[:-10])
    with pytest.raises(InputError, match="ends too early"):
        read_run_columns(cut, lenient=lenient)
    with pytest.raises(InputError, match="No such file"):
        read_run_columns(tmp_path / "absent", lenient=lenient)


def test_scattered_topics_crlf_bom_and_gz(tmp_path: Path) -> None:
    text = "\ufeff1\tQ0 A 0 1e1 x\r\n2 Q0 A 0 -.5 x\r\n1 Q0 B 9 3 x"
    expected = {b"1": ([b"A", b"B"], [10.0, 3.0]), b"2": ([b"A"], [-0.5])}
    for name, content in {"run": text.encode(), "run.gz": gzip.compress(text.encode())}.items():
        (tmp_path / name).write_bytes(content)
        assert read_run_columns(tmp_path / name) == ("x", expected, {}, False)


def test_a_run_of_many_topics(tmp_path: Path) -> None:
    path = tmp_path / "run"
    rows = [(f"{t}", f"D{t}-{i}", 1000.0 - i) for t in range(20) for i in range(1000)]
    path.write_text("".join(f"{t} Q0 {d} 1 {s} x\n" for t, d, s in rows))
    run = read_run_columns(path)
    assert [
        (t.decode(), d.decode(), s)
        for t, columns in run.topics.items()
        for d, s in zip(*columns, strict=True)
    ] == rows
    path.write_text(path.read_text() + "0 Q0 D0-0 1 5 x\n")
    with pytest.raises(InputError, match="first in line 1"):
        read_run_columns(path)


def test_runs_of_msmarco_have_ranks_alone(tmp_path: Path) -> None:
    path = tmp_path / "bm25.dev.tsv"
    path.write_text("7\tD1\t2\n7\tD2\t1\n9\tD1\t1\n")
    run = read_run_columns(path)
    assert run.tag == "bm25"
    assert run.topics == {b"7": ([b"D1", b"D2"], [-2.0, -1.0]), b"9": ([b"D1"], [-1.0])}


@pytest.mark.parametrize(
    "content",
    [
        "7\ta\t1\n7\tb\t1\n",
        "7\ta\t1\n7\ta\t2\n",
        "7\ta\t1.5\n",
        "7\ta\t1\n7 Q0 b 2 1 r\n",
        "a\tb\tscore\n7\tb\t1\n",
    ],
)
def test_other_lines_of_three_columns_are_no_run(content: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text(content)
    with pytest.raises(InputError, match=r"bad:1: 3 columns.*accepted: 6 columns"):
        read_run_columns(tmp_path / "bad")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["1 Q0 a 1 .1 r", "1 Q0 b 2 .2 r", "2 Q0 a 1 .3 r", "2 Q0 b 2 .3 r"], True),
        (["1 Q0 a 1 .1 r", "1 Q0 b 2 .2 r", "2 Q0 a 1 .3 r", "2 Q0 b 2 .2 r"], False),
        (["1 Q0 a 0 .1 r", "1 Q0 b 0 .2 r"], False),
        (["1 Q0 a 1 .2 r", "1 Q0 b 2 .2 r"], False),
        (["1 Q0 a 2 .1 r", "1 Q0 b 1 .2 r"], False),
    ],
)
def test_scores_that_rise_with_ranks_are_noticed(lines: list[str], expected: bool, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("\n".join(lines))
    assert read_run_columns(tmp_path / "run").reversed_ranks is expected
