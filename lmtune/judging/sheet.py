"""A file of judgements to fill in: lines of topic, iteration, docno and a gain, `?` while there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from lmtune.errors import InputError, PathLike
from lmtune.storage.files import atomic_write, read_bytes

_LABEL = re.compile(r"\?|[+-]?[0-9]{1,9}")


class Entry(NamedTuple):
    """A pair to judge.

    Attributes
    ----------
    topic, docno : str
    label : int or None
        None where it is yet to be judged.
    """

    topic: str
    docno: str
    label: int | None = None


def read_sheet(path: PathLike) -> list[Entry]:
    """Read a file to fill in, in its order.

    Raises
    ------
    InputError
        At a line that is no pair, at a pair that comes twice, and where there are none.
    """
    entries: dict[tuple[str, str], Entry] = {}
    for number, line in enumerate(read_bytes(path, text=True).decode().split("\n"), 1):
        columns = line.split()
        if not columns:
            continue
        if len(columns) != 4 or not _LABEL.fullmatch(columns[3]):
            accepted = "topic, iteration, docno, and a gain or ?"
            raise InputError("no pair to judge", file=path, line=number, value=line, accepted=accepted)
        topic, _, docno, label = columns
        if (topic, docno) in entries:
            accepted = "each pair once"
            raise InputError("a pair comes twice", file=path, line=number, value=line, accepted=accepted)
        entries[topic, docno] = Entry(topic, docno, None if label == "?" else int(label))
    if not entries:
        raise InputError("no pairs to judge", file=path, accepted="lines of topic, iteration, docno, ?")
    return list(entries.values())


def write_sheet(path: PathLike, entries: Iterable[Entry]) -> None:
    """Write a file to fill in, whole or not at all."""
    with atomic_write(path) as stream:
        for topic, docno, label in entries:
            stream.write(f"{topic} 0 {docno} {'?' if label is None else label}\n")


def put_label(path: PathLike, topic: str, docno: str, label: int | None) -> list[Entry]:
    """Put a pair's label into its file, or take it out; return what the file has then.

    Raises
    ------
    InputError
        For a pair that the file lacks; as `read_sheet`.
    """
    entries = read_sheet(path)
    places = [at for at, entry in enumerate(entries) if (entry.topic, entry.docno) == (topic, docno)]
    if not places:
        raise InputError("no such pair", file=path, value=(topic, docno), accepted="a pair of the file")
    entries[places[0]] = Entry(topic, docno, label)
    write_sheet(path, entries)
    return entries
