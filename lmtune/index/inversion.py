"""Invert documents into sorted runs on disk, within a memory budget, and merge the runs into postings."""

from __future__ import annotations

import itertools
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Integers, Integers32
from lmtune.index.columns import ColumnWriter, StoredColumn, encode, write_docnos, write_lists, write_strings
from lmtune.index.tokenizer import tokenize
from lmtune.io.documents import Document, DocumentBatch

if TYPE_CHECKING:
    from lmtune.index.analysis import Analyzer


# Peak bytes for each buffered token: 5 while it is buffered, the rest during inversion.
_BYTES_PER_TOKEN = 40
_BYTES_PER_POSITION = 24
# Offsets within a run have 32 bits; the last document may exceed this limit.
_MOST_TOKENS = 1 << 30
# Bytes for each distinct raw token in the cache of analysed tokens.
_BYTES_PER_CACHED = 250


class Section(NamedTuple):
    """Type, size and position of one array in a run's file."""

    dtype: str
    size: int
    begin: int


@dataclass(frozen=True)
class SortedRun:
    """Postings of consecutive documents, sorted by (term, document), in one temporary file.

    Sections of documents: ``lengths``, ``docnos``, ``docno_bounds``. Sections of terms: ``terms``
    (ascending), ``term_bounds``, ``dfs``, ``cfs``. Sections of postings: ``docs`` (counted from the run's
    first document) and ``tfs``. With positions, ``gaps`` has the number of tokens between each occurrence
    and the previous one in the document.
    """

    path: Path
    sections: dict[str, Section]

    def read(self, name: str, begin: int = 0, end: int | None = None) -> NDArray[Any]:
        """Read one section, or its elements from ``begin`` up to ``end``."""
        dtype, size, at = self.sections[name]
        end = size if end is None else end
        offset = at + begin * np.dtype(dtype).itemsize
        return np.fromfile(self.path, dtype, end - begin, offset=offset)

    def strings(self, name: str) -> list[bytes]:
        """Read one section of strings (``terms``, ``docnos``)."""
        text = self.read(name).tobytes()
        bounds = self.read(f"{name[:-1]}_bounds").tolist()
        return [text[begin:end] for begin, end in pairwise(bounds)]


class _Terms:
    """An analyzer's terms, and the term number of each raw token; -1 for stopwords."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.terms: list[str] = []
        self.of_token = array("i")
        self._numbers: dict[str, int] = {}
        self._term = analyzer.term

    def add(self, token: str) -> None:
        term = self._term(token)
        number = -1
        if term is not None:
            number = self._numbers.setdefault(term, len(self.terms))
            if number == len(self.terms):
                self.terms.append(term)
        self.of_token.append(number)


class _Tokens(dict[str, int]):
    """Numbers of raw tokens; each new token is analysed by every analyzer."""

    def __init__(self, analyzers: Sequence[Analyzer]) -> None:
        self.analysed = [_Terms(analyzer) for analyzer in analyzers]

    def __missing__(self, token: str) -> int:
        number = self[token] = len(self)
        for terms in self.analysed:
            terms.add(token)
        return number


class Inverter:
    """Collects documents and writes them as runs, under several analyses at once.

    The memory budget covers the tokens of the current run (4 bytes each, about 40 during inversion), its
    docnos, and a cache of the distinct raw tokens. A single document may exceed the budget. Text is
    tokenized once for all analyses.

    Parameters
    ----------
    prefix : str
        Prefix of the runs' file names; different for every inverter in a folder.
    analyzers : mapping of pathlib.Path to Analyzer
        The analyzers, by the folder of their runs.
    memory_bytes : int
        The memory budget.
    positions : bool
        Whether to store token positions.
    """

    def __init__(
        self, prefix: str, analyzers: Mapping[Path, Analyzer], memory_bytes: int, positions: bool = False
    ) -> None:
        self._positions = positions
        per_token = _BYTES_PER_TOKEN + _BYTES_PER_POSITION * positions
        self._analyzers = analyzers
        self._prefix = prefix
        self._most_tokens = min(max(1, memory_bytes * 3 // 4 // per_token), _MOST_TOKENS)
        self._most_cached = max(1, memory_bytes // 4 // (_BYTES_PER_CACHED * len(analyzers)))
        self._numbers = _Tokens([*analyzers.values()])
        self._written = 0
        self._runs: list[list[SortedRun]] = [[] for _ in analyzers]
        self._clear()

    def _clear(self) -> None:
        self._tokens = array("i")
        self._ends = array("q", [0])
        self._docnos: list[bytes] = []

    def add(self, documents: Iterable[Document]) -> None:
        """Add documents, in collection order."""
        number = self._numbers.__getitem__
        for docno, text in documents:
            self._tokens.fromlist(list(map(number, tokenize(text))))
            self._ends.append(len(self._tokens))
            self._docnos.append(encode(docno))
            # A docno takes about as much memory as two tokens.
            if len(self._tokens) + 2 * len(self._docnos) >= self._most_tokens:
                self._flush()
                number = self._numbers.__getitem__

    def finish(self) -> list[list[SortedRun]]:
        """Write the last run and return each analyzer's runs since the last call, in order."""
        if self._docnos:
            self._flush()
        runs, self._runs = self._runs, [[] for _ in self._runs]
        return runs

    def _flush(self) -> None:
        for folder, terms, runs in zip(self._analyzers, self._numbers.analysed, self._runs, strict=True):
            path = folder / f"{self._prefix}-{self._written}.run"
            runs.append(SortedRun(path, _write(path, self._sections(terms))))
        self._written += 1
        self._clear()
        if len(self._numbers) > self._most_cached:
            self._numbers = _Tokens([*self._analyzers.values()])

    def _sections(self, terms: _Terms) -> dict[str, NDArray[Any]]:
        tokens = np.array(terms.of_token, np.int32)[np.frombuffer(self._tokens, np.int32)]
        is_stopword = tokens < 0
        raw_ends = np.frombuffer(self._ends, np.int64)
        ends = raw_ends - np.searchsorted(np.flatnonzero(is_stopword), raw_ends)
        positions = None
        if self._positions:
            indexed = np.flatnonzero(~is_stopword)
            positions = indexed - raw_ends[np.searchsorted(raw_ends, indexed, "right") - 1]
        sections = _invert(tokens[~is_stopword], ends, terms.terms, positions)
        sections["lengths"] = np.diff(ends).astype(np.int32)
        return sections | _pack("docno", self._docnos)


def invert(make: Callable[[str], Inverter], batches: Sequence[DocumentBatch]) -> list[list[SortedRun]]:
    """Invert consecutive batches; a repeated call writes files with other names."""
    inverter = make(uuid4().hex)
    for batch in batches:
        inverter.add(batch.read())
    return inverter.finish()


def _invert(
    tokens: Integers32, ends: Integers, terms: list[str], positions: Integers | None
) -> dict[str, NDArray[Any]]:
    """Sort tokens in document order into postings by (term, document)."""
    from scipy.sparse import csr_array

    used = np.flatnonzero(np.bincount(tokens, minlength=len(terms))).tolist()
    names = {number: encode(terms[number]) for number in used}
    used.sort(key=names.__getitem__)
    rank = np.zeros(len(terms), np.int32)
    rank[used] = np.arange(len(used), dtype=np.int32)

    def by_term(values: NDArray[Any]) -> Any:
        # Converting compressed rows to compressed columns is a counting sort: linear and stable.
        rows = values.astype(np.int32), rank[tokens], ends.astype(np.int32)
        return csr_array(rows, shape=(len(ends) - 1, len(used))).tocsc()

    matrix = by_term(np.ones(len(tokens), np.int32))
    matrix.sum_duplicates()
    dfs = np.diff(matrix.indptr)
    largest_tf = int(matrix.data.max(initial=0))
    sections = {}
    if positions is not None:
        sorted_positions = by_term(positions).data
        gaps = np.diff(sorted_positions, prepend=-1) - 1
        first = np.cumsum(matrix.data) - matrix.data
        gaps[first] = sorted_positions[first]
        sections["gaps"] = gaps.astype(smallest_type(int(gaps.max(initial=0))))
    return sections | {
        "docs": matrix.indices.astype("<i4", copy=False),
        "tfs": matrix.data.astype(smallest_type(largest_tf)),
        "dfs": dfs.astype("<i4", copy=False),
        "cfs": np.bincount(rank[tokens], minlength=len(used)).astype("<i8", copy=False),
        **_pack("term", [names[number] for number in used]),
    }


def smallest_type(most: int) -> str:
    """Return the smallest integer type for numbers from 0 to ``most``, which is below 2**31."""
    return "|u1" if most < 1 << 8 else "<u2" if most < 1 << 16 else "<i4"


def _pack(name: str, strings: list[bytes]) -> dict[str, NDArray[Any]]:
    sizes = np.fromiter(map(len, strings), np.int64, len(strings))
    text = np.frombuffer(b"".join(strings), np.uint8)
    return {f"{name}s": text, f"{name}_bounds": np.concatenate([[0], np.cumsum(sizes)])}


def _write(path: Path, arrays: dict[str, NDArray[Any]]) -> dict[str, Section]:
    sections = {}
    with path.open("wb") as file:
        for name, values in arrays.items():
            sections[name] = Section(values.dtype.str, len(values), file.tell())
            file.write(np.ascontiguousarray(values).data)
    return sections


# Peak bytes for each posting of the block being merged.
_BYTES_PER_POSTING = 40


def load_kernels() -> None:
    """Load the compiled functions of `merge_postings`; the first time takes half a second."""
    from lmtune.index.posting_kernels import encode_postings

    encode_postings(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64))


def merge_docs(runs: list[SortedRun], folder: Path) -> dict[str, StoredColumn]:
    """Write the columns of documents: ``doc_lengths`` and those of `write_docnos`.

    All docnos are in memory once.

    Parameters
    ----------
    runs : list of SortedRun
        The runs in collection order.
    folder : pathlib.Path
        The folder of the columns.

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
    """Write the columns of terms and postings.

    In memory are the vocabulary, a few numbers for each term, and a block of postings that fits into
    ``memory_bytes`` (or the postings of one term, if they alone exceed it).

    Parameters
    ----------
    runs : list of SortedRun
        The runs in collection order.
    folder : pathlib.Path
        The folder of the columns.
    memory_bytes : int
        The memory budget for postings.

    Returns
    -------
    columns : dict of str to StoredColumn
        ``terms``, ``term_bytes``, ``postings`` and ``posting_offsets``; ``positions`` and
        ``position_offsets`` if the runs have positions.
    num_postings : int
        Number of (term, document) pairs.
    """
    from lmtune.index.posting_kernels import encode_positions, encode_postings

    vocabulary = _number_terms(runs)
    columns = write_strings(folder, "terms", "term_bytes", [vocabulary])
    terms = len(vocabulary)
    del vocabulary
    most = max(1, memory_bytes // _BYTES_PER_POSTING)
    dfs = _sum(runs, terms, "dfs")
    postings = starmap(encode_postings, _merge_blocks(runs, dfs, most, "dfs", ("docs", "tfs")))
    columns |= write_lists(folder, "postings", "posting_offsets", postings)
    if "gaps" in runs[0].sections:
        blocks = _merge_blocks(runs, _sum(runs, terms, "cfs"), most, "cfs", ("gaps",))
        columns |= write_lists(folder, "positions", "position_offsets", starmap(encode_positions, blocks))
    return columns, int(dfs.sum())


def _number_terms(runs: list[SortedRun]) -> list[bytes]:
    """Return the sorted vocabulary, and write each run's term numbers to a file beside the run."""
    first_seen = defaultdict[bytes, int](itertools.count().__next__)
    for run in runs:
        terms = run.strings("terms")
        numbers = np.fromiter(map(first_seen.__getitem__, terms), np.int32, len(terms))
        numbers.tofile(_term_numbers_file(run))
    vocabulary = sorted(first_seen)
    rank = np.empty(len(vocabulary), np.int32)
    rank[[first_seen[term] for term in vocabulary]] = np.arange(len(vocabulary), dtype=np.int32)
    for run in runs:
        rank[_read_term_numbers(run)].tofile(_term_numbers_file(run))
    return vocabulary


def _sum(runs: list[SortedRun], terms: int, section: str) -> Integers:
    """Sum a section of the runs by term."""
    total = np.zeros(terms, np.int64)
    for run in runs:
        total[_read_term_numbers(run)] += run.read(section)
    return total


def _read_term_numbers(run: SortedRun, begin: int = 0, end: int | None = None) -> Integers32:
    count = -1 if end is None else end - begin
    return np.fromfile(_term_numbers_file(run), np.int32, count, offset=4 * begin)


def _term_numbers_file(run: SortedRun) -> Path:
    return run.path.with_suffix(".places")


def _cut(offsets: Integers, most: int) -> Integers:
    """Split the terms into blocks of at most ``most`` postings, or of one term."""
    cuts = [0]
    while cuts[-1] < len(offsets) - 1:
        end = int(np.searchsorted(offsets, offsets[cuts[-1]] + most, "right")) - 1
        cuts.append(max(end, cuts[-1] + 1))
    return np.array(cuts)


def _merge_blocks(
    runs: list[SortedRun], totals: Integers, most: int, sizes: str, sections: Sequence[str]
) -> Iterator[list[NDArray[Any]]]:
    """Yield, for each block of terms, the merged values of `sections` as int32, and the number for each term.

    Parameters
    ----------
    runs : list of SortedRun
        The runs in collection order.
    totals : array of int64, shape (terms,)
        Number of values of each term in all runs.
    most : int
        Largest number of values in a block; a block of one term may have more.
    sizes : str
        The section with the number of values of each term in a run.
    sections : sequence of str
        The sections to merge.
    """
    offsets = np.concatenate([[0], np.cumsum(totals)])
    cuts = _cut(offsets, most)
    bases = np.cumsum([0, *(run.sections["lengths"].size for run in runs)])
    bounds = [np.searchsorted(_read_term_numbers(run), cuts) for run in runs]
    read = [0] * len(runs)
    for block, (first, last) in enumerate(pairwise(cuts.tolist())):
        # Position of each term's next value: documents are in the order of the runs.
        next_position = offsets[first:last] - offsets[first]
        values = {name: np.empty(offsets[last] - offsets[first], np.int32) for name in sections}
        for at, run in enumerate(runs):
            begin, end = int(bounds[at][block]), int(bounds[at][block + 1])
            if begin == end:
                continue
            terms = _read_term_numbers(run, begin, end) - first
            counts = run.read(sizes, begin, end)
            ends = np.cumsum(counts, dtype=np.int64)
            count = int(ends[-1])
            positions = np.repeat(next_position[terms] - (ends - counts), counts) + np.arange(count)
            for name, merged in values.items():
                part = run.read(name, read[at], read[at] + count)
                merged[positions] = part + np.int32(bases[at]) if name == "docs" else part
            next_position[terms] += counts
            read[at] += count
        yield [*values.values(), totals[first:last]]
