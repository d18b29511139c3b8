"""Turning documents into sorted runs on disk, within a memory budget, and runs into postings."""

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


# Peak bytes for each buffered token: 5 as it waits, the rest while it is inverted.
_BYTES_PER_TOKEN = 40
_BYTES_PER_POSITION = 24
# Offsets within a run are 32-bit; one more document comes on top.
_MOST_TOKENS = 1 << 30
# Bytes for each distinct raw token that the cache of analysed tokens remembers.
_BYTES_PER_CACHED = 250


class Section(NamedTuple):
    """Where one array lies in a run's file."""

    dtype: str
    size: int
    begin: int


@dataclass(frozen=True)
class SortedRun:
    """Postings of consecutive documents, sorted by (term, document), in one temporary file.

    Sections: ``lengths``, ``docnos``, ``docno_bounds`` tell about documents; ``terms`` (in
    ascending order), ``term_bounds``, ``dfs``, ``cfs`` about terms; ``docs`` (counted from the
    run's first document) and ``tfs`` are the postings. With positions, ``gaps`` are the tokens before
    each occurrence since the one before it in the document.
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
    """An analyzer's terms, and their numbers by raw token; -1 for tokens that it drops."""

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
    """Numbers of raw tokens, which every analyzer analyses on first sight."""

    def __init__(self, analyzers: Sequence[Analyzer]) -> None:
        self.analysed = [_Terms(analyzer) for analyzer in analyzers]

    def __missing__(self, token: str) -> int:
        number = self[token] = len(self)
        for terms in self.analysed:
            terms.add(token)
        return number


class Inverter:
    """Collects documents and writes them out as runs, under several analyses at once.

    Memory holds the tokens of the current run (4 bytes each, some 40 while the run is being
    inverted), its docnos, and a cache with the distinct raw tokens; all three within
    ``memory_bytes``. A document that is larger than that alone is held as a whole. Text becomes tokens,
    and these numbers, once for all analyses.

    Parameters
    ----------
    prefix : str
        What the file names of runs start with; of its own for every inverter in a folder.
    analyzers : mapping of pathlib.Path to Analyzer
        What turns text into terms, by the folder where its runs go.
    memory_bytes : int
        The memory budget.
    positions : bool
        Whether to keep where tokens stand.
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
        """Take documents, in collection order."""
        number = self._numbers.__getitem__
        for docno, text in documents:
            self._tokens.fromlist(list(map(number, tokenize(text))))
            self._ends.append(len(self._tokens))
            self._docnos.append(encode(docno))
            # A docno weighs about as much as two tokens.
            if len(self._tokens) + 2 * len(self._docnos) >= self._most_tokens:
                self._flush()
                number = self._numbers.__getitem__

    def finish(self) -> list[list[SortedRun]]:
        """Write what is left and hand over each analyzer's runs since the last call, in order."""
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
        dropped = tokens < 0
        whole = np.frombuffer(self._ends, np.int64)
        ends = whole - np.searchsorted(np.flatnonzero(dropped), whole)
        positions = None
        if self._positions:
            kept = np.flatnonzero(~dropped)
            positions = kept - whole[np.searchsorted(whole, kept, "right") - 1]
        sections = _invert(tokens[~dropped], ends, terms.terms, positions)
        sections["lengths"] = np.diff(ends).astype(np.int32)
        return sections | _pack("docno", self._docnos)


def invert(make: Callable[[str], Inverter], batches: Sequence[DocumentBatch]) -> list[list[SortedRun]]:
    """Invert consecutive batches; whoever does it again writes files of other names."""
    inverter = make(uuid4().hex)
    for batch in batches:
        inverter.add(batch.read())
    return inverter.finish()


def _invert(
    tokens: Integers32, ends: Integers, terms: list[str], positions: Integers | None
) -> dict[str, NDArray[Any]]:
    """Sort tokens, given document by document, into postings by (term, document)."""
    from scipy.sparse import csr_array

    used = np.flatnonzero(np.bincount(tokens, minlength=len(terms))).tolist()
    names = {number: encode(terms[number]) for number in used}
    used.sort(key=names.__getitem__)
    place = np.zeros(len(terms), np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)

    def by_term(values: NDArray[Any]) -> Any:
        # Compressed rows to compressed columns is a counting sort, linear and stable.
        rows = values.astype(np.int32), place[tokens], ends.astype(np.int32)
        return csr_array(rows, shape=(len(ends) - 1, len(used))).tocsc()

    matrix = by_term(np.ones(len(tokens), np.int32))
    matrix.sum_duplicates()
    dfs = np.diff(matrix.indptr)
    most = int(matrix.data.max(initial=0))
    found = {}
    if positions is not None:
        placed = by_term(positions).data
        gaps = np.diff(placed, prepend=-1) - 1
        first = np.cumsum(matrix.data) - matrix.data
        gaps[first] = placed[first]
        found["gaps"] = gaps.astype(smallest_type(int(gaps.max(initial=0))))
    return found | {
        "docs": matrix.indices.astype("<i4", copy=False),
        "tfs": matrix.data.astype(smallest_type(most)),
        "dfs": dfs.astype("<i4", copy=False),
        "cfs": np.bincount(place[tokens], minlength=len(used)).astype("<i8", copy=False),
        **_pack("term", [names[number] for number in used]),
    }


def smallest_type(most: int) -> str:
    """Return the smallest type that holds numbers from 0 up to ``most``, below 2**31."""
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


# Peak bytes for each posting of the block that is being merged.
_BYTES_PER_POSTING = 40


def load_kernels() -> None:
    """Load what `merge_postings` packs with, which takes half a second the first time."""
    from lmtune.index.posting_kernels import encode_postings

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


def _sum(runs: list[SortedRun], terms: int, section: str) -> Integers:
    """Add up what runs say of each term."""
    total = np.zeros(terms, np.int64)
    for run in runs:
        total[_read_places(run)] += run.read(section)
    return total


def _read_places(run: SortedRun, begin: int = 0, end: int | None = None) -> Integers32:
    count = -1 if end is None else end - begin
    return np.fromfile(_places_file(run), np.int32, count, offset=4 * begin)


def _places_file(run: SortedRun) -> Path:
    return run.path.with_suffix(".places")


def _cut(offsets: Integers, most: int) -> Integers:
    """Cut the terms into blocks of at most ``most`` postings, or of one term."""
    cuts = [0]
    while cuts[-1] < len(offsets) - 1:
        reach = int(np.searchsorted(offsets, offsets[cuts[-1]] + most, "right")) - 1
        cuts.append(max(reach, cuts[-1] + 1))
    return np.array(cuts)


def _merge_blocks(
    runs: list[SortedRun], totals: Integers, most: int, sizes: str, sections: Sequence[str]
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
