"""The fast cost of a linear net against the sum over pairs, and against torch's RankNet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from experiments.spsa.gradients import fdsa_gradient
from experiments.spsa.linear import LinearMeasure, LinearRankNet
from lmtune.errors import InputError
from lmtune.measures.lists import ndcg
from lmtune.rerank.data import RankingData


def made(seed: int, queries: int = 7, features: int = 5) -> RankingData:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, queries)
    lengths[0] = 12
    x = rng.normal(size=(lengths.sum(), features))
    labels = rng.integers(0, 4, lengths.sum())
    labels[:2] = 0, 1
    return RankingData.from_lengths(x, labels, lengths)


def by_hand(data: RankingData, w: NDArray[np.float64]) -> tuple[float, int]:
    total, pairs = 0.0, 0
    scores = data.features.astype(np.float64) @ w
    for q in range(len(data.queries)):
        s, y = scores[data.rows(q)], data.labels[data.rows(q)]
        for i in range(s.size):
            for j in range(s.size):
                if y[i] > y[j]:
                    total += float(np.logaddexp(0.0, s[j] - s[i]))
                    pairs += 1
    return total / pairs, pairs


@pytest.mark.slow
@given(seed=st.integers(0, 200), scale=st.sampled_from([1e-9, 0.1, 1.0, 30.0, 300.0, 1e5]))
def test_the_cost_is_the_sum_over_pairs(seed: int, scale: float) -> None:
    data = made(seed)
    net = LinearRankNet(data)
    points = np.random.default_rng(seed).normal(size=(3, 5)) * scale
    expected = [by_hand(data, w) for w in points]
    assert {pairs for _, pairs in expected} == {net.pairs}
    costs = [cost for cost, _ in expected]
    np.testing.assert_allclose(net.exact_costs(points), costs, rtol=1e-12)
    np.testing.assert_allclose(net.costs(points), costs, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.slow
@given(seed=st.integers(0, 50))
def test_the_gradient_is_the_costs(seed: int) -> None:
    net = LinearRankNet(made(seed))
    w = np.random.default_rng(seed).normal(size=5)
    differences = fdsa_gradient(net.exact_costs, w, 1e-5, together=True)
    np.testing.assert_allclose(net.gradient(w), differences, atol=1e-9)


def test_no_score_is_too_large_for_the_gradient() -> None:
    net = LinearRankNet(made(3))
    assert np.isfinite(net.gradient(np.full(5, 1e6))).all()
    assert np.isfinite(net.costs(np.full((1, 5), 1e6))).all()


def test_long_lists_need_many_products() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    data = RankingData.from_lengths(rng.normal(size=(400, 2)) * 20, labels, [400])
    w = np.array([1.0, -2.0])
    assert LinearRankNet(data).exact_costs(w[None])[0] == pytest.approx(by_hand(data, w)[0], rel=1e-12)


def test_it_agrees_with_the_loss_that_nets_are_trained_with() -> None:
    torch = pytest.importorskip("torch")
    from lmtune.losses import ranknet

    data = made(5, queries=1)
    net = LinearRankNet(data)
    w = torch.tensor(np.random.default_rng(1).normal(size=5), requires_grad=True)
    scores = (torch.tensor(data.features).double() @ w)[None]
    loss = ranknet(scores, torch.tensor(data.labels)[None], pairs="sum", backend="torch")
    loss.backward()  # type: ignore[no-untyped-call]
    point = w.detach().numpy()
    assert net.exact_costs(point[None])[0] == pytest.approx(loss.item() / net.pairs, rel=1e-12)
    np.testing.assert_allclose(net.gradient(point), w.grad.numpy() / net.pairs, rtol=1e-10)


def test_no_pair_is_refused() -> None:
    data = RankingData.from_lengths([[0.0], [1.0]], [1, 1], [2])
    with pytest.raises(InputError, match="no pair"):
        LinearRankNet(data)


def test_a_measure_is_that_of_the_scores() -> None:
    data = made(4, queries=9)
    ranked = LinearMeasure(data, "ndcg@3")
    points = np.random.default_rng(2).normal(size=(4, 5))
    expected = np.array([ndcg(data.features @ w.astype(np.float32), data, [3])[:, 0] for w in points])
    np.testing.assert_allclose(ranked.values(points[1]), expected[1], rtol=1e-12)
    np.testing.assert_allclose(ranked.means(points), np.nanmean(expected, axis=1), rtol=1e-12)
    assert ranked.features == 5
