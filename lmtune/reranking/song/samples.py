"""What one step sees of each list: which items are relevant, and how many each one stands for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.reranking.losses import padded_lists
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
    positions : int64 Tensor (B,)
        The queries' rows in the state's per-query arrays.
    slots : int64 Tensor (B, n)
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
    positions: Tensor
    slots: Tensor
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
    relevant = label > 0
    positions, strange = state.positions(queries)
    slots, unknown = state.slots(positions, items, relevant)
    length, relevant_in_list = (sizes[positions].unsqueeze(1) for sizes in (state.lengths, state.counts))
    relevant_seen = relevant.sum(1, keepdim=True)
    others_seen = mask.sum(1, keepdim=True) - relevant_seen
    sizes = relevant_seen, relevant_in_list, others_seen, length - relevant_in_list
    _look_for_faults(state, (queries, items), strange, unknown, sizes)
    seen, count, unseen, others = (number.double() for number in sizes)
    lengths = length.double()
    one = torch.ones_like(seen)
    # What a relevant and another item stand for: in sums over all items, and over those beside item i.
    level = count / torch.maximum(seen, one), others / torch.maximum(unseen, one)
    beside = (count - 1.0) / torch.maximum(seen - 1.0, one), level[1]
    return Sample(
        scores=kept,
        labels=label,
        mask=mask,
        relevant=relevant,
        positions=positions,
        slots=slots,
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
    if not padded_lists.on_cpu(flags) or bool(flags.any()):
        item = items.gather(1, unknown.byte().argmax(1, keepdim=True))
        state.notice(torch.cat([flags, queries.to(item.device).unsqueeze(1), item, *sizes], dim=1))


def _spread(weights: tuple[Tensor, Tensor], relevant: Tensor, mask: Tensor) -> Tensor:
    return torch.where(relevant, weights[0], weights[1]) * mask
