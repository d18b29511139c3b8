"""LambdaRank's lambdas compared with gradients of smoothed NDCG (Yue and Burges 2007, section 5.3)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import expit

from experiments.common import Results, chart, each, main
from experiments.datasets import load_split
from experiments.lambdas.functions import swap_values
from lmtune.losses import lambdarank, ranknet
from lmtune.measures import ComparisonOptions, Measurer, compare
from lmtune.rerank import RankingData, Settings, fit, parse_loss

Vector = NDArray[np.float64]

QUICK = {"data": "artificial:30x20", "epochs": 2, "widths": (0.1, 1.0), "samples": 200}
LOSSES = {"lambdarank": lambdarank, "ranknet": ranknet}
_BLOCK = 100


def experiment(
    *,
    data: str = "artificial:100x20",
    widths: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    samples: int = 4000,
    network: str = "mlp:64-32",
    epochs: int = 20,
    batch_size: int = 16,
    seed: int = 0,
) -> Results:
    """Smooth NDCG by noise on the scores of a trained net; compare its gradient with lambdas, list by list.

    Parameters
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files; the test queries are used
    widths : tuple of float
        standard deviations of the noise, in units of the scores
    samples : int
        pairs of opposite noise vectors
    network : str
        the scorer
    epochs : int
        epochs of LambdaRank
    batch_size : int
        queries in a step
    seed : int
        seed of artificial data, training and noise
    """
    split = load_split(data, seed)
    settings = Settings(
        loss=parse_loss("lambdarank"), network=network, epochs=epochs, batch_size=batch_size, seed=seed
    )
    lists = split.test
    scores = fit(split.train, split.validation, settings).score(lists).astype(np.float64)
    counted = np.flatnonzero(Measurer("ndcg", lists).counted & Measurer("pairwise-error", lists).counted)
    rows = [slice(*lists.starts[query : query + 2]) for query in counted]
    pushes = {name: [_push(loss, lists, scores, own) for own in rows] for name, loss in LOSSES.items()}
    calls = [
        {"lists": lists, "scores": scores, "width": width, "samples": samples, "seed": seed}
        for width in widths
    ]
    summary, by_list = [], dict[str, Vector]()
    for width, halves in zip(widths, each(smoothed_gradient, calls), strict=True):
        whole = halves.mean(axis=0)
        row = {
            "width": width,
            "halves": _cosines([halves[0, own] for own in rows], [halves[1, own] for own in rows]).mean(),
        }
        for name, own in pushes.items():
            cosines = _cosines(own, [whole[part] for part in rows])
            by_list[f"{name} {width:g}"] = cosines
            row[name] = cosines.mean()
        summary.append(row)
    table = pd.DataFrame(summary)
    best = {name: f"{name} {table['width'][int(table[name].argmax())]:g}" for name in LOSSES}
    first = best["lambdarank"]
    others = {
        name: values for name, values in by_list.items() if name.startswith("lambdarank") and name != first
    }
    others[best["ranknet"]] = by_list[best["ranknet"]]
    tests = compare(by_list[first], others, ComparisonOptions(), baseline=first, measures=["cosine"])
    drawn = chart(table.melt(["width"], [*LOSSES], "loss", "cosine"), "width", "cosine", line="loss", log="x")
    far = far_pairs(lists, scores, rows)
    return {"cosines": table, "tests": tests.to_frame(), "far": far, "by-width": drawn}


def _push(loss: object, lists: RankingData, scores: Vector, rows: slice) -> Vector:
    """Return the negative gradient of a loss in a list's scores."""
    own = torch.from_numpy(scores[None, rows]).requires_grad_()
    value = loss(own, torch.from_numpy(np.asarray(lists.labels[rows], np.float64))[None])  # type: ignore[operator]
    [gradient] = torch.autograd.grad(value, own)
    found: Vector = -gradient.numpy()[0]
    return found


def smoothed_gradient(*, lists: RankingData, scores: Vector, width: float, samples: int, seed: int) -> Vector:
    """Estimate the gradient of the mean NDCG of scores with normal noise, twice, shape (2, rows).

    Each estimate is the mean of (NDCG(s + w z) - NDCG(s - w z)) z / (2 w), list by list.
    """
    random, measurer = np.random.default_rng(seed), Measurer("ndcg", lists)
    total, blocks = np.zeros((2, scores.size)), max(2, samples // _BLOCK)
    for block in range(blocks):
        noise = random.standard_normal((_BLOCK, scores.size))
        change = measurer.values(scores + width * noise) - measurer.values(scores - width * noise)
        total[block % 2] += (change[:, lists.query_of_row] * noise).mean(axis=0) / (2.0 * width)
    return 2.0 * total / blocks


def _cosines(first: list[Vector], second: list[Vector]) -> Vector:
    """Return the cosine of each list's two vectors; 0 if one of them is 0."""
    sizes = [
        max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-300) for a, b in zip(first, second, strict=True)
    ]
    return np.array([a @ b / size for a, b, size in zip(first, second, sizes, strict=True)])


def far_pairs(lists: RankingData, scores: Vector, rows: list[slice]) -> pd.DataFrame:
    """Return shares of the pairs and of LambdaRank's force by score gap; above 0 the order is wrong."""
    gaps, forces = [], []
    for own in rows:
        labels = np.asarray(lists.labels[own], np.float64)
        gap = scores[None, own] - scores[own, None]
        better = labels[:, None] > labels[None, :]
        gaps.append(gap[better])
        forces.append((swap_values(scores[own], labels) * expit(gap))[better])
    gap, force = np.concatenate(gaps), np.concatenate(forces)
    table = []
    for low, high in pairwise([-np.inf, -2.0, 0.0, 2.0, 4.0, np.inf]):
        inside = (gap > low) & (gap <= high)
        share = float(force[inside].sum() / force.sum())
        table.append({"wrong_by_over": low, "up_to": high, "pairs": inside.mean(), "force": share})
    return pd.DataFrame(table)


if __name__ == "__main__":
    main(__spec__)
