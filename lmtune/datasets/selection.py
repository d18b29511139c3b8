"""Which topics a user means by ``51-100``, ``301,305,310`` or a file of identifiers."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from lmtune.datasets.names import is_file
from lmtune.errors import InputError
from lmtune.storage.files import read_lines

_RANGE = re.compile(r"([0-9]+)-([0-9]+)")
_NUMBER = re.compile(r"[0-9]+")
_ACCEPTED = "topic identifiers and ranges such as 51-100,103 or @FILE with one identifier a line"


def select_topics(spec: str, topics: Sequence[str]) -> list[str]:
    """Choose topics.

    Parameters
    ----------
    spec : str
        Identifiers and ranges, separated by commas: ``301-450,601``; or ``@FILE``, or the path of
        a file, with one identifier a line (blank lines and lines that begin with ``#`` are
        skipped). A range takes the numeric identifiers from its first to its last number, both
        included, that `topics` has. An identifier that looks like a range is itself.
    topics : sequence of str
        The identifiers to choose from, each once.

    Returns
    -------
    list of str
        The chosen identifiers, each once, in the order of `topics`.

    Raises
    ------
    InputError
        For an identifier that `topics` lacks, a range that selects nothing or runs backwards, an
        empty item, and a file that cannot be read or names no topic.

    Examples
    --------
    >>> select_topics("302-400,301", ["301", "302", "310", "401"])
    ['301', '302', '310']
    """
    known = frozenset(topics)
    items = [item.strip() for item in spec.split(",")]
    if spec.startswith("@"):
        chosen = _from_file(Path(spec[1:]), known)
    elif all(item in known or _RANGE.fullmatch(item) for item in items) or not is_file(spec):
        chosen = {topic for item in items for topic in _from_item(item, spec, known)}
    else:
        chosen = _from_file(Path(spec), known)
    return [topic for topic in topics if topic in chosen]


def _from_item(item: str, spec: str, known: Collection[str]) -> set[str]:
    bounds = _RANGE.fullmatch(item)
    if item in known:
        return {item}
    if bounds is None:
        what = "no such topic" if item else "an empty item among the topics"
        raise InputError(what, value=item or spec, accepted=_ACCEPTED)
    first, last = int(bounds[1]), int(bounds[2])
    if first > last:
        raise InputError("the range of topics runs backwards", value=item, accepted=_ACCEPTED)
    chosen = {topic for topic in known if _NUMBER.fullmatch(topic) and first <= int(topic) <= last}
    if not chosen:
        raise InputError("no topic is in the range", value=item, accepted=_describe(known))
    return chosen


def _from_file(path: Path, known: Collection[str]) -> set[str]:
    chosen = set()
    for number, line in read_lines(path):
        topic = line.strip()
        if not topic or topic.startswith("#"):
            continue
        if topic not in known:
            raise InputError("no such topic", file=path, line=number, value=topic, accepted=_describe(known))
        chosen.add(topic)
    if not chosen:
        raise InputError("the file names no topic", file=path, accepted="one identifier a line")
    return chosen


def _describe(known: Collection[str]) -> str:
    """Say what there is to choose from, in a few words."""
    numbers = sorted(int(topic) for topic in known if _NUMBER.fullmatch(topic))
    if numbers and len(numbers) == len(known):
        return f"{len(known)} topics from {numbers[0]} to {numbers[-1]}"
    shown = ", ".join(sorted(known)[:3])
    return f"one of {len(known)} topics such as {shown}" if known else "no topics are there"
