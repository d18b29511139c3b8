"""Documents in TREC's framing: ``<DOC> <DOCNO>..</DOCNO> .. </DOC>``, news text and web pages."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator

from lmtune.errors import InputError

TEXT_ELEMENTS = ("TEXT", "HEADLINE", "TITLE", "HL", "HEAD", "TTL", "DD", "DATE", "LP", "LEADPARA")
"""The elements whose text is indexed, those that Anserini's TrecCollection takes."""

_END = re.compile(rb"</DOC\s*>", re.IGNORECASE)
_LONGEST_END = 32
# Only at the beginning of a line: a page's own text may mention the tag.
START = re.compile(rb"^[ \t]*<DOC(?:\s[^>]*)?>", re.IGNORECASE | re.MULTILINE)
_DOCNO = re.compile(r"<DOCNO\s*>(.*?)</DOCNO\s*>", re.IGNORECASE | re.DOTALL)
_HEADER = re.compile(r"<DOCHDR\s*>(?:.*?(</DOCHDR\s*>))?", re.IGNORECASE | re.DOTALL)
_ELEMENT = re.compile(rf"<({'|'.join(TEXT_ELEMENTS)})(?:\s[^>]*)?>", re.IGNORECASE)
_CLOSING = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in TEXT_ELEMENTS}
_MARKUP = re.compile(r"<[!?/]?[A-Za-z-][^>]*>")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def parse_trec(blocks: Iterable[bytes], path: str | os.PathLike[str]) -> Iterator[tuple[int, str, str]]:
    """Yield (line, docno, text) of TREC documents; one with ``<DOCHDR>`` is a web page.

    A news document's text is that of its `TEXT_ELEMENTS`, in their order, each once, markup
    replaced by spaces and entities decoded. A web page's is what lmtune.formats.trecweb makes of
    all that follows its header. A document that is no valid UTF-8 is read as Latin-1.

    Parameters
    ----------
    blocks : iterable of bytes
        The input in blocks of any size; lines are numbered from its beginning, from 1.
    path : path-like
        What to call the file in messages.

    Raises
    ------
    InputError
        For text outside documents, an unclosed ``<DOC>`` or ``<DOCHDR>``, and a missing, empty or
        spaced ``<DOCNO>``.
    """
    for line, record in _records(blocks, path):
        try:
            source = record.decode()
        except UnicodeDecodeError:
            source = record.decode("latin-1")
        docno, rest = _docno(path, line, source)
        header = _HEADER.search(rest)
        if header is None:
            yield line, docno, news_text(rest)
            continue
        if header[1] is None:
            raise InputError(
                f"unclosed <DOCHDR> in document {docno}",
                file=path,
                line=line,
                accepted="<DOCHDR> ... </DOCHDR>",
            )
        from lmtune.formats.trecweb import page_text

        yield line, docno, page_text(rest[header.end() :])


def news_text(source: str) -> str:
    """Return the plain text of the `TEXT_ELEMENTS` in a TREC document.

    An element that is never closed ends where the next of them begins.
    """
    pieces = []
    position = 0
    while (start := _ELEMENT.search(source, position)) is not None:
        closing = _CLOSING[start[1].upper()].search(source, start.end())
        if closing is not None:
            end, position = closing.span()
        else:
            following = _ELEMENT.search(source, start.end())
            end = position = len(source) if following is None else following.start()
        pieces.append(_plain(source[start.end() : end]))
    return "\n".join(piece for piece in pieces if piece)


def _plain(markup: str) -> str:
    text = _MARKUP.sub(" ", markup) if "<" in markup else markup
    if "&" in text:
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return text.strip()


def _docno(path: str | os.PathLike[str], line: int, source: str) -> tuple[str, str]:
    found = _DOCNO.search(source)
    if found is None:
        raise InputError(
            "document without <DOCNO>", file=path, line=line, accepted="<DOC> <DOCNO>name</DOCNO> ... </DOC>"
        )
    docno = found[1].strip()
    if docno.split() != [docno]:
        raise InputError(
            "bad <DOCNO>",
            file=path,
            line=line + source.count("\n", 0, found.start()),
            value=docno,
            accepted="a name without white space",
        )
    return docno, source[found.end() :]


def _records(blocks: Iterable[bytes], path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """Yield each document's first line and what stands between its ``<DOC>`` and ``</DOC>``."""
    line = 1
    buffer = b""
    for block in blocks:
        searched = max(0, len(buffer) - _LONGEST_END)
        buffer += block
        position = 0
        while (end := _END.search(buffer, max(position, searched))) is not None:
            record = buffer[position : end.start()]
            yield _opened(path, line, record)
            line += record.count(b"\n") + end[0].count(b"\n")
            position = end.end()
        buffer = buffer[position:]
    if START.search(buffer) is not None:
        start, _ = _opened(path, line, buffer)
        raise _unclosed(path, start)
    if buffer.strip():
        raise _outside(path, line, buffer)


def _opened(path: str | os.PathLike[str], line: int, record: bytes) -> tuple[int, bytes]:
    start = START.search(record)
    if start is None:
        # Documents may share a line.
        start = re.compile(rb"\s*<DOC(?:\s[^>]*)?>", re.IGNORECASE).match(record)
    if start is None or record[: start.start()].strip():
        raise _outside(path, line, record)
    first = line + record.count(b"\n", 0, record.index(b"<", start.start()))
    if START.search(record, start.end()) is not None:
        raise _unclosed(path, first)
    return first, record[start.end() :]


def _unclosed(path: str | os.PathLike[str], line: int) -> InputError:
    return InputError("unclosed <DOC>", file=path, line=line, accepted="<DOC> ... </DOC>")


def _outside(path: str | os.PathLike[str], line: int, text: bytes) -> InputError:
    blank = len(text) - len(text.lstrip())
    return InputError(
        "text outside <DOC>",
        file=path,
        line=line + text.count(b"\n", 0, blank),
        value=text[blank : blank + 80].decode(errors="replace"),
        accepted="<DOC> ... </DOC>",
    )
