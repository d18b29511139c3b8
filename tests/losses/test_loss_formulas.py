"""Each loss against its formula, written out in Python for one query; gradients by differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses import (  # noqa: E402
    LOSSES,
    approx_ndcg,
    lambdarank,
    listmle,
    listnet,
    ndcg_loss2pp,
    neural_ndcg,
    pirank,
    ranknet,
)

pytestmark = pytest.mark.usefixtures("one_thread")

Numbers = Sequence[float]


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def gain(label: float, kind: str) -> float:
    return 2.0**label - 1 if kind == "exponential" else label


def discount(rank: float, k: int | None) -> float:
    return 0.0 if k is not None and rank > k else 1 / math.log2(1 + rank)


def ideal(labels: Numbers, kind: str, k: int | None) -> float:
    gains = sorted((gain(y, kind) for y in labels), reverse=True)
    return sum(g * discount(r, k) for r, g in enumerate(gains, 1))


def ranks(scores: Numbers, labels: Numbers) -> list[float]:
    """Sort by falling score, then rising label; items equal in both share their places' mean."""
    places: dict[tuple[float, float], list[int]] = {}
    for place, key in enumerate(sorted(zip([-s for s in scores], labels, strict=True)), 1):
        places.setdefault(key, []).append(place)
    return [float(np.mean(places[-s, y])) for s, y in zip(scores, labels, strict=True)]


def pairs(labels: Numbers) -> list[tuple[int, int]]:
    items = range(len(labels))
    return [(i, j) for i, j in itertools.product(items, items) if labels[i] > labels[j]]


def ranknet_by_hand(s: Numbers, y: Numbers, *, pairs_: str = "mean", sigma: float = 1) -> float:
    costs = [softplus(-sigma * (s[i] - s[j])) for i, j in pairs(y)]
    return sum(costs) / (max(1, len(costs)) if pairs_ == "mean" else 1)


def measured_by_hand(
    s: Numbers, y: Numbers, *, measure: str, k: int | None = None, sigma: float = 1
) -> float:
    """Swap each pair and measure anew: the sum of [y > 0] / r, of [y > 0 and r <= k] / k; of ARP y alone."""
    r = ranks(s, y)

    def value(places: Numbers) -> float:
        within = [(p, a) for p, a in zip(places, y, strict=True) if a > 0 and (k is None or p <= k)]
        return sum(1 / p if measure == "mrr" else 1 / (k or 0) for p, _ in within)

    total = 0.0
    for i, j in pairs(y):
        swapped = list(r)
        swapped[i], swapped[j] = r[j], r[i]
        weight = y[i] - y[j] if measure == "arp" else abs(value(swapped) - value(r))
        total += weight * softplus(-sigma * (s[i] - s[j]))
    return total


def weighted_by_hand(
    s: Numbers, y: Numbers, *, mu: float, k: int | None = None, sigma: float = 1, gains: str = "exponential"
) -> float:
    r = ranks(s, y)
    total = 0.0
    for i, j in pairs(y):
        weight = abs(discount(r[i], k) - discount(r[j], k))
        if mu and (k is None or min(r[i], r[j]) <= k):
            d = abs(r[i] - r[j])
            weight += mu * (1 / math.log2(1 + d) - 1 / math.log2(2 + d))
        weight *= (gain(y[i], gains) - gain(y[j], gains)) / ideal(y, gains, k)
        total += weight * softplus(-sigma * (s[i] - s[j]))
    return total


def approx_by_hand(
    s: Numbers,
    y: Numbers,
    *,
    alpha: float = 10,
    k: int | None = None,
    alpha_k: float = 10,
    gains: str = "exponential",
) -> float:
    total = 0.0
    for i in range(len(s)):
        rank = 1 + sum(1 / (1 + math.exp(-alpha * (s[j] - s[i]))) for j in range(len(s)) if j != i)
        value = gain(y[i], gains) / math.log2(1 + rank)
        if k is not None:
            value /= 1 + math.exp(-alpha_k * (k + 0.5 - rank))
        total -= value
    return total / ideal(y, gains, k)


def listnet_by_hand(s: Numbers, y: Numbers, *, target: str = "softmax", smoothing: float = 0) -> float:
    log_total = math.log(sum(math.exp(x) for x in s))
    top = sum(math.exp(x) for x in y)
    weights = [math.exp(x) / top if target == "softmax" else x for x in y]
    weights = [(1 - smoothing) * w + smoothing * sum(weights) / len(s) for w in weights]
    return -sum(w * (x - log_total) for w, x in zip(weights, s, strict=True))


def entropy_by_hand(s: Numbers, y: Numbers, *, smoothing: float) -> float:
    of_one = torch.tensor([[smoothing / 2, 1 - smoothing / 2]], dtype=torch.float64)
    costs = []
    for x, label in zip(s, y, strict=True):
        logits = torch.tensor([[0.0, x]], dtype=torch.float64)
        target = of_one if label > 0 else of_one.flip(1)
        costs.append(float(torch.nn.functional.cross_entropy(logits, target)))
    return float(np.mean(costs))


def listmle_shared_by_hand(s: Numbers, y: Numbers) -> float:
    return sum(
        math.log(sum(math.exp(s[j]) for j in range(len(s)) if y[j] <= y[i])) - s[i] for i in range(len(s))
    )


def neural_by_hand(
    s: Numbers,
    y: Numbers,
    *,
    tau: float = 1,
    sinkhorn: int = 50,
    k: int | None = None,
    gains: str = "exponential",
) -> float:
    n = len(s)
    p = np.empty((n, n))
    for r in range(n):
        x = [((n + 1 - 2 * (r + 1)) * a - sum(abs(a - b) for b in s)) / tau for a in s]
        e = np.exp(np.array(x) - max(x))
        p[r] = e / e.sum()
    for _ in range(sinkhorn):
        p = p / p.sum(axis=0, keepdims=True)
        p = p / p.sum(axis=1, keepdims=True)
    g = np.array([gain(x, gains) for x in y])
    places = [discount(r, k) for r in range(1, n + 1)]
    return -float(np.dot(p @ g, places)) / ideal(y, gains, k)


MEASURES: list[tuple[Any, int | None]] = [
    ("mrr", None),
    ("mrr", 3),
    ("precision", 5),
    ("arp", None),
    ("arp", 2),
]
CASES: list[tuple[str, Callable[..., Any], Callable[..., float]]] = [
    ("ranknet", ranknet, ranknet_by_hand),
    (
        "ranknet, sum",
        partial(ranknet, pairs="sum", sigma=2.5),
        partial(ranknet_by_hand, pairs_="sum", sigma=2.5),
    ),
    ("lambdarank", lambdarank, partial(weighted_by_hand, mu=0)),
    (
        "lambdarank@3",
        partial(lambdarank, k=3, sigma=0.5, gains="linear"),
        partial(weighted_by_hand, mu=0, k=3, sigma=0.5, gains="linear"),
    ),
    ("ndcg-loss2++", ndcg_loss2pp, partial(weighted_by_hand, mu=10)),
    (
        "ndcg-loss2++@3",
        partial(ndcg_loss2pp, k=3, mu=4, sigma=1.5),
        partial(weighted_by_hand, mu=4, k=3, sigma=1.5),
    ),
    ("approxndcg", approx_ndcg, approx_by_hand),
    (
        "approxndcg@3",
        partial(approx_ndcg, alpha=2, k=3, alpha_k=1.5, gains="linear"),
        partial(approx_by_hand, alpha=2, k=3, alpha_k=1.5, gains="linear"),
    ),
    *(
        (
            f"lambdarank, {measure}@{k}",
            partial(lambdarank, measure=measure, k=k, sigma=1.5),
            partial(measured_by_hand, measure=measure, k=k, sigma=1.5),
        )
        for measure, k in MEASURES
    ),
    ("listnet", listnet, listnet_by_hand),
    ("listnet, smooth", partial(listnet, smoothing=0.2), partial(listnet_by_hand, smoothing=0.2)),
    (
        "softmax cross-entropy, smooth",
        partial(listnet, target="labels", smoothing=0.2),
        partial(listnet_by_hand, target="labels", smoothing=0.2),
    ),
    ("softmax cross-entropy", partial(listnet, target="labels"), partial(listnet_by_hand, target="labels")),
    ("listmle, shared", partial(listmle, ties="shared"), listmle_shared_by_hand),
    ("neuralndcg", neural_ndcg, neural_by_hand),
    (
        "neuralndcg@3, no scaling",
        partial(neural_ndcg, tau=2.5, sinkhorn=0, k=3, gains="linear"),
        partial(neural_by_hand, tau=2.5, sinkhorn=0, k=3, gains="linear"),
    ),
    ("pirank@5", partial(pirank, k=5, tau=2), partial(neural_by_hand, tau=2, sinkhorn=0, k=5)),
]
NAMES = [name for name, _, _ in CASES]


def query(seed: int, items: int, *, tied: bool) -> tuple[list[float], list[float]]:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=items).round(1 if tied else 9)
    labels = rng.integers(0, 5, size=items)
    labels[0] = 3
    return scores.tolist(), labels.astype(float).tolist()


@pytest.mark.parametrize(("name", "loss", "by_hand"), CASES, ids=NAMES)
@pytest.mark.parametrize("tied", [False, True])
def test_values(name: str, loss: Callable[..., Any], by_hand: Callable[..., float], tied: bool) -> None:
    queries = [query(seed, items, tied=tied) for seed, items in enumerate([1, 2, 7, 40])]
    scores, labels, mask = padded(queries)
    got = loss(scores, labels, mask=mask, reduce="none")
    want = [by_hand(s, y) for s, y in queries]
    assert got.tolist() == pytest.approx(want, rel=1e-12, abs=1e-14)
    assert loss(scores, labels, mask=mask).item() == pytest.approx(np.mean(want), rel=1e-12)
    total = loss(scores, labels, mask=mask, reduce="sum").item()
    assert total == pytest.approx(sum(want), rel=1e-12), name


@pytest.mark.parametrize(("name", "loss", "by_hand"), CASES, ids=NAMES)
@pytest.mark.parametrize("far", [1e3, 1e5, 1e6, -1e6])
@pytest.mark.parametrize("backend", ["kernels", "torch"])
def test_value_is_the_formula_however_large_scores_are(
    name: str, loss: Callable[..., Any], by_hand: Callable[..., float], far: float, backend: str
) -> None:
    """Each formula has differences of scores alone; eighths are exact beside a million in float32."""
    s, y = query(7, 40, tied=False)
    s = [round(8 * own) / 8 for own in s]
    scores = (torch.tensor([s], dtype=torch.float64) + far).float()
    assert loss(scores, torch.tensor([y]), backend=backend).item() == pytest.approx(
        by_hand(s, y), rel=1e-6
    ), name


def padded(queries: list[tuple[list[float], list[float]]]) -> tuple[Any, Any, Any]:
    shape = (len(queries), max(len(s) for s, _ in queries))
    scores, labels = (torch.zeros(shape, dtype=torch.float64) for _ in range(2))
    mask = torch.zeros(shape, dtype=torch.bool)
    for row, (s, y) in enumerate(queries):
        scores[row, : len(s)] = torch.tensor(s, dtype=torch.float64)
        labels[row, : len(y)] = torch.tensor(y, dtype=torch.float64)
        mask[row, : len(s)] = True
    return scores, labels, mask


# The weights of LambdaRank and NDCG-Loss2++ are constants to the gradient, and steps in the scores;
# between two steps, where these scores are, both are the same.
@pytest.mark.parametrize(("name", "loss", "by_hand"), CASES, ids=NAMES)
def test_gradients_by_differences(name: str, loss: Callable[..., Any], by_hand: Callable[..., float]) -> None:
    assert by_hand is not None
    queries = [query(seed, items, tied=False) for seed, items in enumerate([2, 5, 9])]
    scores, labels, mask = padded(queries)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s: loss(s, labels, mask=mask, reduce="none"), scores, eps=1e-6, atol=1e-7
    ), name


def test_lambdarank_gradient_is_the_lambdas() -> None:
    s, y = query(5, 30, tied=True)
    scores = torch.tensor([s], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(lambdarank(scores, torch.tensor([y]), sigma=2.0), scores)
    r = ranks(s, y)
    want = np.zeros(len(s))
    for i, j in pairs(y):
        swap = abs(gain(y[i], "exponential") - gain(y[j], "exponential"))
        swap *= abs(discount(r[i], None) - discount(r[j], None)) / ideal(y, "exponential", None)
        force = 2.0 * swap / (1 + math.exp(2.0 * (s[i] - s[j])))
        want[i] -= force
        want[j] += force
    np.testing.assert_allclose(gradient.numpy()[0], want, rtol=1e-12, atol=1e-15)


def test_listmle_of_distinct_labels_is_the_formula() -> None:
    s, y = [0.3, -1.0, 2.0, 0.5], [2.0, 0.0, 1.0, 3.0]
    order = [3, 0, 2, 1]
    want = sum(math.log(sum(math.exp(s[j]) for j in order[place:])) - s[i] for place, i in enumerate(order))
    got = listmle(torch.tensor([s], dtype=torch.float64), torch.tensor([y]))
    assert got.item() == pytest.approx(want, rel=1e-14)


@pytest.mark.parametrize("positions", ["log2", "exponential"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_position_aware_listmle_is_the_formula(positions: Any, dtype: Any) -> None:
    rng = np.random.default_rng(4)
    made = [(rng.normal(size=n), rng.permutation(n).astype(float)) for n in (1, 2, 9, 400)]
    queries = [(s.tolist(), y.tolist()) for s, y in made]
    scores, labels, mask = padded(queries)
    scores, labels[0, 0] = scores.to(dtype).requires_grad_(), 1
    found = listmle(scores, labels, mask=mask, positions=positions, reduce="none")
    wanted = []
    for (_, y), s in zip(queries, scores.detach().double().tolist(), strict=True):
        n, total = len(y), 0.0
        order = sorted(range(n), key=lambda i, y=y: -y[i])  # type: ignore[misc]
        for k, i in enumerate(order, 1):
            # As a ratio of whole numbers, which neither overflow nor cancel.
            weight = (2 ** (n - k) - 1) / max(1, 2 ** (n - 1) - 1)
            if positions == "log2":
                weight = 1 / math.log2(1 + k)
            total += weight * (math.log(math.fsum(math.exp(s[j]) for j in order[k - 1 :])) - s[i])
        wanted.append(total)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=tolerance, atol=1e-14)
    if dtype == torch.float64:
        some = scores[:3, :9].detach().requires_grad_()
        lists = labels[:3, :9], mask[:3, :9]
        assert torch.autograd.gradcheck(
            lambda s: listmle(s, lists[0], mask=lists[1], positions=positions, reduce="none"), some
        )


def test_listmle_draws_every_order_of_ties_alike() -> None:
    scores = torch.tensor([[1.0, 0.0, -1.0]], dtype=torch.float64)
    labels = torch.tensor([[1, 1, 0]])
    generator = torch.Generator().manual_seed(0)
    drawn = listmle(scores.expand(4000, 3), labels.expand(4000, 3), reduce="none", generator=generator)
    values, counts = np.unique(drawn.numpy(), return_counts=True)
    assert len(values) == 2
    assert abs(counts[0] - 2000) < 5 * math.sqrt(1000)


def test_listmle_seed_repeats_a_draw() -> None:
    scores, labels = torch.randn(1, 50), torch.zeros(1, 50)
    labels[:, 0] = 1
    drawn = {listmle(scores, labels, seed=seed).item() for seed in (1, 2, 1, 2)}
    assert len(drawn) == 2
    with pytest.raises(InputError, match="seed and generator were both passed"):
        listmle(scores, labels, seed=1, generator=torch.Generator())


def test_steep_sigmoids_give_ndcg_itself() -> None:
    scores = torch.tensor([[0.9, 0.5, 0.1, -0.2]], dtype=torch.float64)
    labels = torch.tensor([[0, 2, 1, 3]])
    dcg = 3 / math.log2(3) + 1 / 2
    ndcg = dcg / (7 + 3 / math.log2(3) + 1 / 2)
    steep = approx_ndcg(scores, labels, alpha=1e4, k=3, alpha_k=1e4)
    assert steep.item() == pytest.approx(-ndcg, rel=1e-9)
    assert neural_ndcg(scores, labels, tau=1e-3, k=3).item() == pytest.approx(-ndcg, rel=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_bad_input_is_named(name: str) -> None:
    loss = LOSSES[name]
    scores, labels = torch.zeros(2, 3), torch.ones(2, 3)
    for arguments, options, said in [
        ((torch.zeros(2, 3, 2), torch.ones(2, 3, 2)), {}, "wrong shape"),
        ((torch.zeros(2, 3, dtype=torch.long), labels), {}, "not floating-point"),
        ((scores, torch.ones(3, 2)), {}, "labels and scores differ"),
        ((scores, labels), {"mask": torch.ones(2, 4, dtype=torch.bool)}, "mask and scores differ"),
        ((scores, labels), {"mask": torch.ones(2, 3)}, "not boolean"),
        ((scores, -2 * labels), {}, "negative or NaN"),
        ((scores, labels * math.nan), {}, "negative or NaN"),
        ((scores, labels), {"reduce": "max"}, "unknown reduce"),
    ]:
        with pytest.raises(InputError, match=said):
            loss(*arguments, **options)


def test_bad_options_are_named() -> None:
    scores, labels = torch.zeros(1, 2), torch.ones(1, 2)
    cases: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
        (ranknet, {"sigma": 0.0}, "sigma"),
        (ranknet, {"pairs": "each"}, "pairs"),
        (ranknet, {"backend": "cuda"}, "backend"),
        (lambdarank, {"k": 0}, "bad k"),
        (lambdarank, {"gains": "cubic"}, "gains"),
        (ndcg_loss2pp, {"mu": -1.0}, "mu"),
        (approx_ndcg, {"alpha": math.inf}, "alpha"),
        (neural_ndcg, {"tau": 0.0}, "tau"),
        (neural_ndcg, {"sinkhorn": -1}, "sinkhorn"),
        (listnet, {"target": "uniform"}, "target"),
        (listmle, {"ties": "first"}, "ties"),
        (listmle, {"ties": "shared", "positions": "log2"}, "ties=shared does not support position weights"),
        (listmle, {"positions": "log2", "backend": "kernels"}, "no kernel supports these options"),
        (lambdarank, {"measure": "precision"}, "measure=precision needs k"),
        (lambdarank, {"measure": "ap"}, "measure"),
        (listnet, {"smoothing": 1.0}, "smoothing"),
    ]
    for loss, options, said in cases:
        with pytest.raises(InputError, match=said):
            loss(scores, labels, **options)


def test_label_smoothing_of_binary_cross_entropy_is_torchs() -> None:
    loss = partial(LOSSES["binary-cross-entropy"], smoothing=0.3)
    queries = [query(seed, items, tied=False) for seed, items in enumerate([1, 5, 9])]
    scores, labels, mask = padded(queries)
    found = loss(scores, labels, mask=mask, reduce="none")
    wanted = [entropy_by_hand(s, y, smoothing=0.3) for s, y in queries]
    assert found.tolist() == pytest.approx(wanted, rel=1e-12)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: loss(s, labels, mask=mask, reduce="none"), scores)


def test_binary_cross_entropy_is_torchs() -> None:
    s, y = torch.randn(3, 7, dtype=torch.float64), torch.arange(21).reshape(3, 7) % 3
    mask = torch.arange(7) < torch.tensor([[7], [4], [2]])
    own = LOSSES["binary-cross-entropy"](s, y, mask=mask, reduce="none")
    for row in range(3):
        real = mask[row]
        want = torch.nn.functional.binary_cross_entropy_with_logits(s[row, real], (y[row, real] > 0).double())
        torch.testing.assert_close(own[row], want)


def test_margin_mse_is_the_mean_over_pairs_and_sentence_transformers() -> None:
    s, y = torch.randn(3, 7, dtype=torch.float64), 5 * torch.rand(3, 7, dtype=torch.float64)
    sizes = [7, 4, 1]
    own = LOSSES["margin-mse"](s, y, mask=torch.arange(7) < torch.tensor(sizes)[:, None], reduce="none")
    for row, size in enumerate(sizes):
        margins = [
            ((s[row, i] - s[row, j]) - (y[row, i] - y[row, j])) ** 2
            for i, j in itertools.combinations(range(size), 2)
        ]
        want = float(np.mean(margins)) if margins else 0.0
        assert own[row] == pytest.approx(want, rel=1e-12)
    pairs_of_two = torch.nn.functional.mse_loss(s[:, 0] - s[:, 1], y[:, 0] - y[:, 1])
    torch.testing.assert_close(LOSSES["margin-mse"](s[:, :2], y[:, :2]), pairs_of_two)


def test_adr_mse_is_the_mean_over_items() -> None:
    s, y = torch.randn(3, 7, dtype=torch.float64), torch.arange(21).reshape(3, 7) % 3
    sizes = [7, 4, 2]
    options: dict[str, Any] = {"mask": torch.arange(7) < torch.tensor(sizes)[:, None], "alpha": 2.0}
    s.requires_grad_()
    own = LOSSES["adr-mse"](s, y, reduce="none", **options)
    for row, size in enumerate(sizes):
        want = 0.0
        for i in range(size):
            others = [j for j in range(size) if j != i]
            rank = 1 + sum(float(y[row, j] > y[row, i]) + float(y[row, j] == y[row, i]) / 2 for j in others)
            smooth = 1 + sum(1 / (1 + math.exp(-2 * (s[row, j] - s[row, i]).item())) for j in others)
            want += (rank - smooth) ** 2 / math.log2(1 + rank) / size
        assert float(own[row]) == pytest.approx(want, rel=1e-12)
    assert torch.autograd.gradcheck(lambda s: LOSSES["adr-mse"](s, y, reduce="none", **options), (s,))


def test_sl_at_k_weighs_the_softmax_loss() -> None:
    s, y = torch.randn(3, 7, dtype=torch.float64), torch.tensor([[2, 0, 0, 1, 0, 0, 1]] * 3)
    sizes, k = [7, 4, 2], 3
    mask = torch.arange(7) < torch.tensor(sizes)[:, None]
    s.requires_grad_()
    options = {"k": k, "temperature": 0.5, "weight_temperature": 2.0}
    own = LOSSES["slatk"](s, y, mask=mask, reduce="none", **options)
    want = torch.zeros(3, dtype=torch.float64)
    for row, size in enumerate(sizes):
        relevant = [i for i in range(size) if y[row, i] > 0]
        least = sorted(s[row, :size].tolist())[-k] if size >= k else -math.inf
        for i in relevant:
            weight = 1 / (1 + math.exp(-(float(s[row, i]) - least) / 2.0))
            softmax = torch.exp((s[row, :size] - s[row, i]) / 0.5).sum().log()
            want[row] = want[row] + weight * softmax / len(relevant)
    torch.testing.assert_close(own, want)
    slopes = [torch.autograd.grad(value.sum(), s, retain_graph=True)[0] for value in (own, want)]
    torch.testing.assert_close(*slopes)


def test_listnet_with_a_temperature_is_the_divergence_from_a_teacher() -> None:
    s, y = (
        torch.randn(4, 6, dtype=torch.float64, requires_grad=True),
        9 * torch.rand(4, 6, dtype=torch.float64),
    )
    mask = torch.arange(6) < torch.tensor([[6], [5], [2], [1]])
    for backend in ("kernels", "torch"):
        own = listnet(s, y, mask=mask, temperature=2.5, reduce="none", backend=backend)
        own.sum().backward()  # type: ignore[no-untyped-call]
        gradient, s.grad = s.grad, None
        want = torch.zeros(4, dtype=torch.float64)
        for row in range(4):
            student, teacher = ((x[row, mask[row]] / 2.5).log_softmax(0) for x in (s, y))
            divergence = torch.nn.functional.kl_div(student, teacher, log_target=True, reduction="sum")
            want[row] = divergence - (teacher.exp() * teacher).sum()
        torch.testing.assert_close(own.detach(), want.detach())
        want.sum().backward()
        torch.testing.assert_close(gradient, s.grad)
        s.grad = None


def test_listnet_of_lists_with_one_relevant_item_is_infonce() -> None:
    s, positive = torch.randn(5, 8, dtype=torch.float64), torch.tensor([0, 3, 7, 2, 2])
    labels = torch.nn.functional.one_hot(positive, 8)
    own = listnet(s, labels, target="labels", temperature=0.05)
    torch.testing.assert_close(own, torch.nn.functional.cross_entropy(s / 0.05, positive))
