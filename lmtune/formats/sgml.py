"""TREC's SGML topics, as NIST wrote them: tags mostly unclosed, texts behind labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lmtune.errors import InputError, PathLike

FIELDS = ("title", "desc", "narr")
"""The fields that a query can be made of."""

_LABELS = {"num": "number", "title": "topic", "desc": "description", "narr": "narrative"}
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9_-]*)(?:\s[^<>]*)?>")
# These end a field wherever they stand; other tags only at the beginning of a line, because a
# text may hold markup of its own.
_KNOWN = frozenset({"top", *_LABELS, "head", "dom", "smry", "con", "fac", "nat", "time", "def"})


@dataclass(frozen=True)
class SgmlTopic:
    """One topic: its number without leading zeros, where it begins, and its texts by field."""

    identifier: str
    line: int
    texts: dict[str, str]


@dataclass
class _Open:
    line: int
    pieces: dict[str, list[str]] = field(default_factory=dict)
    current: str | None = None


def parse_sgml_topics(path: PathLike, lines: Iterable[tuple[int, str]]) -> Iterator[SgmlTopic]:
    """Yield the topics of numbered lines.

    Raises
    ------
    InputError
        For text or a field outside ``<top>``, a ``<top>`` that is not closed, a repeated field, a
        missing or malformed ``<num>``.
    """
    topic: _Open | None = None
    for number, line in lines:
        for closing, name, text in _pieces(line):
            if name == "top":
                if closing:
                    if topic is None:
                        raise _stray(path, number, "</top>")
                    yield _finish(path, topic)
                    topic = None
                elif topic is not None:
                    raise _unclosed(path, topic)
                else:
                    topic = _Open(number)
            elif name is not None:
                _turn(path, number, topic, name, closing=closing)
            if not text.strip():
                continue
            if topic is None:
                raise _stray(path, number, text.strip())
            if topic.current is not None:
                topic.pieces[topic.current].append(text)
    if topic is not None:
        raise _unclosed(path, topic)


def format_topic(path: PathLike, identifier: str, text: str) -> str:
    """Return a topic as TREC SGML, checked to read back as it is.

    Raises
    ------
    InputError
        If it would not.
    """
    # A text that begins as a label does would lose its first word without one of ours before it.
    label = "Topic: " if _strip_label("title", text) != text else ""
    block = f"<top>\n<num> Number: {identifier}\n<title> {label}{text}\n</top>\n\n"
    lines = list(enumerate(block.split("\n"), 1))
    try:
        topics = list(parse_sgml_topics(path, lines))
    except InputError:
        topics = []
    expected = [(identifier, {"title": text})]
    if not text or [(topic.identifier, topic.texts) for topic in topics] != expected:
        raise InputError(
            f"cannot write topic {identifier!r} as TREC SGML",
            file=path,
            value=text,
            accepted="an identifier without white space or leading zeros, and words without tags",
        )
    return block


def _pieces(line: str) -> Iterator[tuple[bool, str | None, str]]:
    """Yield (is it a closing tag, its name, the text behind it); the first may have no tag."""
    first = len(line) - len(line.lstrip())
    tags = [match for match in _TAG.finditer(line) if match[2].lower() in _KNOWN or match.start() <= first]
    yield False, None, line[: tags[0].start()] if tags else line
    for match, following in zip(tags, [*tags[1:], None], strict=False):
        end = len(line) if following is None else following.start()
        yield bool(match[1]), match[2].lower(), line[match.end() : end]


def _turn(path: PathLike, number: int, topic: _Open | None, name: str, *, closing: bool) -> None:
    if topic is None:
        if name in _LABELS:
            raise _stray(path, number, f"<{name}>")
        return
    topic.current = None
    if name in _LABELS and not closing:
        if name in topic.pieces:
            raise InputError(
                f"a second <{name}> in the topic that begins in line {topic.line}",
                file=path,
                line=number,
                accepted=f"one <{name}> between <top> and </top>",
            )
        topic.pieces[name] = []
        topic.current = name


def _finish(path: PathLike, topic: _Open) -> SgmlTopic:
    texts = {
        name: _strip_label(name, " ".join(" ".join(pieces).split())) for name, pieces in topic.pieces.items()
    }
    written = texts.pop("num", None)
    if written is None or written.split() != [written]:
        raise InputError(
            "topic without <num>" if not written else "bad topic number",
            file=path,
            line=topic.line,
            value=written or None,
            accepted="<num> Number: 301",
        )
    identifier = (written.lstrip("0") or "0") if written.isascii() and written.isdigit() else written
    return SgmlTopic(identifier, topic.line, texts)


def _strip_label(name: str, text: str) -> str:
    word, colon, rest = text.partition(":")
    return rest.lstrip() if colon and word.strip().lower() == _LABELS[name] else text


def _stray(path: PathLike, line: int, value: str) -> InputError:
    return InputError("text outside <top>", file=path, line=line, value=value, accepted="<top> ... </top>")


def _unclosed(path: PathLike, topic: _Open) -> InputError:
    return InputError("unclosed <top>", file=path, line=topic.line, accepted="<top> ... </top>")
