from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtune.collections.docstrings import split_docstring

UFUNC = """add(x1, x2, /, out=None, *, where=True, dtype=None, subok=True[, signature])

add(x, y)

Add arguments
element-wise.

Parameters
----------
x1, x2 : array_like
    The arrays (see also `ndarray`).

See Also
--------
subtract, numpy.multiply : Other arithmetic.
:func:`~scipy.special.xlogy` : In a role.
divide
    The description comes on the next line: with a colon, and, commas.
Prose that is no entry.

Notes
-----
Equivalent to x1 + x2.
"""


def test_a_ufunc_docstring_falls_apart() -> None:
    parts = split_docstring(UFUNC)
    assert parts.summary == "Add arguments element-wise."
    assert parts.links == ("subtract", "numpy.multiply", "scipy.special.xlogy", "divide")
    assert parts.body.startswith("Parameters\n----------\nx1, x2")
    assert parts.body.endswith("Notes\n-----\nEquivalent to x1 + x2.")
    assert "See Also" not in parts.body
    assert "arithmetic" not in parts.body


@pytest.mark.parametrize(
    ("docstring", "summary", "body"),
    [
        ("Only a summary.", "Only a summary.", ""),
        ("Two\nlines.\n\nBody.", "Two lines.", "Body."),
        ("Summary.\nReturns\n-------\nint", "Summary.", "Returns\n-------\nint"),
        ("Parameters\n----------\nx", "", "Parameters\n----------\nx"),
        (".. warning::\n\n    Do not.", "", ".. warning::\n\n    Do not."),
        ("f(x) -> int\n\nDo it.", "Do it.", ""),
        ("f(\n    x,\n    y=(1, 2),\n)\n\nDo it.", "Do it.", ""),
        ("f(x)\n--\n\nf(x, [y])\n\nDo it.", "Do it.", ""),
        ("repeat(self, n)\na.repeat(n, axis=None)\n\nRepeat.", "Repeat.", ""),
        ("cos(x) - 1 for small `x`.\n\nMore.", "cos(x) - 1 for small `x`.", "More."),
        ("D.get(k[,d]) returns D[k].", "D.get(k[,d]) returns D[k].", ""),
        ("f(x", "f(x", ""),
        ("", "", ""),
    ],
)
def test_summaries_and_signatures(docstring: str, summary: str, body: str) -> None:
    parts = split_docstring(docstring)
    assert (parts.summary, parts.body) == (summary, body)


@pytest.mark.parametrize(
    ("section", "links"),
    [
        ("See Also\n--------\na, b\nc : d", ("a", "b", "c")),
        ("See also\n--------\na.b: c", ("a.b",)),
        ("    See Also\n    --------\n    a : b\n        x : y", ("a",)),
        ("See Also\n--------\n    a : indented entries\n    b : too", ("a", "b")),
        ("See Also\n--------\n.a : a sibling", ("a",)),
        ("See Also\n--------\n`a`, b() : quoted, called", ("a", "b")),
        ("See Also\n--------\na,\nb", ("a", "b")),
        ("See Also\n--------\na : x\na : y", ("a",)),
        ("See Also\n--------\n:ref:`some-page` : not a name\nThe `a` module has more.", ()),
    ],
)
def test_see_also_entries(section: str, links: tuple[str, ...]) -> None:
    parts = split_docstring(f"Summary.\n\n{section}\n\nNotes\n-----\nStays.")
    assert parts.links == links
    assert parts.body == "Notes\n-----\nStays."


def test_a_seealso_directive_goes_with_its_indented_text() -> None:
    parts = split_docstring("Summary.\n\nBefore.\n\n.. seealso::\n\n    Other pages.\n\nAfter.")
    assert parts.body.split() == ["Before.", "After."]


@pytest.mark.slow
@given(
    st.lists(st.from_regex(r"[a-z_]{1,8}(\.[a-z_]{1,8})?", fullmatch=True), unique=True),
    st.text("xyz \n", max_size=40),
)
def test_whatever_is_listed_is_found_and_removed(names: list[str], notes: str) -> None:
    entries = "".join(f"{name} : About {name}.\n" for name in names)
    docstring = f"Summary.\n\nSee Also\n--------\n{entries}\nNotes\n-----\n{notes}"
    parts = split_docstring(docstring)
    assert parts.links == tuple(names)
    assert parts.body.split() == ["Notes", "-----", *notes.split()]


@given(st.text())
def test_any_text_is_taken_apart_without_inventing_words(text: str) -> None:
    parts = split_docstring(text)
    assert parts.summary == " ".join(parts.summary.split())
    assert set(re.findall(r"\S+", f"{parts.summary} {parts.body}")) <= set(re.findall(r"\S+", text))
