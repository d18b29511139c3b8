"""Tokens by the rules, and the fast ways through the text against the whole grammar."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtune.index import tokenizer
from lmtune.index.tokenizer import CLASSES, lower_case, tokenize

FIRSTS = [ranges.split()[0].partition("-")[0] for ranges in CLASSES.values()]
ONE_OF_EACH_CLASS = "".join(chr(int(first, 16)) for first in FIRSTS)
WILD = st.text(st.sampled_from(ONE_OF_EACH_CLASS + " 's\n") | st.characters(exclude_categories=["Cs"]))
ASCII = st.text(st.sampled_from("abs019_.,:;'\" -#\n"))


def grammar(text: str) -> list[str]:
    """Tokenise by the whole grammar, without a short cut."""
    return tokenizer._scan(text, text.translate(tokenizer._TABLE))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("U.S.A. v1.2.3 3.x", ["u.s.a", "v1.2.3", "3", "x"]),
        ("rock'n'roll 'quoted'", ["rock'n'roll", "quoted"]),
        ("1,000.50 a,b 1:30", ["1,000.50", "a", "b", "1", "30"]),
        ("__init__ _ x_1", ["__init__", "x_1"]),
        ("\u6f22\u5b57 \u304b\u306a", ["\u6f22", "\u5b57", "\u304b", "\u306a"]),
        ("\u30ab\u30bf\u30ab\u30ca_x", ["\u30ab\u30bf\u30ab\u30ca_x"]),
        ("\ud55c\uad6d\uc5b4 \u0e44\u0e17\u0e22", ["\ud55c\uad6d\uc5b4", "\u0e44\u0e17\u0e22"]),
        ("\U0001f44d\U0001f3fd\U0001f600", ["\U0001f44d\U0001f3fd", "\U0001f600"]),
        ('e\u0301a \u05e6\u05d4"\u05dc', ["e\u0301a", '\u05e6\u05d4"\u05dc']),
        ("", []),
    ],
)
def test_rules_one_by_one(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


def test_tokens_are_cut_at_255_utf16_units() -> None:
    assert [len(token) for token in tokenize("x" * 600)] == [255, 255, 90]
    assert [len(token) for token in tokenize("\U00010400" * 200)] == [127, 73]
    assert [len(token) for token in tokenize("a." * 200)] == [255, 143]
    assert tokenize("_" * 255 + "a") == ["_" * 254 + "a"]


@given(ASCII)
def test_ascii_short_cut_agrees_with_the_grammar(text: str) -> None:
    assert tokenize(text) == grammar(text)


@given(WILD)
def test_cutting_into_pieces_changes_nothing(text: str) -> None:
    assert [lower_case(token) for token in tokenize(text)] == [lower_case(token) for token in grammar(text)]


@given(WILD, WILD)
def test_white_space_separates(one: str, other: str) -> None:
    together = [lower_case(token) for token in tokenize(f"{one} {other}")]
    assert together == [lower_case(token) for token in tokenize(one) + tokenize(other)]


@pytest.mark.slow
def test_underscores_and_joiners_in_thousands_take_no_time() -> None:
    # A pattern that starts anew at each of them would take minutes.
    text = "_" * 50_000 + " \u00e9" + "\u200d" * 50_000 + "_" * 50_000
    assert len(tokenize(text)) > 0


def test_lower_case_is_that_of_java() -> None:
    assert lower_case("\u039f\u0394\u039f\u03a3") == "\u03bf\u03b4\u03bf\u03c3"
    assert lower_case("\u0130I") == "ii"
    assert lower_case("STRASSE\u1e9e") == "strasse\u00df"


@pytest.mark.parametrize("letter", CLASSES)
def test_classes_do_not_overlap(letter: str) -> None:
    for item in CLASSES[letter].split():
        first, _, last = item.partition("-")
        for code_point in {int(first, 16), int(last or first, 16)}:
            assert tokenizer._TABLE[code_point] == letter
