"""Words of a text by the Unicode word-break rules (UAX #29), as Lucene's StandardTokenizer."""

from __future__ import annotations

import re
from collections.abc import Iterator

import regex

MAX_TOKEN_UNITS = 255
"""Lucene's limit on a token's length, in UTF-16 units; longer tokens are cut there."""

# ASCII, in lower case. A word may hold . : ' between letters and . , ; ' between digits.
_ASCII_MID = r"[.:',;](?:(?<=[a-z][.:'])(?=[a-z])|(?<=[0-9][.,;'])(?=[0-9]))"
_ASCII_TOKEN = re.compile(rf"_*+[a-z0-9][a-z0-9_]*+(?:{_ASCII_MID}[a-z0-9_]++)*+")
_NON_ASCII = re.compile(r"[^\x00-\x7f]")
_SPACE = re.compile(r"[ \n]")


def _grammar() -> tuple[regex.Pattern[str], regex.Pattern[str]]:
    """Return the pattern of a word and the pattern of an emoji sequence."""
    attached = r"[\p{WB=Format}\p{WB=Extend}\p{WB=ZWJ}]*+"

    def unit(members: str) -> str:
        # WB4: format characters and combining marks belong to the character before them.
        return f"(?:[{members}]{attached})"

    letter = unit(r"\p{WB=ALetter}\p{WB=Hebrew_Letter}")
    hebrew = unit(r"\p{WB=Hebrew_Letter}")
    single_quote = unit(r"\p{WB=Single_Quote}")
    double_quote = unit(r"\p{WB=Double_Quote}")
    mid_letter = unit(r"\p{WB=MidLetter}\p{WB=MidNumLet}\p{WB=Single_Quote}")
    number = unit(r"\p{WB=Numeric}\uFF10-\uFF19")
    mid_number = unit(r"\p{WB=MidNum}\p{WB=MidNumLet}\p{WB=Single_Quote}")
    katakana = unit(r"\p{WB=Katakana}")
    joiner = unit(r"\p{WB=ExtendNumLet}")

    piece = (
        f"(?:{hebrew}{double_quote}{hebrew}|{hebrew}{single_quote}"
        f"|{letter}(?:{mid_letter}{letter})*+|{number}(?:{mid_number}{number})*+)"
    )
    run = f"(?:{katakana}(?:{joiner}*+{katakana})*+|{piece}(?:{joiner}*+{piece})*+)"
    word = f"{joiner}*+{run}(?:{joiner}++{run})*+{joiner}*+"
    south_east_asian = unit(r"\p{LB=SA}") + "++"
    ideograph = unit(r"\p{Script=Han}")
    hiragana = unit(r"\p{Script=Hiragana}")

    zwj = r"\u200D"
    picture = r"[\p{Extended_Pictographic}]"
    modifier = r"[\p{Emoji_Modifier}]"
    loose = r"[\p{WB=Format}\p{WB=Extend}--\uFE0E\uFE0F\u200D]"
    absorbed = f"(?:{loose}|{zwj}(?!{zwj}*+(?:{picture}|{modifier})))*+"
    absorbed_all = f"(?:{loose}|{zwj})*+"
    base = r"[\p{Emoji_Modifier_Base}]"
    one = (
        f"(?:{zwj}*+{base}{absorbed_all}{modifier}{absorbed}|{modifier}{absorbed}"
        rf"|{zwj}*+{picture}{absorbed}\uFE0F?+)"
    )
    tags = r"[\U000E0020-\U000E007E]++\U000E007F"
    flag = unit(r"\p{WB=Regional_Indicator}") + "{2}"
    keycap = rf"[0-9#*](?:{loose}|{zwj})*\uFE0F?\u20E3{absorbed_all}"
    emoji = f"{one}(?:{tags}|(?:{zwj}{one})*+)|{keycap}|{flag}"

    flags = regex.VERSION1
    words = regex.compile(f"{word}|{south_east_asian}|{ideograph}|{hiragana}", flags)
    return words, regex.compile(emoji, flags)


_WORD, _EMOJI = _grammar()


def tokenize(text: str) -> list[str]:
    """Return the words of a text in order.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    list of str
        Its tokens, at most 255 UTF-16 units long each. Stretches of ASCII text come in lower
        case, the rest as it stands.
    """
    if text.isascii():
        return _tokenize_ascii(text)
    tokens: list[str] = []
    for piece in _pieces(text):
        tokens += _tokenize_ascii(piece) if piece.isascii() else _tokenize_any(piece)
    return tokens


def _pieces(text: str) -> Iterator[str]:
    """Cut a text at white space, so that non-ASCII characters are in few and small pieces."""
    done = 0
    while (found := _NON_ASCII.search(text, done)) is not None:
        here = found.start()
        start = max(text.rfind(" ", done, here), text.rfind("\n", done, here), done)
        if start > done:
            yield text[done:start]
        space = _SPACE.search(text, here)
        done = len(text) if space is None else space.start()
        yield text[start:done]
    yield text[done:]


def _tokenize_ascii(text: str) -> list[str]:
    tokens = _ASCII_TOKEN.findall(text.lower())
    if tokens and max(map(len, tokens)) > MAX_TOKEN_UNITS:
        return _tokenize_any(text.lower())
    return tokens


def _tokenize_any(text: str) -> list[str]:
    """Take the longest token that starts at each place, within the limit."""
    tokens = []
    position = 0
    while position < len(text):
        window = _window(text, position)
        found = [
            match.end()
            for match in (_WORD.match(text, position, window), _EMOJI.match(text, position, window))
            if match is not None
        ]
        if found:
            end = max(found)
            tokens.append(text[position:end])
            position = end
        else:
            position += 1
    return tokens


def _window(text: str, position: int) -> int:
    end = position + MAX_TOKEN_UNITS
    stretch = text[position:end]
    if len(stretch.encode("utf-16-le", "surrogatepass")) > 2 * MAX_TOKEN_UNITS:
        units = 0
        for offset, character in enumerate(stretch):
            units += 2 if character > "\uffff" else 1
            if units > MAX_TOKEN_UNITS:
                return position + offset
    return end
