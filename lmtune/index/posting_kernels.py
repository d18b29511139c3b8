"""Compiled bit packing of postings and positions, in blocks of 128 numbers.

The first byte of a block is the number of bits of each number: the bits of the largest one. The numbers
follow without gaps, lowest bit first, padded to a whole byte. This is frame of reference coding (Lemire and
Boytsov, 2015, Decoding billions of integers per second through vectorization).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Bytes, Integers, Integers32
from lmtune.compiled import compiled
from lmtune.index.protocol import Positions

_BLOCK = 128
_MOST_BITS = 31
_MOST_PER_BYTE = 1 << 7  # a block of zeros is one byte


@compiled()
def encode_postings(docs: Integers32, tfs: Integers32, dfs: Integers) -> tuple[Bytes, Integers]:
    """Pack postings: for each term df, the gaps between document numbers, and the frequencies minus 1.

    Parameters
    ----------
    docs, tfs : arrays of int32, shape (postings,)
        Postings term by term, documents ascending within a term.
    dfs : array of int64, shape (terms,)
        Number of postings of each term, at least 1.

    Returns
    -------
    packed : array of uint8
        The packed postings, term by term.
    sizes : array of int64, shape (terms,)
        Number of bytes of each term.
    """
    packed = np.empty(8 * docs.size + 2 * (docs.size // _BLOCK) + 7 * dfs.size, np.uint8)
    sizes = np.empty(dfs.size, np.int64)
    df, gaps, more = np.empty(1, np.int32), np.empty(docs.size, np.int32), np.empty(docs.size, np.int32)
    at = begin = np.int64(0)
    for term in range(dfs.size):
        df[0] = dfs[term]
        end = begin + dfs[term]
        last = np.int32(-1)
        for i in range(begin, end):
            gaps[i], more[i] = docs[i] - last - 1, tfs[i] - 1
            last = docs[i]
        filled = _pack(gaps[begin:end], packed, _pack(df, packed, at))
        filled = _pack(more[begin:end], packed, filled)
        sizes[term] = filled - at
        at, begin = filled, end
    return packed[:at].copy(), sizes


@compiled()
def decode_postings(words: NDArray[np.uint64], begin: int, end: int) -> tuple[Integers32, Integers32, bool]:
    """Decode one term's postings, packed by `encode_postings`.

    Parameters
    ----------
    words : array of uint64
        The column, as `lmtune.index.columns.Column.words` returns it.
    begin, end : int
        First byte of the term, and the byte after its last.

    Returns
    -------
    docs, tfs : arrays of int32, shape (df,)
        Document numbers and term frequencies.
    whole : bool
        Whether the bytes are those of one term; if False, the arrays are meaningless.
    """
    df = np.zeros(1, np.int32)
    at = _unpack(words, begin, end, df)
    if df[0] > _MOST_PER_BYTE * (end - begin):
        df[0], at = 0, end + 1
    docs, tfs = np.empty(df[0], np.int32), np.empty(df[0], np.int32)
    at = _unpack(words, _unpack(words, at, end, docs), end, tfs)
    last = np.int32(-1)
    for i in range(docs.size):
        last += docs[i] + np.int32(1)
        docs[i] = last
        tfs[i] += np.int32(1)
    return docs, tfs, at == end


@compiled()
def encode_positions(gaps: Integers32, cfs: Integers) -> tuple[Bytes, Integers]:
    """Pack the gaps between positions.

    Parameters
    ----------
    gaps : array of int32, shape (positions,)
        Number of tokens between each occurrence and the previous one in the document.
    cfs : array of int64, shape (terms,)
        Number of occurrences of each term, at least 1.

    Returns
    -------
    packed, sizes
        As for `encode_postings`.
    """
    packed = np.empty(4 * gaps.size + gaps.size // _BLOCK + cfs.size, np.uint8)
    sizes = np.empty(cfs.size, np.int64)
    at = begin = np.int64(0)
    for term in range(cfs.size):
        filled = _pack(gaps[begin : begin + cfs[term]], packed, at)
        sizes[term] = filled - at
        at, begin = filled, begin + cfs[term]
    return packed[:at].copy(), sizes


@compiled()
def decode_positions(
    words: NDArray[np.uint64], begin: int, end: int, tfs: Integers32
) -> tuple[Integers32, bool]:
    """Decode one term's positions, packed by `encode_positions`; `tfs` are its term frequencies.

    Returns
    -------
    positions : array of int32, shape (cf,)
        Positions from 0, document by document.
    whole : bool
        As for `decode_postings`.
    """
    positions = np.empty(tfs.astype(np.int64).sum(), np.int32)
    at = _unpack(words, begin, end, positions)
    filled = 0
    for tf in tfs:
        last = np.int32(-1)
        for _ in range(tf):
            last += positions[filled] + np.int32(1)
            positions[filled] = last
            filled += 1
    return positions, at == end


@compiled()
def _pack(values: Integers32, packed: Bytes, at: int) -> int:
    """Pack numbers from 0 to 2**31 - 1 into `packed` from byte `at`; return the end."""
    for first in range(0, values.size, _BLOCK):
        block = values[first : first + _BLOCK]
        together = np.uint64(0)
        for value in block:
            together |= np.uint64(value)
        bits = np.uint64(0)
        while together >> bits:
            bits += np.uint64(1)
        packed[at] = bits
        at += 1
        held, size = np.uint64(0), np.uint64(0)
        for value in block:
            held |= np.uint64(value) << size
            size += bits
            while size >= np.uint64(8):
                packed[at] = held & np.uint64(255)
                at += 1
                held >>= np.uint64(8)
                size -= np.uint64(8)
        if size:
            packed[at] = held
            at += 1
    return at


@compiled()
def _unpack(words: NDArray[np.uint64], at: int, end: int, values: Integers32) -> int:
    """Unpack numbers packed by `_pack` into `values`; return the end, or ``end + 1`` for damaged bytes."""
    for first in range(0, values.size, _BLOCK):
        block = values[first : first + _BLOCK]
        bits = int(np.int64(words[at] & np.uint64(255))) if at < end else _MOST_BITS
        begin, step = np.uint64(at + 1), np.uint64(bits)
        at += 1 + (bits * block.size + 7) // 8
        if bits > _MOST_BITS or at > end:
            return end + 1
        # Eight numbers fill whole bytes; an inner loop of fixed length is four times as fast.
        whole = block.size & ~7
        for eight in range(0, whole, 8):
            for i in range(8):
                block[eight + i] = _number(words, begin, step, i)
            begin += step
        for i in range(block.size - whole):
            block[whole + i] = _number(words, begin, step, i)
    return at


@compiled(inline=True)
def _number(words: NDArray[np.uint64], begin: np.uint64, bits: np.uint64, i: int) -> np.uint64:
    """Return the i-th number (i < 8) that starts at byte `begin`: it is within 8 bytes."""
    bit = np.uint64(i) * bits
    word: np.uint64 = words[begin + (bit >> np.uint64(3))]
    return (word >> (bit & np.uint64(7))) & ((np.uint64(1) << bits) - np.uint64(1))


@compiled()
def count_window_documents(
    first: Positions, second: Positions, same: bool, ordered: bool, width: int
) -> tuple[Integers32, Integers32]:
    """Count the windows of two words in each document, as defined in `lmtune.index.windows`.

    Parameters
    ----------
    first, second : Positions
        Positions of the two words.
    same : bool
        Whether the two words are the same.
    ordered : bool
        Whether the first word must precede the second.
    width : int
        Largest number of positions that a window spans.

    Returns
    -------
    docs, counts : arrays of int32
        The documents with at least one window, and their numbers of windows.
    """
    docs = np.empty(min(first.docs.size, second.docs.size), np.int32)
    counts = np.empty(docs.size, np.int32)
    found = a = b = begin = other = 0
    while a < first.docs.size and b < second.docs.size:
        if first.docs[a] != second.docs[b]:
            if first.docs[a] < second.docs[b]:
                begin += first.tfs[a]
                a += 1
            else:
                other += second.tfs[b]
                b += 1
            continue
        i, j = begin, other + (1 if same else 0)
        begin, other = begin + first.tfs[a], other + second.tfs[b]
        count = 0
        while i < begin and j < other:
            gap = second.positions[j] - first.positions[i]
            count += abs(gap) < width and (gap > 0 or not ordered)
            # If the words are the same, the next occurrence advances both.
            i += gap > 0
            j += gap < 0 or same
        if count:
            docs[found], counts[found] = first.docs[a], count
            found += 1
        a += 1
        b += 1
    return docs[:found].copy(), counts[:found].copy()
