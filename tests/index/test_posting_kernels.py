"""Packed postings and positions: undone exactly, as small as said, and no byte read that is not theirs."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.index import posting_kernels as kernels
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.columns import Column, write_lists
from lmtune.io.documents import Document, ListDocuments

MOST = 2**31 - 1
# As wide as they come, beside runs of narrow ones, around the length of a block.
WIDTHS = st.lists(st.tuples(st.integers(0, 31), st.integers(1, 140)), min_size=1, max_size=4)


def numbers(widths: list[tuple[int, int]], seed: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.integers(0, 1 << width, count) for width, count in widths])


def documents(gaps: NDArray[np.int64]) -> NDArray[np.int32]:
    """Add gaps up, as far as document numbers go."""
    docs = np.cumsum(gaps + 1) - 1
    return docs[docs <= MOST].astype(np.int32)


def unpack(packed: bytes, counts: int) -> tuple[list[int], bytes]:
    """Read numbers from blocks of 128 as the format is described, by arithmetic alone."""
    found: list[int] = []
    while len(found) < counts:
        bits, count = packed[0], min(128, counts - len(found))
        size = -(-bits * count // 8)
        whole = int.from_bytes(packed[1 : 1 + size], "little")
        found += [(whole >> (bits * i)) % (1 << bits) for i in range(count)]
        packed = packed[1 + size :]
    return found, packed


def words(packed: NDArray[np.uint8] | bytes) -> NDArray[np.uint64]:
    """Map bytes as an index has them."""
    with TemporaryDirectory() as folder:
        sizes = np.array([len(packed)])
        columns = write_lists(Path(folder), "lists", "offsets", [(packed, sizes)])
        return Column[np.uint8](Path(folder), columns["lists"]).words(0, len(packed))


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(WIDTHS, WIDTHS), max_size=4), st.integers(0, 99))
def test_round_trip(terms: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]], seed: int) -> None:
    docs = [documents(numbers(gaps, seed)) for gaps, _ in terms]
    docs = [own if own.size else np.array([MOST], np.int32) for own in docs]
    tfs = [
        np.resize(np.minimum(numbers(own, seed + 1) + 1, MOST), some.size).astype(np.int32)
        for some, (_, own) in zip(docs, terms, strict=True)
    ]
    dfs = np.array([some.size for some in docs], np.int64)
    none = np.empty(0, np.int32)
    packed, sizes = kernels.encode_postings(np.concatenate([*docs, none]), np.concatenate([*tfs, none]), dfs)
    assert sizes.sum() == packed.size
    mapped = words(packed)
    ends = np.cumsum(sizes).tolist()
    for begin, end, some, own in zip([0, *ends], ends, docs, tfs, strict=False):
        found_docs, found_tfs, whole = kernels.decode_postings(mapped, begin, end)
        assert whole
        assert np.array_equal(found_docs, some)
        assert np.array_equal(found_tfs, own)
        assert found_docs.dtype == found_tfs.dtype == np.int32
        (df,), rest = unpack(packed[begin:end].tobytes(), 1)
        gaps, rest = unpack(rest, df)
        less, rest = unpack(rest, df)
        assert [gap - 1 for gap in accumulate(gap + 1 for gap in gaps)] == some.tolist()
        assert [tf + 1 for tf in less] == own.tolist()
        assert rest == b""


@settings(deadline=None)
@given(st.lists(WIDTHS, min_size=1, max_size=4), st.integers(0, 99))
def test_positions_are_undone(terms: list[list[tuple[int, int]]], seed: int) -> None:
    places = [documents(numbers(widths, seed)) for widths in terms]
    places = [own if own.size else np.array([MOST], np.int32) for own in places]
    # Two documents a term: the second's places are those of the first.
    gaps = [np.tile(np.diff(own, prepend=-1) - 1, 2).astype(np.int32) for own in places]
    packed, sizes = kernels.encode_positions(np.concatenate(gaps), np.array([own.size for own in gaps]))
    mapped = words(packed)
    ends = np.cumsum(sizes).tolist()
    for begin, end, own in zip([0, *ends], ends, places, strict=False):
        tfs = np.array([own.size, own.size], np.int32)
        found, whole = kernels.decode_positions(mapped, begin, end, tfs)
        assert whole
        assert np.array_equal(found, np.tile(own, 2))
        assert unpack(packed[begin:end].tobytes(), 2 * own.size)[1] == b""


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the kernels as Python, which lets no index out of bounds."""
    for name in ("_unpack", "_number", "decode_postings", "decode_positions"):
        monkeypatch.setattr(kernels, name, getattr(kernels, name).py_func)


@pytest.mark.usefixtures("interpreted")
def test_no_bytes_are_read_out_of_bounds() -> None:
    rng = np.random.default_rng(3)
    docs = np.arange(3, 903, 3, dtype=np.int32)
    packed, _ = kernels.encode_postings(docs, docs % 7 + 1, np.array([docs.size]))
    unlike = 0
    for trial in range(150):
        if trial % 2:
            odd = bytearray(rng.integers(0, 40, rng.integers(1, 60)).astype(np.uint8).tobytes())
        else:
            odd = bytearray(packed[: rng.integers(1, packed.size + 1)])
            odd[rng.integers(len(odd))] ^= 1 << int(rng.integers(8))
        with np.errstate(over="ignore"):
            *_, whole = kernels.decode_postings(words(bytes(odd)), 0, len(odd))
            unlike += not whole
            kernels.decode_positions(words(bytes(odd)), 0, len(odd), np.array([4, 130], np.int32))
    assert unlike > 75


def test_lists_that_are_no_postings_are_damaged(tmp_path: Path) -> None:
    index = build_index(ListDocuments("d", [Document("a", "cat dog")]), tmp_path / "i", Analyzer())
    index._columns["postings"] = index._columns["docnos"]
    with pytest.raises(InputError, match="damaged: a checksum differs; accepted: a whole index"):
        index.postings("dog")
