"""Topics, texts or weighted queries: TREC's SGML or XML, tab-separated lines, JSON lines."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from lmtune.errors import InputError, PathLike, Place
from lmtune.io.digests import parse_json
from lmtune.io.files import atomic_write, read_lines
from lmtune.io.trec_documents import ENTITY, decode_entities

Weight = float | tuple[float, ...]

LARGEST_WEIGHT = 1e9
"""Of a term in a query, either sign: scores, and squares of their gradients, stay finite."""
_WEIGHTS_ACCEPTED = (
    f'weights by term from {-LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}, {{"fish": 2.5, "oil": 0.5}}, or words '
    "such as fish^2.5 oil"
)


class WeightedQuery(str):
    """A query whose terms have weights; as text it is Lucene's, ``fish^2.5 oil^0.5``.

    Attributes
    ----------
    weights : dict of str to float, or to tuple of float
        By term; several numbers are what `lmtune.models.weighted` makes a weight of.
    are_terms : bool
        Whether the terms are the index's own, to be looked up as they are. Otherwise they are analysed
        as words are, and weights of words of one term add up.
    """

    weights: dict[str, Weight]
    are_terms: bool

    @classmethod
    def of(cls, weights: Mapping[str, Weight], *, are_terms: bool = False) -> Self:
        """Make a query of weights.

        Raises
        ------
        InputError
            Without a term, or for a weight that is no finite number; a user's (not ``are_terms``) is from
            -`LARGEST_WEIGHT` to `LARGEST_WEIGHT`.
        """
        largest = math.nextafter(math.inf, 0.0) if are_terms else LARGEST_WEIGHT
        for term, weight in weights.items():
            numbers = weight if isinstance(weight, tuple) else (weight,)
            if not term.strip() or not all(
                isinstance(x, int | float) and not isinstance(x, bool) and abs(x) <= largest for x in numbers
            ):
                raise InputError(f"bad weight of the term {term!r}", value=weight, accepted=_WEIGHTS_ACCEPTED)
        if not weights:
            raise InputError("a query without terms", value=dict(weights), accepted=_WEIGHTS_ACCEPTED)
        query = cls(" ".join(f"{term}^{_written(weight)}" for term, weight in weights.items()))
        query.weights = dict(weights)
        query.are_terms = are_terms
        return query

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read Lucene's syntax: words with white space between, each with ``^`` and a weight or without.

        A word that comes again counts again.
        """
        weights: dict[str, Weight] = {}
        for word in text.split():
            term, mark, number = word.rpartition("^")
            try:
                weight = float(number) if mark else 1.0
            except ValueError:
                raise InputError("bad weight in a query", value=word, accepted=_WEIGHTS_ACCEPTED) from None
            name = term if mark else word
            weights[name] = _plus(weights.get(name), weight)
        return cls.of(weights)

    def by_term(self, analyze: Callable[[str], Sequence[str]]) -> dict[str, Weight]:
        """Return the weights of an index's terms."""
        if self.are_terms:
            return self.weights
        weights: dict[str, Weight] = {}
        for word, weight in self.weights.items():
            for term in analyze(word):
                weights[term] = _plus(weights.get(term), weight)
        return weights


def _plus(known: Weight | None, weight: Weight) -> Weight:
    assert not isinstance(known, tuple) and not isinstance(weight, tuple)
    return weight if known is None else known + weight


def _written(weight: Weight) -> str:
    return ",".join(f"{number!r}" for number in (weight if isinstance(weight, tuple) else (weight,)))


_TOPIC_FIELDS = ("title", "desc", "narr")
"""The fields that a query can be made of."""

_LABELS = {"num": "number", "title": "topic", "desc": "description", "narr": "narrative"}
_XML_TOPIC = re.compile(r"<top(ic)?[\s>]", re.I)
# What TREC's XML topics call the fields.
_XML_NAMES = {
    "query": "title",
    "title": "title",
    "description": "desc",
    "question": "desc",
    "desc": "desc",
    "narrative": "narr",
    "narr": "narr",
    "number": "num",
    "num": "num",
}
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9_-]*)(?:\s[^<>]*)?>")
# These end a field wherever they stand; other tags only at the beginning of a line, because a
# text may hold markup of its own.
_KNOWN = frozenset({"top", *_LABELS, "head", "dom", "smry", "con", "fac", "nat", "time", "def"})


class Topic(NamedTuple):
    """A topic as found: its identifier, its texts by field, and the line where it begins."""

    identifier: str
    texts: dict[str, str]
    line: int


@dataclass
class _Open:
    line: int
    pieces: dict[str, list[str]] = field(default_factory=dict)
    current: str | None = None


def _sgml_topics(place: Place, lines: Iterable[tuple[int, str]]) -> Iterator[Topic]:
    """Yield the topics of numbered lines.

    Raises
    ------
    InputError
        For text or a field outside ``<top>``, a ``<top>`` that is not closed, a repeated field, a
        missing or malformed ``<num>``.
    """
    topic: _Open | None = None
    for place.line, line in lines:
        for closing, name, text in _pieces(line):
            if name == "top":
                if closing:
                    if topic is None:
                        raise _stray("</top>")
                    yield _finish(topic)
                    topic = None
                elif topic is not None:
                    raise _unclosed(topic)
                else:
                    topic = _Open(place.line)
            elif name is not None:
                _turn(topic, name, closing=closing)
            if not text.strip():
                continue
            if topic is None:
                raise _stray(text.strip())
            if topic.current is not None:
                topic.pieces[topic.current].append(text)
    if topic is not None:
        raise _unclosed(topic)


def format_topic(path: PathLike, identifier: str, text: str) -> str:
    """Return a topic as TREC SGML, checked to read back as it is.

    Raises
    ------
    InputError
        If it would not.
    """
    # A text that begins as a label does would lose its first word without one of ours before it.
    label = "Topic: " if _strip_label("title", text) != text else ""
    written = ENTITY.sub(lambda entity: f"&amp;{entity[0][1:]}", text)
    block = f"<top>\n<num> Number: {identifier}\n<title> {label}{written}\n</top>\n\n"
    lines = list(enumerate(block.split("\n"), 1))
    try:
        topics = list(_sgml_topics(Place(path), lines))
    except InputError:
        topics = []
    if not text or [topic[:2] for topic in topics] != [(identifier, {"title": text})]:
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


def _turn(topic: _Open | None, name: str, *, closing: bool) -> None:
    if topic is None:
        if name in _LABELS:
            raise _stray(f"<{name}>")
        return
    topic.current = None
    if name in _LABELS and not closing:
        if name in topic.pieces:
            raise InputError(
                f"a second <{name}> in the topic that begins in line {topic.line}",
                accepted=f"one <{name}> between <top> and </top>",
            )
        topic.pieces[name] = []
        topic.current = name


def _finish(topic: _Open) -> Topic:
    texts = {
        name: _strip_label(name, " ".join(decode_entities(" ".join(pieces)).split()))
        for name, pieces in topic.pieces.items()
    }
    written = texts.pop("num", None)
    return Topic(_number(topic.line, written, "<num> Number: 301"), texts, topic.line)


def _number(line: int, written: str | None, accepted: str) -> str:
    """Check a topic's number, and return it without leading zeros."""
    if written is None or written.split() != [written]:
        raise InputError(
            "bad topic number" if written else "topic without number",
            line=line,
            value=written or None,
            accepted=accepted,
        )
    return (written.lstrip("0") or "0") if written.isascii() and written.isdigit() else written


def _xml_topics(place: Place, lines: Iterable[tuple[int, str]]) -> Iterator[Topic]:
    """Yield the topics of TREC's XML: ``<topic number="1">`` with fields, or with the title alone.

    Raises
    ------
    InputError
        For text that is no XML, and a topic without number or with a field twice.
    """
    # Not an import statement: lxml brings no types.
    etree: Any = importlib.import_module("lxml.etree")
    (first, text), *rest = lines
    line = first
    for number, more in rest:  # blank lines were left out
        text += "\n" * (number - line) + more
        line = number
    try:
        # As bytes: a declared encoding was the file's, and is UTF-8 here.
        root = etree.fromstring(
            text.strip().encode(),
            etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, encoding="utf-8"),
        )
    except etree.XMLSyntaxError as error:
        place.line = (error.lineno or 1) + first - 1
        raise InputError(f"not XML: {error.msg}", accepted=_ACCEPTED) from None
    for element in root.iter("topic"):
        place.line = element.sourceline + first - 1
        yield _of_element(element, place.line)


def _of_element(element: Any, line: int) -> Topic:
    texts: dict[str, str] = {}
    for child in element.iterchildren("*"):
        name = _XML_NAMES.get(child.tag.lower())
        if name in texts:
            raise InputError(f"a second <{child.tag}> in a topic", accepted="one")
        if name is not None:
            texts[name] = " ".join("".join(child.itertext()).split())
    written = texts.pop("num", None) or element.get("number") or element.get("id")
    if not len(element):
        texts["title"] = " ".join((element.text or "").split())
    return Topic(_number(line, written, '<topic number="301">'), texts, line)


def _strip_label(name: str, text: str) -> str:
    word, colon, rest = text.partition(":")
    return rest.lstrip() if colon and word.strip().lower() == _LABELS[name] else text


def _stray(value: str) -> InputError:
    return InputError("text outside <top>", value=value, accepted="<top> ... </top>")


def _unclosed(topic: _Open) -> InputError:
    return InputError("unclosed <top>", line=topic.line, accepted="<top> ... </top>")


_ACCEPTED = (
    "TREC SGML (<top> <num> <title> ...) or XML (<topic number=...>), lines of id<TAB>text, or JSON lines "
    "with _id and text"
)
_ID_KEYS = ("_id", "id", "qid", "query_id", "topic_id", "topic")
_TEXT_KEYS = ("text", "title", "query")
_WEIGHTS_KEY = "terms"
_HEADER_IDS = frozenset({"qid", "query_id", "query-id", "topic_id"})
_HEADERS = frozenset(
    (name, text) for name in (*_ID_KEYS, "number", "num") for text in (*_TEXT_KEYS, "question")
)


def read_topics(path: PathLike, *, fields: Sequence[str] = ("title",)) -> dict[str, str]:
    """Read topics.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed, in one of four formats: TREC SGML (``<top>``, ``<num>``,
        ``<title>``, ``<desc>``, ``<narr>``, closed or not); TREC XML (``<topic number="1">`` with
        ``query`` or ``title``, ``description`` or ``question``, ``narrative``, or with the text alone);
        lines of ``id<TAB>text``, below a header line or not; JSON lines
        with an identifier (``_id``, ``id``, ``qid``, ...) and ``text``, ``title`` or ``query``, or
        ``terms`` with weights: ``{"fish": 2.5}`` or ``"fish^2.5 oil"``.
    fields : sequence of {"title", "desc", "narr"}
        The SGML or XML fields that make the query, joined by a space in this order. The other formats
        have the title alone.

    Returns
    -------
    dict of str to str
        Query text by topic identifier, in the file's order, white space collapsed. In SGML and XML
        entities such as ``&amp;`` are decoded, numbers lose their leading zeros (``051`` is ``51`` in
        TREC's judgments), and texts of SGML their labels (``Topic:``, ``Description:``, ``Narrative:``).

    Raises
    ------
    InputError
        For an unknown field or one that the format lacks, a line in none of the formats, a topic
        without number or text, an unclosed ``<top>``, a topic identifier that comes twice, or an
        empty file.
    """
    wanted = _check_fields(fields)
    lines = [(number, line) for number, line in read_lines(path) if line.strip()]
    if not lines:
        raise InputError("no topics: the file is empty", file=path, accepted=_ACCEPTED)
    own = next(one for one in TOPIC_FORMATS if one.matches(lines))
    if not own.has_fields and wanted != ("title",):
        raise InputError(
            "topic fields other than the title need TREC SGML or XML topics",
            file=path,
            value=",".join(wanted),
            accepted="title for this file",
        )
    with Place(path) as place:
        topics = _collect(own.read(place, lines), wanted)
    if not topics:
        raise InputError("no topics", file=path, accepted=_ACCEPTED)
    return topics


def write_topics(path: PathLike, topics: Mapping[str, str]) -> None:
    """Write topics as TREC SGML with titles, whole or not at all.

    Parameters
    ----------
    path : path-like
        The target, compressed by its suffix.
    topics : mapping of str to str
        Query text by topic identifier; white space in the text is collapsed.

    Raises
    ------
    InputError
        If reading the file back would not give the topic again: an identifier with white space or
        leading zeros, an empty text, a text that holds a topic tag such as ``<desc>``.
    """
    with atomic_write(path) as stream:
        for identifier, text in topics.items():
            stream.write(format_topic(path, identifier, " ".join(text.split())))


def _check_fields(fields: Sequence[str]) -> tuple[str, ...]:
    wanted = (fields,) if isinstance(fields, str) else tuple(fields)
    accepted = f"one or more of {', '.join(_TOPIC_FIELDS)}, each once"
    for position, name in enumerate(wanted):
        if name not in _TOPIC_FIELDS or name in wanted[:position]:
            raise InputError("bad topic field", value=name, accepted=accepted)
    if not wanted:
        raise InputError("no topic field", accepted=accepted)
    return wanted


def _collect(found: Iterator[Topic], wanted: tuple[str, ...]) -> dict[str, str]:
    topics: dict[str, str] = {}
    lines: dict[str, int] = {}
    for identifier, texts, line in found:
        missing = [name for name in wanted if name not in texts]
        if missing:
            raise InputError(
                f"topic {identifier} has no <{missing[0]}>",
                line=line,
                accepted=f"fields that every topic has; here: {', '.join(texts) or 'none'}",
            )
        if identifier in topics:
            raise InputError(
                f"topic defined twice, first in line {lines[identifier]}",
                line=line,
                value=identifier,
                accepted="each topic once",
            )
        first, *rest = (texts[name] for name in wanted)
        is_weighted = isinstance(first, WeightedQuery)
        topics[identifier] = first if is_weighted else " ".join(" ".join((first, *rest)).split())
        lines[identifier] = line
        if not topics[identifier]:
            raise InputError(f"topic {identifier} has no text", line=line, accepted="at least one word")
    return topics


def _is_markup(lines: list[tuple[int, str]]) -> bool:
    start = lines[0][1].strip()
    return start.startswith("<") and "\t" not in start


def _is_xml(lines: list[tuple[int, str]]) -> bool:
    """Whether ``<topic ...>`` comes before ``<top>``."""
    if not _is_markup(lines):
        return False
    for _, line in lines:
        if match := _XML_TOPIC.search(f"{line} "):
            return match[1] is not None
    return False


def _tsv_topics(place: Place, lines: list[tuple[int, str]]) -> Iterator[Topic]:
    for position, (place.line, line) in enumerate(lines):
        columns = line.strip("\r\n ").split("\t")
        if len(columns) != 2:
            raise InputError(
                f"{len(columns) - 1} tabs in a topic line" if len(columns) > 1 else "no tab",
                value=line,
                accepted=_ACCEPTED if position == 0 else "id<TAB>text",
            )
        identifier = columns[0].strip()
        named = identifier.lower(), columns[1].strip().lower()
        if position == 0 and (named[0] in _HEADER_IDS or named in _HEADERS):
            continue
        _check_identifier(identifier)
        yield Topic(identifier, {"title": columns[1]}, place.line)


def _json_topics(place: Place, lines: list[tuple[int, str]]) -> Iterator[Topic]:
    accepted = "one JSON object a line"
    for place.line, line in lines:
        try:
            record = parse_json(line)
        except ValueError as error:
            raise InputError(f"not JSON ({error})", value=line, accepted=accepted) from None
        if not isinstance(record, dict):
            raise InputError("not a JSON object", value=line, accepted=accepted)
        identifier = next((record[key] for key in _ID_KEYS if key in record), None)
        text = next((record[key] for key in _TEXT_KEYS if key in record), None)
        if _WEIGHTS_KEY in record:
            text = _weighted(record[_WEIGHTS_KEY])
        if not isinstance(identifier, str | int) or isinstance(identifier, bool):
            raise InputError(
                "no topic identifier" if identifier is None else "bad topic identifier",
                value=line if identifier is None else identifier,
                accepted=f"a string or an integer as one of {', '.join(_ID_KEYS)}",
            )
        if not isinstance(text, str):
            raise InputError(
                f"topic {identifier} has no text",
                value=text,
                accepted=f"a string as one of {', '.join(_TEXT_KEYS)}",
            )
        _check_identifier(str(identifier))
        if not isinstance(text, WeightedQuery):
            # JSON may escape half a surrogate pair, which no UTF-8 file can hold.
            text = text.encode("utf-8", "replace").decode()
        yield Topic(str(identifier), {"title": text}, place.line)


def _weighted(weights: object) -> WeightedQuery:
    """Read the weights of a query's terms: by term, or as text."""
    if isinstance(weights, str):
        return WeightedQuery.parse(weights)
    if isinstance(weights, dict):
        return WeightedQuery.of(weights)
    raise InputError("no weights of terms", value=weights, accepted=_WEIGHTS_ACCEPTED)


def _check_identifier(identifier: str) -> None:
    if identifier.split() != [identifier] or not identifier.isprintable():
        raise InputError(
            "bad topic identifier",
            value=ascii(identifier) if not identifier.isprintable() else identifier,
            accepted="one word, without white space",
        )


class TopicFormat(NamedTuple):
    """A format of files of topics.

    Attributes
    ----------
    suffixes : tuple of str
        Of such files in a collection's folder; see `lmtune.collections.loading.find_topics`.
    matches : callable
        From a file's numbered lines, without blank ones, to whether they are of this format.
    read : callable
        From the place, whose line it sets, and these lines to topics.
    has_fields : bool
        Whether topics have other fields than the title.
    """

    suffixes: tuple[str, ...]
    matches: Callable[[list[tuple[int, str]]], bool]
    read: Callable[[Place, list[tuple[int, str]]], Iterator[Topic]]
    has_fields: bool = False


TOPIC_FORMATS = (
    TopicFormat(("xml",), _is_xml, _xml_topics, has_fields=True),
    TopicFormat(("trec", "sgml"), _is_markup, _sgml_topics, has_fields=True),
    TopicFormat(("jsonl",), lambda lines: lines[0][1].lstrip().startswith("{"), _json_topics),
    TopicFormat(("tsv", "txt"), lambda _: True, _tsv_topics),
)
"""All formats of topics; a file is read by the first that matches."""
