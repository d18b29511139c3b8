"""Split text into words by the Unicode word-break rules, as Lucene's StandardTokenizer does.

The rules are those of Unicode Standard Annex 29 with Lucene's additions. Each ideograph and each
Hiragana character is a token. A run of Katakana, of Hangul or of a South-East Asian script is one
token, and so is an emoji sequence (Unicode Technical Standard 51). The text is first mapped to a string
of character classes, of the same length; the rules are a regular expression over these classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

MAX_TOKEN_UNITS = 255
"""Lucene's limit on the length of a token, in UTF-16 units; longer tokens are split there."""

# Fast path for lower-case ASCII text: nearly all of an English collection.
_MID = r"[.:',;](?:(?<=[a-z][.:'])(?=[a-z])|(?<=[0-9][.,;'])(?=[0-9]))"
_ASCII_TOKEN = re.compile(rf"_{{0,254}}+[a-z0-9][a-z0-9_]*+(?:{_MID}[a-z0-9_]++)*+")
_NON_ASCII = re.compile(r"[^\x00-\x7f]")
_SPACE_BEFORE_ASCII = re.compile(r"[ \n](?=[\x00-\x7f])")


def _read_classes() -> dict[str, str]:
    classes: dict[str, str] = {}
    for line in files("lmtune.index").joinpath("word_break.txt").read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            classes[line[0]] = classes.get(line[0], "") + line[1:]
    return classes


CLASSES = _read_classes()
"""Ranges of code points, in hexadecimal, by the letter of the class."""


def _class_table() -> str:
    table = bytearray(b"." * 0x110000)
    for letter, ranges in CLASSES.items():
        for item in ranges.split():
            first, _, last = item.partition("-")
            start, stop = int(first, 16), int(last or first, 16) + 1
            table[start:stop] = letter.encode() * (stop - start)
    return table.decode("ascii")


def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a token and of an emoji sequence, over character classes."""
    # Marks, format characters and joiners belong to the character before them (rule WB4).
    attached = "[xzteMSkgh]*+"
    letter = f"[LQH]{attached}"
    hebrew = f"H{attached}"
    number = f"N{attached}"
    katakana = f"K{attached}"
    joiner = f"J{attached}"
    mid_letter = f"[lmq]{attached}"
    mid_number = f"[nmq]{attached}"

    # Letters and digits, with at most one punctuation mark between two of them (WB5-WB12). In Lucene's
    # grammar, a Hebrew letter joined by punctuation cannot be followed by further punctuation.
    piece = (
        f"(?:{hebrew}d{attached}{hebrew}|{hebrew}q{attached}"
        f"|{letter}(?:{mid_letter}{letter})*+|{number}(?:{mid_number}{number})*+)"
    )
    run = f"(?:{katakana}(?:(?:{joiner})*+{katakana})*+|{piece}(?:(?:{joiner})*+{piece})*+)"
    word = f"(?:{joiner}){{0,254}}+{run}(?:(?:{joiner})++{run})*+(?:{joiner})*+"
    south_east_asian = f"(?:[AM]{attached})++"
    ideograph = f"I{attached}"

    # The presentation selectors t and e end a pictograph. A zero-width joiner before the next pictograph
    # is not absorbed: it joins the two.
    absorbed = "(?:[xMSkgh]|z(?!z*+[PQ]))*+"
    picture = f"(?:z{{0,254}}+[PQ]{absorbed}e?+|S{absorbed})"
    pictures = f"{picture}(?:g++h|(?:z{picture})*+)"
    keycap = "c[xzMSkgh]*e?k[xzMSkgh]*+"
    flag = f"F{attached}F{attached}"
    return (
        re.compile(f"{word}|{south_east_asian}|{ideograph}|{pictures}|{keycap}|{flag}"),
        re.compile(pictures),
    )


_TABLE = _class_table()
_TOKEN, _PICTURES = _patterns()


def tokenize(text: str) -> list[str]:
    """Return the words of a text in order.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    list of str
        The tokens, each at most 255 UTF-16 units long. ASCII tokens are in lower case, unless they are in a
        piece of text with other characters; all other tokens keep their case.
    """
    if text.isascii():
        return _tokenize_ascii(text)
    tokens: list[str] = []
    for piece in _pieces(text):
        tokens += _tokenize_ascii(piece) if piece.isascii() else _tokenize_any(piece)
    return tokens


def lower_case(token: str) -> str:
    """Return a token in lower case, converting each character alone, as Java does.

    Python's ``str.lower`` depends on the neighbours of a sigma, and converts a dotted capital I to two
    characters.
    """
    if not token.isascii():
        token = token.replace("\N{GREEK CAPITAL LETTER SIGMA}", "\N{GREEK SMALL LETTER SIGMA}")
        token = token.replace("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "i")
    return token.lower()


def _pieces(text: str) -> Iterator[str]:
    """Split a text at white space into pieces of only ASCII characters and pieces with others."""
    done = 0
    while (match := _NON_ASCII.search(text, done)) is not None:
        position = match.start()
        start = max(text.rfind(" ", done, position), text.rfind("\n", done, position), done)
        yield text[done:start]
        space = _SPACE_BEFORE_ASCII.search(text, position)
        done = len(text) if space is None else space.start()
        yield text[start:done]
    yield text[done:]


def _tokenize_ascii(text: str) -> list[str]:
    text = text.lower()
    tokens = _ASCII_TOKEN.findall(text)
    if tokens and len(max(tokens, key=len)) > MAX_TOKEN_UNITS:
        return _scan(text, text.translate(_TABLE))
    return tokens


def _tokenize_any(text: str) -> list[str]:
    classes = text.translate(_TABLE)
    if "Q" in classes:
        return _scan(text, classes)
    spans = [match.span() for match in _TOKEN.finditer(classes)]
    if any(end - start > MAX_TOKEN_UNITS // 2 for start, end in spans):
        return _scan(text, classes)
    return [text[start:end] for start, end in spans]


def _scan(text: str, classes: str) -> list[str]:
    """Tokenize from left to right, taking the longest token within the limit at each position."""
    tokens = []
    position = 0
    while position < len(text):
        limit = _limit(text, position)
        match = _TOKEN.match(classes, position, limit)
        if match is None:
            position += 1
            continue
        end = match.end()
        if classes[position] == "Q":
            # Characters such as a circled letter can start both a word and an emoji sequence.
            pictures = _PICTURES.match(classes, position, limit)
            end = max(end, pictures.end() if pictures is not None else end)
        tokens.append(text[position:end])
        position = end
    return tokens


def _limit(text: str, position: int) -> int:
    """Return the end of the longest substring that fits into one token."""
    window = text[position : position + MAX_TOKEN_UNITS]
    if window.isascii() or max(window) <= "\uffff":
        return position + len(window)
    units = window.encode("utf-16-le", "surrogatepass")[: 2 * MAX_TOKEN_UNITS]
    length = len(units.decode("utf-16-le", "surrogatepass"))
    # A surrogate pair that the limit splits does not fit.
    is_split = len(window[:length].encode("utf-16-le", "surrogatepass")) > len(units)
    return position + length - is_split
