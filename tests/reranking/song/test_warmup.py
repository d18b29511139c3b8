"""The warm-up's cross-entropy against torch's, and fresh last layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.reranking.song import ListwiseCrossEntropy, RelevantPairs, reinitialise_last_layer  # noqa: E402


def data(seed: int, spread: float = 1.0) -> tuple[Any, Any, RelevantPairs, dict[str, Any]]:
    random = np.random.default_rng(seed)
    labels = torch.tensor(random.integers(0, 4, (3, 7))).double()
    labels[:, 0] = 1
    scores = torch.tensor(spread * random.standard_normal((3, 7))).requires_grad_()
    pairs = RelevantPairs.from_lists([0, 7, 14, 21], labels.flatten().numpy())
    return scores, labels, pairs, {"queries": torch.arange(3), "items": torch.arange(21).reshape(3, 7)}


@pytest.mark.parametrize("spread", [1.0, 60.0])
def test_gamma_1_is_cross_entropy(spread: float) -> None:
    scores, labels, pairs, ids = data(0, spread)
    loss = ListwiseCrossEntropy(pairs, gamma=1.0)(scores, labels, **ids)
    (given,) = torch.autograd.grad(loss, scores)
    target = labels / labels.sum(1, keepdim=True)
    wanted = -(target * torch.log_softmax(scores, 1)).sum(1).mean()
    (exact,) = torch.autograd.grad(wanted, scores)
    assert float(loss.detach()) == pytest.approx(float(wanted.detach()), rel=1e-6)
    torch.testing.assert_close(given, exact, rtol=1e-6, atol=1e-9)


def test_moving_average_and_gradient() -> None:
    scores, labels, pairs, ids = data(1)
    loss = ListwiseCrossEntropy(pairs, gamma=0.3).double()
    loss(scores, labels, **ids)
    with torch.no_grad():
        later = (scores * 1.7).requires_grad_()
    value = loss(later, labels, **ids)
    (given,) = torch.autograd.grad(value, later)

    def inner(s: Any) -> Any:
        return torch.exp(s[:, None, :] - s[:, :, None]).mean(2)

    u = 0.7 * inner(scores.detach()) + 0.3 * inner(later.detach())
    torch.testing.assert_close(loss.state.estimate.exp(), u[labels > 0], rtol=1e-12, atol=0)
    target = labels / labels.sum(1, keepdim=True)
    (exact,) = torch.autograd.grad((target * inner(later) / u).sum() / 3, later)
    torch.testing.assert_close(given, exact, rtol=1e-10, atol=1e-12)
    assert float(value.detach()) == pytest.approx(float((target * (7 * u).log()).sum() / 3))


def test_scores_of_60_do_not_poison_the_state() -> None:
    scores, labels, pairs, ids = data(2)
    loss = ListwiseCrossEntropy(pairs, gamma=0.3)
    far = torch.where(labels > 0, -60.0, 60.0).double().requires_grad_()
    for step in (scores, far, -far.detach(), 100 * far.detach(), scores):
        step = step.detach().requires_grad_()
        value = loss(step, labels, **ids)
        (gradient,) = torch.autograd.grad(value, step)
        assert torch.isfinite(gradient).all()
        assert torch.isfinite(value)
        assert torch.isfinite(loss.state.estimate).all()
        # g^ / u is at most 1 / gamma, whatever came before.
        assert float(gradient.abs().max()) <= 1 / 0.3
    for _ in range(40):
        loss(scores, labels, **ids)
    fresh = ListwiseCrossEntropy(pairs)
    fresh(scores, labels, **ids)
    near = loss.state.estimate - fresh.state.estimate
    assert float(near.abs().max()) < 0.01


def test_lists_do_not_see_each_other() -> None:
    scores, labels, pairs, ids = data(3)
    alone = ListwiseCrossEntropy(pairs, gamma=0.5)
    value = alone(scores[:1], labels[:1], queries=ids["queries"][:1], items=ids["items"][:1])
    (first,) = torch.autograd.grad(value, scores)
    together = ListwiseCrossEntropy(pairs, gamma=0.5)
    shifted = scores.detach().clone()
    shifted[1:] += 500.0
    shifted.requires_grad_()
    (both,) = torch.autograd.grad(together(shifted, labels, **ids), shifted)
    torch.testing.assert_close(3 * both[0], first[0], rtol=1e-12, atol=0)


@pytest.mark.parametrize("n", [1, 4])
def test_degenerate(n: int) -> None:
    for labels in (torch.zeros(1, n), torch.ones(1, n)):
        scores = torch.zeros(1, n, requires_grad=True)
        pairs = RelevantPairs.from_lists([0, n], labels.flatten().numpy())
        loss = ListwiseCrossEntropy(pairs)
        value = loss(scores, labels, queries=torch.tensor([0]), items=torch.arange(n)[None])
        (gradient,) = torch.autograd.grad(value, scores)
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-7)
        wanted = float(np.log(n)) if labels.any() else 0.0
        assert float(value.detach()) == pytest.approx(wanted, abs=1e-6)


def test_last_layer() -> None:
    network: Any = torch.nn.Sequential(
        torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1), torch.nn.Dropout()
    )
    kept = network[0].weight.clone()
    state = torch.get_rng_state()
    assert id(reinitialise_last_layer(network, seed=1)) == id(network[2])
    drawn = network[2].weight.clone()
    reinitialise_last_layer(network, seed=1)
    assert torch.equal(network[2].weight, drawn)
    reinitialise_last_layer(network, seed=2)
    assert not torch.equal(network[2].weight, drawn)
    assert torch.equal(network[0].weight, kept)
    assert torch.equal(torch.get_rng_state(), state)
    assert reinitialise_last_layer(network, seed=0, layer=network[0]) is network[0]
    with pytest.raises(InputError, match="no layer"):
        reinitialise_last_layer(torch.nn.ReLU(), seed=0)
