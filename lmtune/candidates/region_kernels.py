r"""Numba kernels of regions: bounds of scores over a box of parameters.

In s = log(1 - lambda) and u = log mu, with b = (1 - lambda) |D| / (mu + |D|), z = y / |D| - 1 and
k = mu / (mu + |D|), the logarithm of a document's score is :math:`G = \sum_w \log(1 + b z_w)`.
With :math:`q_w = b z_w / (1 + b z_w)`, :math:`E = \sum q_w` and :math:`F = \sum q_w (1 - q_w)`,

.. math:: \nabla G = (E, -k E), \qquad
    d^T (\nabla^2 G) d = F (d_s - k d_u)^2 - k (1 - k) E d_u^2.

On a box, the difference of G from its linear model around the centre is in an interval: half that of the
quadratic form. b and k are monotone in s and u, and q is monotone in b. Therefore two corners of the box
bound E and F.

For BM25, s is log k1 and u is b. `lmtune.models.taylor_kernels` bounds the difference of a score from its
second-order model, and therefore from a linear one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lmtune.arrays import Doubles, Integers, Integers32
from lmtune.compiled import compiled
from lmtune.models.taylor_kernels import ROWS, bm25_models

# Relative widening of every bound; the computation has some hundred roundings.
_SLACK = 1e-12
# Number of documents above and below rank K in the mean that is the reference plane.
_AROUND = 50
# Number of documents computed at a time, so that intermediate arrays fit into the L1 cache.
_BLOCK = 256


class ScoredTopic(NamedTuple):
    """The arrays for a topic's scores.

    Attributes
    ----------
    bm25 : bool
        Whether the formula is BM25; otherwise two-stage smoothing.
    y : array of float64, shape (terms, documents)
        tf / P(w|C); for BM25 tf.
    length : array of float64, shape (documents,)
        Lengths in tokens; for BM25 divided by their mean.
    occurrences : array of int64, shape (terms,)
        Occurrences of each term in the query.
    weight : array of float64, shape (terms,)
        For BM25, occurrences times idf.
    product : bool
        Whether products of factors stay in the range of a double in the whole grid.
    slack : float
        Bound of rounding errors: computed scores with a smaller difference may be in another order than exact
        ones.
    """

    bm25: bool
    y: Doubles
    length: Doubles
    occurrences: Integers
    weight: Doubles
    product: bool
    slack: float


class _Box(NamedTuple):
    """The centre of a box in s and u, and its half-widths, widened for rounding errors."""

    s: float
    half_s: float
    u: float
    half_u: float


class LinearModels(NamedTuple):
    """Linear models of documents' scores around the centre of a box, each of shape (documents,).

    Attributes
    ----------
    score : G at the centre.
    in_s, in_u : changes of G from the centre to the edges of the box.
    below, above : interval of the remainder, below <= 0 <= above, widened for rounding errors.
    """

    score: Doubles
    in_s: Doubles
    in_u: Doubles
    below: Doubles
    above: Doubles


@compiled()
def prune_cells(
    topic: ScoredTopic, s_edges: Doubles, u_edges: Doubles, factors: Integers, depth: int
) -> tuple[Integers, Integers32]:
    """Return, for each cell of a grid, the documents that can be among the best ``depth`` in it.

    Parameters
    ----------
    topic : ScoredTopic
        The topic's candidates.
    s_edges, u_edges : arrays of float64, ascending
        The cells' bounds in log(1 - lambda) and log mu, or log k1 and b.
    factors : array of int64
        Side lengths, in cells, of the blocks in each step of the pruning, descending to 1.
    depth : int
        The run depth K.

    Returns
    -------
    begin : array of int64, shape (cells + 1,)
        Offset of each cell's documents; u varies fastest.
    kept : array of int32
        Positions of documents, ascending within a cell.
    """
    docs = topic.length.size
    rows, columns = s_edges.size - 1, u_edges.size - 1
    kept = np.arange(docs).astype(np.int32)
    begin = np.array([0, docs], np.int64)
    outer = max(rows, columns)
    outer_columns = 1
    scratch = np.empty((6, docs))
    for factor in factors:
        block_rows = (rows + factor - 1) // factor
        block_columns = (columns + factor - 1) // factor
        inner_begin = np.zeros(block_rows * block_columns + 1, np.int64)
        inner = np.empty(max(2 * kept.size, 16), np.int32)
        filled = 0
        for row in range(block_rows):
            for column in range(block_columns):
                from_row, from_column = row * factor, column * factor
                parent = (from_row // outer) * outer_columns + from_column // outer
                chosen = kept[begin[parent] : begin[parent + 1]]
                if filled + chosen.size > inner.size:
                    larger = np.empty(2 * (filled + chosen.size), np.int32)
                    larger[:filled] = inner[:filled]
                    inner = larger
                if chosen.size <= depth:
                    inner[filled : filled + chosen.size] = chosen
                    filled += chosen.size
                else:
                    s_low, s_high = s_edges[from_row], s_edges[min(from_row + factor, rows)]
                    u_low, u_high = u_edges[from_column], u_edges[min(from_column + factor, columns)]
                    lowest = _bound_box(topic, chosen, s_low, s_high, u_low, u_high, depth, scratch)
                    for i in range(chosen.size):
                        inner[filled] = chosen[i]
                        filled += 1 if scratch[4, i] >= lowest - topic.slack else 0
                inner_begin[row * block_columns + column + 1] = filled
        kept, begin, outer, outer_columns = inner[:filled], inner_begin, factor, block_columns
    return begin, kept.copy()


@compiled()
def _bound_box(
    topic: ScoredTopic,
    chosen: Integers32,
    s_low: float,
    s_high: float,
    u_low: float,
    u_high: float,
    depth: int,
    scratch: Doubles,
) -> float:
    """Bound the differences of documents' scores from a reference plane over a box.

    Fill ``scratch[3]`` and ``scratch[4]`` with the lower and upper bounds of each document. Return the
    ``depth``-th largest of the lower bounds: at any setting in the box, at least ``depth`` documents reach
    it.
    """
    docs = chosen.size
    half_s = 0.5 * (s_high - s_low) + _SLACK * (1.0 + abs(s_low))
    half_u = 0.5 * (u_high - u_low) + _SLACK * (1.0 + max(abs(u_low), abs(u_high)))
    box = _Box(0.5 * (s_low + s_high), half_s, 0.5 * (u_low + u_high), half_u)
    score, in_s, in_u = scratch[0], scratch[1], scratch[2]
    below, above, order = scratch[3], scratch[4], scratch[5]
    for first in range(0, docs, _BLOCK):
        block = slice(first, min(first + _BLOCK, docs))
        models = LinearModels(score[block], in_s[block], in_u[block], below[block], above[block])
        if topic.bm25:
            _bound_bm25(topic, chosen[block], box, models)
        else:
            _bound_two_stage(topic, chosen[block], box, models)
    models = LinearModels(score[:docs], in_s[:docs], in_u[:docs], below[:docs], above[:docs])
    least: float = subtract_plane(models, depth, order)
    return least


@compiled()
def subtract_plane(models: LinearModels, depth: int, order: Doubles) -> float:
    """Replace the remainders by bounds of the differences from a reference plane over the box.

    Parameters
    ----------
    models : LinearModels
        Models of at least `depth` documents. Output: `below` and `above` become the lower and upper bounds.
    depth : int
        The run depth K; the plane is the mean of the models around that rank at the centre.
    order : array of float64, shape (documents,)
        Scratch memory.

    Returns
    -------
    float
        The K-th largest lower bound: at any setting in the box, at least K documents reach it.
    """
    score, in_s, in_u, below, above = models
    docs = score.size
    order[:docs] = score
    worse = min(depth - 1 + _AROUND, docs - 1)
    better = max(depth - 1 - _AROUND, 0)
    low = _select(order, 0, docs, worse)
    high = _select(order, 0, worse + 1, better)
    plane, plane_s, plane_u, near = 0.0, 0.0, 0.0, 0
    for i in range(docs):
        if low <= score[i] <= high:
            plane += score[i]
            plane_s += in_s[i]
            plane_u += in_u[i]
            near += 1
    plane, plane_s, plane_u = plane / near, plane_s / near, plane_u / near
    error = _SLACK * (abs(plane) + abs(plane_s) + abs(plane_u))
    for i in range(docs):
        difference = score[i] - plane
        spread = abs(in_s[i] - plane_s) + abs(in_u[i] - plane_u) + error
        below[i] += difference - spread
        above[i] += difference + spread
        order[i] = below[i]
    least: float = _select(order, 0, docs, depth - 1)
    return least


@compiled()
def _bound_two_stage(topic: ScoredTopic, chosen: Integers32, box: _Box, models: LinearModels) -> None:
    """Fill the models of selected documents for two-stage smoothing."""
    y, length, count, product = topic.y, topic.length, topic.occurrences, topic.product
    s, half_s, u, half_u = box
    score, in_s, in_u, below, above = models
    docs = chosen.size
    keep, keep_low, keep_high = math.exp(s), math.exp(s - half_s), math.exp(min(s + half_s, 0.0))
    rest, rest_low = -math.expm1(s), -math.expm1(s - half_s)
    rest_high = -math.expm1(min(s + half_s, 0.0))
    mu, mu_low, mu_high = math.exp(u), math.exp(u - half_u), math.exp(u + half_u)
    size = np.empty(docs)
    ratio, ratio_low, ratio_high = np.empty(docs), np.empty(docs), np.empty(docs)
    slope, slope_low, slope_high = np.zeros(docs), np.zeros(docs), np.zeros(docs)
    curve_low, curve_high = np.zeros(docs), np.zeros(docs)
    slope_size, curve_size = np.zeros(docs), np.zeros(docs)
    frequency = np.empty(docs)
    for i in range(docs):
        size[i] = length[np.uint64(chosen[i])]
    for i in range(docs):
        ratio[i] = keep / (mu + size[i])
        ratio_low[i] = keep_low / (mu_high + size[i])
        ratio_high[i] = keep_high / (mu_low + size[i])
        score[i] = 1.0 if product else 0.0
    for w in range(count.size):
        row = y[w]
        times = float(count[w])
        for i in range(docs):
            frequency[i] = row[np.uint64(chosen[i])]
        for i in range(docs):
            excess = frequency[i] - size[i]
            factor = (frequency[i] + mu) * ratio[i] + rest
            # q at the smallest and at the largest b.
            factor_low = (frequency[i] + mu_high) * ratio_low[i] + rest_low
            factor_high = (frequency[i] + mu_low) * ratio_high[i] + rest_high
            q_low = excess * ratio_low[i] / factor_low
            q_high = excess * ratio_high[i] / factor_high
            c_low = q_low * (1.0 - q_low)
            c_high = q_high * (1.0 - q_high)
            least, most = (q_low, q_high) if q_low < q_high else (q_high, q_low)
            flat, steep = (c_low, c_high) if c_low < c_high else (c_high, c_low)
            # The maximum of q (1 - q) is at q = 1/2.
            steep = 0.25 if (least < 0.5) & (most > 0.5) else steep
            slope[i] += times * (excess * ratio[i] / factor)
            slope_low[i] += times * least
            slope_high[i] += times * most
            curve_low[i] += times * flat
            curve_high[i] += times * steep
            slope_size[i] += times * (abs(least) + abs(most))
            curve_size[i] += times * (abs(flat) + abs(steep))
        for _ in range(count[w]):
            if product:
                for i in range(docs):
                    score[i] *= (frequency[i] + mu) * ratio[i] + rest
            else:
                for i in range(docs):
                    score[i] += math.log((frequency[i] + mu) * ratio[i] + rest)
    if product:
        for i in range(docs):
            score[i] = math.log(score[i])
    weight = float(count.sum())
    for i in range(docs):
        k = mu / (mu + size[i])
        k_low = mu_low / (mu_low + size[i])
        k_high = mu_high / (mu_high + size[i])
        in_s[i] = slope[i] * half_s
        in_u[i] = k * slope[i] * half_u
        reach = half_s + k_high * half_u
        reach *= reach
        low, high = k_low * (1.0 - k_low), k_high * (1.0 - k_high)
        bend = high if high > low else low
        bend = 0.25 if (k_low < 0.5) & (k_high > 0.5) else bend
        bend *= half_u * half_u
        falling = curve_low[i] if curve_low[i] < 0.0 else 0.0
        rising = curve_high[i] if curve_high[i] > 0.0 else 0.0
        most = slope_high[i] if slope_high[i] > 0.0 else 0.0
        least = slope_low[i] if slope_low[i] < 0.0 else 0.0
        error = _SLACK * (
            abs(score[i]) + weight + slope_size[i] * (half_s + half_u + bend) + curve_size[i] * reach
        )
        below[i] = 0.5 * (falling * reach - bend * most) - error
        above[i] = 0.5 * (rising * reach - bend * least) + error


@compiled()
def _bound_bm25(topic: ScoredTopic, chosen: Integers32, box: _Box, models: LinearModels) -> None:
    """Fill the models of selected documents for BM25."""
    s, half_s, u, half_u = box
    sides = (s - half_s, s + half_s, max(u - half_u, 0.0), min(u + half_u, 1.0))
    out = np.empty((ROWS, chosen.size))
    bm25_models(topic.y, topic.length, chosen, topic.weight, topic.slack, sides, out)
    linear(out, models)


@compiled()
def linear(quadratic: Doubles, models: LinearModels) -> None:
    """Convert quadratic models to linear ones; second-order terms become part of the remainder."""
    for i in range(models.score.size):
        value, to_s, to_u, ss, mixed, uu, remainder = quadratic[:, i]
        error = remainder + abs(mixed)
        error += _SLACK * (abs(value) + abs(to_s) + abs(to_u) + abs(ss) + abs(uu) + error)
        models.score[i], models.in_s[i], models.in_u[i] = value, to_s, to_u
        models.below[i] = min(ss, 0.0) + min(uu, 0.0) - error
        models.above[i] = max(ss, 0.0) + max(uu, 0.0) + error


@compiled()
def _select(values: Doubles, begin: int, end: int, k: int) -> float:
    """Return the element at position k of ``values[begin:end]`` in descending order.

    ``begin <= k < end``. The values are partially sorted in place: larger ones move before position k.
    """
    low, high = begin, end - 1
    while low < high:
        a, b, c = values[low], values[(low + high) // 2], values[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    value: float = values[k]
    return value
