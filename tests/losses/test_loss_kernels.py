"""The compiled losses against the same losses in plain PyTorch."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts import run_python
from support import SAMPLED

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses import approx_ndcg, lambdarank, listmle, listnet, ndcg_loss2pp, neural_ndcg, ranknet  # noqa: E402
from lmtune.losses.approx_kernels import approx_queries  # noqa: E402
from lmtune.losses.evaluation import PaddedLists  # noqa: E402
from lmtune.losses.list_kernels import listmle_queries, listnet_queries, neural_ndcg_queries  # noqa: E402
from lmtune.losses.packing_kernels import doubled_ranks  # noqa: E402
from lmtune.losses.pair_kernels import ranknet_queries, weighted_queries  # noqa: E402
from lmtune.losses.plain_torch import ranks  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

VARIANTS: dict[str, Callable[..., Any]] = {
    "ranknet": ranknet,
    "ranknet, sum, steep": partial(ranknet, pairs="sum", sigma=3.0),
    "lambdarank": lambdarank,
    "lambdarank@10": partial(lambdarank, k=10, sigma=0.7, gains="linear"),
    "lambdarank, mrr": partial(lambdarank, measure="mrr", sigma=0.7),
    "lambdarank, precision@10": partial(lambdarank, measure="precision", k=10),
    "lambdarank, arp@10": partial(lambdarank, measure="arp", k=10),
    "ndcgloss2++": ndcg_loss2pp,
    "ndcgloss2++@10": partial(ndcg_loss2pp, k=10, mu=3.0, gains="linear"),
    "approxndcg": approx_ndcg,
    "listnet": listnet,
    "listnet, smooth": partial(listnet, smoothing=0.1),
    "softmax cross-entropy": partial(listnet, target="labels"),
    "listmle": partial(listmle, seed=1),
    "listmle, shared": partial(listmle, ties="shared"),
    "neuralndcg": partial(neural_ndcg, sinkhorn=7),
    "neuralndcg@10": partial(neural_ndcg, tau=30.0, sinkhorn=0, k=10),
    "approxndcg@10": partial(approx_ndcg, alpha=2.0, k=10, alpha_k=0.01),
}
KERNELS = [
    *(ranknet_queries, weighted_queries, approx_queries),
    *(listnet_queries, listmle_queries, neural_ndcg_queries),
]
NEURAL = [loss for name, loss in VARIANTS.items() if name.startswith("neural")]
every_loss = pytest.mark.parametrize("loss", VARIANTS.values(), ids=VARIANTS.keys())


def made(queries: int, items: int, *, tied: bool, seed: int = 0) -> tuple[Any, Any, Any]:
    """Make lists of several lengths, in the proportions of labels that MSLR-WEB30K has."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(queries, items))
    if tied:
        scores = scores.round(1)
    labels = rng.choice(5, size=scores.shape, p=[0.52, 0.32, 0.13, 0.02, 0.01])
    mask = rng.random(scores.shape) < rng.uniform(0.3, 1, size=(queries, 1))
    return torch.from_numpy(scores), torch.from_numpy(labels), torch.from_numpy(mask)


def run(loss: Any, scores: Any, labels: Any, mask: Any, **options: Any) -> tuple[Any, Any]:
    scores = scores.clone().requires_grad_()
    value = loss(scores, labels, mask=mask, reduce="none", **options)
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    return value.detach().numpy(), gradient.numpy()


@every_loss
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-12)])
@pytest.mark.parametrize("items", [1, 37, 600])
def test_kernels_agree_with_torch(loss: Any, tied: bool, dtype: str, tolerance: float, items: int) -> None:
    scores, labels, mask = made(2 if SAMPLED else 6, items, tied=tied)
    scores = scores.to(getattr(torch, dtype))
    value, gradient = run(loss, scores, labels, mask, backend="kernels")
    want, slope = run(loss, scores, labels, mask, backend="torch")
    assert value.dtype == gradient.dtype == dtype
    np.testing.assert_allclose(value, want, rtol=tolerance, atol=tolerance / 100)
    largest = np.abs(slope).max(axis=1, keepdims=True) + 1e-30
    assert (np.abs(gradient - slope) / largest).max() < tolerance


@every_loss
def test_single_precision_is_near_double(loss: Any) -> None:
    """Sums over long lists lose nothing that shows."""
    scores, labels, mask = made(2, 900 if loss in NEURAL else 3000, tied=False)
    scores = scores.float()
    value, gradient = run(loss, scores, labels, mask)
    want, slope = run(loss, scores.double(), labels, mask)
    np.testing.assert_allclose(value, want, rtol=1e-6)
    assert np.abs(gradient - slope).max() < 2e-6 * np.abs(slope).max()


@every_loss
def test_threads_change_nothing(loss: Any) -> None:
    scores, labels, mask = made(9, 400, tied=True)
    alone = run(loss, scores.float(), labels, mask)
    torch.set_num_threads(2)
    try:
        together = run(loss, scores.float(), labels, mask)
    finally:
        torch.set_num_threads(1)
    np.testing.assert_array_equal(together[0], alone[0])
    np.testing.assert_array_equal(together[1], alone[1])


@every_loss
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_scores_that_are_no_numbers_show(loss: Any, poison: float) -> None:
    scores, labels, mask = made(3, 20, tied=False)
    labels[:, 0], mask[:, 0] = 2, True
    scores[1, 0] = poison
    value, gradient = run(loss, scores, labels, mask)
    assert np.isnan(value).tolist() == [False, True, False]
    assert np.isnan(gradient[1][mask[1]]).all()
    assert (gradient[~mask.numpy()] == 0).all()
    assert np.isfinite(gradient[[0, 2]]).all()


@every_loss
def test_views_are_taken_as_they_are(loss: Any) -> None:
    scores, labels, mask = made(4, 30, tied=False)
    value, gradient = run(loss, scores.T.contiguous().T, labels.int(), mask.T.contiguous().T)
    want, slope = run(loss, scores, labels.float(), mask)
    np.testing.assert_array_equal(value, want)
    np.testing.assert_array_equal(gradient, slope)


@every_loss
def test_views_compile_nothing_anew(loss: Any) -> None:
    scores, labels, _mask = made(3, 8, tied=False)
    run(loss, scores, labels, None)
    before = [len(kernel.signatures) for kernel in KERNELS]
    run(loss, scores.T.contiguous().T, labels.T.contiguous().T, None)
    assert [len(kernel.signatures) for kernel in KERNELS] == before


def test_kernels_are_refused_elsewhere() -> None:
    scores = torch.zeros(2, 3, device="meta")
    with pytest.raises(InputError, match="only on the CPU"):
        ranknet(scores, torch.zeros(2, 3, device="meta"), backend="kernels")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0]), st.integers(0, 3)), min_size=1, max_size=20
    )
)
def test_ranks_are_those_of_the_kernels(pairs: list[tuple[float, int]]) -> None:
    pairs = sorted(pairs, key=lambda pair: -pair[1])
    scores, labels = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    want = doubled_ranks(scores, labels, np.argsort(-scores)) / 2
    lists = PaddedLists.of(torch.tensor(scores)[None], torch.tensor(labels)[None], None)
    np.testing.assert_array_equal(ranks(lists)[0].numpy(), want)


_STEP = """
import resource, torch
from lmtune.losses import {loss}
torch.set_num_threads(2)
def step(queries, items):
    scores = torch.randn(queries, items, requires_grad=True)
    {loss}(scores, torch.arange(queries * items).reshape(queries, items) % 5, {options}).backward()
step(2, 10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
step({queries}, {items})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "options", "queries", "items", "megabytes"),
    [
        ("ndcg_loss2pp", "", 64, 1_000, 30),
        ("approx_ndcg", "", 2, 20_000, 30),
        ("ranknet", "backend='torch'", 8, 2_000, 90),
    ],
)
def test_memory_is_linear_in_lists(loss: str, options: str, queries: int, items: int, megabytes: int) -> None:
    program = _STEP.format(loss=loss, options=options, queries=queries, items=items)
    unit = 1024 if sys.platform != "darwin" else 1024**2
    assert int(run_python("-c", program).out) / unit < megabytes
