"""What one step sees of each list: which items are relevant, and how many each one stands for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lmtune.errors import InputError
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
    slots : int64 Tensor (R,)
        The relevant pairs' rows in the state, in the order of ``relevant.nonzero()``.
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
        """Give each relevant pair's weight of its new value, float64 (R,).

        By default 1 for whole lists, where g^ is g and an older value could only be worse, and
        0.3 for samples.
        """
        if given is None:
            chosen = torch.where(self.whole, torch.ones_like(self.lengths), 0.3)
        else:
            chosen = torch.full_like(self.lengths, given)
        return chosen.expand_as(self.relevant)[self.relevant]


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
        For shapes that do not match, unknown queries, relevant pairs that are not known, and
        samples of too few items.
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
    rows, columns = relevant.nonzero(as_tuple=True)
    slots, unknown = state.slots(positions[rows], items[rows, columns])
    lengths = state.lengths[positions].double().unsqueeze(1)
    count = state.counts[positions].double().unsqueeze(1)
    seen = relevant.sum(1, keepdim=True).double()
    unseen = mask.sum(1, keepdim=True).double() - seen
    few = (seen < count.clamp(max=2.0)) | (unseen < (lengths - count).clamp(max=1.0))
    # One look at all that may be wrong: on other devices than the CPU each waits for them.
    if bool(torch.cat([strange, unknown, few.squeeze(1)]).any()):
        _refuse_queries(state, queries, strange)
        _refuse_pairs(queries[rows][unknown], items[rows, columns][unknown])
        _refuse_samples(torch.cat([seen, count, unseen, lengths - count], dim=1)[few.squeeze(1)])
    one = torch.ones_like(seen)
    # What a relevant and another item stand for: in sums over all items, and over those beside item i.
    level = count / torch.maximum(seen, one), (lengths - count) / torch.maximum(unseen, one)
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


def _refuse_queries(state: PairState, queries: Tensor, wrong: Tensor) -> None:
    if bool(wrong.any()):
        known = state.query_ids
        raise InputError(
            "a query that the training data lacks",
            value=int(queries[wrong][0]),
            accepted=f"the {len(known)} ids from {int(known[0])} to {int(known[-1])} that the pairs were made"
            " from",
        )


def _refuse_pairs(queries: Tensor, items: Tensor) -> None:
    if len(items):
        raise InputError(
            "a pair (query, item) labelled relevant that the training data lacks",
            value=(int(queries[0]), int(items[0])),
            accepted="the pairs that the state was made from",
        )


def _refuse_samples(sizes: Tensor) -> None:
    seen, relevant, unseen, others = sizes[0].long().tolist()
    raise InputError(
        "a sample too small for unbiased estimates",
        value=f"{seen} of a list's {relevant} relevant items, {unseen} of its {others} others",
        accepted="2 relevant items and 1 other, or all where there are fewer",
    )


def _spread(weights: tuple[Tensor, Tensor], relevant: Tensor, mask: Tensor) -> Tensor:
    return torch.where(relevant, weights[0], weights[1]) * mask
