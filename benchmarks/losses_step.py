"""Measure a loss of one library at one size; `losses.py` runs this script with the library's Python.

Prints one line of JSON, or "null" if the library does not have the loss.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from measuring import memory, peak_memory

# The shares of the labels 0 to 4 in MSLR-WEB30K.
SHARES = [0.52, 0.32, 0.13, 0.02, 0.01]
device = "cpu"
Step = Callable[[], Any]


def main() -> None:
    library, loss = sys.argv[1:3]
    queries, items, threads, repeats = map(int, sys.argv[3:7])
    most = int(float(sys.argv[7]) * 2**30)
    make = {"lmtune": lmtune, "plain": plain, "allrank": allrank, "rax": rax, "libauc": libauc}[library](loss)
    if make is None:
        print("null")
        return
    if library != "rax":
        import torch

        torch.set_num_threads(threads)
    make(*data(2, 12))()
    step = make(*data(queries, items))
    resource.setrlimit(resource.RLIMIT_AS, (int(memory("VmSize")) + most,) * 2)
    peak = peak_memory(step)
    cpu: list[float] = []
    wall: list[float] = []
    started = time.perf_counter()
    while len(cpu) < repeats and (not cpu or time.perf_counter() - started < 20):
        c, w = time.process_time(), time.perf_counter()
        step()
        cpu.append(time.process_time() - c)
        wall.append(time.perf_counter() - w)
    figures = {
        "cpu ms": round(min(cpu) * 1e3, 3),
        "median cpu ms": round(float(np.median(cpu)) * 1e3, 3),
        "wall ms": round(min(wall) * 1e3, 3),
        "peak MB": round(peak / 2**20, 1),
        "steps": len(cpu),
    }
    print(json.dumps(figures))


def data(queries: int, items: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(queries, items)).astype(np.float32)
    labels = rng.choice(5, size=scores.shape, p=SHARES).astype(np.float32)
    labels[:, 0] = 2
    return scores, labels


def with_torch(loss: Callable[[Any, Any], Any]) -> Callable[..., Step]:
    import torch

    def make(scores: Any, labels: Any) -> Step:
        leaf = torch.from_numpy(scores).to(device).requires_grad_()
        target = torch.from_numpy(labels).to(device)

        def step() -> None:
            leaf.grad = None
            loss(leaf, target).backward()

        return step

    return make


def lmtune(loss: str) -> Any:
    from lmtune.losses import LOSSES, k_song, song

    losses: dict[str, Any] = {**LOSSES, "song": song, "k-song": k_song}
    return cross_entropy if loss == "cross-entropy" else with_torch(losses[loss])


def cross_entropy(scores: Any, labels: Any) -> Step:
    """Return a step of SONG's warm-up loss on whole lists."""
    import torch

    from lmtune.losses.songs import ListwiseCrossEntropy, RelevantPairs

    items = torch.arange(labels.size).reshape(labels.shape)
    pairs = RelevantPairs.from_lists(range(0, labels.size + 1, labels.shape[1]), labels.ravel())
    ids = {"queries": torch.arange(len(labels)), "items": items}
    loss = ListwiseCrossEntropy(pairs)
    return with_torch(lambda leaf, target: loss(leaf, target, mask=target != -1, **ids))(scores, labels)


def plain(loss: str) -> Any:
    """Return losses in a few lines of PyTorch with autograd; label -1 marks padding, as in allRank."""
    import torch

    def differences(values: Any) -> Any:
        return values[:, :, None] - values[:, None, :]

    def discounted(scores: Any, labels: Any) -> tuple[Any, Any]:
        places = torch.arange(1, labels.shape[1] + 1, device=labels.device)
        gains = 2 ** labels.clamp(min=0) - 1
        best = (gains.sort(1, descending=True).values / torch.log2(1 + places)).sum(1, keepdim=True)
        return gains / best.clamp(min=1e-10), 1 + scores.argsort(1, descending=True).argsort(1)

    def ranknet(scores: Any, labels: Any) -> Any:
        pairs = (differences(labels) > 0) & (labels != -1)[:, None, :]
        return torch.nn.functional.softplus(-differences(scores))[pairs].mean()

    def lambdarank(scores: Any, labels: Any) -> Any:
        pairs = (differences(labels) > 0) & (labels != -1)[:, None, :]
        gains, ranks = discounted(scores.detach(), labels)
        weights = differences(gains).abs() * differences(1 / torch.log2(1 + ranks)).abs()
        return (torch.nn.functional.softplus(-differences(scores)) * weights * pairs).sum((1, 2)).mean()

    def approxndcg(scores: Any, labels: Any) -> Any:
        real = labels != -1
        gains, _ = discounted(scores.detach(), labels)
        ranks = 0.5 + (torch.sigmoid(-10 * differences(scores)) * real[:, None, :]).sum(2)
        return -(gains / torch.log2(1 + ranks)).sum(1).mean()

    def listnet(scores: Any, labels: Any) -> Any:
        padding = labels == -1
        target = labels.masked_fill(padding, -torch.inf).softmax(1)
        share = scores.masked_fill(padding, -torch.inf).softmax(1)
        return -(target * torch.log(share + 1e-10)).sum(1).mean()

    def listmle(scores: Any, labels: Any) -> Any:
        draw = torch.randperm(labels.shape[1], device=labels.device)
        label, order = labels[:, draw].sort(descending=True, dim=1)
        padding = label == -1
        score = scores[:, draw].gather(1, order).masked_fill(padding, -torch.inf)
        score = score - score.max(dim=1, keepdim=True).values
        below = score.exp().flip(1).cumsum(1).flip(1)
        return (torch.log(below + 1e-10) - score).masked_fill(padding, 0.0).sum(1).mean()

    def binary_cross_entropy(scores: Any, labels: Any) -> Any:
        real = (labels != -1).to(scores.dtype)
        target = (labels > 0).to(scores.dtype)
        costs = torch.nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="none")
        return ((costs * real).sum(1) / real.sum(1)).mean()

    def margin_mse(scores: Any, labels: Any) -> Any:
        real = (labels != -1).to(scores.dtype)
        items = real.sum(1, keepdim=True)
        distance = (scores - labels) * real
        distance = (distance - distance.sum(1, keepdim=True) / items) * real
        return (2 * distance.square().sum(1, keepdim=True) / (items - 1)).mean()

    def cross_entropy(scores: Any, labels: Any) -> Any:
        padding = labels == -1
        target = labels.masked_fill(padding, 0.0)
        costs = -scores.masked_fill(padding, -torch.inf).log_softmax(1).masked_fill(padding, 0.0)
        return (target / target.sum(1, keepdim=True) * costs).sum(1).mean()

    losses = {
        "cross-entropy": cross_entropy,
        "binary-cross-entropy": binary_cross_entropy,
        "margin-mse": margin_mse,
        "ranknet": ranknet,
        "lambdarank": lambdarank,
        "approxndcg": approxndcg,
        "listnet": listnet,
        "listmle": listmle,
    }
    return with_torch(losses[loss]) if loss in losses else None


def allrank(loss: str) -> Any:
    # Its losses import one constant from its data loader, which imports packages that may be missing.
    loader = types.ModuleType("allrank.data.dataset_loading")
    loader.PADDED_Y_VALUE = -1  # type: ignore[attr-defined]
    sys.modules[loader.__name__] = loader
    from allrank.models import losses  # type: ignore[import-not-found,unused-ignore]

    names: dict[str, tuple[str, dict[str, Any]]] = {
        "ranknet": ("rankNet", {}),
        "lambdarank": ("lambdaLoss", {"weighing_scheme": "lambdaRank_scheme"}),
        "ndcgloss2++": ("lambdaLoss", {"weighing_scheme": "ndcgLoss2PP_scheme"}),
        "approxndcg": ("approxNDCGLoss", {"alpha": 10.0}),
        "neuralndcg": ("neuralNDCG", {}),
        "listnet": ("listNet", {}),
        "listmle": ("listMLE", {}),
    }
    if loss not in names:
        return None
    name, options = names[loss]
    function = getattr(losses, name)
    return with_torch(lambda scores, labels: function(scores, labels, **options))


def rax(loss: str) -> Any:
    import jax  # type: ignore[import-not-found,unused-ignore]
    import rax  # type: ignore[import-not-found,unused-ignore]

    losses = {
        "ranknet": rax.pairwise_logistic_loss,
        "lambdarank": lambda s, y: rax.pairwise_logistic_loss(
            s, y, lambdaweight_fn=lambda *a, **k: rax.dcg_lambdaweight(*a, normalize=True, **k)
        ),
        "approxndcg": lambda s, y: rax.approx_t12n(rax.ndcg_metric, temperature=0.1)(s, y),
        "listnet": rax.softmax_loss,
        "listmle": lambda s, y: rax.listmle_loss(s, y, key=jax.random.key(0)),
    }
    if loss not in losses:
        return None
    function = jax.jit(jax.value_and_grad(losses[loss]))

    def make(scores: Any, labels: Any) -> Step:
        s, y = jax.numpy.asarray(scores), jax.numpy.asarray(labels)
        ready = function.lower(s, y).compile()
        return lambda: jax.block_until_ready(ready(s, y))

    return make


def libauc(loss: str) -> Any:
    """Return LibAUC's SONG loss, on all items; LibAUC has none of the other losses."""
    if loss != "song":
        return None
    import torch
    from libauc.losses import NDCGLoss  # type: ignore[import-not-found,unused-ignore]

    def make(scores: Any, labels: Any) -> Step:
        order = np.argsort(-labels, axis=1, kind="stable")
        scores, labels = np.take_along_axis(scores, order, 1), np.take_along_axis(labels, order, 1)
        queries, items = scores.shape
        # LibAUC assumes the same number of relevant items in all queries, first in each list.
        relevant = int((labels > 0).sum(axis=1).min())
        gains = 2.0 ** np.sort(labels, axis=1)[:, ::-1] - 1
        ideal = (gains / np.log2(np.arange(2, items + 2))).sum(axis=1)
        function = NDCGLoss(queries * items, queries, items, relevant, gamma0=0.3)
        numbers = torch.arange(queries * items).reshape(queries, items)
        batch = {
            "rating": torch.from_numpy(labels).to(device),
            "user_id": torch.arange(queries, device=device),
            "num_pos_items": torch.full((queries,), float(relevant), device=device),
            "ideal_dcg": torch.from_numpy(ideal.astype(np.float32)).to(device),
            "user_item_id": numbers.to(device),
        }
        leaf = torch.from_numpy(scores).to(device).requires_grad_()

        def step() -> None:
            leaf.grad = None
            function(leaf, batch).backward()

        return step

    return make


if __name__ == "__main__":
    main()
