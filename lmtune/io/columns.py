"""Runs as columns: each topic's docnos and scores.

Without numpy, so that short commands start at once.
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
from lmtune.io.rows import QRELS, is_table, read_scores, swapped, table_values

_RUN_COLUMNS = "6 columns: topic, Q0, docno, rank, score, tag"
_RANK = re.compile(rb"[+-]?[0-9]+")
_COMMENT = b"#"[0]
_LINES_COMPARED = 4096
"""Lines at a file's beginning whose ranks and scores are compared."""


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
        file's name without suffixes (`lmtune.io.rows`); or MS MARCO's ``topic docno rank``, whose
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
        run = RunColumns(_stem(path), _as_columns(table_values(path, read_scores)), {})
    else:
        data = read_bytes(path, text=True)
        run = _ranks_alone(path, data) or _line_by_line(path, data, lenient, like_trec_eval)
    if not run.topics:
        raise InputError("the run is empty", file=path, accepted=_RUN_COLUMNS)
    return run


def _as_columns(topics: dict[bytes, dict[bytes, float]]) -> dict[bytes, tuple[list[bytes], list[float]]]:
    return {topic: (list(scores), list(scores.values())) for topic, scores in topics.items()}


def _rise_with_ranks(data: bytes) -> bool:
    """Whether the scores of the first topics rise with the ranks, as distances do."""
    found = False
    lines = islice(io.BytesIO(data), _LINES_COMPARED)
    rows = (line.split() for line in lines if not line.isspace() and line.lstrip()[0] != _COMMENT)
    for _, group in groupby(rows, itemgetter(0)):
        ranked = sorted((int(columns[3]), float(columns[4])) for columns in group)
        scores = [score for _, score in ranked]
        if len(dict(ranked)) < len(ranked) or scores != sorted(scores):
            return False
        found = found or scores[0] < scores[-1]
    return found


def _ranks_alone(path: PathLike, data: bytes) -> RunColumns | None:
    """Read MS MARCO's runs, lines of topic, docno and rank; None for all others.

    The ranks of a topic differ, which gains hardly do.
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
    """A defect of a line: its kind, then the parts of an InputError."""

    def __init__(self, kind: str, message: str, value: object, accepted: str) -> None:
        self.kind, self.message, self.value, self.accepted = kind, message, value, accepted


def _line_by_line(path: PathLike, data: bytes, lenient: bool, like_trec_eval: bool) -> RunColumns:
    topics: dict[bytes, dict[bytes, float]] = {}
    passed: Counter[str] = Counter()
    first_tag = last_tag = b""
    sound = _is_utf8(data) and data.count(b"\r") == data.count(b"\r\n")
    known, scores = b"", dict[bytes, float]()
    for number, line in enumerate(io.BytesIO(data), 1):
        columns = line.split()
        if not columns or columns[0][0] == _COMMENT:
            continue
        try:
            if len(columns) != 6 or not sound:
                _check_form(line, len(columns), like_trec_eval)
                del columns[6:]
            topic, _, docno, rank, written, tag = columns
            if topic != known:
                known, scores = topic, topics.get(topic, {})
            if docno in scores:
                raise _repeated(data, topic, docno)
            score = _score(written)
            first_tag = first_tag or tag
            if tag != first_tag or not rank.isdigit():
                for defect in _let_pass(rank, tag, first_tag):
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
