"""Losses of scores with Gumbel noise: averages written out, the noise's law, and what is refused."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses import LOSSES, lambdarank, listmle, ranknet, song, stochastic  # noqa: E402
from lmtune.losses.derived import with_noise  # noqa: E402
from lmtune.rerank.loss_names import parse_loss  # noqa: E402
from lmtune.rerank.training.objectives import BatchLabels, make_objective  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

SCORES = torch.tensor([[0.5, -1.0, 1.5], [1.0, 0.0, 9.0], [0.1, 0.2, 0.3]], dtype=torch.float64)
LABELS = torch.tensor(
    [[0, 1, 2], [1, 0, -1], [0, 0, 0]]
)  # a place of padding, a query without a relevant item


def seeded(seed: int) -> Any:
    return torch.Generator().manual_seed(seed)


def no_pairs() -> Any:
    raise AssertionError("these losses remember nothing")


def gumbel(seed: int, *shape: int) -> Any:
    return -torch.log(-torch.log(torch.rand(shape, dtype=torch.float64, generator=seeded(seed))))


@pytest.mark.parametrize("name", LOSSES)
def test_the_mean_over_draws_written_out(name: str) -> None:
    options = {"ties": "shared"} if name == "listmle" else {}  # which draws nothing itself
    loss, draws = LOSSES[name], 5
    found, wanted = SCORES.clone().requires_grad_(), SCORES.clone().requires_grad_()
    noise = gumbel(1, 3, draws, 3).unbind(dim=1)
    each = torch.stack([loss(wanted + own, LABELS, reduce="none", **options) for own in noise]).mean(0)
    for reduce, value in (("none", each), ("sum", each.sum()), ("mean", each.sum() / 2)):
        got = stochastic(loss, draws)(found, LABELS, reduce=reduce, generator=seeded(1), **options)
        torch.testing.assert_close(got, value)
    got.backward()  # type: ignore[no-untyped-call]
    (each.sum() / 2).backward()
    torch.testing.assert_close(found.grad, wanted.grad)


def test_orders_are_drawn_from_plackett_luce() -> None:
    scores, draws = torch.tensor([[0.5, -1.0, 1.5, 0.0]]), 40_000
    orders = with_noise(scores, draws, seeded(3))[0].argsort(dim=1, descending=True).tolist()
    power = scores[0].double().exp().tolist()
    counts = dict.fromkeys(itertools.permutations(range(4)), 0)
    for order in orders:
        counts[tuple(order)] += 1
    for order, count in counts.items():
        likelihood = math.prod(power[i] / sum(power[j] for j in order[k:]) for k, i in enumerate(order))
        assert abs(count / draws - likelihood) < 5 * math.sqrt(likelihood / draws)


def test_the_expectation_of_ranknet_is_its_integral() -> None:
    """A difference of two draws is logistic; the loss of a pair is -ln sigmoid of it and the scores'."""
    gap, pairs = 0.7, 2000
    middles = (np.arange(200_000) + 0.5) / 200_000
    logistic = np.log(middles) - np.log1p(-middles)
    cost, slope = np.logaddexp(0, -gap - logistic), -1 / (1 + np.exp(gap + logistic))
    scores = torch.tensor([[gap, 0.0]]).double().repeat(pairs, 1).requires_grad_()
    labels = torch.tensor([[1, 0]]).repeat(pairs, 1)
    value = stochastic(ranknet, 100)(scores, labels, generator=seeded(2))
    value.backward()  # type: ignore[no-untyped-call]
    within = 5 / math.sqrt(pairs * 100)
    assert abs(value.item() - cost.mean()) < within * cost.std()
    assert abs(scores.grad[:, 0].sum().item() - slope.mean()) < within * slope.std()


def test_a_seed_repeats_the_draws_the_loss_s_own_too() -> None:
    labels = torch.tensor([[0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 1]])
    scores = torch.linspace(-2, 2, 12).reshape(3, 4).double()

    def values(seed: int) -> list[float]:
        return [
            stochastic(loss, 3)(scores, labels, generator=seeded(seed)).item()
            for loss in (lambdarank, listmle)
        ]

    assert values(4) == values(4)
    assert all(one != other for one, other in zip(values(4), values(5), strict=True))
    lists = [scores[0], scores[1]]  # lists of their own lengths, and half precision
    both = [
        stochastic(ranknet, 3)(given, labels[:2], generator=seeded(6))
        for given in (scores[:2], torch.stack(lists))
    ]
    assert both[0] == both[1] == stochastic(ranknet, 3)(lists, list(labels[:2]), generator=seeded(6))
    assert stochastic(ranknet, 3)(scores.half(), labels).dtype == torch.float32


@pytest.mark.parametrize("name", ["lambdarank:k=2", "approxndcg", "listmle", "ranknet@teacher"])
def test_every_loss_by_name_takes_it(name: str) -> None:
    teacher = np.array([2, 0, 1, 0, 1, 1], np.float32)
    rows, mask = torch.arange(6).reshape(2, 3), torch.ones(2, 3, dtype=torch.bool)
    labels = torch.tensor([[1, 0, 2], [0, 1, 1]])
    batch = BatchLabels(7, labels, mask, torch.arange(2), rows)
    objective = make_objective(parse_loss(f"{name}:gumbel=4"), no_pairs, "cpu", teacher)
    value, _ = objective(batch, SCORES[:2])
    loss = parse_loss(name)
    function = stochastic(LOSSES[loss.name.removesuffix("@teacher")], 4)
    aims = torch.from_numpy(teacher).view(2, 3) if "@" in name else labels
    assert value == function(SCORES[:2], aims, generator=seeded(7), **loss.options)
    if "listmle" not in name:  # parts of a batch draw what one process would
        cut = (slice(n, n + 1) for n in range(2))
        parts = [BatchLabels(7, labels[n], mask[n], torch.arange(2)[n], rows[n], n.start) for n in cut]
        split = [objective(part, SCORES[n : n + 1])[0] for n, part in enumerate(parts)]
        torch.testing.assert_close(sum(split) / 2, value)


def test_weights_of_topics_go_over_the_draws() -> None:
    labels, mask = torch.tensor([[1, 0, 2], [0, 1, 1]]), torch.ones(2, 3, dtype=torch.bool)
    batch = BatchLabels(7, labels, mask, torch.arange(2), torch.arange(6).reshape(2, 3))
    weighted = make_objective(
        parse_loss("lambdarank:gumbel=4"), no_pairs, "cpu", weights=np.array([1.0, 3.0])
    )
    each = stochastic(lambdarank, 4)(SCORES[:2], labels, reduce="none", generator=seeded(7))
    torch.testing.assert_close(weighted(batch, SCORES[:2])[0], (0.5 * each[0] + 1.5 * each[1]) / 2)


def test_what_is_refused() -> None:
    for name, said in {
        "lambdarank:gumbel=-1": "lambdarank: bad gumbel: -1; accepted: 0 to 1000",
        "ranknet:gumbel=2000": "ranknet: bad gumbel: 2000; accepted: 0 to 1000",
        "listnet:gumbel=some": "listnet: bad gumbel: 'some'; accepted: an integer",
        "song:gumbel=8": "song has no such option: 'gumbel'",
    }.items():
        with pytest.raises(InputError) as error:
            parse_loss(name)
        assert str(error.value).startswith(said)
    with pytest.raises(InputError, match="a stochastic loss needs at least one draw: 0; accepted: 1 or more"):
        stochastic(ranknet, 0)
    with pytest.raises(InputError, match="bad draws: 1001; accepted: 0 to 1000"):
        stochastic(ranknet, 1001)
    with pytest.raises(InputError, match="loss cannot be stochastic"):
        stochastic(song, 2)
    with pytest.raises(InputError, match=r"labels and scores differ in shape: \(3, 2\)"):
        stochastic(ranknet, 2)(SCORES, LABELS[:, :2])
