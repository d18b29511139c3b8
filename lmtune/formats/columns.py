"""Columns of text files whose lines are alike, many lines at a time; runs as columns.

Without numpy, so that short commands start at once.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from lmtune.errors import InputError, PathLike
from lmtune.formats.rows import QRELS, is_table, scores_of, swapped, table_values
from lmtune.storage.files import read_bytes

_BLOCK_BYTES = 1 << 17  # small enough for fields to stay in the processor's cache


def blocks(data: bytes) -> Iterator[bytes]:
    """Yield `data` in pieces of whole lines, so that few lines at a time are held as fields."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin + _BLOCK_BYTES)
        end = len(data) if end < 0 else end + 1
        yield data if end - begin == len(data) else data[begin:end]
        begin = end


def equal_neighbours(column: list[bytes]) -> Iterator[tuple[bytes, slice]]:
    """Yield each name that a column has, and the lines where it stands, as often as it begins anew."""
    begin = 0
    for name, group in groupby(column):
        end = begin + len(list(group))
        yield name, slice(begin, end)
        begin = end


def split_columns(data: bytes, width: int) -> list[list[bytes]] | None:
    r"""Split lines that are all alike into columns, without a step for each line.

    Parameters
    ----------
    data : bytes
        Whole lines; the last may lack its line end.
    width : int
        The number of fields, separated by ASCII white space, that each line shall have.

    Returns
    -------
    list of list of bytes, or None
        The columns; None where any line has another number of fields (a blank one has none), or
        the text is not valid UTF-8, or it holds a NUL byte.

    Examples
    --------
    >>> split_columns(b"1 0 a 1\n2 0 b 0\n", 4)
    [[b'1', b'2'], [b'0', b'0'], [b'a', b'b'], [b'1', b'0']]
    >>> split_columns(b"1 0 a\n2 0 b 0 1\n", 4) is None
    True
    """
    if b"\0" in data:
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    # With line ends as fields of their own, every line has `width` fields exactly if there are
    # width + 1 fields a line and each last one of width + 1 is a line end.
    fields = data.replace(b"\n", b" \0 ").split()
    if not data.endswith(b"\n"):
        fields.append(b"\0")
    if len(fields) != lines * (width + 1) or fields[width :: width + 1].count(b"\0") != lines:
        return None
    return [fields[column :: width + 1] for column in range(width)]


COLUMNS = "6 columns: topic, Q0, docno, rank, score, tag"
_RANK = re.compile(rb"[+-]?[0-9]+")


class RunColumns(NamedTuple):
    """A run as its file has it.

    Attributes
    ----------
    tag : str
        The last line's tag.
    topics : dict of bytes to (list of bytes, list of float)
        Docnos and their scores by topic, in the file's order, as UTF-8.
    passed : dict of str to int
        Numbers of lines by kind of defect, and whether they were skipped or kept.
    reversed_ranks : bool
        Whether the scores of the first topics rise with the ranks, as distances do.
    """

    tag: str
    topics: dict[bytes, tuple[list[bytes], list[float]]]
    passed: dict[str, int]
    reversed_ranks: bool = False


def read_run_columns(path: PathLike, *, lenient: bool = False, like_trec_eval: bool = False) -> RunColumns:
    """Read a TREC run.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed, or ``-`` for standard input: ``topic Q0 docno rank
        score tag``, separated by any ASCII white space; or a table by its suffix, whose tag is the
        file's name without suffixes (`lmtune.formats.rows`); or MS MARCO's ``topic docno rank``, whose
        scores are minus the ranks. A byte order mark, CRLF line ends, blank
        lines and lines that begin with ``#`` do no harm.
    lenient : bool
        Skip bad lines and count them by kind. Lines with another tag or a rank that is no number
        are counted but kept: what they rank is clear, and trec_eval keeps them.
    like_trec_eval : bool
        Keep and count those, and ignore what follows the tag.

    Returns
    -------
    RunColumns

    Raises
    ------
    InputError
        At a line with another number of columns, a rank that is no integer, a score that is no
        finite number, a second tag, a repeated (topic, docno), invalid UTF-8, or a carriage
        return within it; if there are no lines; as `open_bytes`.
    """
    if is_table(path):
        by_topic = table_values(path, scores_of)
        topics = {topic: (list(scores), list(scores.values())) for topic, scores in by_topic.items()}
        return _some(path, RunColumns(_stem(path), topics, {}))
    data = read_bytes(path, text=True)
    run = _uniform(data) or _ranks_alone(path, data) or _line_by_line(path, data, lenient, like_trec_eval)
    return _some(path, run)


def _some(path: PathLike, run: RunColumns) -> RunColumns:
    if not run.topics:
        raise InputError("the run is empty", file=path, accepted=COLUMNS)
    return run


def _uniform(data: bytes) -> RunColumns | None:
    """Read a run without any defect; None for all others."""
    topics: dict[bytes, tuple[list[bytes], list[float]]] = {}
    first_tag, reversed_ranks = b"", False
    for block in blocks(data):
        columns = split_columns(block, 6)
        if columns is None or block.count(b"\r") != block.count(b"\r\n"):
            return None
        topic, _, docno, rank, score, tag = columns
        first_tag = first_tag or tag[0]
        if tag.count(first_tag) != len(tag) or not all(map(bytes.isdigit, rank)):
            return None
        try:
            scores = list(map(float, score))
        except ValueError:
            return None
        if not all(map(math.isfinite, scores)) or (b"_" in block and b"_" in b"".join(score)):
            return None
        if not topics:
            reversed_ranks = _rise_with_ranks(topic, rank, scores)
        for name, lines in equal_neighbours(topic):
            docnos, values = topics.setdefault(name, ([], []))
            docnos += docno[lines]
            values += scores[lines]
    if any(len(set(docnos)) != len(docnos) for docnos, _ in topics.values()):
        return None
    if any(name[0] == 35 for name in topics):  # "#"
        return None
    return RunColumns(first_tag.decode(), topics, {}, reversed_ranks)


def _rise_with_ranks(topic: list[bytes], rank: list[bytes], scores: list[float]) -> bool:
    """Whether the scores of every topic rise with the ranks, as distances do."""
    found = False
    for _, lines in equal_neighbours(topic):
        ranks = list(map(int, rank[lines]))
        ranked = [score for _, score in sorted(zip(ranks, scores[lines], strict=True))]
        if len(set(ranks)) < len(ranks) or ranked != sorted(ranked):
            return False
        found = found or ranked[0] < ranked[-1]
    return found


def _ranks_alone(path: PathLike, data: bytes) -> RunColumns | None:
    """Read MS MARCO's runs, lines of topic, docno and rank; None for all others.

    The ranks of a topic differ, which gains hardly do.
    """
    topics: dict[bytes, tuple[list[bytes], list[float]]] = {}
    for block in blocks(data):
        columns = split_columns(block, 3)
        if columns is None or not all(map(bytes.isdigit, columns[2])):
            return None
        for name, lines in equal_neighbours(columns[0]):
            docnos, scores = topics.setdefault(name, ([], []))
            docnos += columns[1][lines]
            scores += [-float(rank) for rank in columns[2][lines]]
    if any(len(set(column)) != len(column) for columns in topics.values() for column in columns):
        return None
    return RunColumns(_stem(path), topics, {})


def _stem(path: PathLike) -> str:
    return Path(path).name.partition(".")[0]


class _DefectError(Exception):
    """A defect of a line: its kind, then the parts of an InputError."""

    def __init__(self, kind: str, message: str, value: object, accepted: str) -> None:
        self.kind, self.message, self.value, self.accepted = kind, message, value, accepted


def _line_by_line(path: PathLike, data: bytes, lenient: bool, like_trec_eval: bool) -> RunColumns:
    topics: dict[bytes, tuple[list[bytes], list[float]]] = {}
    lines: dict[bytes, dict[bytes, int]] = {}
    passed: Counter[str] = Counter()
    first_tag = last_tag = b""
    for number, line in enumerate(data.split(b"\n"), 1):
        columns = line.split()
        if not columns or columns[0][0] == 35:
            continue
        try:
            _check_form(line, len(columns), like_trec_eval)
            topic, _, docno, rank, written, tag = columns[:6]
            ranked = lines.setdefault(topic, {})
            first = ranked.get(docno)
            if first is not None:
                message = f"document ranked twice for topic {topic.decode()}"
                accepted = f"each document once (first in line {first})"
                raise _DefectError("repeated documents", message, docno, accepted)
            score = _score(written)
            ours = first_tag or tag
            for defect in _let_pass(rank, tag, ours):
                if not lenient and not like_trec_eval:
                    raise defect
                passed[f"{defect.kind} kept"] += 1
        except _DefectError as defect:
            if not lenient:
                raise _input_error(defect, path, number) from None
            passed[f"{defect.kind} skipped"] += 1
            continue
        first_tag, last_tag = ours, tag
        ranked[docno] = number
        docnos, scores = topics.setdefault(topic, ([], []))
        docnos.append(docno)
        scores.append(score)
    return RunColumns(last_tag.decode(), topics, dict(passed))


def _check_form(line: bytes, width: int, extra_columns: bool) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        message = f"invalid UTF-8 at byte {error.start + 1} of the line"
        value = line[error.start : error.start + 8]
        raise _DefectError("invalid UTF-8", message, value, "UTF-8 text") from None
    if width < 6 or (width > 6 and not extra_columns):
        raise _DefectError("wrong number of columns", f"{width} columns", line.strip(), COLUMNS)
    if b"\r" in line.rstrip(b"\r"):
        accepted = "lines that end with LF or CRLF"
        raise _DefectError("carriage returns", "a carriage return in a line", line.strip(), accepted)


def _score(written: bytes) -> float:
    try:
        score = float(written)
    except ValueError:
        score = math.nan
    if not math.isfinite(score) or b"_" in written:
        raise _DefectError("bad scores", "the score is no finite number", written, "such as -7.25")
    return score


def _let_pass(rank: bytes, tag: bytes, ours: bytes) -> list[_DefectError]:
    """Find defects of columns that play no part in the ranking."""
    defects = []
    if _RANK.fullmatch(rank) is None:
        accepted = "an integer, such as 1"
        defects.append(_DefectError("bad ranks", "the rank is no integer", rank, accepted))
    if tag != ours:
        accepted = f"one tag in a run, here {ours.decode()}"
        defects.append(_DefectError("second run tags", "a second run tag", tag, accepted))
    return defects


def _input_error(defect: _DefectError, path: PathLike, number: int) -> InputError:
    value = defect.value
    columns = value.split() if isinstance(value, bytes) else []
    if len(columns) == 4 and _RANK.fullmatch(columns[3]):
        return swapped(path, QRELS)
    if isinstance(value, bytes) and defect.kind != "invalid UTF-8":
        value = value.decode(errors="backslashreplace")
    return InputError(defect.message, file=path, line=number, value=value, accepted=defect.accepted)
