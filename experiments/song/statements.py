"""Statements on the surrogates that need no training: lemmas 3 and 4, memory, and the biased gradient."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from experiments.common import Results, each, gather, main
from lmtune.losses.songs import KSong, ListSampler, RelevantPairs, Song
from lmtune.measures import ndcg

Vector = NDArray[np.float64]

QUICK = {"lists": 40, "draws": 40, "sizes": (4, 20), "lengths": (20, 100)}
SCALE, WIDTH = 6.0, 0.5
"""Range of the scores at margin 1, and where the ramp reaches 1."""


def experiment(
    *,
    lists: int = 2000,
    cutoff: int = 10,
    lengths: tuple[int, ...] = (20, 100, 1000),
    epsilons: tuple[float, ...] = (0.1, 0.01, 0.001, 0.0001),
    sizes: tuple[int, ...] = (4, 10, 20, 50, 100, 200),
    gammas: tuple[float, ...] = (1.0, 0.1),
    draws: int = 1000,
    seed: int = 0,
) -> Results:
    """Test statements of Qiu et al. (2022) on generated lists.

    Parameters
    ----------
    lists : int
        lists for the lemmas
    cutoff : int
        K
    lengths : tuple of int
        items of a list, above K; the last for samples
    epsilons : tuple of float
        both smoothing parameters of lemma 4
    sizes : tuple of int
        sampled items of a list, half of them relevant
    gammas : tuple of float
        gammas of the running estimates; 1 is the biased gradient
    draws : int
        samples of each list, twice
    seed : int
        seed of lists and samples
    """
    fixed = {"lists": lists, "cutoff": cutoff, "seed": seed}
    calls = [{**fixed, "length": length} for length in lengths]
    tables = gather(
        [
            *each(bounds, calls),
            *each(thresholds, [{**call, "epsilons": epsilons} for call in calls]),
            *each(memory, [{"length": length, "cutoff": cutoff} for length in lengths]),
        ]
    )
    asked = {"length": lengths[-1], "draws": draws, "seed": seed}
    grid = [{**asked, "size": size, "gamma": gamma} for gamma in gammas for size in sizes]
    return {**tables, "gradient": pd.DataFrame(each(gradient_error, grid))}


def made_list(random: np.random.Generator, length: int) -> tuple[Vector, Vector]:
    """Draw labels 0 to 4, a tenth of them relevant, and scores in (0, 1) that follow them more or less."""
    labels = np.where(random.random(length) < 0.1, random.integers(1, 5, length), 0)
    labels[random.integers(length)] = 1
    scores = random.normal(size=length) + random.choice([-1.0, 0.0, 0.5, 2.0]) * labels
    return 0.05 + 0.9 * (scores - scores.min()) / np.ptp(scores), labels.astype(np.float64)


def bounds(*, lists: int, length: int, cutoff: int, seed: int) -> dict[str, Any]:
    """Compare the top-K surrogate with NDCG@K, with three psi (lemma 3).

    The indicator and the ramp are at most the indicator, as the lemma demands. The last is K-SONG as it is
    trained: a sigmoid of the difference from the smoothed threshold. Scores lie in (0, 6).
    """
    random = np.random.default_rng([seed, length])
    values = np.empty((lists, 4))
    for row in values:
        scores, labels = made_list(random, length)
        scores *= SCALE
        data = SimpleNamespace(labels=labels, starts=np.array([0, length]), docnos=None)
        above = scores - np.sort(scores)[-cutoff - 1]
        ranks = (np.maximum(0.0, scores[None, :] - scores[:, None] + 1.0) ** 2).sum(axis=1)
        ideal = np.sort(2.0**labels - 1.0)[::-1][:cutoff] / np.log2(np.arange(2, cutoff + 2))
        terms = (2.0**labels - 1.0) / np.log2(ranks + 1.0) / ideal.sum()
        row[:3] = (
            ndcg(scores, data, [cutoff])[0, 0],
            terms[above > 0].sum(),
            terms @ np.clip(above / WIDTH, 0.0, 1.0),
        )
        row[3] = -k_song(scores, labels, cutoff=cutoff, margin=1.0).objective
    rows = [
        {"psi": psi, "items": length, "lists": lists, "above": int((excess > 1e-9).sum())}
        | {
            "largest_excess": excess.max(),
            "mean": (excess + values[:, 0]).mean(),
            "ndcg": values[:, 0].mean(),
        }
        for psi, excess in zip(
            ("indicator", "ramp", "K-SONG"), (values[:, 1:] - values[:, :1]).T, strict=True
        )
    ]
    return {"lemma_3": rows}


def k_song(scores: Vector, labels: Vector, **options: Any) -> KSong:
    """Return K-SONG's loss after one call with a whole list."""
    loss = KSong(RelevantPairs.from_lists([0, scores.size], labels), **options)
    items = torch.arange(scores.size)[None]
    both = torch.from_numpy(scores)[None], torch.from_numpy(labels)[None]
    loss(*both, queries=torch.zeros(1, dtype=torch.int64), items=items)
    return loss


def thresholds(
    *, lists: int, length: int, cutoff: int, seed: int, epsilons: tuple[float, ...]
) -> dict[str, Any]:
    """Compare the smoothed threshold with the true one, the (K + 1)-th score, by epsilon (lemma 4)."""
    random = np.random.default_rng([seed, length, 1])
    drawn = [made_list(random, length) for _ in range(max(10, lists // 10))]
    rows = []
    for epsilon in epsilons:
        moved, curved = [], []
        for scores, labels in drawn:
            loss = k_song(scores, labels, cutoff=cutoff, tau1=epsilon, tau2=epsilon)
            moved.append(abs(float(loss.threshold) - np.sort(scores)[-cutoff - 1]))
            at = random.uniform(0.0, 1.0) + np.array([-0.02, 0.0, 0.02])
            smooth = epsilon * np.logaddexp(0.0, (scores[:, None] - at) / epsilon).mean(axis=0)
            value = (cutoff + loss.epsilon) / length * at + epsilon / 2 * at**2 + smooth
            curved.append((value[0] - 2 * value[1] + value[2]) / 0.02**2 / epsilon)
        share = np.array(moved) / epsilon
        rows.append(
            {"items": length, "epsilon": epsilon, "lists": len(drawn), "median_moved": np.median(moved)}
            | {"median_ratio": np.median(share), "largest_ratio": share.max(), "least_curvature": min(curved)}
        )
    return {"lemma_4": rows}


def memory(*, length: int, cutoff: int) -> dict[str, Any]:
    """Count what SONG and K-SONG store for 50 lists with a tenth of their items relevant.

    ``numbers`` are those that training changes; ``bytes`` include labels, ideal DCGs and look-up tables.
    """
    lists, relevant = 50, max(1, length // 10)
    labels = np.tile(np.arange(length) < relevant, lists).astype(np.float64)
    pairs = RelevantPairs.from_lists(np.arange(lists + 1) * length, labels)
    losses = {"SONG": Song(pairs), "K-SONG": KSong(pairs, cutoff=cutoff)}
    rows = []
    for name, loss in losses.items():
        stored = [value.numel() for key, value in loss.state_dict().items() if value.is_floating_point()]
        size = sum(buffer.numel() * buffer.element_size() for buffer in loss.buffers())
        row = {"loss": name, "items": length, "lists": lists, "pairs": lists * relevant}
        rows.append({**row, "numbers": sum(stored), "bytes": size})
    return {"memory": rows}


def gradient_error(*, length: int, size: int, gamma: float, draws: int, seed: int) -> dict[str, Any]:
    """Compare the expected gradient of samples in the scores with the gradient of all items.

    Scores are fixed. The squared bias is the product of the errors of two independent series of samples,
    which sampling noise does not inflate. The first tenth of a series only moves the estimates.
    """
    random = np.random.default_rng([seed, length, 2])
    lists = 16
    made = [made_list(random, length) for _ in range(lists)]
    scores, labels = (torch.from_numpy(np.stack(part)) for part in zip(*made, strict=True))
    scores *= SCALE
    rows, relevant = np.nonzero(labels.numpy())
    pairs = RelevantPairs.from_rows(rows, relevant, labels[labels > 0].numpy(), lengths=length)

    def gradient(loss: Song, items: torch.Tensor, grades: torch.Tensor) -> Vector:
        real = items.clamp(min=0)
        chosen = scores.gather(1, real).requires_grad_()
        [found] = torch.autograd.grad(loss(chosen, grades, queries=torch.arange(lists), items=items), chosen)
        return torch.zeros_like(scores).scatter_add_(1, real, found).numpy()

    exact = gradient(Song(pairs, margin=1.0), torch.arange(length).expand(lists, -1), labels)
    errors, squared = np.zeros((2, lists, length)), 0.0
    for series, error in enumerate(errors):
        loss = Song(pairs, margin=1.0, gamma=gamma)
        sampler = ListSampler(pairs, length, relevant=size // 2, others=size - size // 2, seed=seed + series)
        for step in range(-(draws // 10), draws):
            sample = sampler.draw(np.arange(lists), epoch=0, step=step + draws)
            found = gradient(loss, *map(torch.from_numpy, (sample.items, sample.labels))) - exact
            if step >= 0:
                error += found / draws
                squared += (found**2).sum() / draws / 2
    norm, product = np.linalg.norm(exact), float((errors[0] * errors[1]).sum())
    bias = np.sqrt(max(product, 0.0)) / norm
    row = {"gamma": gamma, "items": length, "relevant": len(rows) / lists, "sampled": size}
    return {**row, "bias": bias, "step_error": np.sqrt(squared) / norm}


if __name__ == "__main__":
    main(__spec__)
