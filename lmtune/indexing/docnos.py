"""Docnos by document number, and document numbers by docno."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lmtune.indexing.columns import Column, StoredColumn, Strings, decode, encode, write_column, write_strings

# Looking up one docno costs about as much as reading this many in one go.
_READS_PER_LOOKUP = 16


class DuplicateDocnoError(ValueError):
    """Two documents share a docno, which is the only argument."""


def write_docnos(folder: Path, docnos: Sequence[bytes]) -> dict[str, StoredColumn]:
    """Write the columns ``docnos``, ``docno_bytes`` and ``docno_ranks``.

    Raises
    ------
    DuplicateDocnoError
        If two documents share a docno.
    """
    # UTF-8 sorts as code points do.
    order = sorted(range(len(docnos)), key=docnos.__getitem__)
    for one, other in pairwise(order):
        if docnos[one] == docnos[other]:
            raise DuplicateDocnoError(decode(docnos[one]))
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    text, offsets = write_strings(folder / "docnos", folder / "docno_bytes", [docnos])
    return {
        "docnos": text,
        "docno_bytes": offsets,
        "docno_ranks": write_column(folder / "docno_ranks", "<i4", ranks),
    }


class Docnos:
    """The docnos of a collection, memory-mapped.

    Parameters
    ----------
    strings : Strings
        The docnos in document order.
    ranks : Column of int32, shape (documents,)
        Each one's place in ascending code-point order.
    """

    def __init__(self, strings: Strings, ranks: Column[np.int32]) -> None:
        self._strings = strings
        self._ranks = ranks

    def names(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the docnos of document numbers.

        Raises
        ------
        IndexError
            If a number is not that of a document.
        """
        numbers = np.asarray(docs, np.int64)
        count = len(self._strings)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < count:
            raise IndexError(f"document numbers must be from 0 to {count - 1}")
        return [decode(docno) for docno in self._strings.take(numbers)]

    def numbers(self, docnos: Sequence[str]) -> NDArray[np.int32]:
        """Return the document numbers of docnos, -1 where there is no such docno.

        Many are looked up in a dictionary of all docnos, which lives no longer than the call.
        """
        wanted = [encode(docno) for docno in docnos]
        if len(wanted) * _READS_PER_LOOKUP > len(self._strings):
            table = {docno: number for number, docno in enumerate(self._strings[:])}
            found = (table.get(docno, -1) for docno in wanted)
        else:
            found = (self._strings.find(docno, self._by_docno) for docno in wanted)
        return np.fromiter(found, np.int32, len(wanted))

    @cached_property
    def _by_docno(self) -> NDArray[np.int32]:
        order = np.empty(len(self._ranks), np.int32)
        order[self._ranks[:]] = np.arange(len(self._ranks), dtype=np.int32)
        return order
