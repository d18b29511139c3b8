"""What one step sees of each list: which items are relevant, and how many each one stands for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from lmtune.errors import InputError
from lmtune.reranking.losses import padded_lists
from lmtune.reranking.losses.padded_lists import PaddedLists
from lmtune.reranking.song.state import PairState


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

    def gamma(self, given: float | None) -> Tensor:
        """Give each list's weight of new values, float64 (B, 1).

        By default 1 for whole lists, where g^ is g and an older value could only be worse, and
        0.3 for samples.
        """
        if given is None:
            return torch.where(self.whole, torch.ones_like(self.lengths), 0.3)
        return torch.full_like(self.lengths, given)


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
    if scores.dim() != 2 or labels.shape != scores.shape or items.shape != scores.shape:
        raise InputError(
            "scores, labels and items differ in shape",
            value=(tuple(scores.shape), tuple(labels.shape), tuple(items.shape)),
            accepted="(batch, items) for all three",
        )
    if queries.shape != scores.shape[:1]:
        raise InputError("not one query id a list", value=tuple(queries.shape))
    if mask is None:
        mask = items >= 0
    kept = torch.where(mask, scores.detach().double(), 0.0)
    label = torch.where(mask, labels.double(), 0.0)
    relevant, seen = _kinds(label, mask)
    positions, strange = state.positions(queries)
    slots, unknown = state.slots(positions, items, relevant)
    length, relevant_in_list = (sizes[positions].unsqueeze(1) for sizes in (state.lengths, state.counts))
    sizes = seen[0], relevant_in_list, seen[1], length - relevant_in_list
    _look_for_faults(state, (queries, items), strange, unknown, sizes)
    return _weighed(PaddedLists(kept, label, mask), relevant, sizes, (positions, slots))


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
    if len(flags) and (not padded_lists.on_cpu(flags) or bool(flags.any())):
        first = pad(unknown, (0, 1)).byte().argmax(1, keepdim=True)
        item = pad(items, (0, 1)).gather(1, first)
        state.notice(torch.cat([flags, queries.to(item.device).unsqueeze(1), item, *sizes], dim=1))


def _spread(weights: tuple[Tensor, Tensor], relevant: Tensor, mask: Tensor) -> Tensor:
    return torch.where(relevant, weights[0], weights[1]) * mask
