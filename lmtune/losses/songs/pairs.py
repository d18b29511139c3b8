"""The relevant (query, item) pairs of the training data, and samples of lists by them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from lmtune.arrays import Doubles, Integers
from lmtune.errors import InputError
from lmtune.losses.evaluation import Bounds
from lmtune.options import read


@dataclass(frozen=True)
class RelevantPairs:
    """Every relevant pair of the training data, grouped by query, and how long each list is.

    Build it with `from_rows` or `from_lists`; the order of pairs is the order of SONG's state.

    Attributes
    ----------
    queries : int64 (Q,)
        Ids of all queries, ascending; those without a relevant item too.
    lengths : int64 (Q,)
        N_q, the number of items in each query's list.
    starts : int64 (Q + 1,)
        Query ``k`` has the pairs ``starts[k]`` to ``starts[k + 1] - 1``.
    items : int64 (P,)
        Ids of the relevant items, ascending within each query.
    labels : float64 (P,)
        Their labels, all above 0.
    """

    queries: Integers
    lengths: Integers
    starts: Integers
    items: Integers
    labels: Doubles

    @classmethod
    def from_rows(
        cls,
        queries: npt.ArrayLike,
        items: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        lengths: int | npt.ArrayLike | None = None,
    ) -> RelevantPairs:
        """Take the pairs from rows (query, item, label), in any order.

        Parameters
        ----------
        queries, items : int (rows,)
            Ids, not negative; they need not be dense. An item's id may occur under many queries.
        labels : float (rows,)
            Relevant where above 0.
        lengths : int or int (Q,), optional
            Lengths of the lists, one for all or one for each query in ascending order of ids,
            where the rows hold only part of each list. Without it a query's rows are its list.

        Raises
        ------
        InputError
            For negative or repeated ids, labels that are not finite, lengths below the number of
            a query's rows, and arrays that do not match.
        """
        query = _integers(queries, "query ids")
        item = _integers(items, "item ids")
        label = np.asarray(labels, dtype=np.float64).ravel()
        if not len(query) == len(item) == len(label):
            raise InputError(
                "query ids, item ids and labels differ in number", value=(len(query), len(item), len(label))
            )
        if not np.isfinite(label).all():
            raise InputError("labels are not finite", value=label[~np.isfinite(label)][0])
        order = np.lexsort((item, query))
        query, item, label = query[order], item[order], label[order]
        repeated = np.flatnonzero((query[1:] == query[:-1]) & (item[1:] == item[:-1]))
        if repeated.size:
            first = int(repeated[0])
            raise InputError(
                "the same item twice in a query's list", value=(int(query[first]), int(item[first]))
            )
        ids, rows = np.unique(query, return_counts=True)
        relevant = label > 0
        position = np.searchsorted(ids, query[relevant])
        starts = np.zeros(len(ids) + 1, dtype=np.int64)
        np.cumsum(np.bincount(position, minlength=len(ids)), out=starts[1:])
        return cls(ids, _lengths(lengths, rows), starts, item[relevant], label[relevant])

    @classmethod
    def from_lists(cls, starts: npt.ArrayLike, labels: npt.ArrayLike) -> RelevantPairs:
        """Take the pairs of ragged lists: queries are numbered from 0, items are row numbers.

        Parameters
        ----------
        starts : int (Q + 1,)
            Query ``q`` has the rows ``starts[q]`` to ``starts[q + 1] - 1``.
        labels : float (rows,)
            Labels of the rows.
        """
        first = _integers(starts, "starts")
        lengths = np.diff(first)
        count = int(first[-1] - first[0])
        if np.ndim(labels) != 1 or len(np.asarray(labels)) != count or (lengths <= 0).any():
            raise InputError("starts do not divide the labels into lists", value=count)
        query = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        return cls.from_rows(query, np.arange(count, dtype=np.int64), labels)

    @property
    def counts(self) -> Integers:
        """Number of relevant items of each query, int64 (Q,)."""
        return np.diff(self.starts)

    def cutoffs(self, cutoff: float) -> Integers:
        """Give each query's K, int64 (Q,): a rank for all, or below 1 a share of each list, rounded up."""
        check_cutoff(cutoff)
        ranks = np.ceil(cutoff * self.lengths) if cutoff < 1 else np.full(len(self.queries), cutoff)
        return ranks.astype(np.int64)

    def ideal_dcg(self, cutoff: float | None = None) -> Doubles:
        """Compute each query's greatest DCG, gains 2^y - 1, discounts 1 / log2(rank + 1).

        Parameters
        ----------
        cutoff : float, optional
            Count only the first ranks, as many as `cutoffs` gives.

        Returns
        -------
        float64 (Q,)
            0 for queries without a relevant item.
        """
        query = np.repeat(np.arange(len(self.queries)), self.counts)
        order = np.lexsort((-self.labels, query))
        rank = np.arange(1, len(query) + 1) - self.starts[query]
        gain = np.exp2(self.labels[order]) - 1.0
        terms = gain / np.log2(rank + 1.0)
        if cutoff is not None:
            terms = np.where(rank <= self.cutoffs(cutoff)[query], terms, 0.0)
        return self._sums(query, terms)

    def label_sums(self) -> Doubles:
        """Add up each query's labels, float64 (Q,)."""
        query = np.repeat(np.arange(len(self.queries)), self.counts)
        return self._sums(query, self.labels)

    def _sums(self, query: Integers, terms: Doubles) -> Doubles:
        sums = np.bincount(query, weights=terms, minlength=len(self.queries))
        return sums.astype(np.float64)

    def fingerprint(self) -> int:
        """Give a number that tells these pairs from others; checkpoints carry it."""
        crc = 0
        for part in (self.queries, self.lengths, self.starts, self.items, self.labels):
            crc = zlib.crc32(np.ascontiguousarray(part).tobytes(), crc)
        return crc


def check_cutoff(cutoff: float) -> float:
    """Raise InputError for what is neither a rank, from 1, nor a share of lists, below 1."""
    if not (0 < cutoff < 1 or (cutoff >= 1 and float(cutoff).is_integer())):
        raise InputError(
            "bad cutoff", value=cutoff, accepted="a rank, 1 and above; or a share of each list, below 1"
        )
    return cutoff


RankOrShare = Annotated[float, Bounds(above=0, read=lambda text: check_cutoff(read(float, text, "cutoff")))]


def _integers(values: npt.ArrayLike, name: str) -> Integers:
    array = np.asarray(values).ravel()
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} are not integers", value=str(array.dtype))
    if array.size == 0:
        raise InputError(f"no {name}")
    if int(array.min()) < 0:
        raise InputError(f"negative {name}", value=int(array.min()))
    return array.astype(np.int64)


def _lengths(lengths: int | npt.ArrayLike | None, rows: Integers) -> Integers:
    if lengths is None:
        return rows.astype(np.int64)
    known = np.broadcast_to(np.asarray(lengths, dtype=np.int64), rows.shape).copy()
    if (known < rows).any():
        short = int(np.flatnonzero(known < rows)[0])
        raise InputError(f"a list shorter than its {int(rows[short])} rows", value=int(known[short]))
    return known


@dataclass(frozen=True)
class ItemSample:
    """Sampled lists, padded: item ids int64 (B, m), -1 on padding, and labels float64 (B, m)."""

    items: Integers
    labels: Doubles


class ListSampler:
    """Draw items for queries whose lists are all of one catalogue, numbered from 0.

    Relevant items are drawn without replacement; all of them where there are no more than asked
    for. Others are drawn with replacement among all that are not relevant (once each where there
    are no more than asked for), in time independent of the catalogue. Draws depend on the seed,
    the epoch and the step alone.

    Parameters
    ----------
    pairs : RelevantPairs
        Its item ids are below `catalogue`.
    catalogue : int
        Number of items.
    relevant, others : int
        How many of each a query (the paper's B_i and B_n); 1 or more.
    seed : int
    """

    def __init__(
        self, pairs: RelevantPairs, catalogue: int, *, relevant: int = 10, others: int = 30, seed: int
    ) -> None:
        if pairs.items.size and int(pairs.items.max()) >= catalogue:
            raise InputError(
                "an item outside the catalogue",
                value=int(pairs.items.max()),
                accepted=f"0 to {catalogue - 1}",
            )
        if relevant < 1 or others < 1:
            raise InputError("sample too small", value=(relevant, others), accepted="1 and above")
        self.pairs, self.catalogue, self.seed = pairs, catalogue, seed
        self.relevant, self.others = relevant, others
        # The j-th item that is not relevant is j plus the relevant ones before it.
        position = np.repeat(np.arange(len(pairs.queries)), pairs.counts)
        rank = np.arange(len(pairs.items)) - pairs.starts[position]
        self._gaps = position * (catalogue + 1) + pairs.items - rank

    def draw(self, positions: Integers, *, epoch: int, step: int) -> ItemSample:
        """Sample the lists of queries, given by their place (B,) in ``pairs.queries``.

        Returns
        -------
        ItemSample
            m is `relevant` + `others`.
        """
        random = np.random.default_rng((self.seed, epoch, step))
        first, count = self.pairs.starts[positions], self.pairs.counts[positions]
        chosen = _without_replacement(random, count, self.relevant)
        slot = first[:, None] + np.maximum(chosen, 0)
        slot = np.minimum(slot, max(len(self.pairs.items) - 1, 0))
        some = chosen >= 0
        size = (len(positions), self.relevant)
        items = np.full(size, -1, dtype=np.int64)
        labels = np.zeros(size)
        items[some], labels[some] = self.pairs.items[slot[some]], self.pairs.labels[slot[some]]
        free = self.catalogue - count
        drawn = (random.random((len(positions), self.others)) * free[:, None]).astype(np.int64)
        few = free <= self.others
        drawn[few] = np.arange(self.others)
        shift = positions[:, None] * (self.catalogue + 1) + drawn
        passed = np.searchsorted(self._gaps, shift, side="right") - first[:, None]
        other = np.where(drawn < free[:, None], drawn + passed, -1)
        return ItemSample(
            np.concatenate([items, other], axis=1), np.concatenate([labels, np.zeros(other.shape)], axis=1)
        )

    def all_items(self, positions: Integers) -> ItemSample:
        """Give whole lists: every item of the catalogue, int64 (B, catalogue)."""
        items = np.tile(np.arange(self.catalogue, dtype=np.int64), (len(positions), 1))
        labels = np.zeros(items.shape)
        for row, position in enumerate(positions):
            slots = slice(self.pairs.starts[position], self.pairs.starts[position + 1])
            labels[row, self.pairs.items[slots]] = self.pairs.labels[slots]
        return ItemSample(items, labels)


def _without_replacement(random: np.random.Generator, counts: Integers, size: int) -> Integers:
    """Draw `size` distinct numbers below each of `counts` (B,), or all; -1 fills what is over.

    Floyd's method, a column at a time: time O(B size^2), whatever the counts.
    """
    chosen = np.full((len(counts), size), -1, dtype=np.int64)
    for column in range(size):
        # The last `size` numbers below count are visited in turn; fewer where count is smaller.
        top = counts - size + column
        top = np.where(counts >= size, top, column)
        drawn = (random.random(len(counts)) * (top + 1)).astype(np.int64)
        taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
        value = np.where(taken, top, drawn)
        value = np.where(counts >= size, value, np.where(column < counts, column, -1))
        chosen[:, column] = value
    return chosen
