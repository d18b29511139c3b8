"""Triton kernels of SONG's and K-SONG's state: one each for looking up, updating and writing.

The kernels of `lmtune.losses.fused_song` run between updating and writing, with the rank bounds and weights
from here. All reads precede all writes, so a pair or query that occurs twice in a batch is updated once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmtune.losses import fused_song
from lmtune.losses.fused import COLUMNS, ROWS, Evaluated, fill, fill_planes, hinge, load_items
from lmtune.losses.fused_song import HEADER, BoundInputs, block_of, sampling_weights, solve_root

if TYPE_CHECKING:
    from lmtune.losses.songs.pairs import PairState
    from lmtune.losses.songs.songs import Song

_NO_PAIR = tl.constexpr(2**63 - 1)


@triton.jit
def _lower_bound(numbers, sought, count, halvings: tl.constexpr):
    """Return the index of the first of `count` ascending numbers that is not below `sought`."""
    low, high = sought * 0, sought * 0 + count
    for _ in range(halvings):
        middle = (low + high) // 2
        before = tl.load(numbers + middle, mask=low < high, other=0) < sought
        high = tl.where((low < high) & (before == 0), middle, high)
        low = tl.where((low < high) & before, middle + 1, low)
    return low


@triton.jit
def look_up_kernel(
    labels,
    mask,
    queries,
    numbers,
    query_ids,
    keys,
    sizes,
    out,
    width,
    known,
    pairs,
    stride,
    halvings: tl.constexpr,
    block: tl.constexpr,
):
    """Fill each list's position, its columns of `PairState.record_faults`, and its items' slots."""
    row = tl.program_id(0).to(tl.int64)
    labels, mask, numbers = labels + row * width, mask + row * width, numbers + row * width
    out += row * (width + HEADER)
    query = tl.load(queries + row).to(tl.int64)
    position = tl.minimum(_lower_bound(query_ids, query, known, halvings), known - 1)
    relevant_count = tl.zeros([block], tl.int64)
    real_count = tl.zeros([block], tl.int64)
    missing = tl.zeros([block], tl.int64) + width
    for begin in range(0, width, block):
        j = begin + tl.arange(0, block)
        real = tl.load(mask + j, mask=j < width, other=0) != 0
        relevant = real & (tl.load(labels + j, mask=real, other=0) > 0)
        item = tl.load(numbers + j, mask=real, other=-1).to(tl.int64)
        valid = relevant & (item >= 0) & (item < stride)
        key = tl.where(valid, position * stride + item, _NO_PAIR)
        slot = _lower_bound(keys, key, pairs, halvings)
        is_known = valid & (tl.load(keys + slot) == key)
        tl.store(out + HEADER + j, tl.where(is_known, slot, pairs - 1), mask=j < width)
        relevant_count += relevant.to(tl.int64)
        real_count += real.to(tl.int64)
        missing = tl.minimum(missing, tl.where(relevant & (is_known == 0), j, width))
    first = tl.min(missing, 0)
    item = tl.load(numbers + first, mask=first < width, other=0).to(tl.int64)
    sampled, sampled_others = tl.sum(relevant_count, 0), tl.sum(real_count, 0) - tl.sum(relevant_count, 0)
    count, others = tl.load(sizes + position), tl.load(sizes + known + position)
    few = (sampled < tl.minimum(count, 2)) | (sampled_others < tl.minimum(others, 1))
    tl.store(out, position)
    tl.store(out + 1, (tl.load(query_ids + position) != query).to(tl.int64))
    tl.store(out + 2, (first < width).to(tl.int64))
    tl.store(out + 3, few.to(tl.int64))
    tl.store(out + 4, query)
    tl.store(out + 5, item)
    tl.store(out + 6, sampled)
    tl.store(out + 7, count)
    tl.store(out + 8, sampled_others)
    tl.store(out + 9, others)


def look_up(state: PairState, labels: Tensor, mask: Tensor, queries: Tensor, items: Tensor) -> Tensor:
    """Look up a batch in the state.

    Parameters
    ----------
    state : PairState
    labels, mask, items : Tensor (B, n)
    queries : Tensor (B,)

    Returns
    -------
    int64 Tensor (B, 10 + n)
        Each list's position, the columns of `PairState.record_faults`, and the slots of `PairState.slots`.
    """
    lists, width = items.shape
    known, pairs = len(state.query_ids), len(state.keys)
    numbers = {"width": width, "known": known, "pairs": pairs, "stride": state.stride}
    options = {"halvings": max(known, pairs).bit_length(), "block": block_of(width)}
    out = torch.empty(lists, HEADER.value + width, dtype=torch.int64, device=labels.device)
    inputs = labels, mask, queries.to(labels.device), items, state.query_ids, state.keys, state.sizes
    return fill(out, look_up_kernel, (lists,), *inputs, **numbers, **options)


@triton.jit
def estimate_kernel(
    scores,
    labels,
    mask,
    lookup,
    estimates,
    ideal,
    out,
    items,
    margin: tl.constexpr,
    gamma: tl.constexpr,
    trained: tl.constexpr,
):
    """Fill the five planes that `song_kernel` needs with a state.

    They are: the ideal DCG, at item 0; rank bounds N u; sampling weights of the items; weights in g^ of the
    items other than i; updated estimates u, in training mode. Pairs not visited yet start at g^.
    """
    kind: tl.constexpr = out.dtype.element_ty
    row, lists = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64)
    plane, start, wide = lists * items, row * items, items + HEADER
    scores, labels, mask = scores + start, labels + start, mask + start
    length, pair, other, beside, whole = sampling_weights(lookup + row * wide)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real_i, score, label_i = load_items(scores, labels, mask, i, items, kind)
    score_i = score[:, None]
    total = tl.zeros([ROWS, COLUMNS], kind)
    for at in range(0, items, COLUMNS):
        j = at + tl.arange(0, COLUMNS)
        real, score, label = load_items(scores, labels, mask, j, items, kind)
        weight = tl.where(label > 0, beside, other).to(kind)[None, :]
        weight = tl.where(real[None, :] & (i[:, None] != j[None, :]), weight, 0)
        excess = hinge(score[None, :], score_i, margin)
        total += weight * excess * excess
    own_term = margin * margin / length
    current = (tl.sum(total, 1) / length + own_term).to(kind)
    slot = tl.load(lookup + row * wide + HEADER + i, mask=real_i, other=0)
    old = tl.load(estimates + slot, mask=real_i, other=float("nan")).to(kind)
    new = old
    if trained:
        weight = length * 0 + (gamma if gamma > 0 else 0.3)  # in double precision
        if gamma == 0:
            weight = tl.where(whole, 1, weight)
        new = old + weight * (current - old)
    new = tl.where(old == old, new, current).to(kind)
    most = tl.load(ideal + tl.load(lookup + row * wide)).to(kind)
    out += start + i
    tl.store(out, tl.where(i == 0, most, 0), mask=i < items)
    tl.store(out + plane, length * new, mask=i < items)
    tl.store(out + 2 * plane, tl.where(real_i, tl.where(label_i > 0, pair, other), 0), mask=i < items)
    tl.store(out + 3 * plane, tl.where(label_i > 0, beside, other), mask=i < items)
    tl.store(out + 4 * plane, new, mask=i < items)


@triton.jit
def keep_kernel(
    lookup,
    sides,
    thresholds,
    estimates,
    threshold,
    curvature,
    out,
    items,
    none,
    block: tl.constexpr,
    trained: tl.constexpr,
    tracked: tl.constexpr,
):
    """Write updated estimates, `tracked` per-query numbers (0 to 2), and the first fault (to `out`).

    The per-query numbers are the threshold and the curvature. A fault recorded earlier is not overwritten.
    """
    row, lists, wide = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64), items + HEADER
    if trained:
        for begin in range(0, items, block):
            j = begin + tl.arange(0, block)
            slot = tl.load(lookup + row * wide + HEADER + j, mask=j < items, other=none)
            new = tl.load(sides + (4 * lists + row) * items + j, mask=j < items, other=0)
            tl.store(estimates + slot, new, mask=slot < none)
        position = tl.load(lookup + row * wide)
        if tracked > 0:
            tl.store(threshold + position, tl.load(thresholds + 5 * row + 3))
        if tracked > 1:
            tl.store(curvature + position, tl.load(thresholds + 5 * row + 4))
    if row == 0:
        first = tl.zeros([block], tl.int64) + lists
        for some in range(0, lists, block):
            at = some + tl.arange(0, block)
            bad = tl.zeros([block], tl.int64)
            for flag in range(1, 4):
                bad += tl.load(lookup + at * wide + flag, mask=at < lists, other=0)
            first = tl.minimum(first, tl.where(bad > 0, at, lists))
        one, n = tl.min(first, 0), tl.arange(0, 16)
        recorded = tl.sum(tl.load(out + n, mask=n < 3, other=0), 0) > 0
        number = tl.load(lookup + one * wide + 1 + n, mask=(n < 9) & (one < lists), other=0)
        tl.store(out + n, number, mask=(n < 9) & (one < lists) & (recorded == 0))


def bound(
    scores: Tensor, labels: Tensor, mask: Tensor, *, module: Song, queries: Tensor, items: Tensor
) -> Evaluated:
    """Evaluate SONG's or K-SONG's objective on sampled lists; in training mode, update the module's state.

    Parameters
    ----------
    scores, labels, mask, queries, items
        As in `lmtune.losses.songs.Song.forward`.
    module : Song
    """
    state, trained, width = module.state, module.training, scores.shape[1]
    lookup = look_up(state, labels, mask, queries, items)
    options = {"margin": module.margin, "gamma": module.gamma or 0.0, "trained": trained}
    inputs = labels, mask, lookup, state.padded_estimate, module.ideal
    sides = fill_planes(estimate_kernel, scores, *inputs, planes=5, **options)
    tracked = module.query_state()
    threshold, curvature, *_ = *tracked, scores, scores

    def write_state(thresholds: Tensor) -> None:
        inputs = lookup, sides, thresholds, state.padded_estimate, threshold, curvature
        options = {"block": block_of(width), "trained": trained, "tracked": len(tracked)}
        options |= {"items": width, "none": len(state.keys) - 1}
        fill(state.fault, keep_kernel, (len(scores),), *inputs, **options)

    basis = BoundInputs(
        sides, lookup, threshold, curvature, state.fault, module.update_options(), write_state
    )
    return fused_song.bound(scores, labels, mask, basis=basis, **module.options())


@triton.jit
def root_kernel(
    scores, mask, weights, targets, out, items, block: tl.constexpr, tau1: tl.constexpr, tau2: tl.constexpr
):
    """Fill the roots of `lmtune.losses.songs.k_song.Slope`, one per list."""
    row = tl.program_id(0)
    start = row.to(tl.int64) * items
    scores, mask, weights = scores + start, mask + start, weights + start
    target = tl.load(targets + row)
    at = solve_root(scores, mask, weights, items, 1.0, target, True, block, tau1, tau2, True)
    tl.store(out + row, at)


def roots(scores: Tensor, weights: Tensor, target: Tensor, *, tau1: float, tau2: float) -> Tensor:
    """Solve for the thresholds of lists too long for the pairwise kernels, float64 (B, 1).

    Parameters
    ----------
    scores, weights : float64 Tensor (B, n)
        Weights are 0 on padding and sum to 1 over a list.
    target : float64 Tensor (B, 1)
    tau1, tau2 : float
    """
    lists, items = scores.shape
    inputs, out = (scores, weights > 0, weights, target), scores.new_empty(lists, 1)
    options = {"items": items, "block": block_of(items), "tau1": tau1, "tau2": tau2}
    return fill(out, root_kernel, (lists,), *inputs, **options)
