"""SONG and K-SONG of whole lists as kernels of Triton's: ApproxNDCG's, with sums of hinges for ranks.

The bound of an item's rank is N g = sum_j max(0, s_j - s_i + c)^2. K-SONG's threshold of each list is found
by a program of its own, in double precision: it costs no more than a few passes over the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmtune.losses.fused import (
    COLUMNS,
    ROWS,
    Evaluated,
    evaluated,
    fill,
    filled,
    gain_of,
    gained,
    hinge,
    limit_of,
    load_items,
    of_query,
    sides_kernel,
    sigmoids,
    store_outcome,
)

# Numbers of a list that a memory finds before its items' slots: its place, and what `PairState.notice` takes.
FACTS = tl.constexpr(10)
# Steps of K-SONG's search, as many as halving alone may take, and when it ends.
_MOST_STEPS, _NEAR, _ROUNDING = tl.constexpr(80), tl.constexpr(1e-14), tl.constexpr(1e-15)


def block_of(items: int) -> int:
    """Return how many items a program that goes through a list takes at a time."""
    return int(min(1024, triton.next_power_of_2(items)))


@triton.jit
def standing(found):
    """Return N, what relevant items, others, and relevant ones beside one stand for, and if all are there."""
    seen, count = tl.load(found + 6).to(tl.float64), tl.load(found + 7).to(tl.float64)
    unseen, others = tl.load(found + 8).to(tl.float64), tl.load(found + 9).to(tl.float64)
    length = tl.maximum(count + others, 1)
    beside = (count - 1) / tl.maximum(seen - 1, 1)
    return (
        length,
        count / tl.maximum(seen, 1),
        others / tl.maximum(unseen, 1),
        beside,
        seen + unseen >= length,
    )


@triton.jit
def _steep(x):
    """Return p (1 - p) of p = 1 / (1 + e^-x)."""
    small = tl.exp(-tl.abs(x))
    return small / ((1 + small) * (1 + small))


@triton.jit
def _load(scores, mask, begin, items, block: tl.constexpr):
    j = begin + tl.arange(0, block)
    real = tl.load(mask + j, mask=j < items, other=0) != 0
    return j, real, tl.load(scores + j, mask=real, other=0).to(tl.float64)


@triton.jit
def root_of(
    scores,
    mask,
    weights,
    items,
    length,
    target,
    wanted,
    block: tl.constexpr,
    tau1: tl.constexpr,
    tau2: tl.constexpr,
    weighted: tl.constexpr,
):
    """Find where target + tau2 t is the mean sigmoid of (s - t) / tau1, by Newton's steps within halves.

    The mean is weighted, or of `length` items alike.
    """
    least = tl.full([block], float("inf"), tl.float64)
    most = tl.full([block], float("-inf"), tl.float64)
    for begin in range(0, items, block):
        _, real, score = _load(scores, mask, begin, items, block)
        least = tl.minimum(least, tl.where(real, score, float("inf")))
        most = tl.maximum(most, tl.where(real, score, float("-inf")))
    # Beyond these the smooth step is over, and only the quadratic term is left.
    low, high = tl.min(least, 0), tl.max(most, 0)
    low, high = tl.where(low > high, 0.0, low), tl.where(low > high, 0.0, high)  # an empty list
    at = 0.5 * (low + high)
    low = tl.minimum(low - 40.0 * tau1, tl.minimum(-target / tau2, 0.0))
    high = tl.maximum(high + 40.0 * tau1, tl.maximum((1.0 - target) / tau2, 0.0))
    last, left = high - low, tl.where(wanted, _MOST_STEPS, 0)
    while left > 0:
        parts = tl.zeros([block], tl.float64)
        bends = tl.zeros([block], tl.float64)
        for begin in range(0, items, block):
            j, real, score = _load(scores, mask, begin, items, block)
            part, small = sigmoids((score - at) / tau1)
            weight = tl.load(weights + j, mask=real, other=0) if weighted else tl.where(real, 1.0, 0.0)
            parts += weight * part
            bends += weight * (small / ((1 + small) * (1 + small)))
        tilt = target + tau2 * at - tl.sum(parts, 0) / length
        low, high = tl.where(tilt > 0, low, at), tl.where(tilt > 0, at, high)
        newton = -tilt / (tau2 + tl.sum(bends, 0) / (length * tau1))
        half = 0.5 * (low + high) - at
        steady = (at + newton >= low) & (at + newton <= high) & (tl.abs(newton) <= 0.5 * tl.abs(last))
        last = tl.where(steady, newton, half)
        flat = tl.abs(tilt) <= _ROUNDING
        done = flat | (tl.abs(last) <= (tau1 + tl.abs(at)) * _NEAR)
        at += tl.where(flat, 0, last)
        left = tl.where(done, 0, left - 1)
    return at


@triton.jit
def threshold_kernel(
    scores,
    labels,
    mask,
    sides,
    found,
    threshold,
    curvature,
    out,
    items,
    block: tl.constexpr,
    k: tl.constexpr,
    scale: tl.constexpr,
    epsilon: tl.constexpr,
    tau1: tl.constexpr,
    tau2: tl.constexpr,
    anew: tl.constexpr,
    step: tl.constexpr,
    gamma: tl.constexpr,
):
    """Fill each list's threshold, what the loss falls with it over N L'', but for the ideal DCG, 1 / (N L'').

    Where the whole list is above the cutoff the threshold is minus infinity, and nothing falls. With a
    memory, which `anew` says when to leave, there follow what it is to hold next: the threshold, and L''.
    """
    row = tl.program_id(0).to(tl.int64)
    plane = tl.num_programs(0).to(tl.int64) * items
    sides += row * items
    ranks, level = sides + plane, sides + 2 * plane
    scores, labels, mask = scores + row * items, labels + row * items, mask + row * items
    if anew == "":
        count = tl.zeros([block], tl.int32)
        for begin in range(0, items, block):
            _, real, score = _load(scores, mask, begin, items, block)
            count += real.to(tl.int32)
        length = tl.maximum(tl.sum(count, 0), 1).to(tl.float64)
    else:
        found += row * (items + FACTS)
        length, _pair, _other, _beside, whole = standing(found)
    cutoff = limit_of(length, k)
    target = (cutoff + epsilon) / length
    if anew == "":
        unknown = length > cutoff
        at = root_of(scores, mask, scores, items, length, target, unknown, block, tau1, tau2, False)
    else:
        place = tl.load(found)
        known = tl.load(threshold + place).to(tl.float64)
        unknown = (known != known) | (anew == "all") | ((anew == "whole") & whole)
        at = root_of(scores, mask, level, items, length, target, unknown, block, tau1, tau2, True)
        at = tl.where(unknown, at, known)
    above = tl.where(length <= cutoff, float("-inf"), at)
    parts = tl.zeros([block], tl.float64)
    bends = tl.zeros([block], tl.float64)
    pulls = tl.zeros([block], tl.float64)
    for begin in range(0, items, block):
        j, real, score = _load(scores, mask, begin, items, block)
        gain = gain_of(tl.load(labels + j, mask=real, other=-1).to(tl.float64), "exponential")
        value, _ = gained(gain, tl.load(ranks + j, mask=real, other=1).to(tl.float64), 0, 1.0)
        weight = 1.0 if anew == "" else tl.load(level + j, mask=real, other=0).to(tl.float64)
        part, _ = sigmoids((score - at) / tau1)
        parts += tl.where(real, weight * part, 0)
        bends += tl.where(real, weight * _steep((score - at) / tau1), 0)
        pulls += tl.where(real, weight * value * scale * _steep(scale * (score - above)), 0)
    bend = tau2 + tl.sum(bends, 0) / (length * tau1)
    if gamma > 0:
        before = tl.load(curvature + place).to(tl.float64)
        bend = tl.where(before == before, before + gamma * (bend - before), bend)
    out += 5 * row
    tl.store(out, above)
    tl.store(out + 1, tl.sum(pulls, 0) / (length * bend))
    tl.store(out + 2, 1 / (length * bend))
    if anew != "":
        moved = step * (target + tau2 * at - tl.sum(parts, 0) / length)
        tl.store(out + 3, at - tl.where((anew == "whole") & whole, 0, moved))
        tl.store(out + 4, bend)


@triton.jit
def song_kernel(
    scores,
    labels,
    mask,
    sides,
    thresholds,
    fault,
    out,
    items,
    margin: tl.constexpr,
    scale: tl.constexpr,
    tau1: tl.constexpr,
    theoretical: tl.constexpr,
    remembers: tl.constexpr,
):
    """Fill minus each item's part of the bound of NDCG, and its slope; a scale of 0 takes no threshold.

    With a memory, items have weights, no label is wrong, and a fault spoils all.
    """
    kind: tl.constexpr = out.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    plane, start = tl.num_programs(0).to(tl.int64) * items, row * items
    scores, labels, mask = scores + start, labels + start, mask + start
    sides, out = sides + start, out + start
    norm, counted, wrong, spoilt = of_query(scores, labels, mask, sides, items, kind, True)
    if remembers:
        n = tl.arange(0, 4)
        wrong = tl.sum(tl.load(fault + n, mask=n < 3, other=0), 0) > 0
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    here, score, label = load_items(scores, labels, mask, i, items, kind)
    rank = tl.load(sides + plane + i, mask=here, other=1)
    value, fall_i = gained(gain_of(label, "exponential"), rank, 0, 1.0)
    own = tl.zeros([ROWS], kind)
    weight_i = tl.full([ROWS], 1, kind)
    if remembers:
        pair = tl.load(sides + 2 * plane + i, mask=here, other=0)
        weight_i = tl.load(sides + 3 * plane + i, mask=here, other=0)
        value *= pair
        fall_i *= pair
    at = tl.load(thresholds + 5 * row) if scale > 0 else 0.0
    if scale > 0:
        above = score.to(tl.float64) - at
        psi, _ = sigmoids((scale * above).to(kind))
        if theoretical:  # in double precision: for an item alone at the threshold the two cancel
            part, _double = gained(gain_of(label.to(tl.float64), "exponential"), rank.to(tl.float64), 0, 1.0)
            pull = part * scale * _steep(scale * above)
            moved = tl.load(thresholds + 5 * row + 1)
            if remembers:
                # Each item's own weight moves with the threshold; beside item i they weigh as in g^_i.
                pull *= pair
                moved = weight_i * moved + (1 - weight_i) * pull * tl.load(thresholds + 5 * row + 2)
            own = (moved * _steep(above / tau1) / tau1 - pull).to(kind)
        value *= psi
        fall_i *= psi
    score_i = score[:, None]
    slope = tl.zeros([ROWS, COLUMNS], kind)
    for begin in range(0, items, COLUMNS):
        j = begin + tl.arange(0, COLUMNS)
        real, score, label_j = load_items(scores, labels, mask, j, items, kind)
        _value, fall = gained(
            gain_of(label_j, "exponential"), tl.load(sides + plane + j, mask=real, other=1), 0, 1.0
        )
        if scale > 0:
            psi, _ = sigmoids((scale * (score.to(tl.float64) - at)).to(kind))
            fall *= psi
        score_j = score[None, :]
        over, under = hinge(score_i, score_j, margin), hinge(score_j, score_i, margin)
        if remembers:
            fall *= tl.load(sides + 2 * plane + j, mask=real, other=0)
            over *= weight_i[:, None]
            under *= tl.load(sides + 3 * plane + j, mask=real, other=0)[None, :]
        steep = fall[None, :] * over - fall_i[:, None] * under
        # Not its own: the two roundings of its fall can differ.
        other = here[:, None] & real[None, :] & (i[:, None] != j[None, :])
        slope += tl.where(other, steep, 0)
    steep = (2 * tl.sum(slope, 1) + own) / norm
    store_outcome(out, plane, i, here, items, -value / norm, steep, counted, wrong, spoilt)


class Basis(NamedTuple):
    """What the kernels of a bound start from: `sides_kernel`'s planes, or a memory.

    Attributes
    ----------
    sides : Tensor (planes, B, n)
    found, threshold, curvature, fault : Tensor
        See `lmtune.losses.songs.fused_memory`; without a memory, anything.
    moves : dict
        How `threshold_kernel` moves its memory, if there is one.
    keep : callable, optional
        Takes the thresholds and writes what is to be remembered.
    """

    sides: Tensor
    found: Tensor
    threshold: Tensor
    curvature: Tensor
    fault: Tensor
    moves: Mapping[str, Any] = MappingProxyType({"anew": "", "step": 0.0, "gamma": 0.0})
    keep: Callable[[Tensor], object] | None = None


def bound(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    *,
    margin: float,
    cutoff: float | None,
    scale: float = 0.0,
    tau1: float = 1.0,
    theoretical: bool = False,
    basis: Basis | None = None,
    **search: Any,
) -> Evaluated:
    """Evaluate SONG's objective, or with a scale of psi K-SONG's; `search` is its `epsilon` and `tau2`.

    Lists are whole, where no basis says otherwise.
    """
    k, (lists, items) = cutoff or 0, scores.shape
    if basis is None:
        sides = filled(
            sides_kernel, scores, labels, mask, alpha=margin, k=k, gains="exponential", wanted="hinge"
        )
        basis = Basis(sides, scores, scores, scores, scores)
    thresholds, options = scores, dict[str, Any]()
    if scale:
        thresholds = scores.new_empty(lists, 5, dtype=torch.float64)
        options = {"block": block_of(items), "k": k, "scale": scale, "tau1": tau1, **search, **basis.moves}
        inputs = scores, labels, mask, *basis[:4]
        fill(thresholds, threshold_kernel, (lists,), *inputs, items=items, **options)
    if basis.keep is not None:
        basis.keep(thresholds)
    options = {"margin": margin, "scale": scale, "tau1": tau1, "theoretical": theoretical}
    options["remembers"] = basis.keep is not None
    lists_of = labels, mask, basis.sides, thresholds, basis.fault
    return evaluated(filled(song_kernel, scores, *lists_of, **options))
