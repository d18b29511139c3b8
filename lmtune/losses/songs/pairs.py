"""Relevant (query, item) pairs of the training data, sampling of lists, and SONG's state for each pair."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from lmtune.arrays import Doubles, Integers
from lmtune.errors import InputError
from lmtune.losses import evaluation
from lmtune.losses.evaluation import Bounds, PaddedLists, is_fused
from lmtune.options import read


@dataclass(frozen=True)
class RelevantPairs:
    """All relevant pairs of the training data, grouped by query, and the length of each list.

    Build it with `from_rows` or `from_lists`. SONG's state has one entry per pair, in the same order.

    Attributes
    ----------
    queries : int64 (Q,)
        Ids of all queries, ascending, including queries without a relevant item.
    lengths : int64 (Q,)
        N_q, the number of items in each query's list.
    starts : int64 (Q + 1,)
        The pairs of query ``k`` are ``starts[k]`` to ``starts[k + 1] - 1``.
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
        """Build the pairs from rows (query, item, label), in any order.

        Parameters
        ----------
        queries, items : int (rows,)
            Non-negative ids, not necessarily consecutive. An item may occur in many queries.
        labels : float (rows,)
            Relevant if above 0.
        lengths : int or int (Q,), optional
            Length of all lists, or of each query's list in ascending order of ids. Needed if the rows
            contain only part of each list. By default, a query's rows are its complete list.

        Raises
        ------
        InputError
            If ids are negative, a pair is repeated, labels are not finite, a length is below the number of
            the query's rows, or the arrays differ in length.
        """
        query = _integers(queries, "query ids")
        item = _integers(items, "item ids")
        label = np.asarray(labels, dtype=np.float64).ravel()
        if not len(query) == len(item) == len(label):
            raise InputError(
                "query ids, item ids and labels differ in length", value=(len(query), len(item), len(label))
            )
        if not np.isfinite(label).all():
            raise InputError("labels are not finite", value=label[~np.isfinite(label)][0])
        order = np.lexsort((item, query))
        query, item, label = query[order], item[order], label[order]
        repeated = np.flatnonzero((query[1:] == query[:-1]) & (item[1:] == item[:-1]))
        if repeated.size:
            first = int(repeated[0])
            raise InputError("a pair (query, item) occurs twice", value=(int(query[first]), int(item[first])))
        ids, rows = np.unique(query, return_counts=True)
        relevant = label > 0
        position = np.searchsorted(ids, query[relevant])
        starts = np.zeros(len(ids) + 1, dtype=np.int64)
        np.cumsum(np.bincount(position, minlength=len(ids)), out=starts[1:])
        return cls(ids, _lengths(lengths, rows), starts, item[relevant], label[relevant])

    @classmethod
    def from_lists(cls, starts: npt.ArrayLike, labels: npt.ArrayLike) -> RelevantPairs:
        """Build the pairs from ragged lists: query ids count from 0, item ids are row numbers.

        Parameters
        ----------
        starts : int (Q + 1,)
            The rows of query ``q`` are ``starts[q]`` to ``starts[q + 1] - 1``.
        labels : float (rows,)
            Labels of the rows.
        """
        first = _integers(starts, "starts")
        lengths = np.diff(first)
        count = int(first[-1] - first[0])
        if np.ndim(labels) != 1 or len(np.asarray(labels)) != count or (lengths <= 0).any():
            raise InputError(
                "starts do not split the labels into non-empty lists",
                value=count,
                accepted="increasing starts, and starts[-1] - starts[0] labels",
            )
        query = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        return cls.from_rows(query, np.arange(count, dtype=np.int64), labels)

    @property
    def counts(self) -> Integers:
        """Number of relevant items of each query, int64 (Q,)."""
        return np.diff(self.starts)

    def cutoffs(self, cutoff: float) -> Integers:
        """Return each query's cutoff K, int64 (Q,).

        A `cutoff` of 1 or more is the rank for all queries. Below 1, it is a share of each list's length,
        rounded up.
        """
        check_cutoff(cutoff)
        ranks = (
            np.ceil(ROUNDED_DOWN * cutoff * self.lengths)
            if cutoff < 1
            else np.full(len(self.queries), cutoff)
        )
        return ranks.astype(np.int64)

    def ideal_dcg(self, cutoff: float | None = None) -> Doubles:
        """Compute each query's ideal DCG with gains 2^y - 1 and discounts 1 / log2(rank + 1).

        Parameters
        ----------
        cutoff : float, optional
            Truncation, see `cutoffs`; none by default.

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
        """Return a checksum of the pairs, by which checkpoints of other training data are rejected."""
        crc = 0
        for part in (self.queries, self.lengths, self.starts, self.items, self.labels):
            crc = zlib.crc32(np.ascontiguousarray(part).tobytes(), crc)
        return crc


ROUNDED_DOWN = 1 - 1e-6
"""Factor of shares before rounding up, so that .07 of 100 items is 7, although .07 * 100 > 7 in floats."""


def check_cutoff(cutoff: float) -> float:
    """Raise InputError unless `cutoff` is a rank (an integer from 1) or a share of lists (below 1)."""
    if not (0 < cutoff < 1 or (cutoff >= 1 and float(cutoff).is_integer())):
        raise InputError(
            "bad cutoff", value=cutoff, accepted="a rank, 1 or more; or a share of each list, below 1"
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
        raise InputError(
            "a list length is below the number of the query's rows",
            value=int(known[short]),
            accepted=f"{int(rows[short])} or more",
        )
    return known


@dataclass(frozen=True)
class ItemSample:
    """Sampled lists: item ids, int64 (B, m), with -1 on padding, and labels, float64 (B, m)."""

    items: Integers
    labels: Doubles


class ListSampler:
    """Sample items for queries when every list is the whole catalogue, with items numbered from 0.

    Relevant items are sampled without replacement. Other items are sampled with replacement from all items
    that are not relevant, in time independent of the catalogue's size. If there are no more items of a
    kind than requested, each is taken once. Samples depend only on seed, epoch and step.

    Parameters
    ----------
    pairs : RelevantPairs
        Item ids must be below `catalogue`.
    catalogue : int
        Number of items.
    relevant, others : int
        Numbers of relevant and other items per query (the paper's B_i and B_n); 1 or more.
    seed : int
    """

    def __init__(
        self, pairs: RelevantPairs, catalogue: int, *, relevant: int = 10, others: int = 30, seed: int
    ) -> None:
        if pairs.items.size and int(pairs.items.max()) >= catalogue:
            raise InputError(
                "an item id is outside the catalogue",
                value=int(pairs.items.max()),
                accepted=f"0 to {catalogue - 1}",
            )
        if relevant < 1 or others < 1:
            raise InputError("sample sizes are too small", value=(relevant, others), accepted="1 or more")
        self.pairs, self.catalogue, self.seed = pairs, catalogue, seed
        self.relevant, self.others = relevant, others
        # The id of the j-th item that is not relevant is j plus the number of relevant items before it.
        position = np.repeat(np.arange(len(pairs.queries)), pairs.counts)
        rank = np.arange(len(pairs.items)) - pairs.starts[position]
        self._gaps = position * (catalogue + 1) + pairs.items - rank

    def draw(self, positions: Integers, *, epoch: int, step: int) -> ItemSample:
        """Sample the lists of queries, given by their positions (B,) in ``pairs.queries``.

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
        """Return whole lists: every item of the catalogue, with shape (B, catalogue)."""
        items = np.tile(np.arange(self.catalogue, dtype=np.int64), (len(positions), 1))
        labels = np.zeros(items.shape)
        for row, position in enumerate(positions):
            slots = slice(self.pairs.starts[position], self.pairs.starts[position + 1])
            labels[row, self.pairs.items[slots]] = self.pairs.labels[slots]
        return ItemSample(items, labels)


def _without_replacement(random: np.random.Generator, counts: Integers, size: int) -> Integers:
    """Draw `size` distinct integers below each of `counts` (B,); -1 fills rows with fewer integers.

    Floyd's method, one column at a time: time O(B size^2), independent of the counts.
    """
    chosen = np.full((len(counts), size), -1, dtype=np.int64)
    for column in range(size):
        # Floyd's method visits the last `size` integers below count; if count is smaller, take all.
        top = counts - size + column
        top = np.where(counts >= size, top, column)
        drawn = (random.random(len(counts)) * (top + 1)).astype(np.int64)
        taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
        value = np.where(taken, top, drawn)
        value = np.where(counts >= size, value, np.where(column < counts, column, -1))
        chosen[:, column] = value
    return chosen


class PairState(nn.Module):
    """A running estimate for each relevant pair, and the sizes of the lists.

    ``state_dict`` has `estimate` (P,), which is NaN for pairs not visited yet, and `fingerprint`, by which
    a checkpoint of other data is rejected. Everything else is rebuilt from the pairs.

    Look-ups never synchronise a device. Faults of a batch, such as unknown ids, raise immediately on
    the CPU. On other devices they are recorded in `fault`, make the loss NaN, and are raised by `check` and
    ``state_dict``.

    Parameters
    ----------
    pairs : RelevantPairs
        The pairs of the training data.
    """

    padded_estimate: Tensor
    fault: Tensor
    fingerprint: Tensor
    query_ids: Tensor
    keys: Tensor
    sizes: Tensor

    def __init__(self, pairs: RelevantPairs) -> None:
        super().__init__()
        self.stride = int(pairs.items.max(initial=0)) + 1
        if len(pairs.queries) * self.stride >= 2**62:
            raise InputError("item ids are too large for 64-bit pair keys", value=self.stride - 1)
        position = torch.repeat_interleave(torch.arange(len(pairs.queries)), torch.from_numpy(pairs.counts))
        keys = position * self.stride + torch.from_numpy(pairs.items)
        # The last key and estimate stand for "no pair": items without a pair are mapped there.
        self.register_buffer("padded_estimate", torch.full((len(keys) + 1,), torch.nan))
        self.register_buffer("fingerprint", torch.tensor(pairs.fingerprint()))
        for name, values in {
            "query_ids": torch.from_numpy(pairs.queries),
            "keys": torch.cat([keys, torch.tensor([_NO_PAIR])]),
            "sizes": torch.from_numpy(np.stack([pairs.counts, pairs.lengths - pairs.counts])),
            "fault": torch.zeros(1, _FAULT, dtype=torch.int64),
        }.items():
            self.register_buffer(name, values, persistent=False)
        self.register_state_dict_pre_hook(_check)  # type: ignore[no-untyped-call]
        self.register_state_dict_post_hook(_save_estimate)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_load_estimate)  # type: ignore[no-untyped-call]

    @property
    def estimate(self) -> Tensor:
        """The estimates of the pairs (P,), a writable view."""
        return self.padded_estimate[:-1]

    def positions(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positions of query ids (B,) in the training data, and a mask of unknown ids."""
        queries = queries.to(self.query_ids.device)
        position = torch.searchsorted(self.query_ids, queries).clamp(max=len(self.query_ids) - 1)
        return position, self.query_ids[position] != queries

    def slots(self, positions: Tensor, items: Tensor, relevant: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slots (B, n) of the pairs of queries (B,) and items (B, n), and a mask of unknown pairs.

        The slot is P for items that are not relevant or unknown.
        """
        valid = relevant & (items >= 0) & (items < self.stride)
        key = torch.where(valid, positions.unsqueeze(1) * self.stride + items, _NO_PAIR)
        slot = torch.searchsorted(self.keys, key)
        known = valid & (self.keys[slot] == key)
        return torch.where(known, slot, len(self.keys) - 1), relevant & ~known

    def update(self, slots: Tensor, current: Tensor, next_estimate: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the estimates of `slots`; in training mode, update and store them first.

        Parameters
        ----------
        slots : int64 Tensor (B, n)
        current : float64 Tensor (B, n)
            Initial values of pairs not visited yet.
        next_estimate : callable
            Maps stored estimates to updated ones.
        """
        old = self.padded_estimate[slots].double()
        new = torch.where(torch.isnan(old), current, next_estimate(old) if self.training else old)
        if self.training:
            self.padded_estimate[slots] = new.to(self.padded_estimate.dtype)
            self.padded_estimate[-1:].fill_(torch.nan)
        return new

    def record_faults(self, faults: Tensor) -> None:
        """Record the first fault of a batch's lists; on the CPU, raise it.

        Parameters
        ----------
        faults : int64 Tensor (B, 9)
            Three flags: unknown query, unknown pair, sample too small. Then the query's id, the item's id
            of the unknown pair, the numbers of relevant items in the sample and in the list, and the numbers
            of other items in the sample and in the list.
        """
        first = faults[:, :3].any(1).byte().argmax(0, keepdim=True)
        fault = faults.index_select(0, first)
        self.fault.copy_(torch.where(self.fault[:, :3].any(), self.fault, fault))
        if evaluation.on_cpu(self.fault):
            self.check()

    def check(self) -> None:
        """Raise InputError for the recorded fault and clear it. Synchronises the device."""
        unknown_query, unknown_pair, few, query, item, *sizes = self.fault[0].tolist()
        self.fault.zero_()
        if unknown_query:
            known = self.query_ids
            raise InputError(
                "query id is not in the training data",
                value=query,
                accepted=f"one of {len(known)} ids from {int(known[0])} to {int(known[-1])} in RelevantPairs",
            )
        if unknown_pair:
            raise InputError(
                "relevant pair (query, item) is not in the training data",
                value=(query, item),
                accepted="the pairs in RelevantPairs",
            )
        if few:
            sampled, count, sampled_others, others = sizes
            raise InputError(
                "the sample is too small for unbiased estimates",
                value=f"{sampled} of {count} relevant items, {sampled_others} of {others} others in a list",
                accepted="2 relevant items and 1 other, or all if there are fewer",
            )

    def check_on_cpu(self, value: Tensor) -> Tensor:
        """Return a loss computed by kernels; on the CPU, raise the fault that they recorded."""
        if evaluation.on_cpu(value):
            self.check()
        return value

    def nan_if_faulty(self, value: Tensor) -> Tensor:
        """Return a loss, replaced by NaN if a fault is recorded."""
        if evaluation.on_cpu(value):
            return value
        return torch.where(self.fault[:, :3].any(), torch.nan, value)


_NO_PAIR = 2**63 - 1
# Number of columns of `PairState.record_faults`.
_FAULT = 9


def _check(module: PairState, *_unused: object) -> None:
    module.check()


def _save_estimate(_module: nn.Module, state: dict[str, Any], prefix: str, _metadata: object) -> None:
    state[f"{prefix}estimate"] = state.pop(f"{prefix}padded_estimate")[:-1]


def _load_estimate(module: nn.Module, state: dict[str, Any], prefix: str, *unused: object) -> None:
    del unused
    saved = state.get(f"{prefix}fingerprint")
    present = module.fingerprint
    if isinstance(saved, Tensor) and isinstance(present, Tensor) and int(saved) != int(present):
        raise InputError(
            "SONG's state was saved for other training data", accepted="the state of the same RelevantPairs"
        )
    if f"{prefix}estimate" in state:
        estimate = state.pop(f"{prefix}estimate")
        state[f"{prefix}padded_estimate"] = nn.functional.pad(estimate, (0, 1), value=torch.nan)


@dataclass(frozen=True)
class Sample:
    """A padded batch of lists (B, n), whole or sampled, in float64.

    Attributes
    ----------
    scores : Tensor (B, n)
        0 on padding.
    labels : Tensor (B, n)
        0 on padding.
    mask : bool Tensor (B, n)
        False on padding.
    relevant : bool Tensor (B, n)
        True for labels above 0.
    positions : int64 Tensor (B,), optional
        Indices of the queries in the state's per-query arrays, if there is a state.
    slots : int64 Tensor (B, n), optional
        Indices of the relevant pairs in the state; for other items, the slot for "no pair".
    lengths : Tensor (B, 1)
        N_q, the length of the whole list.
    pairs : Tensor (B, n)
        Sampling weight of each relevant item: the number of relevant items in the list over the number in the
        sample; 0 for other items.
    level : Tensor (B, n)
        Weights of a mean over all items of the list; they sum to 1.
    others : Tensor (B, n)
        Weights of the items j other than i in g^_i. Item i itself has weight 1 / N_q, because it is in
        the sample for certain. For whole lists, `level` and `others` are 1 / N_q.
    whole : bool Tensor (B, 1)
        Whether the sample is the whole list.
    queries : Tensor ()
        Number of queries with a relevant item in the sample, at least 1.
    """

    scores: Tensor
    labels: Tensor
    mask: Tensor
    relevant: Tensor
    positions: Tensor | None
    slots: Tensor | None
    lengths: Tensor
    pairs: Tensor
    level: Tensor
    others: Tensor
    whole: Tensor
    queries: Tensor

    def gamma(self, gamma: float | None) -> Tensor:
        """Return the weight of new values in each list's running estimates, float64 (B, 1).

        The default is 1 for whole lists, where g^ equals g, and 0.3 for sampled lists.
        """
        if gamma is None:
            return torch.where(self.whole, torch.ones_like(self.lengths), 0.3)
        return torch.full_like(self.lengths, gamma)


def sample_of(
    state: PairState, scores: Tensor, labels: Tensor, mask: Tensor | None, queries: Tensor, items: Tensor
) -> Sample:
    """Look up a batch in the state and compute sampling weights of its items.

    The relevant and the other items of a list are treated as uniform samples of the whole list's relevant
    and other items; then weighted sums are unbiased estimates of sums over the whole list. This needs
    two relevant items, because item i's sum includes the other relevant items, and one other item, or
    all if there are fewer.

    Raises
    ------
    InputError
        If shapes do not match, a query or a relevant pair is unknown, or a sample is too small. See
        `PairState` for devices other than the CPU.
    """
    mask = real_items(scores, labels, mask, queries, items)
    score = torch.where(mask, scores.detach().double(), 0.0)
    label = torch.where(mask, labels.double(), 0.0)
    relevant, (sampled, sampled_others) = _split_relevant(label, mask)
    if scores.numel() and is_fused(scores):
        from lmtune.losses.songs.fused_memory import look_up

        lookup = look_up(state, label, mask, queries, items)
        positions, faults, slots = lookup.tensor_split([1, 10], dim=1)
        state.record_faults(faults)
        sampled, count, sampled_others, others = faults[:, 5:].tensor_split(4, dim=1)
        positions = positions.squeeze(1)
    else:
        positions, unknown_query = state.positions(queries)
        slots, unknown_pair = state.slots(positions, items, relevant)
        count, others = state.sizes.index_select(1, positions).unsqueeze(2)
        sizes = sampled, count, sampled_others, others
        _record_faults(state, (queries, items), unknown_query, unknown_pair, sizes)
    sizes = sampled, count, sampled_others, others
    return _weighted_sample(PaddedLists(score, label, mask), relevant, sizes, (positions, slots))


def real_items(scores: Tensor, labels: Tensor, mask: Tensor | None, queries: Tensor, items: Tensor) -> Tensor:
    """Return the mask, by default of item ids from 0; raise InputError if shapes do not match."""
    if scores.dim() != 2 or labels.shape != scores.shape or items.shape != scores.shape:
        raise InputError(
            "scores, labels and items differ in shape",
            value=(tuple(scores.shape), tuple(labels.shape), tuple(items.shape)),
            accepted="(batch, items) for all three",
        )
    if queries.shape != scores.shape[:1]:
        raise InputError(
            "query ids and lists differ in number",
            value=tuple(queries.shape),
            accepted="one query id per list",
        )
    return items >= 0 if mask is None else mask


def whole_sample(lists: PaddedLists) -> Sample:
    """Return whole lists, in float64, as a sample without state."""
    relevant, (count, others) = _split_relevant(lists.labels, lists.mask)
    return _weighted_sample(lists, relevant, (count, count, others, others), (None, None))


def _split_relevant(labels: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return a mask of relevant items, and the numbers of relevant and other items, shape (B, 1)."""
    relevant = labels > 0
    count = relevant.sum(1, keepdim=True)
    return relevant, (count, mask.sum(1, keepdim=True) - count)


def _weighted_sample(
    lists: PaddedLists,
    relevant: Tensor,
    sizes: tuple[Tensor, Tensor, Tensor, Tensor],
    indices: tuple[Tensor | None, Tensor | None],
) -> Sample:
    """Compute the sampling weights of a batch.

    `sizes` are the numbers of relevant items in the sample and in the list, and the numbers of other items
    in the sample and in the list. `indices` are the positions and slots of `Sample`.
    """
    mask = lists.mask
    sampled, count, sampled_others, others = (number.double() for number in sizes)
    one = torch.ones_like(sampled)
    lengths = torch.maximum(count + others, one)
    # Weights of relevant and other items: in sums over all items, and in sums over items other than i.
    level = count / torch.maximum(sampled, one), others / torch.maximum(sampled_others, one)
    except_i = (count - 1.0) / torch.maximum(sampled - 1.0, one), level[1]
    return Sample(
        scores=lists.scores,
        labels=lists.labels,
        mask=mask,
        relevant=relevant,
        positions=indices[0],
        slots=indices[1],
        lengths=lengths,
        pairs=torch.where(relevant, level[0], 0.0),
        level=_expand(level, relevant, mask) / lengths,
        others=_expand(except_i, relevant, mask) / lengths,
        whole=sampled + sampled_others >= lengths,
        queries=(sampled > 0).sum().clamp(min=1),
    )


def _record_faults(
    state: PairState,
    ids: tuple[Tensor, Tensor],
    unknown_query: Tensor,
    unknown_pair: Tensor,
    sizes: tuple[Tensor, Tensor, Tensor, Tensor],
) -> None:
    """Call `PairState.record_faults`; on the CPU, only if there is a fault."""
    queries, items = ids
    sampled, count, sampled_others, others = sizes
    few = (sampled < count.clamp(max=2)) | (sampled_others < others.clamp(max=1))
    flags = torch.cat([unknown_query.unsqueeze(1), unknown_pair.any(1, keepdim=True), few], dim=1)
    if len(flags) and (not evaluation.on_cpu(flags) or bool(flags.any())):
        first = pad(unknown_pair, (0, 1)).byte().argmax(1, keepdim=True)
        item = pad(items, (0, 1)).gather(1, first)
        state.record_faults(torch.cat([flags, queries.to(item.device).unsqueeze(1), item, *sizes], dim=1))


def _expand(weights: tuple[Tensor, Tensor], relevant: Tensor, mask: Tensor) -> Tensor:
    return torch.where(relevant, weights[0], weights[1]) * mask
