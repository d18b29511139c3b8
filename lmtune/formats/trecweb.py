"""The words of a web page, as a reader sees them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

_HIDDEN = frozenset({"script", "style"})
# HTML's phrasing elements: they do not break a word. All others do.
_INLINE_NAMES = (
    "a abbr acronym b bdi bdo big blink cite code data del dfn em font i ins kbd mark nobr q "
    "s samp small span strike strong sub sup tt u var wbr"
)
_INLINE = frozenset(_INLINE_NAMES.split())
_PIECE_BYTES = 1 << 14
# libxml2 looks a closing tag up among all open ones, so that many of both would take quadratic time.
_DEEPEST = 1 << 10


class _Words:
    """A target for lxml's parser that keeps the visible text, of an element alone where one is named."""

    def __init__(self, element: str | None) -> None:
        self._element = element
        self._inside = 0 if element else 1
        self._pieces: list[str] = []
        self._hidden = 0
        self._depth = 0

    @property
    def too_deep(self) -> bool:
        """Whether a new parser had better go on: more elements are open than any page means."""
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
    """Return an HTML page's text, its title included, without scripts, styles and comments.

    Block elements, line breaks, cells and images separate words; inline ones such as ``<b>`` do
    not. White space is collapsed. Malformed HTML is read as browsers would. Where an element is
    named (``title``, ``body``), the text inside it alone.
    """
    # Not an import statement: lxml brings no types.
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
            # The page's own claims about its encoding are moot: it is decoded already.
            parser = etree.HTMLParser(target=words, encoding="utf-8", huge_tree=True)
        parser.feed(piece)
    return str(parser.close())


def _pieces(page: bytes) -> Iterator[bytes]:
    """Cut a page where tags begin."""
    begin = 0
    while begin < len(page):
        end = page.find(b"<", begin + _PIECE_BYTES)
        end = len(page) if end < 0 else end
        yield page[begin:end]
        begin = end
