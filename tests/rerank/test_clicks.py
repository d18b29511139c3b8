"""Clicks over propensities: unbiased by enumeration of all clicks, estimates by a log of all orders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses import listnet, ranknet  # noqa: E402
from lmtune.rerank import estimate_propensities, propensity_weights  # noqa: E402

PROPENSITIES = [1.0, 0.5, 0.3, 0.1, 0.05]
SCORES = [0.3, -1.2, 0.8, 0.1, 2.0]
RELEVANT = [0, 1, 0, 1, 1]
SHOWN = [2, 1, 3, 5, 4]  # where the documents stood

Loss = Callable[..., Any]


def value_and_gradient(loss: Loss, labels: Any) -> Any:
    scores = torch.tensor([SCORES], dtype=torch.float64, requires_grad=True)
    value = loss(scores, torch.as_tensor(labels, dtype=torch.float64)[None], reduce="sum")
    value.backward()
    return np.append(value.item(), scores.grad.numpy())


def expected(loss: Loss, weights: Any) -> Any:
    """Go through all sets of clicks, each with its probability."""
    chances = [r * PROPENSITIES[place - 1] for r, place in zip(RELEVANT, SHOWN, strict=True)]
    total = np.zeros(1 + len(SCORES))
    for clicks in itertools.product([0, 1], repeat=len(SCORES)):
        probability = math.prod(c if clicked else 1 - c for c, clicked in zip(chances, clicks, strict=True))
        if probability:
            total += probability * value_and_gradient(loss, np.array(clicks) * weights)
    return total


@pytest.mark.parametrize(
    "loss",
    [
        partial(listnet, target="labels"),
        partial(listnet, target="labels", backend="torch", temperature=0.5),
        partial(ranknet, pairs="all"),
        partial(ranknet, pairs="all", sigma=2.0),
    ],
)
def test_losses_of_weighted_clicks_are_unbiased(loss: Loss) -> None:
    wanted, weights = value_and_gradient(loss, RELEVANT), propensity_weights(SHOWN, PROPENSITIES)
    np.testing.assert_allclose(expected(loss, weights), wanted, rtol=1e-12, atol=1e-12)
    plain, clipped = (expected(loss, own) for own in (1.0, propensity_weights(SHOWN, PROPENSITIES, clip=0.2)))
    assert plain[0] < clipped[0] < wanted[0] - 0.1


def test_pairs_of_a_click_and_none_are_biased() -> None:
    loss = partial(ranknet, pairs="sum")
    weights = propensity_weights(SHOWN, PROPENSITIES)

    def weighted(scores: Any, labels: Any, **_: Any) -> Any:
        """RankNet's sum of which each pair weighs what the clicked one does."""
        [score], [label] = scores, labels
        costs = torch.nn.functional.softplus(score - score[:, None])
        return (label[:, None] * costs * (label == 0)).sum()

    wanted = value_and_gradient(weighted, RELEVANT)
    assert wanted == pytest.approx(value_and_gradient(loss, RELEVANT), rel=1e-12)
    assert expected(weighted, weights)[0] > 1.1 * wanted[0]


def test_all_pairs_written_out() -> None:
    torch.manual_seed(1)
    scores, labels = torch.randn(3, 6, dtype=torch.float64), 3 * torch.rand(3, 6, dtype=torch.float64)
    labels[0, 3:] = 0
    mask = torch.arange(6) < torch.tensor([[6], [4], [1]])
    loss = partial(ranknet, labels=labels, mask=mask, pairs="all", sigma=1.5, reduce="none")
    for row, items in enumerate([6, 4, 1]):
        wanted = sum(
            labels[row, i].item() * math.log1p(math.exp(-1.5 * (scores[row, i] - scores[row, j]).item()))
            for i, j in itertools.permutations(range(items), 2)
        )
        assert loss(scores)[row].item() == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    assert torch.autograd.gradcheck(loss, scores.requires_grad_())
    with pytest.raises(InputError, match="no kernel supports these options"):
        loss(scores, backend="kernels")


def test_propensities_of_shuffled_results() -> None:
    """Each of three documents stands at each position in 1,000 impressions, clicked as often as expected."""
    attraction, examined = [0.9, 0.5, 0.1], [0.8, 0.4, 0.2]
    clicks, positions = [], []
    for order in itertools.permutations(range(3)):
        for place, document in enumerate(order):
            clicked = round(500 * attraction[document] * examined[place])
            clicks += [True] * clicked + [False] * (500 - clicked)
            positions += [place + 1] * 500
    assert estimate_propensities(clicks, positions) == pytest.approx([1.0, 0.5, 0.25], rel=1e-12)


def test_propensities_of_swaps_are_estimated_within_each_swap() -> None:
    """Attraction falls with the rank, so that pooling the swaps would compare different documents."""
    attraction, examined = [0.8, 0.4, 0.2], [1.0, 0.5, 0.25]
    clicks, positions, swapped = [], [], []
    for k in (2, 3):
        for order in ([0, 1, 2], [k - 1, *(d for d in (0, 1, 2) if d not in (0, k - 1)), 0]):
            shown = order if order[0] == 0 or k == 3 else [1, 0, 2]
            for place, document in enumerate(shown):
                clicked = round(1000 * attraction[document] * examined[place])
                clicks += [1] * clicked + [0] * (1000 - clicked)
                positions += [place + 1] * 1000
                swapped += [k] * 1000
    assert estimate_propensities(clicks, positions, swapped) == pytest.approx(examined, rel=1e-12)
    assert estimate_propensities(clicks, positions)[2] < 0.22  # pooled
    with pytest.raises(
        InputError, match="bad swapped positions; accepted: one for each impression, 2 or more"
    ):
        estimate_propensities([1, 0], [1, 2], [1, 1])
    with pytest.raises(InputError, match="a position without impressions of its swap: 2"):
        estimate_propensities([1, 0], [1, 3], [3, 3])


def test_what_is_refused() -> None:
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: estimate_propensities([1, 0], [1]), "clicks and positions differ in shape"),
        (lambda: estimate_propensities([], np.zeros(0, int)), "clicks and positions differ in shape"),
        (lambda: estimate_propensities([1, 2], [1, 2]), "bad click: 2; accepted: 0, 1"),
        (lambda: estimate_propensities([1, np.nan], [1, 2]), "bad click: nan"),
        (lambda: estimate_propensities([1, 1], [1, 3]), "a position without impressions: 2"),
        (lambda: estimate_propensities([0, 1], [1, 2]), "no click at the first position"),
        (lambda: estimate_propensities([1, 1], [0, 1]), "bad position: 0"),
        (lambda: propensity_weights([1.5], [1.0, 1.0]), "bad positions: 'float64'; accepted: integers"),
        (lambda: propensity_weights([1, 3], [1.0, 0.5]), "a position without a propensity: 3; accepted: 1"),
        (lambda: propensity_weights([1, 2], [1.0, 0.0]), "bad propensity: 0.0; accepted: above 0, or clip"),
        (lambda: propensity_weights([1], [np.nan], clip=0.1), "bad propensity: nan"),
        (lambda: propensity_weights([1], [1.0], clip=-1.0), "bad clip: -1.0; accepted: 0 or more"),
        (lambda: propensity_weights([1], [1.0], clip=np.nan), "bad clip: nan"),
    ]
    for call, said in cases:
        with pytest.raises(InputError) as error:
            call()
        assert str(error.value).startswith(said)
    assert propensity_weights([[1, 2]], [1.0, 0.0], clip=0.5).tolist() == [[1.0, 2.0]]
