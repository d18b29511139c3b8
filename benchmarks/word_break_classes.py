"""Determine each character's class in Lucene's StandardTokenizer, and print the table.

    LUCENE_PYTHON benchmarks/word_break_classes.py > lmtune/index/word_break.txt

Each character is put into a score of contexts, Lucene cuts them into tokens, and characters that
behave alike in all of them form a class.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from lucene_oracle import anserini

# Each class's name, its letter in the table, and an example character.
EXEMPLARS = {
    "LETTER": ("L", "b"),
    "HEBREW_LETTER": ("H", "\N{HEBREW LETTER ALEF}"),
    "NUMBER": ("N", "1"),
    "KATAKANA": ("K", "\N{KATAKANA LETTER KA}"),
    "IDEOGRAPH": ("I", "\u6f22"),
    "SOUTH_EAST_ASIAN": ("A", "\N{THAI CHARACTER KO KAI}"),
    "SOUTH_EAST_ASIAN_MARK": ("M", "\N{THAI CHARACTER SARA I}"),
    "JOINER": ("J", "_"),
    "MID_LETTER": ("l", ":"),
    "MID_NUMBER": ("n", ","),
    "MID_BOTH": ("m", "."),
    "SINGLE_QUOTE": ("q", "'"),
    "DOUBLE_QUOTE": ("d", '"'),
    "EXTEND": ("x", "\N{COMBINING ACUTE ACCENT}"),
    "ZERO_WIDTH_JOINER": ("z", "\N{ZERO WIDTH JOINER}"),
    "TEXT_SELECTOR": ("t", "\ufe0e"),
    "EMOJI_SELECTOR": ("e", "\ufe0f"),
    "PICTURE": ("P", "\N{GRINNING FACE}"),
    "LETTER_PICTURE": ("Q", "\N{INFORMATION SOURCE}"),
    "SKIN_TONE": ("S", "\N{EMOJI MODIFIER FITZPATRICK TYPE-3}"),
    "FLAG_LETTER": ("F", "\N{REGIONAL INDICATOR SYMBOL LETTER D}"),
    "KEYCAP_BASE": ("c", "#"),
    "KEYCAP": ("k", "\N{COMBINING ENCLOSING KEYCAP}"),
    "TAG": ("g", "\U000e0041"),
    "TAG_END": ("h", "\U000e007f"),
}
_BASES = "b1\u05d0\u30ab\u0e01_\U0001f600\u00a9\u6f22\u3072\ud55c#\U0001f1e9\u0301"
CONTEXTS = [
    "{c}",
    "{c}{c}",
    *(f"{base}{{c}}" for base in _BASES),
    *(f"{{c}}{base}" for base in _BASES),
    *(f"{base}{{c}}{base}" for base in _BASES),
    "b:{c}",
    "1,{c}",
    "{c}.b",
    "{c}.1",
    "{c}'",
    '{c}"\u05d0',
    '\u05d0"{c}',
    "#{c}\u20e3",
    "{c}\u20e3",
    "{c}\ufe0f",
    "{c}\ufe0e",
    "\ufe0f{c}",
    "\u200d{c}",
    "{c}\u200d\U0001f600",
    "\U0001f600\u200d{c}",
    "\U0001f600\ufe0f{c}",
    "\U0001f600{c}{c}",
    "\U0001f600\ufe0f\u200d{c}",
    "\U0001f600\ufe0f{c}\U000e007f",
    "\U0001f600\ufe0f\U000e0020{c}",
    "{c}\U0001f3fd",
]
_SENTINEL = "zzzzzz"
_CHUNK = 2000


_HEAD = """\
# What Lucene takes each character for when it looks for words: a class's letter, then code points.
# Written by benchmarks/word_break_classes.py, which asked Lucene 9.9.1's StandardTokenizer; do not
# edit. These are the Word_Break classes of Unicode 12.1 and what Lucene adds to them: ideographs,
# South-East Asian scripts, emoji. Characters that are not here separate words. The table does not
# come from Python or a library, because their Unicode version moves on while an index stays."""


def behaviours() -> dict[int, int]:
    """Return a number for each code point; equal numbers mean equal behaviour."""
    tokens = anserini("tokens")
    numbers: dict[tuple[tuple[int, ...], ...], int] = {}
    found = {}
    code_points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for first in range(0, len(code_points), _CHUNK):
        chunk = code_points[first : first + _CHUNK]
        texts = [context.replace("{c}", chr(c)) for c in chunk for context in CONTEXTS]
        lengths: list[tuple[int, ...]] = []
        now: list[int] = []
        for token in [*tokens(f"\n{_SENTINEL}\n".join(texts)), _SENTINEL]:
            if token == _SENTINEL:
                lengths.append(tuple(now))
                now = []
            else:
                now.append(len(token))
        if len(lengths) != len(texts):
            raise RuntimeError(f"{len(lengths)} answers to {len(texts)} texts")
        for i, c in enumerate(chunk):
            behaviour = tuple(lengths[i * len(CONTEXTS) : (i + 1) * len(CONTEXTS)])
            found[c] = numbers.setdefault(behaviour, len(numbers))
    return found


def ranges(code_points: list[int]) -> Iterator[str]:
    """Write ascending code points as FIRST-LAST or ONE, in hexadecimal."""
    start = before = code_points[0]
    for c in [*code_points[1:], -1]:
        if c != before + 1:
            yield f"{start:X}" if start == before else f"{start:X}-{before:X}"
            start = c
        before = c


def main() -> None:
    """Print the table."""
    found = behaviours()
    members: dict[int, list[int]] = {}
    for c, number in found.items():
        members.setdefault(number, []).append(c)
    print(_HEAD)
    seen = {found[0]: "OTHER"}
    for name, (letter, exemplar) in EXEMPLARS.items():
        number = found[ord(exemplar)]
        if number in seen:
            raise RuntimeError(f"{name} behaves as {seen[number]}")
        seen[number] = name
        print(f"# {name.lower().replace('_', ' ')}")
        line = ""
        for item in ranges(members[number]):
            if len(line) + len(item) > 86:
                print(f"{letter} {line.rstrip()}")
                line = ""
            line += item + " "
        print(f"{letter} {line.rstrip()}")
    for number, code_points in members.items():
        if number not in seen:
            shown = " ".join(ranges(code_points))
            print(f"no class: {len(code_points)}: {shown[:200]}", file=sys.stderr)


if __name__ == "__main__":
    main()
