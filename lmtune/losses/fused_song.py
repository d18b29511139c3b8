"""Triton kernels of SONG and K-SONG, like those of ApproxNDCG but with bounds of ranks.

The bound of an item's rank is N g = sum_j max(0, s_j - s_i + c)^2. A separate program per list solves for
K-SONG's threshold in double precision, in a few passes over the list. The state of sampled lists is in
`lmtune.losses.songs.fused_memory`.
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
    fill,
    fill_planes,
    gain_of,
    hinge,
    limit_of,
    load_items,
    query_summary,
    reduce_planes,
    sides_kernel,
    sigmoids,
    smooth_gain,
    store_planes,
)

# Columns of a lookup row before its items' slots: the list's position and `PairState.record_faults`' columns.
HEADER = tl.constexpr(10)
# The solver of K-SONG's thresholds: limit of steps and tolerances, as in `lmtune.losses.songs.k_song`.
_MAX_STEPS, _STEP_TOLERANCE, _VALUE_TOLERANCE = tl.constexpr(80), tl.constexpr(1e-14), tl.constexpr(1e-15)


def block_of(items: int) -> int:
    """Return the block size of programs that loop over a list."""
    return int(min(1024, triton.next_power_of_2(items)))


@triton.jit
def sampling_weights(lookup):
    """Return a list's length N, three sampling weights, and whether the sample is the whole list.

    The weights are those of relevant items, of other items, and of relevant items other than item i.
    """
    sampled, count = tl.load(lookup + 6).to(tl.float64), tl.load(lookup + 7).to(tl.float64)
    sampled_others, others = tl.load(lookup + 8).to(tl.float64), tl.load(lookup + 9).to(tl.float64)
    length = tl.maximum(count + others, 1)
    beside = (count - 1) / tl.maximum(sampled - 1, 1)
    return (
        length,
        count / tl.maximum(sampled, 1),
        others / tl.maximum(sampled_others, 1),
        beside,
        sampled + sampled_others >= length,
    )


@triton.jit
def _sigmoid_slope(x):
    """Return p (1 - p) for p = 1 / (1 + e^-x)."""
    small = tl.exp(-tl.abs(x))
    return small / ((1 + small) * (1 + small))


@triton.jit
def _load(scores, mask, begin, items, block: tl.constexpr):
    j = begin + tl.arange(0, block)
    real = tl.load(mask + j, mask=j < items, other=0) != 0
    return j, real, tl.load(scores + j, mask=real, other=0).to(tl.float64)


@triton.jit
def solve_root(
    scores,
    mask,
    weights,
    items,
    length,
    target,
    active,
    block: tl.constexpr,
    tau1: tl.constexpr,
    tau2: tl.constexpr,
    weighted: tl.constexpr,
):
    """Solve target + tau2 t = mean sigmoid((s - t) / tau1) for t by Newton's method with bisection.

    If `weighted`, the mean has the given weights divided by `length`, else equal weights. If not `active`,
    the result is arbitrary.
    """
    least = tl.full([block], float("inf"), tl.float64)
    most = tl.full([block], float("-inf"), tl.float64)
    for begin in range(0, items, block):
        _, real, score = _load(scores, mask, begin, items, block)
        least = tl.minimum(least, tl.where(real, score, float("inf")))
        most = tl.maximum(most, tl.where(real, score, float("-inf")))
    # Beyond these, the sigmoids are 0 or 1 and only the term tau2 t changes.
    low, high = tl.min(least, 0), tl.max(most, 0)
    low, high = tl.where(low > high, 0.0, low), tl.where(low > high, 0.0, high)  # an empty list
    at = 0.5 * (low + high)
    low = tl.minimum(low - 40.0 * tau1, tl.minimum(-target / tau2, 0.0))
    high = tl.maximum(high + 40.0 * tau1, tl.maximum((1.0 - target) / tau2, 0.0))
    last, left = high - low, tl.where(active, _MAX_STEPS, 0)
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
        flat = tl.abs(tilt) <= _VALUE_TOLERANCE
        done = flat | (tl.abs(last) <= (tau1 + tl.abs(at)) * _STEP_TOLERANCE)
        at += tl.where(flat, 0, last)
        left = tl.where(done, 0, left - 1)
    return at


@triton.jit
def threshold_kernel(
    scores,
    labels,
    mask,
    sides,
    lookup,
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
    solve: tl.constexpr,
    step: tl.constexpr,
    gamma: tl.constexpr,
):
    """Fill five numbers of each list; the last two only if there is a state.

    - the threshold lambda; minus infinity if the whole list is inside the cutoff;
    - (1 / (N L'')) sum_i value_i psi'(s_i - lambda), for the gradient through the threshold, before division
      by the ideal DCG;
    - 1 / (N L'');
    - the next threshold of the state;
    - the next L'' of the state.

    `solve` is "" without a state; otherwise it selects the lists whose threshold is solved for instead of
    read: "unknown", "whole" (unknown or whole) or "all".
    """
    row = tl.program_id(0).to(tl.int64)
    plane = tl.num_programs(0).to(tl.int64) * items
    sides += row * items
    ranks, level = sides + plane, sides + 2 * plane
    scores, labels, mask = scores + row * items, labels + row * items, mask + row * items
    if solve == "":
        count = tl.zeros([block], tl.int32)
        for begin in range(0, items, block):
            _, real, score = _load(scores, mask, begin, items, block)
            count += real.to(tl.int32)
        length = tl.maximum(tl.sum(count, 0), 1).to(tl.float64)
    else:
        lookup += row * (items + HEADER)
        length, _pair, _other, _beside, whole = sampling_weights(lookup)
    cutoff = limit_of(length, k)
    target = (cutoff + epsilon) / length
    if solve == "":
        unknown = length > cutoff
        at = solve_root(scores, mask, scores, items, length, target, unknown, block, tau1, tau2, False)
    else:
        place = tl.load(lookup)
        known = tl.load(threshold + place).to(tl.float64)
        unknown = (known != known) | (solve == "all") | ((solve == "whole") & whole)
        at = solve_root(scores, mask, level, items, length, target, unknown, block, tau1, tau2, True)
        at = tl.where(unknown, at, known)
    above = tl.where(length <= cutoff, float("-inf"), at)
    parts = tl.zeros([block], tl.float64)
    bends = tl.zeros([block], tl.float64)
    pulls = tl.zeros([block], tl.float64)
    for begin in range(0, items, block):
        j, real, score = _load(scores, mask, begin, items, block)
        gain = gain_of(tl.load(labels + j, mask=real, other=-1).to(tl.float64), "exponential")
        value, _ = smooth_gain(gain, tl.load(ranks + j, mask=real, other=1).to(tl.float64), 0, 1.0)
        weight = 1.0 if solve == "" else tl.load(level + j, mask=real, other=0).to(tl.float64)
        part, _ = sigmoids((score - at) / tau1)
        parts += tl.where(real, weight * part, 0)
        bends += tl.where(real, weight * _sigmoid_slope((score - at) / tau1), 0)
        pulls += tl.where(real, weight * value * scale * _sigmoid_slope(scale * (score - above)), 0)
    bend = tau2 + tl.sum(bends, 0) / (length * tau1)
    if gamma > 0:
        before = tl.load(curvature + place).to(tl.float64)
        bend = tl.where(before == before, before + gamma * (bend - before), bend)
    out += 5 * row
    tl.store(out, above)
    tl.store(out + 1, tl.sum(pulls, 0) / (length * bend))
    tl.store(out + 2, 1 / (length * bend))
    if solve != "":
        moved = step * (target + tau2 * at - tl.sum(parts, 0) / length)
        tl.store(out + 3, at - tl.where((solve == "whole") & whole, 0, moved))
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
    has_state: tl.constexpr,
):
    """Fill minus each item's part of the bound of NDCG, and the gradient; scale = 0 selects SONG, not K-SONG.

    With a state, items have sampling weights, labels are not checked, and a recorded fault makes all NaN.
    """
    kind: tl.constexpr = out.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    plane, start = tl.num_programs(0).to(tl.int64) * items, row * items
    scores, labels, mask = scores + start, labels + start, mask + start
    sides, out = sides + start, out + start
    norm, counted, wrong, nonfinite = query_summary(scores, labels, mask, sides, items, kind, True)
    if has_state:
        n = tl.arange(0, 4)
        wrong = tl.sum(tl.load(fault + n, mask=n < 3, other=0), 0) > 0
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real_i, score, label = load_items(scores, labels, mask, i, items, kind)
    rank = tl.load(sides + plane + i, mask=real_i, other=1)
    value, fall_i = smooth_gain(gain_of(label, "exponential"), rank, 0, 1.0)
    through_psi = tl.zeros([ROWS], kind)
    weight_i = tl.full([ROWS], 1, kind)
    if has_state:
        pair = tl.load(sides + 2 * plane + i, mask=real_i, other=0)
        weight_i = tl.load(sides + 3 * plane + i, mask=real_i, other=0)
        value *= pair
        fall_i *= pair
    at = tl.load(thresholds + 5 * row) if scale > 0 else 0.0
    if scale > 0:
        above = score.to(tl.float64) - at
        psi, _ = sigmoids((scale * above).to(kind))
        if theoretical:  # in double precision: if a single item is near the threshold, the terms cancel
            part, _double = smooth_gain(
                gain_of(label.to(tl.float64), "exponential"), rank.to(tl.float64), 0, 1.0
            )
            pull = part * scale * _sigmoid_slope(scale * above)
            moved = tl.load(thresholds + 5 * row + 1)
            if has_state:
                # Item i's own term has weight 1 / N; the terms of other items have their weight in g^_i.
                pull *= pair
                moved = weight_i * moved + (1 - weight_i) * pull * tl.load(thresholds + 5 * row + 2)
            through_psi = (moved * _sigmoid_slope(above / tau1) / tau1 - pull).to(kind)
        value *= psi
        fall_i *= psi
    score_i = score[:, None]
    slope = tl.zeros([ROWS, COLUMNS], kind)
    for begin in range(0, items, COLUMNS):
        j = begin + tl.arange(0, COLUMNS)
        real, score, label_j = load_items(scores, labels, mask, j, items, kind)
        _value, fall = smooth_gain(
            gain_of(label_j, "exponential"), tl.load(sides + plane + j, mask=real, other=1), 0, 1.0
        )
        if scale > 0:
            psi, _ = sigmoids((scale * (score.to(tl.float64) - at)).to(kind))
            fall *= psi
        score_j = score[None, :]
        over, under = hinge(score_i, score_j, margin), hinge(score_j, score_i, margin)
        if has_state:
            fall *= tl.load(sides + 2 * plane + j, mask=real, other=0)
            over *= weight_i[:, None]
            under *= tl.load(sides + 3 * plane + j, mask=real, other=0)[None, :]
        steep = fall[None, :] * over - fall_i[:, None] * under
        # Exclude j = i: its two values of `fall` may be rounded differently and would not cancel.
        other = real_i[:, None] & real[None, :] & (i[:, None] != j[None, :])
        slope += tl.where(other, steep, 0)
    steep = (2 * tl.sum(slope, 1) + through_psi) / norm
    store_planes(out, plane, i, real_i, items, -value / norm, steep, counted, wrong, nonfinite)


class BoundInputs(NamedTuple):
    """Input of the kernels of `bound`: for whole lists from `sides_kernel`, for samples from the state.

    Attributes
    ----------
    sides : Tensor (planes, B, n)
    lookup, threshold, curvature, fault : Tensor
        See `lmtune.losses.songs.fused_memory`; not used without a state.
    update_options : dict
        Options of `threshold_kernel` for updating the state.
    write_state : callable, optional
        Takes the thresholds and updates the state; None without a state.
    """

    sides: Tensor
    lookup: Tensor
    threshold: Tensor
    curvature: Tensor
    fault: Tensor
    update_options: Mapping[str, Any] = MappingProxyType({"solve": "", "step": 0.0, "gamma": 0.0})
    write_state: Callable[[Tensor], object] | None = None


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
    basis: BoundInputs | None = None,
    **search: Any,
) -> Evaluated:
    """Evaluate SONG's objective, or K-SONG's if `scale` is above 0.

    `search` are K-SONG's options `epsilon` and `tau2`. Lists are whole unless there is a `basis` from
    a state.
    """
    k, (lists, items) = cutoff or 0, scores.shape
    if basis is None:
        sides = fill_planes(
            sides_kernel, scores, labels, mask, alpha=margin, k=k, gains="exponential", quantity="hinge"
        )
        basis = BoundInputs(sides, scores, scores, scores, scores)
    thresholds, options = scores, dict[str, Any]()
    if scale:
        thresholds = scores.new_empty(lists, 5, dtype=torch.float64)
        options = {
            "block": block_of(items),
            "k": k,
            "scale": scale,
            "tau1": tau1,
            **search,
            **basis.update_options,
        }
        inputs = scores, labels, mask, *basis[:4]
        fill(thresholds, threshold_kernel, (lists,), *inputs, items=items, **options)
    if basis.write_state is not None:
        basis.write_state(thresholds)
    options = {"margin": margin, "scale": scale, "tau1": tau1, "theoretical": theoretical}
    options["has_state"] = basis.write_state is not None
    lists_of = labels, mask, basis.sides, thresholds, basis.fault
    return reduce_planes(fill_planes(song_kernel, scores, *lists_of, **options))
