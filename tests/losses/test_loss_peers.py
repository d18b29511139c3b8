"""The losses against what allRank, Rax and TF-Ranking compute on one small batch."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.losses import approx_ndcg, lambdarank, listnet, ndcg_loss2pp, neural_ndcg, ranknet  # noqa: E402
from lmtune.losses.evaluation import PaddedLists  # noqa: E402
from lmtune.losses.listwise import plackett_luce  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

Golden = dict[str, Any]


@pytest.fixture(scope="module")
def golden(shared_data: Path) -> dict[str, Golden]:
    folder = shared_data / "ltr" / "peers" / "golden"
    if not folder.is_dir():
        pytest.skip("no golden figures of other libraries in ../shared/data/ltr/peers/golden")
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


@pytest.fixture
def batch(golden: dict[str, Golden]) -> tuple[Any, Any, Any]:
    given = golden["allrank_libauc"]["input"]
    scores = torch.tensor(given["scores"], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor(given["labels"], dtype=torch.float64)
    return scores, labels, labels >= 0


def agree(loss: Any, scores: Any, peer: Golden) -> None:
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss.item() == pytest.approx(peer["loss"], rel=3e-6)
    np.testing.assert_allclose(gradient.numpy(), peer["grad"], rtol=3e-5, atol=2e-6)


def number_of_pairs(labels: Any, mask: Any) -> int:
    above = labels[:, :, None] > labels[:, None, :]
    return int((above & mask[:, :, None] & mask[:, None, :]).sum())


def test_ranknet(golden: dict[str, Golden], batch: Any) -> None:
    scores, labels, mask = batch
    number = number_of_pairs(labels, mask)
    for library, name, terms in [
        ("allrank_libauc", "rankNet", number),
        ("allrank_libauc", "lambdaLoss rankNet_scheme sum log2", math.log(2)),
        ("rax", "pairwise_logistic_loss", number),
        ("tfr", "PairwiseLogisticLoss default", scores.numel()),
    ]:
        total = ranknet(scores, labels, mask=mask, pairs="sum", reduce="sum")
        agree(total / terms, scores, golden[library][name])


@pytest.mark.parametrize(
    ("loss", "scheme"), [(lambdarank, "lambdaRank_scheme"), (ndcg_loss2pp, "ndcgLoss2PP_scheme")]
)
def test_lambda_losses_of_allrank(loss: Any, scheme: str, golden: dict[str, Golden], batch: Any) -> None:
    scores, labels, mask = batch
    bits = loss(scores, labels, mask=mask, reduce="sum") / math.log(2)
    agree(bits, scores, golden["allrank_libauc"][f"lambdaLoss {scheme} sum log2"])


@pytest.mark.parametrize(
    ("loss", "scheme"), [(lambdarank, "lambdaRank_scheme"), (ndcg_loss2pp, "ndcgLoss2PP_scheme")]
)
def test_truncated_lambda_losses_of_allrank_are_those_of_the_first_k(
    loss: Any, scheme: str, golden: dict[str, Golden], batch: Any
) -> None:
    scores, labels, mask = batch
    first = torch.zeros_like(mask)
    best = scores.detach().masked_fill(~mask, -math.inf).topk(3, dim=1).indices
    first.scatter_(1, best, True)
    each = loss(scores, labels, mask=first, reduce="none")
    share = ideal_at_3(labels * first) / ideal_at_3(labels * mask)
    total = (each * share).sum() / math.log(2)
    agree(total, scores, golden["allrank_libauc"][f"lambdaLoss {scheme} k=3 sum log2"])


def ideal_at_3(labels: Any) -> Any:
    best = torch.exp2(labels.topk(3, dim=1).values) - 1
    return (best / torch.log2(torch.tensor([2.0, 3.0, 4.0]))).sum(dim=1)


def test_lambdarank_of_rax_and_tf_ranking(golden: dict[str, Golden], batch: Any) -> None:
    scores, labels, mask = batch
    queries, items = scores.shape
    # Both multiply weights by the list's length with padding before they take their means.
    for library, name, terms in [
        ("rax", "pairwise_logistic+dcg_lambdaweight normalize=True", number_of_pairs(labels, mask)),
        ("tfr", "PairwiseLogistic+NDCGLambdaWeight smooth_fraction=1 (LambdaRank)", queries * items),
    ]:
        total = lambdarank(scores, labels, mask=mask, reduce="sum")
        agree(total * items / terms, scores, golden[library][name])


@pytest.mark.parametrize("alpha", [1.0, 10.0])
def test_approx_ndcg(alpha: float, golden: dict[str, Golden], batch: Any) -> None:
    scores, labels, mask = batch
    for library, name in [
        ("allrank_libauc", f"approxNDCG alpha={alpha}"),
        ("rax", "approx ndcg T=1" if alpha == 1 else "approx ndcg T=.1"),
        ("tfr", "ApproxNDCGLoss temperature=1" if alpha == 1 else "ApproxNDCGLoss default"),
    ]:
        loss = approx_ndcg(scores, labels, mask=mask, alpha=alpha)
        agree(loss, scores, golden[library][name])


def test_listnet(golden: dict[str, Golden], batch: Any) -> None:
    scores, labels, mask = batch
    agree(listnet(scores, labels, mask=mask), scores, golden["allrank_libauc"]["listNet"])
    for library, name in [("rax", "softmax_loss"), ("tfr", "SoftmaxLoss default")]:
        loss = listnet(scores, labels, mask=mask, target="labels")
        agree(loss, scores, golden[library][name])


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("allrank_libauc", "listMLE (random tie order, seed 0)"),
        ("rax", "listmle_loss"),
        ("tfr", "ListMLELoss default"),
    ],
)
def test_listmle_is_an_order_of_ties(library: str, name: str, golden: dict[str, Golden], batch: Any) -> None:
    scores, labels, mask = batch
    peer = golden[library][name]
    total = 0.0
    for row in range(len(scores)):
        items = torch.arange(scores.shape[1])[mask[row]]
        want = np.array(peer["grad"][row])[: len(items)] * len(scores)
        found = []
        for order in itertools.permutations(items.tolist()):
            if any(labels[row, a] < labels[row, b] for a, b in itertools.pairwise(order)):
                continue
            s = scores[row : row + 1, : len(items)].detach().requires_grad_()
            lists = PaddedLists(s, labels[row : row + 1, : len(items)], mask[row : row + 1, : len(items)])
            loss = plackett_luce(lists, torch.tensor([order]), shared=False)
            (gradient,) = torch.autograd.grad(loss.sum(), s)
            if np.allclose(gradient[0], want, rtol=3e-5, atol=3e-6):
                found.append(loss.item())
        assert len(found) == 1
        total += found[0]
    # TF-Ranking's value counts the order of the padding too: ln 2 for the two of the second query.
    padding = math.log(2) if library == "tfr" else 0.0
    assert (total + padding) / len(scores) == pytest.approx(peer["loss"], rel=3e-6)


@pytest.mark.parametrize("tau", [1.0, 0.1])
def test_neural_ndcg(tau: float, golden: dict[str, Golden], batch: Any) -> None:
    scores, labels, mask = batch
    loss = neural_ndcg(scores, labels, mask=mask, tau=tau)
    agree(loss, scores, golden["allrank_libauc"][f"neuralNDCG t={tau}"])
