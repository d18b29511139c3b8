"""NeuralNDCG and its gradient through Sinkhorn's iterations, a query at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Doubles, Integers
from lmtune.compiled import compiled
from lmtune.losses.exponential_kernels import add_scaled, decay, lane_dot, lane_max, lane_sum
from lmtune.losses.packing_kernels import spoiled

_FARTHEST = 40.0


@compiled()
def _spreads(s: Doubles) -> Doubles:
    """For scores that fall, sum |s_j - s_i| over all i."""
    n = s.size
    centre = lane_sum(s) / n
    total, above = 0.0, 0.0
    for j in range(n):
        total += s[j] - centre
    spreads = np.empty(n)
    for j in range(n):
        own = s[j] - centre
        below = total - above - own
        spreads[j] = (above - j * own) + ((n - 1 - j) * own - below)
        above += own
    return spreads


@compiled()
def _neural_sort(s: Doubles, tau: float, matrix: Doubles, edges: Integers) -> None:
    """Fill NeuralSort's matrix: rows are places, columns items by falling score; rows sum to 1.

    A row's exponents rise to one peak and fall: what is below e^-40 of the peak, far beyond
    rounding, is left out. Row r's entries, in its columns ``edges[r, 0]`` to ``edges[r, 1] - 1``,
    stand in `matrix` one after the other, those of all rows likewise; the first is ``edges[r, 2]``.
    """
    n, start = s.size, 0
    centred = s - lane_sum(s) / n  # a row's exponents may differ by less than large scores are rounded by
    steep, spread = centred / tau, _spreads(centred) / tau
    exponents = np.empty(n)
    for r in range(n):
        place = n - 1.0 - 2.0 * r
        for j in range(n):
            exponents[j] = place * steep[j] - spread[j]
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
    """Return the columns of row r's entries, the first and the one after the last, and the entries."""
    first, last, start = edges[r]
    return first, last, matrix[start : start + last - first]


@compiled()
def _scaled(matrix: Doubles, edges: Integers, column: Doubles, row: Doubles, sums: Doubles) -> None:
    """Fill row factors, 1 over the rows' sums with the columns scaled; and the columns' sums with these."""
    sums[:] = 0.0
    for r in range(row.size):
        first, last, own = _row(matrix, edges, r)
        row[r] = 1.0 / lane_dot(own, column[first:last])
        add_scaled(row[r], own, sums[first:last])


@compiled()
def _one(
    s: Doubles, gain: Doubles, discount: Doubles, tau: float, iterations: int, gradient: Doubles
) -> float:
    """Return minus a query's smooth NDCG and fill its gradient; gains are shares of IDCG.

    Items come by falling score. Rows are scaled by u, columns by v. Iteration t takes
    v_t = 1 / (K' u_{t-1}), u_t = 1 / (K v_t); going back, only K's derivative is long, and it is
    taken row by row from those of each step.
    """
    n = s.size
    matrix, edges = np.empty(n * n), np.empty((n, 3), np.int64)
    _neural_sort(s, tau, matrix, edges)
    u, v = np.ones((iterations + 1, n)), np.ones((iterations + 1, n))
    sums = np.zeros(n)
    for r in range(n):
        first, last, own = _row(matrix, edges, r)
        add_scaled(1.0, own, sums[first:last])
    for t in range(1, iterations + 1):
        v[t] = 1.0 / sums
        _scaled(matrix, edges, v[t], u[t], sums)

    # Going back, each pass over the matrix takes a row's product and adds the row to the columns'.
    weighted = v[iterations] * gain
    places_bar = -discount * u[iterations]
    rows_bar, columns_bar = np.zeros((iterations + 1, n)), np.zeros((iterations + 1, n))
    loss, v_bar = 0.0, np.zeros(n)
    for r in range(n):
        first, last, own = _row(matrix, edges, r)
        place = lane_dot(own, weighted[first:last])
        loss += places_bar[r] * place
        add_scaled(places_bar[r], own, v_bar[first:last])
        rows_bar[iterations, r] = discount[r] * place * u[iterations, r] ** 2
    v_bar *= gain
    for r in range(n):
        first, last, own = _row(matrix, edges, r)
        add_scaled(rows_bar[iterations, r], own, v_bar[first:last])
    for t in range(iterations, 0, -1):
        columns_bar[t] = v_bar * (-v[t] * v[t])
        v_bar[:] = 0.0
        for r in range(n):
            first, last, own = _row(matrix, edges, r)
            u_bar = lane_dot(own, columns_bar[t, first:last])
            rows_bar[t - 1, r] = -u_bar * u[t - 1, r] ** 2
            add_scaled(rows_bar[t - 1, r], own, v_bar[first:last])

    left = np.vstack((places_bar.reshape(1, n), rows_bar[1:], u[:-1]))
    right = np.vstack((weighted.reshape(1, n), v[1:], columns_bar[1:]))
    _through_neural_sort(s, tau, matrix, edges, left, right, gradient)
    return loss


@compiled()
def _through_neural_sort(
    s: Doubles, tau: float, matrix: Doubles, edges: Integers, left: Doubles, right: Doubles, gradient: Doubles
) -> None:
    """Fill the gradient in the scores, where that in the matrix is the sum of outer products.

    Parameters
    ----------
    left, right : float64 arrays of shape (products, items)
        Along the matrix's rows and along its columns.
    """
    n = s.size
    gradient[:] = 0.0
    spread_bar, work = np.zeros(n), np.empty(n)
    for r in range(n):
        first, last, row = _row(matrix, edges, r)
        own = work[first:last]
        own[:] = 0.0
        for t in range(left.shape[0]):
            add_scaled(left[t, r], right[t, first:last], own)
        mean = lane_dot(own, row)
        place = n - 1.0 - 2.0 * r
        for j in range(last - first):
            slope = (own[j] - mean) * row[j] / tau
            gradient[first + j] += place * slope
            spread_bar[first + j] -= slope
    # |s_j - s_i| has the slopes of s_j: -1 for each i above, 1 for each below, 0 for equal ones.
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
    """Fill the losses and gradients of queries ``first`` to ``last`` (not included).

    Parameters
    ----------
    first, last : int
    scores : float64 array of shape (queries, items)
    gains : float64 array of shape (queries, items)
        Divided by each query's ideal DCG.
    mask : bool array of shape (queries, items)
    discounts : float64 array of shape (items,)
        Of each place.
    tau : float
    iterations : int
    losses : float64 array of shape (queries,)
    gradients : float64 array of shape (queries, items)
        0 on padding already.
    """
    for q in range(first, last):
        items = np.flatnonzero(mask[q])
        s = scores[q][items]
        if spoiled(s, items, q, losses, gradients):
            continue
        gain = gains[q][items]
        losses[q] = 0.0
        if not gain.any():
            continue
        order = np.argsort(-s)
        gradient = np.empty(s.size)
        losses[q] = _one(s[order], gain[order], discounts[: s.size], tau, iterations, gradient)
        gradients[q][items[order]] = gradient
