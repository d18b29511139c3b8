"""Merging sorted runs into the columns of an index."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.indexing.columns import ColumnWriter, StoredColumn, write_lists, write_strings
from lmtune.indexing.docnos import write_docnos
from lmtune.indexing.inversion import SortedRun

# Peak bytes for each posting of the block that is being merged.
_BYTES_PER_POSTING = 40


def load_kernels() -> None:
    """Load what `merge_postings` packs with, which takes half a second the first time."""
    from lmtune.indexing.posting_kernels import encode_postings

    encode_postings(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64))


def merge_docs(runs: list[SortedRun], folder: Path) -> dict[str, StoredColumn]:
    """Write the columns that tell about documents: ``doc_lengths`` and those of `write_docnos`.

    Memory holds every docno once.

    Parameters
    ----------
    runs : list of SortedRun
        The runs in collection order.
    folder : pathlib.Path
        Where the columns go.

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
        return {"doc_lengths": lengths.close(), **write_docnos(folder, docnos)}


def merge_postings(
    runs: list[SortedRun], folder: Path, memory_bytes: int
) -> tuple[dict[str, StoredColumn], int]:
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
    columns : dict of str to StoredColumn
        ``terms``, ``term_bytes``, ``postings`` and ``posting_offsets``; ``positions`` and
        ``position_offsets`` where the runs have positions.
    num_postings : int
    """
    from lmtune.indexing.posting_kernels import encode_positions, encode_postings

    vocabulary = _number_terms(runs)
    columns: dict[str, StoredColumn] = {}
    columns["terms"], columns["term_bytes"] = write_strings(
        folder / "terms", folder / "term_bytes", [vocabulary]
    )
    terms = len(vocabulary)
    del vocabulary
    most = max(1, memory_bytes // _BYTES_PER_POSTING)
    dfs = _sum(runs, terms, "dfs")
    columns["postings"], columns["posting_offsets"] = write_lists(
        folder / "postings",
        folder / "posting_offsets",
        starmap(encode_postings, _merge_blocks(runs, dfs, most, "dfs", ("docs", "tfs"))),
    )
    if "gaps" in runs[0].sections:
        blocks = _merge_blocks(runs, _sum(runs, terms, "cfs"), most, "cfs", ("gaps",))
        columns["positions"], columns["position_offsets"] = write_lists(
            folder / "positions", folder / "position_offsets", starmap(encode_positions, blocks)
        )
    return columns, int(dfs.sum())


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
    runs: list[SortedRun], totals: NDArray[np.int64], most: int, sizes: str, sections: Sequence[str]
) -> Iterator[list[NDArray[Any]]]:
    """Yield the values of sections, as int32, of one block of terms after the other; then their sizes.

    `sizes` is the section that says how many values each term has there, `totals` how many in all
    runs together. A block has at most `most`, or one term's.
    """
    offsets = np.concatenate([[0], np.cumsum(totals)])
    cuts = _cut(offsets, most)
    bases = np.cumsum([0, *(run.sections["lengths"].size for run in runs)])
    bounds = [np.searchsorted(_read_places(run), cuts) for run in runs]
    taken = [0] * len(runs)
    for block, (first, last) in enumerate(pairwise(cuts.tolist())):
        # Where the next value of each term goes: documents are in the order of the runs.
        free = offsets[first:last] - offsets[first]
        values = {name: np.empty(offsets[last] - offsets[first], np.int32) for name in sections}
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
        yield [*values.values(), totals[first:last]]
