"""Topics, with plain or weighted queries, in TREC SGML or XML, tab-separated lines, JSON lines or CSV."""

from __future__ import annotations

import csv
import importlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from lmtune.errors import FilePosition, InputError, PathLike
from lmtune.io.files import atomic_write, read_lines
from lmtune.io.rows import QUERIES, QUERY_TEXT, RATINGS, name_by_text, workbench_lists
from lmtune.io.trec_documents import ENTITY, decode_entities
from lmtune.strict_json import parse_json

Weight = float | tuple[float, ...]

LARGEST_WEIGHT = 1e9
"""Maximum absolute weight of a query term, so that scores and squared gradients stay finite."""
_WEIGHTS_ACCEPTED = (
    f'weights by term from {-LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}, {{"fish": 2.5, "oil": 0.5}}, or words '
    "such as fish^2.5 oil"
)


class WeightedQuery(str):
    """A query with term weights; its text is in Lucene's syntax, ``fish^2.5 oil^0.5``.

    Attributes
    ----------
    weights : dict of str to float, or to tuple of float
        Weight by term. A tuple has the numbers from which `lmtune.models.weighted` computes a weight.
    are_terms : bool
        Whether the terms are index terms, which are looked up without analysis. Otherwise they are words,
        which are analysed; the weights of words with the same term are added.
    """

    weights: dict[str, Weight]
    are_terms: bool

    @classmethod
    def of(cls, weights: Mapping[str, Weight], *, are_terms: bool = False) -> Self:
        """Make a query from weights by term.

        Raises
        ------
        InputError
            If there is no term, or a weight is not a finite number. Unless `are_terms` is set, weights must
            be from -`LARGEST_WEIGHT` to `LARGEST_WEIGHT`.
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
        query = cls(" ".join(f"{term}^{_format_weight(weight)}" for term, weight in weights.items()))
        query.weights = dict(weights)
        query.are_terms = are_terms
        return query

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Lucene's syntax: words separated by white space, optionally followed by ``^`` and a weight.

        The weights of repeated words are added. The default weight is 1.
        """
        weights: dict[str, Weight] = {}
        for word in text.split():
            term, mark, number = word.rpartition("^")
            try:
                weight = float(number) if mark else 1.0
            except ValueError:
                raise InputError("bad weight in a query", value=word, accepted=_WEIGHTS_ACCEPTED) from None
            name = term if mark else word
            weights[name] = _add_weight(weights.get(name), weight)
        return cls.of(weights)

    def by_term(self, analyze: Callable[[str], Sequence[str]]) -> dict[str, Weight]:
        """Return weights by index term, after analysis of the words."""
        if self.are_terms:
            return self.weights
        weights: dict[str, Weight] = {}
        for word, weight in self.weights.items():
            for term in analyze(word):
                weights[term] = _add_weight(weights.get(term), weight)
        return weights


def _add_weight(total: Weight | None, weight: Weight) -> Weight:
    assert not isinstance(total, tuple) and not isinstance(weight, tuple)
    return weight if total is None else total + weight


def _format_weight(weight: Weight) -> str:
    return ",".join(f"{number!r}" for number in (weight if isinstance(weight, tuple) else (weight,)))


_TOPIC_FIELDS = ("title", "desc", "narr")
"""The fields that can form a query."""

_LABELS = {"num": "number", "title": "topic", "desc": "description", "narr": "narrative"}
_XML_TOPIC = re.compile(r"<top(ic)?[\s>]", re.I)
# Names of the fields in TREC XML.
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
# These tags end a field anywhere in a line. Other tags end it only at the beginning of a line, because texts
# can contain markup.
_KNOWN = frozenset({"top", *_LABELS, "head", "dom", "smry", "con", "fac", "nat", "time", "def"})


class Topic(NamedTuple):
    """A parsed topic: its identifier, its texts by field, and its first line in the file."""

    identifier: str
    texts: dict[str, str]
    line: int


@dataclass
class _OpenTopic:
    line: int
    pieces: dict[str, list[str]] = field(default_factory=dict)
    current: str | None = None


def _sgml_topics(position: FilePosition, lines: Iterable[tuple[int, str]]) -> Iterator[Topic]:
    """Yield the topics in numbered lines of TREC SGML.

    Raises
    ------
    InputError
        For text or a field outside ``<top>``, an unclosed ``<top>``, a repeated field, or a missing or
        malformed ``<num>``.
    """
    topic: _OpenTopic | None = None
    for position.line, line in lines:
        for closing, name, text in _pieces(line):
            if name == "top":
                if closing:
                    if topic is None:
                        raise _outside_error("</top>")
                    yield _finish(topic)
                    topic = None
                elif topic is not None:
                    raise _unclosed(topic)
                else:
                    topic = _OpenTopic(position.line)
            elif name is not None:
                _switch_field(topic, name, closing=closing)
            if not text.strip():
                continue
            if topic is None:
                raise _outside_error(text.strip())
            if topic.current is not None:
                topic.pieces[topic.current].append(text)
    if topic is not None:
        raise _unclosed(topic)


def format_topic(path: PathLike, identifier: str, text: str) -> str:
    """Format a topic as TREC SGML, and check that reading it returns the same topic.

    Raises
    ------
    InputError
        If reading it would return another topic.
    """
    # Readers remove a label such as "Topic:"; a text that begins with one needs another label before it.
    label = "Topic: " if _strip_label("title", text) != text else ""
    written = ENTITY.sub(lambda entity: f"&amp;{entity[0][1:]}", text)
    block = f"<top>\n<num> Number: {identifier}\n<title> {label}{written}\n</top>\n\n"
    lines = list(enumerate(block.split("\n"), 1))
    try:
        topics = list(_sgml_topics(FilePosition(path), lines))
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
    """Split a line at its tags; yield (is a closing tag, tag name or None, following text)."""
    first = len(line) - len(line.lstrip())
    tags = [match for match in _TAG.finditer(line) if match[2].lower() in _KNOWN or match.start() <= first]
    yield False, None, line[: tags[0].start()] if tags else line
    for match, following in zip(tags, [*tags[1:], None], strict=False):
        end = len(line) if following is None else following.start()
        yield bool(match[1]), match[2].lower(), line[match.end() : end]


def _switch_field(topic: _OpenTopic | None, name: str, *, closing: bool) -> None:
    if topic is None:
        if name in _LABELS:
            raise _outside_error(f"<{name}>")
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


def _finish(topic: _OpenTopic) -> Topic:
    texts = {
        name: _strip_label(name, " ".join(decode_entities(" ".join(pieces)).split()))
        for name, pieces in topic.pieces.items()
    }
    written = texts.pop("num", None)
    return Topic(_number(topic.line, written, "<num> Number: 301"), texts, topic.line)


def _number(line: int, written: str | None, accepted: str) -> str:
    """Check the number of a topic, and return it without leading zeros."""
    if written is None or written.split() != [written]:
        raise InputError(
            "bad topic number" if written else "topic without number",
            line=line,
            value=written or None,
            accepted=accepted,
        )
    return (written.lstrip("0") or "0") if written.isascii() and written.isdigit() else written


def _xml_topics(position: FilePosition, lines: Iterable[tuple[int, str]]) -> Iterator[Topic]:
    """Yield the topics of TREC XML: ``<topic number="1">`` with fields, or with only the title as its text.

    Raises
    ------
    InputError
        For invalid XML, a topic without number, or a repeated field.
    """
    # Not an import statement, because lxml has no type hints.
    etree: Any = importlib.import_module("lxml.etree")
    (first, text), *rest = lines
    line = first
    for number, more in rest:  # restore the blank lines, which the caller removed
        text += "\n" * (number - line) + more
        line = number
    try:
        # Bytes, because lxml rejects decoded text with an encoding declaration.
        root = etree.fromstring(
            text.strip().encode(),
            etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, encoding="utf-8"),
        )
    except etree.XMLSyntaxError as error:
        position.line = (error.lineno or 1) + first - 1
        raise InputError(f"not XML: {error.msg}", accepted=_ACCEPTED) from None
    for element in root.iter("topic"):
        position.line = element.sourceline + first - 1
        yield _topic_of_element(element, position.line)


def _topic_of_element(element: Any, line: int) -> Topic:
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


def _outside_error(value: str) -> InputError:
    return InputError("text outside <top>", value=value, accepted="<top> ... </top>")


def _unclosed(topic: _OpenTopic) -> InputError:
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
    """Read topics from a file.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed, in one of five formats:

        - TREC SGML: ``<top>``, ``<num>``, ``<title>``, ``<desc>``, ``<narr>``; closing tags of fields are
          optional;
        - TREC XML: ``<topic number="1">`` with ``query`` or ``title``, ``description`` or ``question``, and
          ``narrative``, or with only a text;
        - lines of ``id<TAB>text``, optionally with a header line;
        - JSON lines with an identifier (``_id``, ``id``, ``qid``, ...) and ``text``, ``title`` or ``query``,
          or ``terms`` with weights: ``{"fish": 2.5}`` or ``"fish^2.5 oil"``;
        - queries without identifiers: Quepid's CSV, and query sets or judgment lists of OpenSearch's Search
          Relevance Workbench. The identifier is the text, with ``_`` between words.
    fields : sequence of {"title", "desc", "narr"}
        The SGML or XML fields that form the query, joined by a space in this order. The other formats have
        only a title.

    Returns
    -------
    dict of str to str
        Query text by topic identifier, in the order of the file, with collapsed white space. In SGML and XML,
        entities such as ``&amp;`` are decoded, and leading zeros of numbers are removed (``051`` is ``51`` in
        TREC's judgments). In SGML, labels (``Topic:``, ``Description:``, ``Narrative:``) are removed.

    Raises
    ------
    InputError
        For an unknown field or one that the format does not have, a line in none of the formats, a topic
        without number or text, an unclosed ``<top>``, a repeated topic identifier, or an empty file.
    """
    wanted = _check_fields(fields)
    lines = [(number, line) for number, line in read_lines(path) if line.strip()]
    if not lines:
        raise InputError("no topics: the file is empty", file=path, accepted=_ACCEPTED)
    file_format = next(one for one in TOPIC_FORMATS if one.matches(lines))
    if not file_format.has_fields and wanted != ("title",):
        raise InputError(
            "topic fields other than the title need TREC SGML or XML topics",
            file=path,
            value=",".join(wanted),
            accepted="title for this file",
        )
    with FilePosition(path) as position:
        topics = _collect(file_format.read(position, lines), wanted)
    if not topics:
        raise InputError("no topics", file=path, accepted=_ACCEPTED)
    return topics


def write_topics(path: PathLike, topics: Mapping[str, str]) -> None:
    """Write topics as TREC SGML with titles; the file is written atomically.

    Parameters
    ----------
    path : path-like
        The target, compressed if its suffix names a compression.
    topics : mapping of str to str
        Query text by topic identifier; white space in the text is collapsed.

    Raises
    ------
    InputError
        If reading the file would not return the same topic: for an identifier with white space or leading
        zeros, an empty text, or a text with a topic tag such as ``<desc>``.
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


def _collect(parsed: Iterator[Topic], wanted: tuple[str, ...]) -> dict[str, str]:
    topics: dict[str, str] = {}
    lines: dict[str, int] = {}
    for identifier, texts, line in parsed:
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
    """Return whether ``<topic ...>`` comes before ``<top>``."""
    if not _is_markup(lines):
        return False
    for _, line in lines:
        if match := _XML_TOPIC.search(f"{line} "):
            return match[1] is not None
    return False


def _tsv_topics(position: FilePosition, lines: list[tuple[int, str]]) -> Iterator[Topic]:
    for index, (position.line, line) in enumerate(lines):
        columns = line.strip("\r\n ").split("\t")
        if len(columns) != 2:
            raise InputError(
                f"{len(columns) - 1} tabs in a topic line" if len(columns) > 1 else "no tab",
                value=line,
                accepted=_ACCEPTED if index == 0 else "id<TAB>text",
            )
        identifier = columns[0].strip()
        header = identifier.lower(), columns[1].strip().lower()
        if index == 0 and (header[0] in _HEADER_IDS or header in _HEADERS):
            continue
        _check_identifier(identifier)
        yield Topic(identifier, {"title": columns[1]}, position.line)


def _json_object(text: str, line: int) -> dict[str, Any]:
    accepted = "one JSON object a line"
    try:
        record = parse_json(text)
    except ValueError as error:
        raise InputError(f"not JSON ({error})", line=line, value=text, accepted=accepted) from None
    if not isinstance(record, dict):
        raise InputError("not a JSON object", line=line, value=text, accepted=accepted)
    return record


def _json_topics(position: FilePosition, lines: list[tuple[int, str]]) -> Iterator[Topic]:
    for position.line, line in lines:
        record = _json_object(line, position.line)
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
            # JSON can escape a lone surrogate, which UTF-8 cannot encode.
            text = text.encode("utf-8", "replace").decode()
        yield Topic(str(identifier), {"title": text}, position.line)


def _weighted(weights: object) -> WeightedQuery:
    """Read term weights, from a dictionary or from text in Lucene's syntax."""
    if isinstance(weights, str):
        return WeightedQuery.parse(weights)
    if isinstance(weights, dict):
        return WeightedQuery.of(weights)
    raise InputError("no term weights", value=weights, accepted=_WEIGHTS_ACCEPTED)


def _check_identifier(identifier: str) -> None:
    if identifier.split() != [identifier] or not identifier.isprintable():
        raise InputError(
            "bad topic identifier",
            value=ascii(identifier) if not identifier.isprintable() else identifier,
            accepted="one word, without white space",
        )


_TEXT_KEY = "queryText"


def _is_named_by_text(lines: list[tuple[int, str]]) -> bool:
    """Return whether the topics have texts only: CSV of Quepid, or JSON of the Search Relevance Workbench."""
    if lines[0][1].lstrip().startswith("{"):
        return any(f'"{key}"' in line for _, line in lines for key in (_TEXT_KEY, QUERIES, RATINGS))
    header = lines[0][1].strip().split(",")
    return "\t" not in lines[0][1] and len(header) > 1 and not {*QUERY_TEXT}.isdisjoint(header)


def _topics_named_by_text(position: FilePosition, lines: list[tuple[int, str]]) -> Iterator[Topic]:
    """Yield each different text once; ratings of a query repeat it."""
    seen: dict[str, str] = {}
    is_json = lines[0][1].lstrip().startswith("{")
    for position.line, text in _json_texts(lines) if is_json else _csv_texts(lines):
        if not isinstance(text, str) or not text.split():
            raise InputError("a query has no text", value=text, accepted="at least one word")
        name, words = name_by_text(text), " ".join(text.split())
        if name in seen and seen[name] != words:
            raise InputError("two queries have the same name", value=name, accepted="different words")
        if name not in seen:
            _check_identifier(name)
            seen[name] = words
            yield Topic(name, {"title": words}, position.line)


def _csv_texts(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    rows = csv.reader((f"{line}\n" for _, line in lines), strict=True)
    header = next(rows)
    column = next(header.index(name) for name in QUERY_TEXT if name in header)
    try:
        for cells in rows:
            line = lines[rows.line_num - 1][0]
            if len(cells) != len(header):
                raise InputError(f"{len(cells)} columns", line=line, value=cells, accepted=f"{len(header)}")
            yield line, cells[column]
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", line=lines[rows.line_num - 1][0]) from None


def _json_texts(lines: list[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
    first = lines[0][0]
    try:
        content = [(first, parse_json("".join(line for _, line in lines)))]
    except ValueError:
        content = [(number, _json_object(line, number)) for number, line in lines]
    for number, record in content:
        for key in (QUERIES, RATINGS):
            entries = workbench_lists(record, key)
            if entries is not None:
                break
        for entry in [record] if entries is None else entries:
            texts = entry if isinstance(entry, dict) else {}
            yield number, texts.get(_TEXT_KEY, texts.get("query"))


class TopicFormat(NamedTuple):
    """A format of topic files.

    Attributes
    ----------
    suffixes : tuple of str
        Suffixes of such files in the folder of a collection; see `lmtune.collections.loading.find_topics`.
    matches : callable
        Returns whether the numbered nonblank lines of a file are in this format.
    read : callable
        Parses these lines to topics; it sets the line of the `FilePosition` that it gets first.
    has_fields : bool
        Whether topics can have other fields than the title.
    """

    suffixes: tuple[str, ...]
    matches: Callable[[list[tuple[int, str]]], bool]
    read: Callable[[FilePosition, list[tuple[int, str]]], Iterator[Topic]]
    has_fields: bool = False


TOPIC_FORMATS = (
    TopicFormat(("xml",), _is_xml, _xml_topics, has_fields=True),
    TopicFormat(("trec", "sgml"), _is_markup, _sgml_topics, has_fields=True),
    TopicFormat((), _is_named_by_text, _topics_named_by_text),
    TopicFormat(("jsonl",), lambda lines: lines[0][1].lstrip().startswith("{"), _json_topics),
    TopicFormat(("tsv", "txt"), lambda _: True, _tsv_topics),
)
"""All topic formats; the first one that matches reads the file."""
