"""Numba kernels of the skyband: grouping and ordering documents, counting dominators."""

from __future__ import annotations

import numpy as np

from lmtune.arrays import Booleans, Integers32
from lmtune.compiled import compiled

# Groups with K dominators are removed from the arrays each time this many documents have been kept.
_COMPACT_EVERY = 128


@compiled()
def group_equal(tf: Integers32, group: Integers32, first: Integers32) -> int:
    """Assign numbers to the distinct columns of ``tf``, in order of appearance; return their number.

    Parameters
    ----------
    tf : array of int32, shape (terms, documents)
        Term frequencies.
    group : array of int32, shape (documents,)
        Output: the group of each document.
    first : array of int32, shape (documents,)
        Output: the first document of each group; later entries are not filled.
    """
    terms, docs = tf.shape
    size = 1
    while size < 2 * docs:
        size *= 2
    table = np.full(size, -1, np.int32)
    hashes = np.zeros(docs, np.uint64)
    for w in range(terms):
        row = tf[w]
        for i in range(docs):
            mixed = (hashes[i] ^ np.uint64(row[i])) * np.uint64(0x9E3779B97F4A7C15)
            hashes[i] = mixed ^ (mixed >> np.uint64(29))
    groups = 0
    for i in range(docs):
        slot = hashes[i] & np.uint64(size - 1)
        while True:
            known = table[slot]
            if known < 0:
                table[slot] = groups
                first[groups] = i
                group[i] = groups
                groups += 1
                break
            other = first[known]
            same = True
            for w in range(terms):
                same &= tf[w, i] == tf[w, other]
            if same:
                group[i] = known
                break
            slot = (slot + np.uint64(1)) & np.uint64(size - 1)
    return groups


@compiled()
def order_within_lengths(length: Integers32, key: Integers32, most: int) -> Integers32:
    """Return the order of documents by length, then by key, if they are already sorted by length.

    A counting sort; documents of equal length and key keep their order.

    Parameters
    ----------
    length : array of int32, shape (documents,)
        Document lengths, ascending.
    key : array of int32, shape (documents,)
        Keys from 0 to ``most``.
    most : int
        Largest key.
    """
    docs = length.size
    begin = np.zeros(most + 2, np.int32)
    for i in range(docs):
        begin[key[i] + 1] += 1
    for k in range(most + 1):
        begin[k + 1] += begin[k]
    by_key = np.empty(docs, np.int32)
    for i in range(docs):
        by_key[begin[key[i]]] = i
        begin[key[i]] += 1
    # The position of the first document of the same length.
    run = np.empty(docs, np.int32)
    for i in range(docs):
        run[i] = run[i - 1] if i > 0 and length[i] == length[i - 1] else i
    filled = np.zeros(docs, np.int32)
    order = np.empty(docs, np.int32)
    for j in range(docs):
        i = by_key[j]
        order[run[i] + filled[run[i]]] = i
        filled[run[i]] += 1
    return order


@compiled()
def count_dominators(
    order: Integers32,
    group: Integers32,
    has: Integers32,
    needs: Integers32,
    counts_itself: bool,
    depth: int,
    budget: int,
    keep: Booleans,
) -> None:
    """Mark the documents that fewer than ``depth`` others dominate.

    Document A dominates a later document B in ``order`` if ``has[:, group of A] >= needs[:, group of B]``.
    Only dominators that are kept are counted; this is sufficient because dominance is transitive.

    Parameters
    ----------
    order : array of int32, shape (documents,)
        The documents in an order in which dominators come first.
    group : array of int32, shape (documents,)
        The group of each document.
    has, needs : arrays of int32, shape (coordinates, groups)
        The values of a group's documents as dominators, and the values required to dominate them.
    counts_itself : bool
        Whether ``has >= needs`` is true for a group and itself. The documents of a group dominate each
        other in any case.
    depth : int
        The run depth K.
    budget : int
        Largest number of comparisons. Afterwards, documents of groups with K dominators are removed and all
        others are kept.
    keep : array of bool, shape (documents,)
        Output: the documents to keep.
    """
    coordinates, groups = needs.shape
    active = groups
    needed = needs.copy()
    member = np.arange(groups).astype(np.int32)
    position = member.copy()
    dominators = np.zeros(groups, np.int32)
    hit = np.empty(groups, np.int32)
    itself = np.int32(0 if counts_itself else 1)
    kept = 0
    spent = np.int64(0)
    for i in order:
        g = group[i]
        at = position[g]
        if at < 0 or dominators[at] >= depth:
            continue
        keep[i] = True
        if spent > budget:
            continue
        spent += active * coordinates
        last = has[coordinates - 1, g]
        column = needed[coordinates - 1, :active]
        count = dominators[:active]
        if coordinates == 1:
            for j in range(active):
                count[j] += np.int32(column[j] <= last)
        else:
            hits = hit[:active]
            limit = has[0, g]
            other = needed[0, :active]
            for j in range(active):
                hits[j] = np.int32(other[j] <= limit)
            for k in range(1, coordinates - 1):
                limit = has[k, g]
                other = needed[k, :active]
                for j in range(active):
                    hits[j] &= np.int32(other[j] <= limit)
            for j in range(active):
                count[j] += hits[j] & np.int32(column[j] <= last)
        dominators[at] += itself
        kept += 1
        if kept % _COMPACT_EVERY == 0:
            left = 0
            for j in range(active):
                if dominators[j] >= depth:
                    position[member[j]] = -1
                    continue
                member[left] = member[j]
                dominators[left] = dominators[j]
                for k in range(coordinates):
                    needed[k, left] = needed[k, j]
                position[member[left]] = left
                left += 1
            active = left
