"""Examples with several labels and sparse features, as the extreme-classification repository has them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.formats.letor_rows import BLOCK_BYTES, parse_features
from lmtune.storage.files import open_bytes, read_lines, read_whole_lines

HIGHEST = (1 << 31) - 1
"""The largest number of examples, features or labels."""

_HEADER = "EXAMPLES FEATURES LABELS"
# Labels come before the pairs; a line that begins with a pair has none.
_LABELS = re.compile(rb"[ \t]*[0-9]+(?![0-9]*:)([ \t]*,[ \t]*[0-9]+)*(?=[ \t]|$)")


class Lists(NamedTuple):
    """Ragged lists: list r is ``ids[starts[r]:starts[r + 1]]``, int64 (rows + 1,) and int32 (n,)."""

    starts: NDArray[np.int64]
    ids: NDArray[np.int32]

    def places(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the items of some lists stand, one list behind the other, and new starts."""
        counts = np.diff(self.starts)[rows]
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        return np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], counts), starts

    @property
    def rows(self) -> NDArray[np.int64]:
        """The list of each item, int64 (n,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def repeated(self) -> int | None:
        """Return the first list that holds something twice, None where there is none."""
        keys = self.rows << 31 | self.ids
        if (np.diff(keys) > 0).all():
            return None
        keys.sort()
        twice = keys[1:][keys[1:] == keys[:-1]]
        return int(twice[0] >> 31) if twice.size else None


@dataclass(frozen=True, eq=False)
class LabelledExamples:
    """Examples with labels, both numbered from 0.

    Attributes
    ----------
    features, labels : int
        How many there are.
    bags : Lists
        Each example's features, those that are not 0.
    values : numpy.ndarray of float32, shape (n,)
        Their values.
    relevant : Lists
        Each example's labels.
    """

    features: int
    labels: int
    bags: Lists
    values: NDArray[np.float32]
    relevant: Lists

    def __len__(self) -> int:
        return len(self.bags.starts) - 1

    def select(self, rows: NDArray[np.int64]) -> LabelledExamples:
        """Return the examples of these rows, in their order."""
        (bag, starts), (label, label_starts) = self.bags.places(rows), self.relevant.places(rows)
        relevant = Lists(label_starts, self.relevant.ids[label])
        bags = Lists(starts, self.bags.ids[bag])
        return LabelledExamples(self.features, self.labels, bags, self.values[bag], relevant)


def read_labelled(path: PathLike, labels: PathLike | None = None) -> LabelledExamples:
    """Read examples as the extreme-classification repository writes them.

    The first line has the numbers of examples, features and labels; then comes a line an example,
    ``LABEL,LABEL FEATURE:VALUE FEATURE:VALUE``, ids from 0, without labels or features perhaps. In
    the two-file form neither file has labels before its pairs: the second one has the labels as
    ``LABEL:1 LABEL:1``, and the first lines have two numbers.

    Parameters
    ----------
    path : path-like
        A file, plain or compressed.
    labels : path-like, optional
        The second file, of the two-file form.

    Raises
    ------
    InputError
        With file and line: at a first line that is no header; ids out of its range or twice in an
        example; values that are no finite float32; another number of lines. As `open_bytes`.
    """
    if labels is None:
        (_, features, count), relevant, bags, values = _read(path, 3)
    else:
        (examples, features), _, bags, values = _read(path, 2)
        (named, count), _, relevant, _ = _read(labels, 2)
        if named != examples:
            raise InputError(
                "another number of examples", file=labels, line=1, value=named, accepted=f"{examples}"
            )
    return LabelledExamples(features, count, bags, values, relevant)


def read_rows(path: PathLike, examples: int, column: int) -> NDArray[np.int64]:
    """Read a column of a file of splits: numbers of examples from 1, one a line; returned from 0."""
    rows = []
    for number, line in read_lines(path):
        fields = line.split()
        if not fields:
            continue
        text = fields[column - 1] if column <= len(fields) else ""
        if not text.isdecimal() or not 1 <= int(text) <= examples:
            accepted = f"an example's number, 1 to {examples}, in each of {column} columns or more"
            raise InputError("bad row of a split", file=path, line=number, value=line, accepted=accepted)
        rows.append(int(text) - 1)
    return np.array(rows, np.int64)


class _Read(NamedTuple):
    sizes: tuple[int, ...]
    labels: Lists
    bags: Lists
    values: NDArray[np.float32]


def _read(path: PathLike, numbers: int) -> _Read:
    """Read a file whose header has so many numbers."""
    with open_bytes(path) as stream:
        blocks = read_whole_lines(stream, path, BLOCK_BYTES)
        first, _, rest = next(blocks, b"").partition(b"\n")
        sizes = _sizes(path, first, numbers)
        parts = [*_parse(path, itertools.chain([rest], blocks), *sizes)]
    labels = _stacked([part.labels for part in parts])
    bags = _stacked([part.bags for part in parts])
    values = np.concatenate([part.values for part in parts])
    rows, examples = len(bags.starts) - 1, sizes[0]
    if rows < examples or bags.starts[examples] < len(bags.ids) or labels.starts[examples] < len(labels.ids):
        raise InputError(
            "another number of examples than in the first line", file=path, value=rows, accepted=f"{examples}"
        )
    labels, bags = (Lists(lists.starts[: examples + 1], lists.ids) for lists in (labels, bags))
    for name, lists in (("label", labels), ("feature", bags)):
        if (row := lists.repeated()) is not None:
            raise InputError(f"{name} repeated in an example", file=path, line=row + 2, accepted="each once")
    return _Read(sizes, labels, bags, values)


def _sizes(path: PathLike, line: bytes, numbers: int) -> tuple[int, ...]:
    fields = line.split()
    if len(fields) != numbers or not all(re.fullmatch(rb"0*[1-9][0-9]{0,9}", text) for text in fields):
        accepted = f"{_HEADER if numbers == 3 else 'ROWS COLUMNS'}, each 1 to {HIGHEST}"
        raise InputError(
            "no header", file=path, line=1, value=line.decode(errors="replace"), accepted=accepted
        )
    return tuple(min(int(text), HIGHEST) for text in fields)


class _Part(NamedTuple):
    labels: Lists
    bags: Lists
    values: NDArray[np.float32]


def _parse(
    path: PathLike, blocks: Iterable[bytes], examples: int, features: int, labels: int = 0
) -> Iterator[_Part]:
    """Parse blocks of whole lines, of which the first is the file's second."""
    del examples
    first = 2
    for raw in blocks:
        lines = raw.replace(b"\r\n", b"\n").split(b"\n")[:-1]
        try:
            yield _parse_lines(lines, features, labels)
        except ValueError:
            row = next(row for row, line in enumerate(lines) if not _is_example(line, features, labels))
            raise _error(path, first + row, lines[row], features, labels) from None
        first += len(lines)


def _parse_lines(lines: Sequence[bytes], features: int, labels: int) -> _Part:
    """Parse lines; ValueError where one is no example."""
    named: list[list[int]] = []
    pairs: list[bytes] = []
    for line in lines:
        head = _LABELS.match(line)
        named.append([] if head is None else list(map(int, head[0].split(b","))))
        pairs.append(line if head is None else line[head.end() :])
    counts = np.cumsum([0, *map(len, named)])
    ids = np.array([label for own in named for label in own], np.int64)
    if (ids >= labels).any():
        raise ValueError("a bad label")
    rows, columns, values = parse_features(pairs, 0, features - 1)
    if np.isnan(values).any():
        raise ValueError("a value is missing")
    starts = np.searchsorted(rows, np.arange(len(lines) + 1))
    return _Part(Lists(counts, ids.astype(np.int32)), Lists(starts, (columns - 1).astype(np.int32)), values)


def _is_example(line: bytes, features: int, labels: int) -> bool:
    try:
        _parse_lines([line], features, labels)
    except (ValueError, OverflowError):
        return False
    return True


def _is_pair(text: bytes, features: int) -> bool:
    try:
        return not np.isnan(parse_features([text], 0, features - 1)[2]).any()
    except ValueError:
        return False


def _error(path: PathLike, number: int, line: bytes, features: int, labels: int) -> InputError:
    """Return the error of a line that is no example."""
    accepted = f"labels from 0 to {labels - 1} with commas between"

    def error(message: str, value: bytes, accepted: str) -> InputError:
        shown = value.decode(errors="backslashreplace")
        return InputError(message, file=path, line=number, value=shown, accepted=accepted)

    head = _LABELS.match(line)
    if head is None:
        wrong, *pairs = line.split() or [b""]
        if re.match(rb"[0-9]*:", wrong) is None:
            return error("bad label", wrong, accepted)
        pairs = line.split()
    else:
        for label in head[0].split(b","):
            if int(label) >= labels:
                return error("bad label", label.strip(), accepted)
        pairs = line[head.end() :].split()
    token = next(pair for pair in pairs if not _is_pair(pair, features))
    name, colon, value = token.partition(b":")
    if not colon or not _is_pair(name + b":0", features):
        return error("bad feature", token, f"ID:VALUE with an ID from 0 to {features - 1}")
    return error("bad value", value, "a finite number within float32's range")


def _stacked(parts: Sequence[Lists]) -> Lists:
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return Lists(starts, np.concatenate([part.ids for part in parts]))
