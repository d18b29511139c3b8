"""ListMLE: the likelihood of the whole order under the Plackett-Luce model."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.reranking.losses.declared import Backend, Reduce, checked
from lmtune.reranking.losses.evaluation import LossCall, evaluate
from lmtune.reranking.losses.given_gradients import LossAndGradient
from lmtune.reranking.losses.kernel_calls import Arrays, run
from lmtune.reranking.losses.padded_lists import Labels, PaddedLists, Scores
from lmtune.reranking.losses.plain_torch import at_once
from lmtune.surrogates.list_kernels import listmle_queries, shuffle_ties
from lmtune.surrogates.packing_kernels import ByLabel

Ties = Literal["random", "shared"]


@checked
def listmle(
    scores: Scores,
    labels: Labels,
    *,
    mask: Tensor | None = None,
    reduce: Reduce = "mean",
    ties: Ties = "random",
    seed: int | None = None,
    generator: torch.Generator | None = None,
    backend: Backend = "auto",
) -> Tensor:
    r"""Compute the ListMLE loss.

    .. math:: L_q = -\sum_{k=1}^{n} \left[ s_{\pi(k)} - \ln \sum_{l \ge k} e^{s_{\pi(l)}} \right]

    in nats, where pi sorts the items by falling label. Most items of real lists are tied, so what
    becomes of ties matters.

    Parameters
    ----------
    scores, labels, mask, reduce, backend
        As of `lmtune.reranking.losses.ranknet`.
    ties : {"random", "shared"}
        "random" draws an order of the items with equal labels, anew at each call. With "shared",
        each of them is held against all items of its label and below, itself included (Breslow's
        likelihood for ties), which needs no draw.
    seed : int, optional
        Makes one call's draw repeatable. Without it and `generator`, torch's own generator draws.
    generator : torch.Generator, optional
        On the scores' device.

    Returns
    -------
    Tensor
        A scalar, or of shape (queries,) with ``reduce="none"``.

    Raises
    ------
    InputError
        If shapes, types or options do not fit, or both a seed and a generator are given.

    Notes
    -----
    Xia et al., Listwise Approach to Learning to Rank: Theory and Algorithm, ICML 2008; Breslow,
    Covariance Analysis of Censored Survival Data, Biometrics 1974. allRank's ``listMLE`` draws one
    order of columns for the whole batch; Rax and TF-Ranking draw for each query, as here. All
    three also count queries without a relevant item, on whose items nothing but the draw bears;
    TF-Ranking's value (not its gradient) counts the padding's order as well.

    Examples
    --------
    Three equal scores can be ordered in 3! ways, each as likely: ln 6.

    >>> import torch
    >>> round(float(listmle(torch.zeros(1, 3), torch.tensor([[0, 2, 1]]))), 6)
    1.791759
    """
    if seed is not None and generator is not None:
        raise InputError("both a seed and a generator are given", accepted="one of them")
    shared = ties == "shared"

    def order(lists: PaddedLists) -> Tensor:
        chosen = generator
        if seed is not None:
            chosen = torch.Generator(lists.scores.device).manual_seed(seed)
        return _order(lists, None if shared else _draw(lists, chosen))

    def in_kernels(lists: PaddedLists) -> LossAndGradient:
        a = Arrays.of(lists)
        ordered = ByLabel(a.scores, a.labels, order(lists).numpy(), a.real)
        return run(a, listmle_queries, ordered, shared)

    def in_torch(lists: PaddedLists, gradient_wanted: bool) -> LossAndGradient:
        return at_once(partial(plackett_luce, order=order(lists), shared=shared), lists, gradient_wanted)

    return evaluate(LossCall(scores, labels, mask, reduce, backend), in_torch, in_kernels)


def plackett_luce(lists: PaddedLists, order: Tensor, *, shared: bool) -> Tensor:
    """Return minus the log-likelihood of each query's items in a given order.

    Parameters
    ----------
    lists : PaddedLists
    order : int64 Tensor of shape (queries, items)
        Places of the items, by falling label, padding last.
    shared : bool
        Whether items of equal labels have one denominator.

    Returns
    -------
    Tensor of shape (queries,)
    """
    real = lists.mask.gather(1, order)
    # The derivative of logcumsumexp is taken through logarithms: too coarse in float32.
    lowest = torch.finfo(torch.float64).min
    sorted_scores = lists.scores.double().gather(1, order)
    # Beside the first one: of large numbers, a difference from a logarithm of powers keeps few digits.
    sorted_scores = sorted_scores - sorted_scores[:, :1].detach()
    from_last = sorted_scores.masked_fill(~real, lowest).flip(1)
    denominators = from_last.logcumsumexp(dim=1).flip(1)
    if shared:
        labels = -torch.where(real, lists.labels.gather(1, order), -1)
        denominators = denominators.gather(1, torch.searchsorted(labels, labels))
    return torch.where(real, denominators - sorted_scores, 0).sum(dim=1).to(lists.scores.dtype)


def _draw(lists: PaddedLists, generator: torch.Generator | None) -> Tensor:
    shape, device = lists.scores.shape, lists.scores.device
    return torch.rand(shape, generator=generator, device=device, dtype=torch.float64)


def _order(lists: PaddedLists, draw: Tensor | None) -> Tensor:
    """Sort by falling label, padding last; ties by a draw, or as they come."""
    if lists.on_cpu:
        ordered = Arrays.of(lists).by_label()
        if draw is not None:
            shuffle_ties(0, len(ordered.order), ordered, draw.numpy())
        return torch.from_numpy(ordered.order)
    labels = torch.where(lists.mask, lists.labels, -1)
    if draw is None:
        return labels.argsort(dim=1, descending=True)
    places = draw.argsort(dim=1)
    order = labels.gather(1, places).argsort(dim=1, descending=True, stable=True)
    return places.gather(1, order)
