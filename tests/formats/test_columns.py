from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmtune.formats.columns import blocks, split_columns

PIECES = st.sampled_from(
    [b"a", b"b1", b"\xc3\xa9", b"\xff", b" ", b"  ", b"\t", b"\r", b"\n", b"\r\n", b"\0", b"#"]
)
UNIFORM = st.lists(st.lists(st.sampled_from([b"x", b"yy", b"1"]), min_size=3, max_size=3))


def one_by_one(data: bytes, width: int) -> list[list[bytes]] | None:
    lines = data.removesuffix(b"\n").split(b"\n")
    rows = [line.split() for line in lines]
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    if b"\0" in data or any(len(row) != width for row in rows):
        return None
    return [[row[place] for row in rows] for place in range(width)]


@given(st.lists(PIECES, max_size=40), st.integers(1, 4))
def test_split_columns_is_a_split_of_each_line(pieces: list[bytes], width: int) -> None:
    data = b"".join(pieces)
    assert split_columns(data, width) == one_by_one(data, width)


@given(UNIFORM, st.sampled_from([b"\n", b"\r\n"]), st.booleans())
def test_split_columns_of_uniform_lines(rows: list[list[bytes]], end: bytes, ended: bool) -> None:
    data = end.join(b"\t".join(row) for row in rows) + (end if ended else b"")
    if rows:
        assert split_columns(data, 3) == [[row[place] for row in rows] for place in range(3)]


def test_fields_that_make_up_for_each_other() -> None:
    assert split_columns(b"a b c\nd\n", 2) is None
    assert split_columns(b"a\nb c d\n", 2) is None
    assert split_columns(b"a b c d\n\n", 2) is None


def test_blocks_are_whole_lines() -> None:
    data = b"".join(b"%d some words\n" % number for number in range(40_000)) + b"the last"
    pieces = list(blocks(data))
    assert len(pieces) > 2
    assert b"".join(pieces) == data
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])
    assert list(blocks(b"")) == []
