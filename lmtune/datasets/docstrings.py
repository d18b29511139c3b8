"""Docstrings in the numpydoc style, taken apart: summary, links, and everything else."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

_RULE = re.compile(r"\s*-{3,}\s*")
_TITLE = re.compile(r"\s*[A-Za-z][A-Za-z ]*")
_SEE_ALSO = re.compile(r"\s*see\s?also\s*", re.IGNORECASE)
_DIRECTIVE = re.compile(r"\s*\.\.\s+seealso::.*", re.IGNORECASE)
_CALL = re.compile(r"(?:[A-Za-z_]\w*(?:, *[A-Za-z_]\w*)* = )?[A-Za-z_][\w.]*\(")
_RETURN_TYPE = re.compile(r"[ \t]*->[^\n]*")
_CLINIC_RULE = re.compile(r"\n--[ \t]*(?=\n|\Z)")
_LINK = re.compile(r"(?::[\w:+-]+:)?`?[~.]?([A-Za-z_][\w.]*)(?:\(\))?`?")
_BETWEEN_LINKS = re.compile(r"\s*,\s*")
_AFTER_LINKS = re.compile(r"\s*(:|\Z)")


class Docstring(NamedTuple):
    """A docstring's parts.

    Attributes
    ----------
    summary : str
        The first paragraph on one line, without the call signatures that builtins put before
        it; empty where the docstring begins with a section or a directive.
    body : str
        What follows the summary, without the See Also section, as it is written.
    links : tuple of str
        The names that the See Also section lists, in its order, each once.
    """

    summary: str
    body: str
    links: tuple[str, ...]


def split_docstring(docstring: str) -> Docstring:
    r"""Take a docstring apart.

    Parameters
    ----------
    docstring : str
        As `inspect.cleandoc` returns it.

    Returns
    -------
    Docstring

    Examples
    --------
    >>> split_docstring("add(a, b)\n\nAdd numbers.\n\nSee Also\n--------\nsubtract\n")
    Docstring(summary='Add numbers.', body='', links=('subtract',))
    """
    lines = _without_signatures(docstring).split("\n")
    end = _summary_end(lines)
    body, see_also = _cut_see_also(lines[end:])
    links = dict.fromkeys(link for line in see_also for link in _line_links(line))
    return Docstring(" ".join(" ".join(lines[:end]).split()), "\n".join(body).strip(), tuple(links))


def _without_signatures(docstring: str) -> str:
    """Drop leading call signatures, such as ``add(x1, x2, /, out=None)``, each on its lines."""
    text = docstring.strip()
    while (end := _signature_end(text)) is not None:
        text = text[end:].strip()
    return text


def _signature_end(text: str) -> int | None:
    opening = _CALL.match(text)
    if opening is None:
        return None
    depth, position = 1, opening.end()
    while depth and position < len(text):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        position += 1
    for tail in (_RETURN_TYPE, _CLINIC_RULE):
        if (found := tail.match(text, position)) is not None:
            position = found.end()
    # A sentence may begin like a call: "cos(x) - 1 for use when `x` is near zero."
    alone = depth == 0 and not text[position:].partition("\n")[0].strip()
    return position if alone else None


def _summary_end(lines: list[str]) -> int:
    if lines[0].startswith(".. "):
        return 0
    for number, line in enumerate(lines):
        if not line.strip() or _is_title(lines, number):
            return number
    return len(lines)


def _is_title(lines: list[str], number: int) -> bool:
    following = lines[number + 1] if number + 1 < len(lines) else ""
    # The first look spares nearly all lines a pattern.
    return "---" in following and bool(_RULE.fullmatch(following) and _TITLE.fullmatch(lines[number]))


def _cut_see_also(lines: list[str]) -> tuple[list[str], list[str]]:
    """Separate the See Also sections' lines from all others, which keep their order."""
    body: list[str] = []
    see_also: list[str] = []
    inside = False
    directive: int | None = None
    for number, line in enumerate(lines):
        if _is_title(lines, number):
            inside = _SEE_ALSO.fullmatch(line) is not None
            directive = None
        elif directive is not None and line.strip() and _indent(line) <= directive:
            directive = None
        if _DIRECTIVE.fullmatch(line):
            directive = _indent(line)
        if inside:
            see_also.append(line)
        elif directive is None:
            body.append(line)
    return body, _entries(see_also)


def _entries(section: list[str]) -> list[str]:
    """Keep the lines that name things: those that a section indents the least."""
    titles = [number for number in range(len(section)) if _is_title(section, number)]
    entries: list[str] = []
    for start, end in pairwise([*titles, len(section)]):
        lines = [line for line in section[start + 2 : end] if line.strip()]
        margin = min(map(_indent, lines), default=0)
        entries += [line.strip() for line in lines if _indent(line) == margin]
    return entries


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _line_links(line: str) -> list[str]:
    """Return the names at the start of an entry: ``a, b : what they do``; none in prose."""
    links: list[str] = []
    position = 0
    while (found := _LINK.match(line, position)) is not None:
        links.append(found[1].strip("."))
        comma = _BETWEEN_LINKS.match(line, found.end())
        if comma is None:
            return links if _AFTER_LINKS.match(line, found.end()) else []
        position = comma.end()
    return links if position == len(line) else []
