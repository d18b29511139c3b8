"""Relevance judgments in TREC's four columns, BEIR's three, five with sampling strata, or LETOR rows."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lmtune.errors import FilePosition, InputError, PathLike
from lmtune.io.files import atomic_write, decode_line, read_bytes
from lmtune.io.rows import RUN, is_table, read_gains, swapped_files_error, table_values

_COLUMNS = "topic, iteration, docno, gain"
_SAMPLED_COLUMNS = "topic, iteration, docno, stratum, gain"
_SUBTOPIC_COLUMNS = "topic, subtopic, docno, gain"
_BEIR_HEADER = ["query-id", "corpus-id", "score"]
_GAIN = re.compile(rb"([+-]?[0-9]{1,9})(\.0*)?")
_NUMBER = re.compile(rb"[-+0-9.eE]+")
_LETOR_ROW = re.compile(
    rb"[ \t]*(\S+)[ \t]+qid:(\S+)[^#]*#[ \t#]*(?:doc_?(?:id|no)[ \t]*[=:][ \t]*)?(\S+).*", re.IGNORECASE
)


STRATA, SUBTOPICS = "strata", "subtopics"
"""Further information that judgments can contain."""


class SampledJudgments(dict[bytes, int]):
    """The gains of a topic by docno; a negative gain marks a document of the pool that was not sampled.

    Attributes
    ----------
    strata : dict of bytes to bytes
        The stratum of the pool by docno; each stratum has its own sampling rate.
    """

    def __init__(self) -> None:
        super().__init__()
        self.strata: dict[bytes, bytes] = {}


class SubtopicJudgments(dict[bytes, int]):
    """The gains of a topic by docno: the maximum over subtopics.

    Attributes
    ----------
    by_subtopic : dict of (bytes, bytes) to int
        Gains by (subtopic, docno).
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_subtopic: dict[tuple[bytes, bytes], int] = {}

    def add(self, subtopic: bytes, docno: bytes, gain: int) -> None:
        """Add one judgment."""
        self.by_subtopic[subtopic, docno] = gain
        self[docno] = max(gain, self.get(docno, gain))


_COLUMNS_OF = {None: _COLUMNS, STRATA: _SAMPLED_COLUMNS, SUBTOPICS: _SUBTOPIC_COLUMNS}
_CLASSES: dict[str | None, type[dict[bytes, int]]] = {
    None: dict,
    STRATA: SampledJudgments,
    SUBTOPICS: SubtopicJudgments,
}


def read_qrels(path: PathLike) -> dict[str, dict[str, int]]:
    """Read relevance judgments from a file.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed: TREC's ``topic iteration docno gain`` separated by white space,
        BEIR's ``query-id corpus-id score`` with a header line, LETOR rows with docids (see
        `lmtune.io.letor.read_letor`), or a table (see `lmtune.io.rows`). Gains are integers, also written as
        ``1.0``. Blank lines and lines that begin with ``#`` are skipped.

    Returns
    -------
    dict of str to dict of str to int
        Gains by topic and docno, in the order of the file. Negative gains are kept.

    Raises
    ------
    InputError
        For a line with another number of columns, a gain that is not an integer, a repeated (topic, docno) or
        invalid UTF-8; if there are no judgments; and as `open_bytes`.
    """
    return {
        topic.decode(): dict(zip(map(bytes.decode, judged), judged.values(), strict=True))
        for topic, judged in read_judgments(path).items()
    }


def read_judgments(path: PathLike, reads: str | None = None) -> dict[bytes, dict[bytes, int]]:
    """Read judgments with topics and docnos as UTF-8 bytes, in half the time of `read_qrels`.

    Parameters
    ----------
    path : path-like
        As for `read_qrels`.
    reads : {"strata", "subtopics"}, optional
        ``"strata"`` reads only sample_eval's ``topic iteration docno stratum gain``, as `SampledJudgments`;
        ``"subtopics"`` only ndeval's ``topic subtopic docno gain``, as `SubtopicJudgments`.

    Raises
    ------
    InputError
        As `read_qrels`.
    """
    columns = _COLUMNS_OF[reads]
    if is_table(path):
        if reads:
            raise InputError(f"a table has no {reads}", file=path, accepted=f"lines of {columns}")
        qrels = table_values(path, read_gains)
    else:
        qrels = _line_by_line(path, read_bytes(path, text=True), reads)
    if not qrels:
        raise InputError("no judgments", file=path, accepted=f"lines of {columns}")
    return qrels


def _line_by_line(path: PathLike, data: bytes, reads: str | None) -> dict[bytes, dict[bytes, int]]:
    lines = data.split(b"\n")
    first = _first_line(lines)
    if not reads and _is_letor(lines[first]):
        lines = [_LETOR_ROW.sub(rb"\2 0 \3 \1", line) for line in lines]
    width = 5 if reads == STRATA else 3 if not reads and _is_beir_header(lines[first].split()) else 4
    start = first + 1 if width == 3 else first
    gains: dict[bytes, int] = {}
    qrels: dict[bytes, dict[bytes, int]] = {}
    with FilePosition(path) as position:
        for position.line, line in enumerate(lines[start:], start + 1):
            columns = line.split()
            if len(columns) != width or columns[0][0] == 35:
                if not columns or columns[0][0] == 35:
                    continue
                raise _wrong_columns(path, line, width)
            topic, name, written = columns[0], _docno(columns), columns[-1]
            if not (topic.isascii() and name.isascii()):
                decode_line(line)
            gain = gains.get(written)
            if gain is None:
                gain = gains[written] = _parse_gain(written)
            judged = qrels.setdefault(topic, _CLASSES[reads]())
            if isinstance(judged, SubtopicJudgments):
                subtopic = columns[1]
                if (subtopic, name) in judged.by_subtopic:
                    raise _duplicate(lines, line, topic, name, subtopic)
                judged.add(subtopic, name, gain)
                continue
            if name in judged:
                raise _duplicate(lines, line, topic, name)
            if isinstance(judged, SampledJudgments):
                judged.strata[name] = columns[3]
            judged[name] = gain
    return qrels


def write_qrels(path: PathLike, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write relevance judgments in TREC's format; the file is written atomically.

    Parameters
    ----------
    path : path-like
        The target, compressed if its suffix names a compression.
    qrels : mapping of str to mapping of str to int
        Gains by topic and docno, written in this order.

    Raises
    ------
    InputError
        If a topic or docno is empty or contains white space, or a topic begins with ``#``.
    """
    with atomic_write(path) as stream:
        for topic, judged in qrels.items():
            if topic.startswith("#"):
                raise InputError("a topic must not begin with '#'", file=path, value=topic)
            for docno, gain in judged.items():
                if topic.split() != [topic] or docno.split() != [docno]:
                    raise InputError(
                        "cannot write a judgment",
                        file=path,
                        value=(topic, docno),
                        accepted="a topic and a docno without white space",
                    )
                stream.write(f"{topic} 0 {docno} {int(gain)}\n")


def find_judgment(path: PathLike, topic: str, docno: str | None = None) -> int | None:
    """Find the first judgment of a topic, or of a topic and document, for messages.

    Returns
    -------
    int or None
        The line number, from 1; None if there is no such judgment.
    """
    name = None if docno is None else docno.encode()
    return _find(read_bytes(path).split(b"\n"), topic.encode(), name)


def _find(lines: list[bytes], topic: bytes, docno: bytes | None, subtopic: bytes | None = None) -> int | None:
    for number, line in enumerate(lines, 1):
        columns = line.split()
        if len(columns) in (3, 4, 5) and columns[0] == topic and docno in (None, _docno(columns)):
            if subtopic not in (None, columns[1]):
                continue
            return number
    return None


def _docno(columns: list[bytes]) -> bytes:
    return columns[1 if len(columns) == 3 else 2]


def _first_line(lines: list[bytes]) -> int:
    for position, line in enumerate(lines):
        stripped = line.lstrip()
        if stripped and not stripped.startswith(b"#"):
            return position
    return len(lines) - 1


def _is_beir_header(columns: list[bytes]) -> bool:
    names = [column.decode(errors="replace").lower().replace("_", "-") for column in columns]
    return names == _BEIR_HEADER


def _is_letor(line: bytes) -> bool:
    return any(column.startswith(b"qid:") for column in line.split()[1:2])


def _parse_gain(written: bytes) -> int:
    if _GAIN.fullmatch(written) is None:
        large = re.fullmatch(rb"[+-]?[0-9]+", written) is not None
        raise InputError(
            "the gain is too large" if large else "the gain is not an integer",
            value=written.decode(errors="backslashreplace"),
            accepted="nine digits at most" if large else "an integer such as 0, 1, 2 or -1",
        )
    return int(written.partition(b".")[0])


def _wrong_columns(path: PathLike, line: bytes, width: int) -> InputError:
    text = decode_line(line)
    if len(columns := line.split()) == 6 and columns[3].isdigit() and _NUMBER.fullmatch(columns[4]):
        return swapped_files_error(path, RUN)
    named = {3: ", ".join(_BEIR_HEADER), 4: _COLUMNS, 5: _SAMPLED_COLUMNS}
    accepted = f"{width} columns: {named[width]}"
    if _is_letor(line):
        return InputError("a LETOR row without a docid", value=text.strip(), accepted="#docid = X at its end")
    if width == 4 and len(columns) == 3:
        accepted += f", or BEIR's 3 below the header line '{' '.join(_BEIR_HEADER)}'"
    if width == 4 and len(columns) == 5:
        accepted += f", or, for xinfAP and infNDCG, 5: {_SAMPLED_COLUMNS}"
    return InputError(f"{len(columns)} columns", value=text.strip(), accepted=accepted)


def _duplicate(
    lines: list[bytes], line: bytes, topic: bytes, docno: bytes, subtopic: bytes | None = None
) -> InputError:
    first = _find(lines, topic, docno, subtopic)
    under = "" if subtopic is None else f" and subtopic {subtopic.decode()}"
    accepted = "one judgment of each document for a topic" + (under and " and subtopic")
    if subtopic is None and line.split()[1:2] != lines[(first or 1) - 1].split()[1:2]:
        accepted += "; diversity measures, such as alpha_nDCG@20, read subtopics from column 2"
    return InputError(
        f"document judged twice for topic {topic.decode()}{under}, first in line {first}",
        value=docno.decode(),
        accepted=accepted,
    )
