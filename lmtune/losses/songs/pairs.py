"""The relevant (query, item) pairs of the training data: samples of lists, and SONG's memory of pairs."""

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


class PairState(nn.Module):
    """An estimate for each relevant pair, and the sizes of the lists.

    `estimate` (P,) is in ``state_dict``, moves with ``.to()``, and holds NaN for pairs never
    visited. `fingerprint` goes along, so that a checkpoint of other data is refused. The rest is
    rebuilt from the pairs.

    No look-up waits for a device. What is wrong with a batch raises at once on the CPU; elsewhere it
    is kept in `fault`, turns the loss into NaN, and is raised by `check` and ``state_dict``.

    Parameters
    ----------
    pairs : RelevantPairs
        The training data's.
    """

    kept: Tensor
    fault: Tensor
    fingerprint: Tensor
    query_ids: Tensor
    keys: Tensor
    sizes: Tensor

    def __init__(self, pairs: RelevantPairs) -> None:
        super().__init__()
        self.stride = int(pairs.items.max(initial=0)) + 1
        if len(pairs.queries) * self.stride >= 2**62:
            raise InputError("item ids too large to number the pairs", value=self.stride - 1)
        position = torch.repeat_interleave(torch.arange(len(pairs.queries)), torch.from_numpy(pairs.counts))
        keys = position * self.stride + torch.from_numpy(pairs.items)
        # The last key and number stand for no pair: all that are none are sought and kept there.
        self.register_buffer("kept", torch.full((len(keys) + 1,), torch.nan))
        self.register_buffer("fingerprint", torch.tensor(pairs.fingerprint()))
        for name, values in {
            "query_ids": torch.from_numpy(pairs.queries),
            "keys": torch.cat([keys, torch.tensor([_NO_PAIR])]),
            "sizes": torch.from_numpy(np.stack([pairs.counts, pairs.lengths - pairs.counts])),
            "fault": torch.zeros(1, _FAULT, dtype=torch.int64),
        }.items():
            self.register_buffer(name, values, persistent=False)
        self.register_state_dict_pre_hook(_check)  # type: ignore[no-untyped-call]
        self.register_state_dict_post_hook(_as_estimate)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_from_estimate)  # type: ignore[no-untyped-call]

    @property
    def estimate(self) -> Tensor:
        """The pairs' numbers (P,), to be written to as well."""
        return self.kept[:-1]

    def positions(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Find the places of the query ids (B,) among the training data's; and tell which are unknown."""
        queries = queries.to(self.query_ids.device)
        position = torch.searchsorted(self.query_ids, queries).clamp(max=len(self.query_ids) - 1)
        return position, self.query_ids[position] != queries

    def slots(self, positions: Tensor, items: Tensor, relevant: Tensor) -> tuple[Tensor, Tensor]:
        """Find the slots (B, n) of the pairs of queries (B,) and items (B, n), P where there is none.

        Tells as well which relevant ones are unknown.
        """
        sought = relevant & (items >= 0) & (items < self.stride)
        key = torch.where(sought, positions.unsqueeze(1) * self.stride + items, _NO_PAIR)
        slot = torch.searchsorted(self.keys, key)
        known = sought & (self.keys[slot] == key)
        return torch.where(known, slot, len(self.keys) - 1), relevant & ~known

    def move(self, slots: Tensor, current: Tensor, moved: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the estimates of `slots`, and in training move and keep them.

        Parameters
        ----------
        slots : int64 Tensor (B, n)
        current : float64 Tensor (B, n)
            What stands for estimates that are not known.
        moved : callable
            Takes the known estimates to the next ones.
        """
        old = self.kept[slots].double()
        new = torch.where(torch.isnan(old), current, moved(old) if self.training else old)
        if self.training:
            self.kept[slots] = new.to(self.kept.dtype)
            self.kept[-1:].fill_(torch.nan)
        return new

    def notice(self, faults: Tensor) -> None:
        """Raise, or on other devices than the CPU keep, what is wrong with a batch's lists.

        Parameters
        ----------
        faults : int64 Tensor (B, 9)
            Whether the query is unknown, a pair is, the sample is too small; the query, the unknown
            pair's item; relevant items seen and in the list, others seen and in the list.
        """
        first = faults[:, :3].any(1).byte().argmax(0, keepdim=True)
        fault = faults.index_select(0, first)
        self.fault.copy_(torch.where(self.fault[:, :3].any(), self.fault, fault))
        if evaluation.on_cpu(self.fault):
            self.check()

    def check(self) -> None:
        """Raise InputError for the first thing that was wrong, once. Waits for the device."""
        strange, unknown, few, query, item, *sizes = self.fault[0].tolist()
        self.fault.zero_()
        if strange:
            known = self.query_ids
            raise InputError(
                "a query that the training data lacks",
                value=query,
                accepted=f"the {len(known)} ids from {int(known[0])} to {int(known[-1])} that the pairs were"
                " made from",
            )
        if unknown:
            raise InputError(
                "a pair (query, item) labelled relevant that the training data lacks",
                value=(query, item),
                accepted="the pairs that the state was made from",
            )
        if few:
            seen, relevant, unseen, others = sizes
            raise InputError(
                "a sample too small for unbiased estimates",
                value=f"{seen} of a list's {relevant} relevant items, {unseen} of its {others} others",
                accepted="2 relevant items and 1 other, or all where there are fewer",
            )

    def told(self, value: Tensor) -> Tensor:
        """Return a loss for which kernels have noticed faults; on the CPU, raise them."""
        if evaluation.on_cpu(value):
            self.check()
        return value

    def sound(self, value: Tensor) -> Tensor:
        """Return a loss, as NaN if something was wrong."""
        if evaluation.on_cpu(value):
            return value
        return torch.where(self.fault[:, :3].any(), torch.nan, value)


_NO_PAIR = 2**63 - 1
# Numbers that say what is wrong with a list: see `PairState.notice`.
_FAULT = 9


def _check(module: PairState, *_unused: object) -> None:
    module.check()


def _as_estimate(_module: nn.Module, state: dict[str, Any], prefix: str, _metadata: object) -> None:
    state[f"{prefix}estimate"] = state.pop(f"{prefix}kept")[:-1]


def _from_estimate(module: nn.Module, state: dict[str, Any], prefix: str, *unused: object) -> None:
    del unused
    saved = state.get(f"{prefix}fingerprint")
    present = module.fingerprint
    if isinstance(saved, Tensor) and isinstance(present, Tensor) and int(saved) != int(present):
        raise InputError(
            "SONG's state was saved for other training data", accepted="a state of the same pairs"
        )
    if f"{prefix}estimate" in state:
        state[f"{prefix}kept"] = nn.functional.pad(state.pop(f"{prefix}estimate"), (0, 1), value=torch.nan)


@dataclass(frozen=True)
class Sample:
    """A padded batch of lists (B, n), whole or sampled, in float64.

    Attributes
    ----------
    scores : Tensor (B, n)
        0 on padding.
    labels : Tensor (B, n)
        0 on padding.
    mask, relevant : bool Tensor (B, n)
        Items that are there; those with a label above 0.
    positions : int64 Tensor (B,), optional
        The queries' rows in the state's per-query arrays, where there is a state.
    slots : int64 Tensor (B, n), optional
        The relevant pairs' rows in the state; for other items the one that stands for no pair.
    lengths : Tensor (B, 1)
        N_q.
    pairs : Tensor (B, n)
        Relevant pairs that each relevant item stands for, N_q^+ over those in the sample; else 0.
    level : Tensor (B, n)
        Weights of a mean over all items of the list; they sum to 1.
    others : Tensor (B, n)
        Weights of the other items in g^_i, which counts item i itself once, exactly: a sample
        that holds i is no fair sample of i. With whole lists both are 1 / N_q.
    whole : bool Tensor (B, 1)
        Whether every item of the list is there.
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
        """Give each list's weight of new values, float64 (B, 1).

        By default 1 for whole lists, where g^ is g and an older value could only be worse, and
        0.3 for samples.
        """
        if gamma is None:
            return torch.where(self.whole, torch.ones_like(self.lengths), 0.3)
        return torch.full_like(self.lengths, gamma)


def sample_of(
    state: PairState, scores: Tensor, labels: Tensor, mask: Tensor | None, queries: Tensor, items: Tensor
) -> Sample:
    """Look a batch up in the state and weigh its items.

    The relevant and the other items of a list are taken for uniform samples of the list's
    relevant and other items, so that weighted sums are unbiased for sums over the whole list.
    That takes two of the relevant items (for item i's sum holds the other relevant ones, too) and
    one of the others, or all where there are fewer.

    Raises
    ------
    InputError
        For shapes that do not match, and (see `PairState`) unknown queries, relevant pairs that are
        not known, and samples of too few items.
    """
    mask = real_items(scores, labels, mask, queries, items)
    kept = torch.where(mask, scores.detach().double(), 0.0)
    label = torch.where(mask, labels.double(), 0.0)
    relevant, (seen, unseen) = _kinds(label, mask)
    if scores.numel() and is_fused(scores):
        from lmtune.losses.songs.fused_memory import look_up

        found = look_up(state, label, mask, queries, items)
        positions, faults, slots = found.tensor_split([1, 10], dim=1)
        state.notice(faults)
        seen, count, unseen, others = faults[:, 5:].tensor_split(4, dim=1)
        positions = positions.squeeze(1)
    else:
        positions, strange = state.positions(queries)
        slots, unknown = state.slots(positions, items, relevant)
        count, others = state.sizes.index_select(1, positions).unsqueeze(2)
        _look_for_faults(state, (queries, items), strange, unknown, (seen, count, unseen, others))
    sizes = seen, count, unseen, others
    return _weighed(PaddedLists(kept, label, mask), relevant, sizes, (positions, slots))


def real_items(scores: Tensor, labels: Tensor, mask: Tensor | None, queries: Tensor, items: Tensor) -> Tensor:
    """Return the mask, by default of items from 0; raise InputError for shapes that do not match."""
    if scores.dim() != 2 or labels.shape != scores.shape or items.shape != scores.shape:
        raise InputError(
            "scores, labels and items differ in shape",
            value=(tuple(scores.shape), tuple(labels.shape), tuple(items.shape)),
            accepted="(batch, items) for all three",
        )
    if queries.shape != scores.shape[:1]:
        raise InputError("not one query id a list", value=tuple(queries.shape))
    return items >= 0 if mask is None else mask


def whole_sample(lists: PaddedLists) -> Sample:
    """Take whole lists in float64, of which no state is kept."""
    relevant, (seen, unseen) = _kinds(lists.labels, lists.mask)
    return _weighed(lists, relevant, (seen, seen, unseen, unseen), (None, None))


def _kinds(labels: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Tell which items are relevant, and count those and the others, (B, 1)."""
    relevant = labels > 0
    seen = relevant.sum(1, keepdim=True)
    return relevant, (seen, mask.sum(1, keepdim=True) - seen)


def _weighed(
    lists: PaddedLists,
    relevant: Tensor,
    sizes: tuple[Tensor, Tensor, Tensor, Tensor],
    places: tuple[Tensor | None, Tensor | None],
) -> Sample:
    """Weigh items, given how many relevant ones are seen and in each list, others seen and in it."""
    mask = lists.mask
    seen, count, unseen, others = (number.double() for number in sizes)
    one = torch.ones_like(seen)
    lengths = torch.maximum(count + others, one)
    # What a relevant and another item stand for: in sums over all items, and over those beside item i.
    level = count / torch.maximum(seen, one), others / torch.maximum(unseen, one)
    beside = (count - 1.0) / torch.maximum(seen - 1.0, one), level[1]
    return Sample(
        scores=lists.scores,
        labels=lists.labels,
        mask=mask,
        relevant=relevant,
        positions=places[0],
        slots=places[1],
        lengths=lengths,
        pairs=torch.where(relevant, level[0], 0.0),
        level=_spread(level, relevant, mask) / lengths,
        others=_spread(beside, relevant, mask) / lengths,
        whole=seen + unseen >= lengths,
        queries=(seen > 0).sum().clamp(min=1),
    )


def _look_for_faults(
    state: PairState,
    ids: tuple[Tensor, Tensor],
    strange: Tensor,
    unknown: Tensor,
    sizes: tuple[Tensor, Tensor, Tensor, Tensor],
) -> None:
    """Tell the state what `PairState.notice` takes; on the CPU only where something is wrong."""
    queries, items = ids
    seen, count, unseen, others = sizes
    few = (seen < count.clamp(max=2)) | (unseen < others.clamp(max=1))
    flags = torch.cat([strange.unsqueeze(1), unknown.any(1, keepdim=True), few], dim=1)
    if len(flags) and (not evaluation.on_cpu(flags) or bool(flags.any())):
        first = pad(unknown, (0, 1)).byte().argmax(1, keepdim=True)
        item = pad(items, (0, 1)).gather(1, first)
        state.notice(torch.cat([flags, queries.to(item.device).unsqueeze(1), item, *sizes], dim=1))


def _spread(weights: tuple[Tensor, Tensor], relevant: Tensor, mask: Tensor) -> Tensor:
    return torch.where(relevant, weights[0], weights[1]) * mask
