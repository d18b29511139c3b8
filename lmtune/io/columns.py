"""Runs as columns: the docnos and scores of each topic.

This module does not import numpy, so that short commands start quickly.
"""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from lmtune.errors import InputError, PathLike
from lmtune.io.files import read_bytes
from lmtune.io.rows import QRELS, is_table, read_scores, swapped_files_error, table_values

_RUN_COLUMNS = "6 columns: topic, Q0, docno, rank, score, tag"
_RANK = re.compile(rb"[+-]?[0-9]+")
_COMMENT = b"#"[0]
_LINES_COMPARED = 4096
"""Number of lines at the beginning of a file whose ranks and scores are compared."""


class RunColumns(NamedTuple):
    """The content of a run file.

    Attributes
    ----------
    tag : str
        The last line's tag.
    topics : dict of bytes to (list of bytes, list of float)
        Docnos and their scores by topic, as UTF-8 bytes, in the order of the file.
    passed : dict of str to int
        Number of defective lines by kind of defect, with "skipped" or "kept".
    reversed_ranks : bool
        Whether scores increase with ranks in the first topics, as distances do.
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
        A UTF-8 file, plain or compressed, or ``-`` for standard input, in one of three formats:

        - TREC's ``topic Q0 docno rank score tag``, separated by ASCII white space;
        - a table (see `lmtune.io.rows`); its tag is the file name without suffixes;
        - MS MARCO's ``topic docno rank``; each score is minus the rank.

        A byte order mark, CRLF line ends, blank lines and lines that begin with ``#`` are accepted.
    lenient : bool
        Skip defective lines and count them by kind. Lines with a second tag or an invalid rank are counted
        but kept, as trec_eval does.
    like_trec_eval : bool
        Keep and count lines with a second tag or an invalid rank, and ignore columns after the tag. Other
        defects are errors.

    Returns
    -------
    RunColumns

    Raises
    ------
    InputError
        For a line with another number of columns, a rank that is not an integer, a score that is not a finite
        number, a second tag, a repeated (topic, docno), invalid UTF-8, or a carriage return within the line;
        for an empty run; and as `open_bytes`.
    """
    if is_table(path):
        run = RunColumns(_stem(path), _as_columns(table_values(path, read_scores)), {})
    else:
        data = read_bytes(path, text=True)
        run = _read_msmarco(path, data) or _line_by_line(path, data, lenient, like_trec_eval)
    if not run.topics:
        raise InputError("the run is empty", file=path, accepted=_RUN_COLUMNS)
    return run


def _as_columns(topics: dict[bytes, dict[bytes, float]]) -> dict[bytes, tuple[list[bytes], list[float]]]:
    return {topic: (list(scores), list(scores.values())) for topic, scores in topics.items()}


def _rise_with_ranks(data: bytes) -> bool:
    """Return whether scores increase with ranks in the first topics, as distances do."""
    has_increase = False
    lines = islice(io.BytesIO(data), _LINES_COMPARED)
    rows = (line.split() for line in lines if not line.isspace() and line.lstrip()[0] != _COMMENT)
    for _, group in groupby(rows, itemgetter(0)):
        ranked = sorted((int(columns[3]), float(columns[4])) for columns in group)
        scores = [score for _, score in ranked]
        if len(dict(ranked)) < len(ranked) or scores != sorted(scores):
            return False
        has_increase = has_increase or scores[0] < scores[-1]
    return has_increase


def _read_msmarco(path: PathLike, data: bytes) -> RunColumns | None:
    """Read a run in MS MARCO's format (topic, docno, rank); return None for other formats.

    The ranks of a topic must differ; this tells runs from judgments in BEIR's format.
    """
    topics: dict[bytes, dict[bytes, float]] = {}
    for line in io.BytesIO(data):
        columns = line.split()
        if len(columns) != 3 or not columns[2].isdigit():
            return None
        scores = topics.setdefault(columns[0], {})
        if columns[1] in scores:
            return None
        scores[columns[1]] = -float(columns[2])
    if not _is_utf8(data) or any(len({*scores.values()}) < len(scores) for scores in topics.values()):
        return None
    return RunColumns(_stem(path), _as_columns(topics), {})


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _stem(path: PathLike) -> str:
    return Path(path).name.partition(".")[0]


class _DefectError(Exception):
    """A defect of a line: its kind, and the message, value and accepted values of an `InputError`."""

    def __init__(self, kind: str, message: str, value: object, accepted: str) -> None:
        self.kind, self.message, self.value, self.accepted = kind, message, value, accepted


def _line_by_line(path: PathLike, data: bytes, lenient: bool, like_trec_eval: bool) -> RunColumns:
    topics: dict[bytes, dict[bytes, float]] = {}
    passed: Counter[str] = Counter()
    first_tag = last_tag = b""
    sound = _is_utf8(data) and data.count(b"\r") == data.count(b"\r\n")
    current, scores = b"", dict[bytes, float]()
    for number, line in enumerate(io.BytesIO(data), 1):
        columns = line.split()
        if not columns or columns[0][0] == _COMMENT:
            continue
        try:
            if len(columns) != 6 or not sound:
                _check_form(line, len(columns), like_trec_eval)
                del columns[6:]
            topic, _, docno, rank, written, tag = columns
            if topic != current:
                current, scores = topic, topics.get(topic, {})
            if docno in scores:
                raise _repeated(data, topic, docno)
            score = _score(written)
            first_tag = first_tag or tag
            if tag != first_tag or not rank.isdigit():
                for defect in _unranking_defects(rank, tag, first_tag):
                    if not lenient and not like_trec_eval:
                        raise defect
                    passed[f"{defect.kind} kept"] += 1
        except _DefectError as defect:
            if not lenient:
                raise _input_error(defect, path, number) from None
            passed[f"{defect.kind} skipped"] += 1
            continue
        if not scores:
            topics[topic] = scores
        last_tag = tag
        scores[docno] = score
    reversed_ranks = not passed and _rise_with_ranks(data)
    return RunColumns(last_tag.decode(), _as_columns(topics), dict(passed), reversed_ranks)


def _repeated(data: bytes, topic: bytes, docno: bytes) -> _DefectError:
    rows = enumerate(io.BytesIO(data), 1)
    first = next(number for number, line in rows if line.split()[:3:2] == [topic, docno])
    message = f"document ranked twice for topic {topic.decode()}"
    return _DefectError("repeated documents", message, docno, f"each document once (first in line {first})")


def _check_form(line: bytes, width: int, extra_columns: bool) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        message = f"invalid UTF-8 at byte {error.start + 1} of the line"
        value = line.rstrip(b"\r\n")[error.start : error.start + 8]
        raise _DefectError("invalid UTF-8", message, value, "UTF-8 text") from None
    if width < 6 or (width > 6 and not extra_columns):
        raise _DefectError("wrong number of columns", f"{width} columns", line.strip(), _RUN_COLUMNS)
    if b"\r" in line.rstrip(b"\r\n"):
        accepted = "lines that end with LF or CRLF"
        raise _DefectError("carriage returns", "a carriage return in a line", line.strip(), accepted)


def _score(written: bytes) -> float:
    try:
        score = float(written)
    except ValueError:
        score = math.nan
    if not math.isfinite(score) or b"_" in written:
        raise _DefectError("bad scores", "the score is not a finite number", written, "such as -7.25")
    return score


def _unranking_defects(rank: bytes, tag: bytes, first_tag: bytes) -> list[_DefectError]:
    """Return the defects of the columns that do not affect the ranking: rank and tag."""
    defects = []
    if _RANK.fullmatch(rank) is None:
        accepted = "an integer, such as 1"
        defects.append(_DefectError("bad ranks", "the rank is not an integer", rank, accepted))
    if tag != first_tag:
        accepted = f"one tag in a run, here {first_tag.decode()}"
        defects.append(_DefectError("second run tags", "a second run tag", tag, accepted))
    return defects


def _input_error(defect: _DefectError, path: PathLike, number: int) -> InputError:
    value = defect.value
    columns = value.split() if isinstance(value, bytes) else []
    if len(columns) == 4 and _RANK.fullmatch(columns[3]):
        return swapped_files_error(path, QRELS)
    if isinstance(value, bytes) and defect.kind != "invalid UTF-8":
        value = value.decode(errors="backslashreplace")
    return InputError(defect.message, file=path, line=number, value=value, accepted=defect.accepted)
