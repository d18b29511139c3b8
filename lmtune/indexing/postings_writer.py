"""Writing an index from postings that are there already."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.formats.documents import InvertedCollection
from lmtune.indexing.columns import StoredColumn, encode, write_column, write_lists, write_strings
from lmtune.indexing.docnos import write_docnos

_TERMS_AT_A_TIME = 1024


def write_inverted(collection: InvertedCollection, folder: Path) -> tuple[dict[str, StoredColumn], int]:
    """Write the columns of an index.

    Parameters
    ----------
    collection : InvertedCollection
        The postings, lengths and names.
    folder : pathlib.Path
        Where the columns go.

    Returns
    -------
    columns : dict of str to StoredColumn
        All columns that a manifest lists.
    num_postings : int

    Raises
    ------
    ValueError
        If the lengths are not the sums of the documents' term frequencies, or a docno or a term
        comes twice.
    """
    from lmtune.indexing.posting_kernels import encode_postings

    columns = {"doc_lengths": write_column(folder / "doc_lengths", "<i4", collection.lengths)}
    columns |= write_docnos(folder, [encode(docno) for docno in collection.docnos])
    terms = [encode(term) for term in collection.terms]
    if len(set(terms)) < len(terms):
        raise ValueError("a term comes twice")
    # A term without a posting is no term of the collection.
    order = [t for t in range(len(terms)) if collection.postings[t][0].size]
    order.sort(key=terms.__getitem__)
    columns["terms"], columns["term_bytes"] = write_strings(
        folder / "terms", folder / "term_bytes", [[terms[t] for t in order]]
    )
    seen = np.zeros(len(collection.lengths), np.int64)
    columns["postings"], columns["posting_offsets"] = write_lists(
        folder / "postings",
        folder / "posting_offsets",
        starmap(encode_postings, _blocks(collection, order, seen)),
    )
    if not np.array_equal(seen, collection.lengths):
        raise ValueError("a document's length is not the sum of its term frequencies")
    return columns, sum(collection.postings[t][0].size for t in order)


def _blocks(
    collection: InvertedCollection, order: list[int], seen: NDArray[np.int64]
) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield documents, frequencies, and how many each term has; add up the documents' lengths."""
    for begin in range(0, len(order), _TERMS_AT_A_TIME):
        own = [collection.postings[t] for t in order[begin : begin + _TERMS_AT_A_TIME]]
        for docs, tfs in own:
            seen[docs] += tfs
        docs, tfs = (np.concatenate(parts).astype(np.int32) for parts in zip(*own, strict=True))
        yield docs, tfs, np.array([term.size for term, _ in own])
