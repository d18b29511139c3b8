"""LambdaRank's weights of average precision against swapping every pair."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from lmtune.losses.packing_kernels import ByLabel, discount_table
from lmtune.losses.pair_kernels import Swaps, weighted_queries


def average_precision(relevant: NDArray[np.bool_]) -> float:
    """Take relevance by rank."""
    ranks = np.flatnonzero(relevant) + 1
    return float((np.arange(1, ranks.size + 1) / ranks).mean())


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_pairs_weigh_what_swapping_them_does_to_average_precision(seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    n, sigma = 14, 1.7
    labels = np.sort(rng.integers(0, 2, n))[::-1].astype(np.float64)
    labels[0], labels[-1] = 1.0, 0.0
    scores, at = rng.normal(size=n), rng.permutation(n).astype(np.float64)
    if ties:
        # With each relevant item ties a nonrelevant one, which ranks first.
        pairs = int(min(labels.sum(), n - labels.sum()))
        at[:pairs] = at[n - pairs :]
    ranking = np.lexsort((labels, -at))
    ordered = labels[ranking] > 0
    loss, gradient = 0.0, np.zeros(n)
    for a, b in itertools.combinations(range(n), 2):
        i, j = sorted((ranking[a], ranking[b]), key=lambda item: -labels[item])
        swapped = ordered.copy()
        swapped[[a, b]] = ordered[[b, a]]
        weight = abs(average_precision(swapped) - average_precision(ordered))
        loss += weight * np.log1p(np.exp(sigma * (scores[j] - scores[i])))
        share = sigma * weight / (1.0 + np.exp(sigma * (scores[i] - scores[j])))
        gradient[i] -= share
        gradient[j] += share
    swaps = Swaps(
        labels[None],
        np.array([labels.sum()]),
        at[None],
        np.argsort(-at)[None],
        True,
        discount_table(n, None),
        np.empty(0),
        0,
    )
    losses, gradients = np.empty(1), np.zeros((1, n))
    lists = ByLabel(scores[None], labels[None], np.arange(n)[None], np.array([n]))
    weighted_queries(0, 1, lists, swaps, sigma, losses, gradients)
    assert losses[0] == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(gradients[0], gradient, rtol=1e-11, atol=1e-14)
