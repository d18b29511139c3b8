"""NeuralNDCG and its gradient through Sinkhorn's iterations, a query at a time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled
from lmtune.surrogates.packing_kernels import spoiled
from lmtune.surrogates.sum_kernels import add_scaled, lane_dot

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@compiled()
def _times(matrix: Matrix, vector: Vector, out: Vector) -> None:
    for r in range(out.size):
        out[r] = lane_dot(matrix[r], vector)


@compiled()
def _transposed_times(matrix: Matrix, vector: Vector, out: Vector) -> None:
    out[:] = 0.0
    for r in range(vector.size):
        add_scaled(vector[r], matrix[r], out)


@compiled()
def _neural_sort(s: Vector, tau: float, matrix: Matrix) -> None:
    """Fill NeuralSort's matrix: rows are places, columns items, each row sums to 1."""
    n = s.size
    spread = np.zeros(n)
    for j in range(n):
        for i in range(n):
            spread[j] += abs(s[j] - s[i])
    for r in range(n):
        row = matrix[r]
        best = -np.inf
        for j in range(n):
            row[j] = ((n - 1 - 2 * r) * s[j] - spread[j]) / tau
            best = max(best, row[j])
        total = 0.0
        for j in range(n):
            row[j] = math.exp(row[j] - best)
            total += row[j]
        for j in range(n):
            row[j] /= total


@compiled()
def _one(s: Vector, gain: Vector, discount: Vector, tau: float, iterations: int, gradient: Vector) -> float:
    """Return minus a query's smooth NDCG and fill its gradient; gains are shares of IDCG.

    Rows are scaled by u, columns by v. Iteration t takes v_t = 1 / (K' u_{t-1}), u_t = 1 / (K v_t);
    going back, only K's derivative is long, and it is taken row by row from those of each step.
    """
    n = s.size
    matrix = np.empty((n, n))
    _neural_sort(s, tau, matrix)
    u = np.ones((iterations + 1, n))
    v = np.ones((iterations + 1, n))
    work = np.empty(n)
    for t in range(1, iterations + 1):
        _transposed_times(matrix, u[t - 1], work)
        v[t] = 1.0 / work
        _times(matrix, v[t], work)
        u[t] = 1.0 / work
    weighted = v[iterations] * gain
    places = np.empty(n)
    _times(matrix, weighted, places)

    u_bar = -discount * places
    places_bar = -discount * u[iterations]
    loss: float = lane_dot(places_bar, places)
    _transposed_times(matrix, places_bar, work)
    v_bar = work * gain
    rows_bar = np.empty((iterations + 1, n))
    columns_bar = np.empty((iterations + 1, n))
    for t in range(iterations, 0, -1):
        rows_bar[t] = u_bar * (-u[t] * u[t])
        _transposed_times(matrix, rows_bar[t], work)
        add_scaled(1.0, work, v_bar)
        columns_bar[t] = v_bar * (-v[t] * v[t])
        _times(matrix, columns_bar[t], u_bar)
        v_bar[:] = 0.0

    gradient[:] = 0.0
    spread_bar = np.zeros(n)
    for r in range(n):
        row = matrix[r]
        work[:] = 0.0
        add_scaled(places_bar[r], weighted, work)
        for t in range(1, iterations + 1):
            add_scaled(rows_bar[t, r], v[t], work)
            add_scaled(u[t - 1, r], columns_bar[t], work)
        mean = lane_dot(work, row)
        for j in range(n):
            slope = (work[j] - mean) * row[j] / tau
            gradient[j] += (n - 1 - 2 * r) * slope
            spread_bar[j] -= slope
    for j in range(n):
        for i in range(n):
            gradient[j] += (spread_bar[j] + spread_bar[i]) * np.sign(s[j] - s[i])
    return loss


@compiled()
def neural_ndcg_queries(
    first: int,
    last: int,
    scores: Matrix,
    gains: Matrix,
    mask: NDArray[np.bool_],
    discounts: Vector,
    tau: float,
    iterations: int,
    losses: Vector,
    gradients: Matrix,
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
        gradient = np.empty(s.size)
        losses[q] = _one(s, gain, discounts[: s.size], tau, iterations, gradient)
        gradients[q][items] = gradient
