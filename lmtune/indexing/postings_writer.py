"""Writing an index from postings that are there already."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lmtune.formats.inverted import InvertedCollection
from lmtune.indexing.columns import ColumnWriter, StoredColumn, encode, write_column, write_strings
from lmtune.indexing.inversion import tf_dtype


def write_inverted(collection: InvertedCollection, folder: Path) -> dict[str, StoredColumn]:
    """Write the columns of an index.

    Parameters
    ----------
    collection : InvertedCollection
        The postings, lengths and names.
    folder : pathlib.Path
        Where the columns go.

    Returns
    -------
    dict of str to StoredColumn
        All columns that a manifest lists.

    Raises
    ------
    ValueError
        If the lengths are not the sums of the documents' term frequencies, or a docno or a term
        comes twice.
    """
    docnos = [encode(docno) for docno in collection.docnos]
    terms = [encode(term) for term in collection.terms]
    if len(set(docnos)) < len(docnos) or len(set(terms)) < len(terms):
        raise ValueError("a docno or a term comes twice")
    columns = _write_docs(collection, docnos, folder)
    return columns | _write_postings(collection, terms, folder)


def _write_docs(collection: InvertedCollection, docnos: list[bytes], folder: Path) -> dict[str, StoredColumn]:
    columns = {"doc_lengths": write_column(folder / "doc_lengths", "<i4", collection.lengths)}
    columns["docnos"], columns["docno_bytes"] = write_strings(
        folder / "docnos", folder / "docno_bytes", [docnos]
    )
    # UTF-8 sorts as code points do.
    order = sorted(range(len(docnos)), key=docnos.__getitem__)
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    columns["docno_ranks"] = write_column(folder / "docno_ranks", "<i4", ranks)
    return columns


def _write_postings(
    collection: InvertedCollection, terms: list[bytes], folder: Path
) -> dict[str, StoredColumn]:
    # A term without a posting is no term of the collection.
    order = [t for t in range(len(terms)) if collection.postings[t][0].size]
    order.sort(key=terms.__getitem__)
    columns: dict[str, StoredColumn] = {}
    columns["terms"], columns["term_bytes"] = write_strings(
        folder / "terms", folder / "term_bytes", [[terms[t] for t in order]]
    )
    dfs, cfs = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    seen = np.zeros(len(collection.lengths), np.int64)
    most = max((int(collection.postings[t][1].max()) for t in order), default=0)
    with (
        ColumnWriter(folder / "posting_docs", "<i4") as docs_writer,
        ColumnWriter(folder / "posting_tfs", tf_dtype(most)) as tfs_writer,
    ):
        for place, t in enumerate(order):
            docs, tfs = collection.postings[t]
            docs_writer.write(docs)
            tfs_writer.write(tfs)
            seen[docs] += tfs
            dfs[place], cfs[place] = docs.size, tfs.sum(dtype=np.int64)
        columns["posting_docs"] = docs_writer.close()
        columns["posting_tfs"] = tfs_writer.close()
    if not np.array_equal(seen, collection.lengths):
        raise ValueError("a document's length is not the sum of its term frequencies")
    offsets = np.concatenate([[0], np.cumsum(dfs)]).astype(np.int64)
    columns["term_cfs"] = write_column(folder / "term_cfs", "<i8", cfs)
    columns["posting_offsets"] = write_column(folder / "posting_offsets", "<i8", offsets)
    return columns
