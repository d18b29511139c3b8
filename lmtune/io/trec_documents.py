"""Documents in TREC format (``<DOC> <DOCNO>..</DOCNO> .. </DOC>``): news (TRECTEXT), web pages (TRECWEB)."""

from __future__ import annotations

import html
import importlib
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, AnyStr

from lmtune.errors import InputError, PathLike

TEXT_ELEMENTS = ("TEXT", "HEADLINE", "TITLE", "HL", "HEAD", "TTL", "DD", "DATE", "LP", "LEADPARA")
"""The elements with indexed text, as in Anserini's TrecCollection."""

_LONGEST_END = 1 << 10
# The length is bounded, so that the result does not depend on the size of blocks.
_END = re.compile(rb"</DOC\s{0,%d}>" % (_LONGEST_END - 6), re.IGNORECASE)
# Only at the beginning of a line, because the text of a page can contain the tag.
START = re.compile(rb"^[ \t]*<DOC(?:\s[^>]*)?>", re.IGNORECASE | re.MULTILINE)
_DOCNO = re.compile(r"<DOCNO\s*>", re.IGNORECASE)
_DOCNO_END = re.compile(r"</DOCNO\s*>", re.IGNORECASE)
_HEADER = re.compile(r"<DOCHDR\s*>(?:.*?(</DOCHDR\s*>))?", re.IGNORECASE | re.DOTALL)
_MARKUP = re.compile(r"<[!?/]?[A-Za-z-][^>]*>")
ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def parse_trec(
    blocks: Iterable[bytes], path: PathLike, field: str | None = None
) -> Iterator[tuple[int, str, str]]:
    """Yield (line, docno, text) of TREC documents; documents with ``<DOCHDR>`` are web pages.

    The text of a news document is that of its `TEXT_ELEMENTS`, in the order of the document; see `news_text`.
    The text of a web page is that of the HTML after its header; see `page_text`. Documents that are not valid
    UTF-8 are read as Latin-1.

    Parameters
    ----------
    blocks : iterable of bytes
        The input in blocks of any size; its first line has the number 1.
    path : path-like
        Name of the file, for messages.
    field : str, optional
        Read only the text of this element; in web pages for example ``title``, ``body`` or ``h1``.

    Raises
    ------
    InputError
        For text outside documents, an unclosed ``<DOC>`` or ``<DOCHDR>``, and a ``<DOCNO>`` that is missing,
        empty or contains white space.
    """
    for line, record in _records(blocks, path):
        try:
            source = record.decode()
        except UnicodeDecodeError:
            source = record.decode("latin-1")
        docno, rest = _docno(path, line, source)
        header = _HEADER.search(rest)
        if header is None:
            yield line, docno, news_text(rest, TEXT_ELEMENTS if field is None else (field.upper(),))
            continue
        if header[1] is None:
            raise InputError(
                f"unclosed <DOCHDR> in document {docno}",
                file=path,
                line=line,
                accepted="<DOCHDR> ... </DOCHDR>",
            )
        yield line, docno, page_text(rest[header.end() :], field and field.lower())


def news_text(source: str, elements: tuple[str, ...] = TEXT_ELEMENTS) -> str:
    """Return the plain text of some elements of a TREC document, without markup.

    An unclosed element ends where the next of these elements begins.
    """
    pieces = []
    position = 0
    unclosed = set()
    stop = _end_of_last_tag(source)
    element, closings = _tag_patterns(elements)
    while (start := element.search(source, position, stop)) is not None:
        name = start[1].upper()
        closing = None if name in unclosed else closings[name].search(source, start.end())
        if closing is not None:
            end, position = closing.span()
        else:
            unclosed.add(name)
            following = element.search(source, start.end(), stop)
            end = position = len(source) if following is None else following.start()
        pieces.append(without_markup(source[start.end() : end]))
    return "\n".join(piece for piece in pieces if piece)


def element_names(head: bytes) -> list[str]:
    """Return the names of the elements of the first TREC document, in lower case."""
    closed = re.findall(r"</([a-z][a-z0-9_]*)\s*>", head.decode("latin-1").lower().partition("</doc>")[0])
    return [name for name in dict.fromkeys(closed) if name not in ("docno", "dochdr")]


@lru_cache
def _tag_patterns(names: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, re.Pattern[str]]]:
    """Return a pattern of the opening tags of the elements, and a pattern of the closing tag of each."""
    opening = re.compile(rf"<({'|'.join(names)})(?:\s[^>]*)?>", re.IGNORECASE)
    return opening, {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in names}


def _end_of_last_tag(source: AnyStr) -> int:
    """Return the position after the last ``>``.

    Tags are searched only up to there. Then every opening bracket has a closing one, and the time is linear.
    """
    return source.rfind(b">" if isinstance(source, bytes) else ">") + 1


def without_markup(markup: str) -> str:
    """Return text with tags replaced by spaces, and entities decoded."""
    stop = _end_of_last_tag(markup)
    text = _MARKUP.sub(" ", markup[:stop]) + markup[stop:] if "<" in markup else markup
    return decode_entities(text).strip()


def decode_entities(text: str) -> str:
    """Return text with decoded HTML entities, such as ``&amp;``."""
    return ENTITY.sub(lambda entity: html.unescape(entity[0]), text) if "&" in text else text


def _docno(path: PathLike, line: int, source: str) -> tuple[str, str]:
    start = _DOCNO.search(source)
    end = None if start is None else _DOCNO_END.search(source, start.end())
    if start is None or end is None:
        raise InputError(
            "document without <DOCNO>", file=path, line=line, accepted="<DOC> <DOCNO>name</DOCNO> ... </DOC>"
        )
    docno = source[start.end() : end.start()].strip()
    if docno.split() != [docno]:
        raise InputError(
            "bad <DOCNO>",
            file=path,
            line=line + source.count("\n", 0, start.start()),
            value=docno,
            accepted="a name without white space",
        )
    return docno, source[end.end() :]


def _records(blocks: Iterable[bytes], path: PathLike) -> Iterator[tuple[int, bytes]]:
    """Yield the first line number of each document, and the bytes between ``<DOC>`` and ``</DOC>``."""
    line = 1
    parts: list[bytes] = []
    last = b""
    for block in blocks:
        last = last[-_LONGEST_END:] + block
        parts.append(block)
        if _END.search(last) is None:
            continue
        buffer = b"".join(parts)
        searched = len(buffer) - len(last)
        position = 0
        while (end := _END.search(buffer, max(position, searched))) is not None:
            record = buffer[position : end.start()]
            yield _content(path, line, record)
            line += record.count(b"\n") + end[0].count(b"\n")
            position = end.end()
        last = buffer[position:]
        parts = [last]
    buffer = b"".join(parts)
    if START.search(buffer, 0, _end_of_last_tag(buffer)) is not None:
        start, _ = _content(path, line, buffer)
        raise _unclosed(path, start)
    if buffer.strip():
        raise _outside(path, line, buffer)


def _content(path: PathLike, line: int, record: bytes) -> tuple[int, bytes]:
    stop = _end_of_last_tag(record)
    start = START.search(record, 0, stop)
    if start is None:
        # Several documents can be in one line.
        start = re.compile(rb"\s*<DOC(?:\s[^>]*)?>", re.IGNORECASE).match(record)
    if start is None or record[: start.start()].strip():
        raise _outside(path, line, record)
    first = line + record.count(b"\n", 0, record.index(b"<", start.start()))
    if START.search(record, start.end(), stop) is not None:
        raise _unclosed(path, first)
    return first, record[start.end() :]


def _unclosed(path: PathLike, line: int) -> InputError:
    return InputError("unclosed <DOC>", file=path, line=line, accepted="<DOC> ... </DOC>")


def _outside(path: PathLike, line: int, text: bytes) -> InputError:
    blank = len(text) - len(text.lstrip())
    return InputError(
        "text outside <DOC>",
        file=path,
        line=line + text.count(b"\n", 0, blank),
        value=text[blank : blank + 80].decode(errors="replace"),
        accepted="<DOC> ... </DOC>",
    )


_HIDDEN = frozenset({"script", "style"})
# The phrasing elements of HTML, which do not separate words. All other elements do.
_INLINE_NAMES = (
    "a abbr acronym b bdi bdo big blink cite code data del dfn em font i ins kbd mark nobr q "
    "s samp small span strike strong sub sup tt u var wbr"
)
_INLINE = frozenset(_INLINE_NAMES.split())
_PIECE_BYTES = 1 << 14
# libxml2 searches all open elements for each closing tag, which takes quadratic time without a limit.
_DEEPEST = 1 << 10


class _Words:
    """A target of lxml's parser that collects the visible text, of the whole page or of one element."""

    def __init__(self, element: str | None) -> None:
        self._element = element
        self._inside = 0 if element else 1
        self._pieces: list[str] = []
        self._hidden = 0
        self._depth = 0

    @property
    def too_deep(self) -> bool:
        """Whether so many elements are open that a new parser should continue."""
        return self._depth > _DEEPEST and not self._hidden

    def start(self, tag: str, attributes: Any) -> None:  # noqa: ARG002 - lxml's interface
        self._depth += 1
        if tag in _HIDDEN:
            self._hidden += 1
        if tag == self._element:
            self._inside += 1
        if tag not in _INLINE:
            self._pieces.append(" ")

    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag in _HIDDEN:
            self._hidden -= 1
        if tag == self._element:
            self._inside -= 1
        if tag not in _INLINE:
            self._pieces.append(" ")

    def data(self, data: str) -> None:
        if self._inside and not self._hidden:
            self._pieces.append(data)

    def close(self) -> str:
        return " ".join("".join(self._pieces).split())


def page_text(page: str, element: str | None = None) -> str:
    """Return the text of an HTML page, including its title, without scripts, styles and comments.

    Block elements, line breaks, cells and images separate words; inline elements such as ``<b>`` do not.
    White space is collapsed. Malformed HTML is read as browsers do. With `element` (for example ``title`` or
    ``body``), only the text inside such elements is returned.
    """
    # Not an import statement, because lxml has no type hints.
    etree: Any = importlib.import_module("lxml.etree")
    if not page.strip():
        return ""
    words = _Words(element)
    parser: Any = None
    for piece in _pieces(page.replace("\x00", " ").encode("utf-8", "replace")):
        if parser is not None and words.too_deep:
            parser.close()
            parser = None
        if parser is None:
            # The page is already decoded, so its declared encoding is ignored.
            parser = etree.HTMLParser(target=words, encoding="utf-8", huge_tree=True)
        parser.feed(piece)
    return str(parser.close())


def _pieces(page: bytes) -> Iterator[bytes]:
    """Split a page into pieces that begin with tags."""
    begin = 0
    while begin < len(page):
        end = page.find(b"<", begin + _PIECE_BYTES)
        end = len(page) if end < 0 else end
        yield page[begin:end]
        begin = end
