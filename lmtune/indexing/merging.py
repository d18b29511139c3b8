"""Merging sorted runs into the columns of an index."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.indexing.columns import ColumnWriter, StoredColumn, decode, write_column, write_strings
from lmtune.indexing.inversion import SortedRun

# Peak bytes for each posting of the block that is being merged.
_BYTES_PER_POSTING = 40


class DuplicateDocnoError(ValueError):
    """Two documents share a docno, which is the only argument."""


def merge_docs(runs: list[SortedRun], folder: Path) -> dict[str, StoredColumn]:
    """Write the columns that tell about documents.

    Memory holds every docno once.

    Parameters
    ----------
    runs : list of SortedRun
        The runs in collection order.
    folder : pathlib.Path
        Where the columns go.

    Returns
    -------
    dict of str to StoredColumn
        ``doc_lengths``, ``docnos``, ``docno_bytes`` and ``docno_ranks``.

    Raises
    ------
    DuplicateDocnoError
        If two documents share a docno.
    """
    docnos: list[bytes] = []
    with ColumnWriter(folder / "doc_lengths", "<i4") as lengths:
        for run in runs:
            lengths.write(run.read("lengths"))
            docnos += run.strings("docnos")
        columns = {"doc_lengths": lengths.close()}
    columns["docnos"], columns["docno_bytes"] = write_strings(
        folder / "docnos", folder / "docno_bytes", [docnos]
    )
    # UTF-8 sorts as code points do.
    order = sorted(range(len(docnos)), key=docnos.__getitem__)
    for one, other in pairwise(order):
        if docnos[one] == docnos[other]:
            raise DuplicateDocnoError(decode(docnos[one]))
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    columns["docno_ranks"] = write_column(folder / "docno_ranks", "<i4", ranks)
    return columns


def merge_postings(runs: list[SortedRun], folder: Path, memory_bytes: int) -> dict[str, StoredColumn]:
    """Write the columns that tell about terms and postings.

    Memory holds the vocabulary, a few numbers a term, and a block of postings that fits
    ``memory_bytes`` (or one term's, where a single term has more).

    Parameters
    ----------
    runs : list of SortedRun
        The runs in collection order.
    folder : pathlib.Path
        Where the columns go.
    memory_bytes : int
        The memory budget for postings.

    Returns
    -------
    dict of str to StoredColumn
        ``terms``, ``term_bytes``, ``term_cfs``, ``posting_offsets``, ``posting_docs`` and
        ``posting_tfs``; ``positions`` and ``position_offsets`` where the runs have positions.
    """
    vocabulary = _number_terms(runs)
    columns: dict[str, StoredColumn] = {}
    columns["terms"], columns["term_bytes"] = write_strings(
        folder / "terms", folder / "term_bytes", [vocabulary]
    )
    terms = len(vocabulary)
    del vocabulary
    columns["term_cfs"] = write_column(folder / "term_cfs", "<i8", _sum(runs, terms, "cfs"))
    most = max(1, memory_bytes // _BYTES_PER_POSTING)
    offsets = _bounds(_sum(runs, terms, "dfs"))
    columns["posting_offsets"] = write_column(folder / "posting_offsets", "<i8", offsets)
    tf_type = max((run.sections["tfs"].dtype for run in runs), key=_width)
    with (
        ColumnWriter(folder / "posting_docs", "<i4") as docs,
        ColumnWriter(folder / "posting_tfs", tf_type) as tfs,
    ):
        for block in _merge_blocks(runs, offsets, most, "dfs", {"docs": "<i4", "tfs": tf_type}):
            docs.write(block["docs"])
            tfs.write(block["tfs"])
        columns["posting_docs"], columns["posting_tfs"] = docs.close(), tfs.close()
    if "positions" in runs[0].sections:
        offsets = _bounds(_sum(runs, terms, "position_sizes"))
        columns["position_offsets"] = write_column(folder / "position_offsets", "<i8", offsets)
        with ColumnWriter(folder / "positions", "|u1") as positions:
            for block in _merge_blocks(runs, offsets, most, "position_sizes", {"positions": "|u1"}):
                positions.write(block["positions"])
            columns["positions"] = positions.close()
    return columns


def _width(dtype: str) -> int:
    return np.dtype(dtype).itemsize


def _number_terms(runs: list[SortedRun]) -> list[bytes]:
    """Return the sorted vocabulary, and note each run's places in it beside the run."""
    first_seen = defaultdict[bytes, int](itertools.count().__next__)
    for run in runs:
        terms = run.strings("terms")
        numbers = np.fromiter(map(first_seen.__getitem__, terms), np.int32, len(terms))
        numbers.tofile(_places_file(run))
    vocabulary = sorted(first_seen)
    place = np.empty(len(vocabulary), np.int32)
    place[[first_seen[term] for term in vocabulary]] = np.arange(len(vocabulary), dtype=np.int32)
    for run in runs:
        place[_read_places(run)].tofile(_places_file(run))
    return vocabulary


def _sum(runs: list[SortedRun], terms: int, section: str) -> NDArray[np.int64]:
    """Add up what runs say of each term."""
    total = np.zeros(terms, np.int64)
    for run in runs:
        total[_read_places(run)] += run.read(section)
    return total


def _bounds(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _read_places(run: SortedRun, begin: int = 0, end: int | None = None) -> NDArray[np.int32]:
    count = -1 if end is None else end - begin
    return np.fromfile(_places_file(run), np.int32, count, offset=4 * begin)


def _places_file(run: SortedRun) -> Path:
    return run.path.with_suffix(".places")


def _cut(offsets: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Cut the terms into blocks of at most ``most`` postings, or of one term."""
    cuts = [0]
    while cuts[-1] < len(offsets) - 1:
        reach = int(np.searchsorted(offsets, offsets[cuts[-1]] + most, "right")) - 1
        cuts.append(max(reach, cuts[-1] + 1))
    return np.array(cuts)


def _merge_blocks(
    runs: list[SortedRun], offsets: NDArray[np.int64], most: int, sizes: str, sections: Mapping[str, str]
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the values of sections, of one block of terms after the other.

    `sizes` is the section that says how many values each term has there, `offsets` where they begin
    in all runs together; `sections` has their types. A block has at most `most`, or one term's.
    """
    cuts = _cut(offsets, most)
    bases = np.cumsum([0, *(run.sections["lengths"].size for run in runs)])
    bounds = [np.searchsorted(_read_places(run), cuts) for run in runs]
    taken = [0] * len(runs)
    for block, (first, last) in enumerate(pairwise(cuts.tolist())):
        # Where the next value of each term goes: documents are in the order of the runs.
        free = offsets[first:last] - offsets[first]
        size = offsets[last] - offsets[first]
        values = {name: np.empty(size, dtype) for name, dtype in sections.items()}
        for at, run in enumerate(runs):
            begin, end = int(bounds[at][block]), int(bounds[at][block + 1])
            if begin == end:
                continue
            terms = _read_places(run, begin, end) - first
            own = run.read(sizes, begin, end)
            ends = np.cumsum(own, dtype=np.int64)
            count = int(ends[-1])
            places = np.repeat(free[terms] - (ends - own), own) + np.arange(count)
            for name, into in values.items():
                found = run.read(name, taken[at], taken[at] + count)
                into[places] = found + np.int32(bases[at]) if name == "docs" else found
            free[terms] += own
            taken[at] += count
        yield values
