"""Every parser takes time in proportion to its input, whatever that was made of to slow it down."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lmtune.errors import InputError
from lmtune.io.columns import read_run_columns
from lmtune.io.csv_files import csv_rows
from lmtune.io.file_documents import FileDocuments
from lmtune.io.letor import read_letor
from lmtune.io.line_documents import parse_jsonl
from lmtune.io.qrels import read_qrels
from lmtune.io.topics import read_topics
from lmtune.io.trec_documents import parse_trec

SIZE, TIMES = 50_000, 8
# Eight times the input takes about 8 times as long where time is linear, 64 where it is quadratic.
MOST = 24
NOISE = 0.02  # seconds that may pass for anything

Make = Callable[[int], bytes]
Read = Callable[[Path], object]

NEWS = b"<DOC>\n<DOCNO>a</DOCNO>\n%s\n</DOC>\n"
TEXT = NEWS % b"<TEXT>%s</TEXT>"
PAGE = NEWS % b"<DOCHDR>\n</DOCHDR>\n%s"
LINE = b"<top>\n<num> 1\n<title> %s\n</top>\n"
JSON = b'{"id": "a", "contents": "%s"}\n'
RUN = b"1 Q0 d %s t\n"
LETOR = b"1 qid:1 %s\n"


def within(frame: bytes, piece: bytes) -> Make:
    """Repeat a piece in a frame up to a number of bytes."""
    return lambda size: frame % (piece * (size // len(piece)))


def lines(line: bytes) -> Make:
    """Write a line with the numbers from 0, up to a number of bytes."""
    return lambda size: b"".join(line % number for number in range(size // (len(line) + 2)))


def halves(frame: bytes, first: bytes, second: bytes) -> Make:
    return lambda size: frame % (first * (size // 2 // len(first)) + second * (size // 2 // len(second)))


def documents(path: Path) -> None:
    for batch in FileDocuments("attack", [path], batch_bytes=1 << 14).batches():
        for _ in batch.numbered():
            pass


def in_blocks(parse: Callable[..., object]) -> Read:
    def read(path: Path) -> None:
        data = path.read_bytes()
        list(parse((data[at : at + 512] for at in range(0, len(data), 512)), path))  # type: ignore[call-overload]

    return read


def letor(path: Path) -> object:
    return read_letor(path, cache=False, repeated="last")


def run(path: Path) -> object:
    return read_run_columns(path, lenient=True)


def results(path: Path) -> object:
    return list(csv_rows(path))


CASES: dict[str, tuple[Make, Read]] = {
    **{
        f"news {frame[24:30]!r} {piece!r}": (within(frame, piece), documents)
        for frame in (NEWS, TEXT)
        for piece in (b"<TEXT ", b"<TEXT>", b"\n<DOC ", b"<DOCNO>", b"<a", b"<!--", b"</DOC ", b"&#1", b"\n")
    },
    "news without an end": (within(b"<DOC>\n%s", b"x "), in_blocks(parse_trec)),
    "news in blocks": (within(NEWS, b"</DO C>"), in_blocks(parse_trec)),
    "news without a name": (within(b"<DOC>\n%s</DOC>\n", b"<DOCNO>"), documents),
    "no news": (within(b"%s", b"\n<DOC "), in_blocks(parse_trec)),
    "one name": (within(b"%s", NEWS % b""), lambda path: FileDocuments("x", [path]).locate("a")),
    **{
        f"page {piece!r}": (within(PAGE, piece), documents)
        for piece in (b"<a ", b"<b>", b"<p>", b"<!--", b"<table>", b"&a", b"<a b='", b"<script>")
    },
    "page of open and other closed": (halves(PAGE, b"<b>", b"</i>"), documents),
    "page of divisions": (halves(PAGE, b"<div>", b"</p>"), documents),
    "JSON in one line": (within(JSON, b"x"), in_blocks(parse_jsonl)),
    "JSON of halves": (within(JSON, b"\\ud800"), in_blocks(parse_jsonl)),
    "JSON nested": (within(b"%s", b"["), in_blocks(parse_jsonl)),
    "JSON number": (within(b'{"id": "a", "contents": "", "n": 0.%s}', b"1"), in_blocks(parse_jsonl)),
    "JSON lines": (lines(b'{"id": %d, "contents": ""}\n'), documents),
    **{
        f"topic {piece!r}": (within(LINE, piece), read_topics)
        for piece in (b"<a>", b"<a ", b"<", b"</top ", b"<a b=", b"<top", b" ", b"&")
    },
    "topics with tabs": (lines(b"%d\tx\n"), read_topics),
    "topic with tabs": (within(b"1\tx%s", b"\t"), read_topics),
    "topics in JSON": (lines(b'{"id": %d, "text": "x"}\n'), read_topics),
    "judgments": (lines(b"1 0 d%d 1\n"), read_qrels),
    "judgments and comments": (lines(b"#\n1 0 d%d 1\n"), read_qrels),
    "gains": (lines(b"%d 0 d 7\n"), read_qrels),
    "long gain": (within(b"1 0 d %s\n", b"1"), read_qrels),
    "same judgment": (within(b"%s", b"1 0 d 1\n"), read_qrels),
    "run": (lines(b"1 Q0 d%d 1 1 t\n"), run),
    "run with tags": (lines(b"1 Q0 d 1 1 t%d\n"), run),
    "run with ranks": (lines(b"1 Q0 d%d x 1 t\n"), run),
    "long rank": (within(RUN, b"1"), run),
    "long score": (within(b"1 Q0 d 1 0.%s t\n", b"1"), run),
    "long label": (within(b"1.%s qid:1 1:1\n", b"1"), letor),
    "near the middle": (within(LETOR % b"1:1.000000059604644775390625%s1", b"0"), letor),
    "exponent": (lambda size: LETOR % (b"1:1%s" % (b"0" * size) + b"e-%d" % size), letor),
    "undecided": (within(LETOR, b"1:1e-45 "), letor),
    "queries": (lines(b"1 qid:%d 1:1\n"), letor),
    "long query": (within(b"%s", b"1 qid:" + b"q" * 990 + b" 1:1\n"), letor),
    "comment": (within(LETOR % b"1:1 %s", b"#"), letor),
    "CSV quotes": (within(b'a,b\n"%s",1\n', b'""'), results),
    "CSV lines": (within(b'a,b\n"%s",1\n', b"\n"), results),
    "CSV number": (within(b"a,b\nx,%s\n", b"1"), results),
    "CSV rows": (lines(b"a,b\nx,%d\n"), results),
}


@pytest.mark.first_case
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case == "undecided")) for case in CASES]
)
def test_time_is_linear(case: str, tmp_path: Path) -> None:
    make, read = CASES[case]
    paths = [tmp_path / "short", tmp_path / "long"]
    for path, size in zip(paths, (SIZE, SIZE * TIMES), strict=True):
        path.write_bytes(make(size))
    for _ in range(4):
        short, long = (_seconds(read, path) for path in paths)
        if long <= MOST * short + NOISE:
            return
    raise AssertionError(f"{short} s, then {long} s")


def _seconds(read: Read, path: Path) -> float:
    """Measure the processor's time, so that others on the machine do not count."""
    times: list[float] = []
    while len(times) < 2 and sum(times) < 1:
        start = time.process_time()
        with contextlib.suppress(InputError):
            read(path)
        times.append(time.process_time() - start)
    return min(times)
