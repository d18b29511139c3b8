"""P@k, nDCG@k and their propensity-scored forms, against counting by hand."""

from __future__ import annotations

import math
from itertools import pairwise, permutations

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.measures.label_measures import inverse_propensities, parse_label_measure, values_of_ranks

NAMES = ("p@1", "p@3", "ndcg@3", "ndcg@9", "psp@1", "psp@3", "psndcg@3", "psndcg@9")


def brute(kind: str, k: int, relevant: list[int], order: list[int], inverse: list[float]) -> float:
    """Return a measure of one example's ranking as it is defined, without the mean over examples."""
    hits = [(rank, label) for rank, label in enumerate(order[:k], 1) if label in relevant]
    weights = {label: inverse[label] if kind.startswith("ps") else 1.0 for label in relevant}
    if kind.endswith("p"):
        return sum(weights[label] for _, label in hits) / k
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(relevant)) + 1))
    return sum(weights[label] / math.log2(rank + 1) for rank, label in hits) / ideal


@pytest.mark.parametrize("name", NAMES)
def test_measures_against_all_orders(name: str) -> None:
    random = np.random.default_rng(5)
    kind, k = name.split("@")
    examples = [sorted(random.permutation(5)[: 1 + row % 3].tolist()) for row in range(8)]
    scores = random.integers(0, 3, (8, 5))  # ties are common
    inverse = random.uniform(1.0, 9.0, 5).tolist()
    mean_of_orders, best = [], []
    for relevant, own in zip(examples, scores.tolist(), strict=True):
        values = [
            brute(kind, int(k), relevant, [*order], inverse)
            for order in permutations(range(5))
            if all(own[a] >= own[b] for a, b in pairwise(order))
        ]
        mean_of_orders.append(np.mean(values))
        best.append(max(brute(kind, int(k), relevant, [*order], inverse) for order in permutations(range(5))))
    expected = np.array(mean_of_orders) / (np.mean(best) if kind.startswith("ps") else 1.0)
    lists = np.repeat(np.arange(8), [*map(len, examples)])
    items = np.concatenate(examples)
    own = scores[lists, items][:, None]
    above, tied = (scores[lists] > own).sum(1), (scores[lists] == own).sum(1)
    found = values_of_ranks(lists, np.array(inverse)[items], above, tied, [parse_label_measure(name)])
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-12)


def test_propensities_by_hand() -> None:
    # 1 + 3.60517 * 1.65526 / 3.83164, with ln 100 - 1, 2.5^.55 and 11.5^.55; and of a label without an
    # example.
    found = inverse_propensities(np.array([10, 0]), 100)
    rare = 1 + (math.log(100) - 1) * 2.5**0.55 / 1.5**0.55
    np.testing.assert_allclose(found, [2.55743, rare], rtol=1e-6)
    amazon = inverse_propensities(np.array([3]), 1000, a=0.6, b=2.6)
    assert amazon[0] == pytest.approx(1 + (math.log(1000) - 1) * math.exp(-0.6 * math.log(5.6)) * 3.6**0.6)


def test_scored_measures_are_one_for_the_best_ranking() -> None:
    lists, weights = np.array([0, 0, 1]), np.array([2.0, 5.0, 3.0])
    above, tied = np.array([1, 0, 0]), np.ones(3, np.int64)
    measures = [parse_label_measure(name) for name in ("psp@1", "psndcg@2")]
    assert values_of_ranks(lists, weights, above, tied, measures).mean(0) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("name", ["p", "p@0", "map@5", "ndcg@5@1", "p@-1"])
def test_unknown_measures(name: str) -> None:
    with pytest.raises(InputError, match=r"unknown measure of labels: .*accepted: p@5, ndcg@5"):
        parse_label_measure(name)
    assert str(parse_label_measure(" PSnDCG@5")) == "PSnDCG@5"
