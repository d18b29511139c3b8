"""Samples of lists for SONG: some relevant items and some others, at a cost of their number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmtune.errors import InputError
from lmtune.reranking.song.pairs import Floats, Integers, RelevantPairs


@dataclass(frozen=True)
class ItemSample:
    """Sampled lists, padded: item ids int64 (B, m), -1 on padding, and labels float64 (B, m)."""

    items: Integers
    labels: Floats


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
            own = slice(self.pairs.starts[position], self.pairs.starts[position + 1])
            labels[row, self.pairs.items[own]] = self.pairs.labels[own]
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
