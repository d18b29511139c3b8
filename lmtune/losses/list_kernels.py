"""Kernels of listwise losses: ListNet, ListMLE and NeuralNDCG."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Doubles, Floats, Integers
from lmtune.compiled import compiled
from lmtune.losses.exponential_kernels import add_scaled, decay, lane_dot, lane_max, lane_sum
from lmtune.losses.packing_kernels import ByLabel, mark_nonfinite

# Factors are multiplied while the product is in this range; then one logarithm is taken.
_LEAST, _MOST = 1e-250, 1e250


@compiled()
def fill_shares(values: Floats, mask: NDArray[np.bool_], powers: Floats) -> tuple[Any, float]:
    """Fill `powers` with e^(value - maximum), 0 on padding; return the maximum and the sum."""
    lowest, zero = values.dtype.type(-np.inf), values.dtype.type(0.0)
    for i in range(values.size):
        powers[i] = values[i] if mask[i] else lowest
    best = lane_max(powers)
    for i in range(values.size):
        powers[i] = decay(best - powers[i])
    for i in range(values.size):
        powers[i] = powers[i] if mask[i] else zero
    return best, lane_sum(powers)


@compiled()
def listnet_queries(
    first: int,
    last: int,
    scores: Floats,
    labels: Floats,
    mask: NDArray[np.bool_],
    softmax: bool,
    losses: Floats,
    gradients: Floats,
) -> None:
    """Fill ListNet's losses and gradients of queries ``first`` to ``last - 1``.

    Parameters
    ----------
    first, last : int
    scores, labels : arrays of shape (queries, items)
        Of the same floating-point type as the losses and gradients; 0 on padding.
    mask : bool array of shape (queries, items)
    softmax : bool
        Whether targets are the softmax of the labels instead of the labels.
    losses : array of shape (queries,)
    gradients : array of shape (queries, items)
    """
    shares, weights, zeros = np.empty_like(scores[0]), np.empty_like(scores[0]), np.zeros_like(scores[0])
    behind = np.empty(scores.shape[1])
    for q in range(first, last):
        s, real = scores[q], mask[q]
        losses[q] = 0.0
        if not real.any():
            continue
        best, total = fill_shares(s, real, shares)
        targets = weights if softmax else labels[q]
        scale = 1.0 / fill_shares(labels[q], real, weights)[1] if softmax else 1.0
        weight = scale * lane_sum(targets)
        # Each item's cost is ln(total) + best - s_i, a sum of terms that are not negative: no cancellation.
        for i in range(s.size):
            behind[i] = float(best) - s[i]
        losses[q] = weight * math.log(total) + scale * lane_dot(behind, targets)
        share_factor, target_factor = s.dtype.type(weight / total), s.dtype.type(scale)
        for i in range(s.size):
            gradients[q, i] = share_factor * shares[i] - target_factor * targets[i]
        nonfinite = lane_dot(s, zeros)  # NaN if a score is not finite, else 0
        if nonfinite != 0.0:
            losses[q] = nonfinite
            gradients[q] = np.where(real, nonfinite, 0.0)


@compiled()
def shuffle_ties(first: int, last: int, lists: ByLabel, draws: Doubles) -> None:
    """Shuffle items with equal labels by Fisher and Yates' method.

    Parameters
    ----------
    first, last : int
        As in `listnet_queries`.
    lists : ByLabel
        Its order is changed in place.
    draws : float64 array of shape (queries, items)
        Independent random numbers, uniform in [0, 1).
    """
    for q in range(first, last):
        items = lists.order[q, : lists.real[q]]
        start = 0
        for i in range(1, items.size):
            if lists.labels[q, items[i]] != lists.labels[q, items[start]]:
                start = i
            other = start + int(draws[q, i] * (i - start + 1))
            items[i], items[other] = items[other], items[i]


@compiled()
def _references(s: Doubles, powers: Doubles, references: Doubles) -> None:
    """Fill r_i = max(s_i, s_(i+1), ...) and e^(s_i - r_i)."""
    reference = -np.inf
    for i in range(s.size - 1, -1, -1):
        reference = max(reference, s[i])
        references[i] = reference
    for i in range(s.size):
        powers[i] = decay(references[i] - s[i])


@compiled()
def listmle_queries(
    first: int, last: int, lists: ByLabel, shared: bool, losses: Floats, gradients: Floats
) -> None:
    """Fill ListMLE's losses and gradients of queries ``first`` to ``last - 1``.

    Parameters
    ----------
    first, last, losses, gradients
        As in `listnet_queries`.
    lists : ByLabel
        Its order is the target ranking.
    shared : bool
        Whether items with equal labels share one denominator.
    """
    for q in range(first, last):
        items = lists.order[q, : lists.real[q]]
        if mark_nonfinite(lists.scores[q][items], items, q, losses, gradients):
            continue
        s = lists.scores[q][items].astype(np.float64)
        n = s.size
        powers, references, totals = np.empty(n), np.empty(n), np.empty(n)
        _references(s, powers, references)
        total = 0.0
        for i in range(n - 1, -1, -1):
            if i + 1 < n and references[i] != references[i + 1]:
                total *= math.exp(references[i + 1] - references[i])
            total += powers[i]
            totals[i] = total
        # Item i occurs in the denominators of all ranks up to its own (if shared, up to the last rank of its
        # label). Its gradient is e^s_i times the sum of the inverse denominators, minus 1.
        loss, inverse, product, start = 0.0, 0.0, 1.0, 0
        while start < n:
            stop = start + 1
            while shared and stop < n and lists.labels[q, items[stop]] == lists.labels[q, items[start]]:
                stop += 1
            if not _LEAST < product < _MOST:
                loss += math.log(product)
                product = 1.0
            if stop == start + 1:
                product *= totals[start]
            else:
                loss += (stop - start) * math.log(totals[start])
            for i in range(start, stop):
                if i > 0 and references[i] != references[i - 1]:
                    inverse *= math.exp(references[i] - references[i - 1])
                if i == start:
                    inverse += (stop - start) / totals[i]
                loss += references[start] - s[i]
                gradients[q, items[i]] = powers[i] * inverse - 1.0
            start = stop
        losses[q] = loss + math.log(product)


_FARTHEST = 40.0


@compiled()
def _spreads(s: Doubles) -> Doubles:
    """For falling scores, return sum_i |s_j - s_i| for each j."""
    n = s.size
    centre = lane_sum(s) / n
    total, above = 0.0, 0.0
    for j in range(n):
        total += s[j] - centre
    spreads = np.empty(n)
    for j in range(n):
        centred = s[j] - centre
        below = total - above - centred
        spreads[j] = (above - j * centred) + ((n - 1 - j) * centred - below)
        above += centred
    return spreads


@compiled()
def _neural_sort(s: Doubles, tau: float, matrix: Doubles, edges: Integers) -> None:
    """Fill NeuralSort's matrix: rows are ranks, columns items by falling score; each row sums to 1.

    A row has a single peak. Entries below e^-40 times the peak are left out, far below rounding errors. The
    entries of all rows are stored consecutively in `matrix`: row r has columns ``edges[r, 0]`` to
    ``edges[r, 1] - 1``, and its first entry is at index ``edges[r, 2]``.
    """
    n, start = s.size, 0
    centred = s - lane_sum(s) / n  # otherwise, rounding of large scores may exceed differences of exponents
    scaled, spread = centred / tau, _spreads(centred) / tau
    exponents = np.empty(n)
    for r in range(n):
        tilt = n - 1.0 - 2.0 * r
        for j in range(n):
            exponents[j] = tilt * scaled[j] - spread[j]
        best = lane_max(exponents)
        first, last = 0, n
        while exponents[first] < best - _FARTHEST:
            first += 1
        while exponents[last - 1] < best - _FARTHEST:
            last -= 1
        edges[r, 0], edges[r, 1], edges[r, 2] = first, last, start
        row = matrix[start : start + last - first]
        start += last - first
        for j in range(last - first):
            row[j] = decay(best - exponents[first + j])
        total = lane_sum(row)
        for j in range(last - first):
            row[j] /= total


@compiled()
def _row(matrix: Doubles, edges: Integers, r: int) -> tuple[int, int, Doubles]:
    """Return the first column of row r's entries, the end of its columns, and the entries."""
    first, last, start = edges[r]
    return first, last, matrix[start : start + last - first]


@compiled()
def _scaled(matrix: Doubles, edges: Integers, column: Doubles, row: Doubles, sums: Doubles) -> None:
    """Fill the row factors for given column factors, and the column sums of the row-scaled matrix."""
    sums[:] = 0.0
    for r in range(row.size):
        first, last, entries = _row(matrix, edges, r)
        row[r] = 1.0 / lane_dot(entries, column[first:last])
        add_scaled(row[r], entries, sums[first:last])


@compiled()
def _neural_ndcg(
    s: Doubles, gain: Doubles, discount: Doubles, tau: float, iterations: int, gradient: Doubles
) -> float:
    """Return minus a query's smooth NDCG and fill its gradient; gains are divided by IDCG.

    Items are by falling score. Rows of the matrix K are scaled by u, columns by v. Iteration t computes
    v_t = 1 / (K' u_{t-1}) and u_t = 1 / (K v_t). The backward pass keeps only vectors per iteration; the
    gradient in K is a sum of outer products of these, evaluated row by row.
    """
    n = s.size
    matrix, edges = np.empty(n * n), np.empty((n, 3), np.int64)
    _neural_sort(s, tau, matrix, edges)
    u, v = np.ones((iterations + 1, n)), np.ones((iterations + 1, n))
    sums = np.zeros(n)
    for r in range(n):
        first, last, entries = _row(matrix, edges, r)
        add_scaled(1.0, entries, sums[first:last])
    for t in range(1, iterations + 1):
        v[t] = 1.0 / sums
        _scaled(matrix, edges, v[t], u[t], sums)

    # Backward pass: one pass over the rows computes both a row's product and its part of the column products.
    weighted = v[iterations] * gain
    places_bar = -discount * u[iterations]
    rows_bar, columns_bar = np.zeros((iterations + 1, n)), np.zeros((iterations + 1, n))
    loss, v_bar = 0.0, np.zeros(n)
    for r in range(n):
        first, last, entries = _row(matrix, edges, r)
        product = lane_dot(entries, weighted[first:last])
        loss += places_bar[r] * product
        add_scaled(places_bar[r], entries, v_bar[first:last])
        rows_bar[iterations, r] = discount[r] * product * u[iterations, r] ** 2
    v_bar *= gain
    for r in range(n):
        first, last, entries = _row(matrix, edges, r)
        add_scaled(rows_bar[iterations, r], entries, v_bar[first:last])
    for t in range(iterations, 0, -1):
        columns_bar[t] = v_bar * (-v[t] * v[t])
        v_bar[:] = 0.0
        for r in range(n):
            first, last, entries = _row(matrix, edges, r)
            u_bar = lane_dot(entries, columns_bar[t, first:last])
            rows_bar[t - 1, r] = -u_bar * u[t - 1, r] ** 2
            add_scaled(rows_bar[t - 1, r], entries, v_bar[first:last])

    left = np.vstack((places_bar.reshape(1, n), rows_bar[1:], u[:-1]))
    right = np.vstack((weighted.reshape(1, n), v[1:], columns_bar[1:]))
    _neural_sort_gradient(s, tau, matrix, edges, left, right, gradient)
    return loss


@compiled()
def _neural_sort_gradient(
    s: Doubles, tau: float, matrix: Doubles, edges: Integers, left: Doubles, right: Doubles, gradient: Doubles
) -> None:
    """Fill the gradient in the scores from the gradient in the matrix, a sum of outer products.

    Parameters
    ----------
    left, right : float64 arrays of shape (products, items)
        Factors of the products along the matrix's rows and columns.
    """
    n = s.size
    gradient[:] = 0.0
    spread_bar, work = np.zeros(n), np.empty(n)
    for r in range(n):
        first, last, row = _row(matrix, edges, r)
        row_bar = work[first:last]
        row_bar[:] = 0.0
        for t in range(left.shape[0]):
            add_scaled(left[t, r], right[t, first:last], row_bar)
        mean = lane_dot(row_bar, row)
        tilt = n - 1.0 - 2.0 * r
        for j in range(last - first):
            slope = (row_bar[j] - mean) * row[j] / tau
            gradient[first + j] += tilt * slope
            spread_bar[first + j] -= slope
    # The derivative of |s_j - s_i| in s_j is -1 for i above j, 1 for i below j, 0 for equal scores.
    total, above, start = lane_sum(spread_bar), 0.0, 0
    while start < n:
        stop = start + 1
        while stop < n and s[stop] == s[start]:
            stop += 1
        equal = lane_sum(spread_bar[start:stop])
        for j in range(start, stop):
            gradient[j] += (n - stop - start) * spread_bar[j] + (total - above - equal) - above
        above += equal
        start = stop


@compiled()
def neural_ndcg_queries(
    first: int,
    last: int,
    scores: Doubles,
    gains: Doubles,
    mask: NDArray[np.bool_],
    discounts: Doubles,
    tau: float,
    iterations: int,
    losses: Doubles,
    gradients: Doubles,
) -> None:
    """Fill NeuralNDCG's losses and gradients of queries ``first`` to ``last - 1``.

    Parameters
    ----------
    first, last : int
    scores : float64 array of shape (queries, items)
    gains : float64 array of shape (queries, items)
        Divided by each query's ideal DCG.
    mask : bool array of shape (queries, items)
    discounts : float64 array of shape (items,)
        Discounts of the ranks.
    tau : float
    iterations : int
    losses : float64 array of shape (queries,)
    gradients : float64 array of shape (queries, items)
        Must be 0 on padding.
    """
    for q in range(first, last):
        items = np.flatnonzero(mask[q])
        s = scores[q][items]
        if mark_nonfinite(s, items, q, losses, gradients):
            continue
        gain = gains[q][items]
        losses[q] = 0.0
        if not gain.any():
            continue
        order = np.argsort(-s)
        gradient = np.empty(s.size)
        losses[q] = _neural_ndcg(s[order], gain[order], discounts[: s.size], tau, iterations, gradient)
        gradients[q][items[order]] = gradient
