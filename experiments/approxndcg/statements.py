"""Ranks and gradients by alpha, and LightGBM's queries without gain (Bruch et al. 2019, 3.3, 3.5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import expit

from experiments.common import Results, chart, each, gather, main
from experiments.datasets import load_split
from experiments.sweep import loss_text
from lmtune.losses import approx_ndcg
from lmtune.measures import ComparisonOptions, compare, ndcg
from lmtune.rerank import RankingData, Settings, TreeSettings, fit, parse_loss
from lmtune.rerank.data import batches

QUICK = {"data": "artificial:30", "epochs": 2, "alphas": (1.0, 10.0, 100.0), "trees": 3}
_SMALL = 0.01


def experiment(
    *,
    data: str = "artificial:300",
    alphas: tuple[float, ...] = (0.1, 1.0, 5.0, 10.0, 20.0, 40.0, 100.0, 1000.0),
    reference: float = 10.0,
    network: str = "b:64",
    epochs: int = 20,
    batch_size: int = 32,
    learning_rate: float = 0.005,
    trees: int = 100,
    seed: int = 0,
) -> Results:
    """Measure gradients by alpha on trained scores, and NDCG by the convention for queries without gain.

    Parameters
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files
    alphas : tuple of float
        steepness of the sigmoids
    reference : float
        the alpha of the training, and the one that gradients are compared with
    network : str
        the scorer
    epochs : int
        epochs of the training; its first and last one are examined
    batch_size : int
        queries in a step
    learning_rate : float
        Adam's rate
    trees : int
        number of LightGBM's trees
    seed : int
        seed of artificial data and of the training
    """
    split = load_split(data, seed)
    settings: dict[str, Any] = {
        "network": network,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    loss = parse_loss(loss_text("approxndcg", alpha=reference))
    compared, rows = [], []
    for trained in sorted({1, epochs}):
        model = fit(split.train, split.validation, Settings(loss=loss, epochs=trained, **settings))
        scores = model.score(split.validation)
        found = each(
            gradients, [{"lists": split.validation, "scores": scores, "alpha": one} for one in alphas]
        )
        norms = {one: values["norm"] for one, values in zip(alphas, found, strict=True)}
        for one, values in zip(alphas, found, strict=True):
            means = {name: np.mean(own) for name, own in values.items()}
            rows.append({"epochs": trained, "alpha": one, **means, "median_norm": np.median(values["norm"])})
        rest = {f"{one:g}": own for one, own in norms.items() if one != reference}
        options = ComparisonOptions(tests=("wilcoxon",))
        against = compare(norms[reference], rest, options, baseline=f"{reference:g}", measures=["gradient"])
        compared.append(against.to_frame().assign(epochs=trained))
    by_alpha = pd.DataFrame(rows)
    tables = gather(each(empty_queries, [{"data": data, "seed": seed, "trees": trees}]))
    drawn = chart(by_alpha, "alpha", "median_norm", line="epochs", log="xy")
    return {"alphas": by_alpha, "differences": pd.concat(compared), **tables, "gradients": drawn}


def gradients(
    *, lists: RankingData, scores: NDArray[np.floating], alpha: float
) -> dict[str, NDArray[np.float64]]:
    """Compute, for each list with a relevant document, what alpha does to ranks and to the gradient.

    Returns
    -------
    dict
        ``rank_error``: mean distance of approximate and true ranks. ``gap``: distance of ApproxNDCG from
        NDCG. ``norm``: of the gradient in the scores. ``still``: share of the documents whose part is below
        a hundredth of the largest part at alpha 10.
    """
    norms, still, errors, gaps = [], [], [], []
    true = ndcg(scores, lists, [None])[:, 0]
    for batch in batches(lists, size=1, seed=0, epoch=0, shuffle=False):
        if not (batch.labels > 0).any():
            continue
        own = torch.from_numpy(np.asarray(scores[batch.rows], np.float64)).requires_grad_()
        labels = torch.from_numpy(np.asarray(batch.labels, np.float64))
        value, steady = (approx_ndcg(own, labels, alpha=one) for one in (alpha, 10.0))
        [gradient], [usual] = (torch.autograd.grad(one, own) for one in (value, steady))
        norms.append(float(gradient.norm()))
        still.append(float((gradient.abs() < _SMALL * usual.abs().max()).double().mean()))
        flat = own.detach().numpy().ravel()
        higher = flat[None, :] - flat[:, None]
        errors.append(np.abs(expit(alpha * higher).sum(axis=1) - 0.5 - (higher > 0).sum(axis=1)).mean())
        gaps.append(abs(float(value.detach()) + true[batch.queries[0]]))
    return {
        name: np.array(values)
        for name, values in (("rank_error", errors), ("gap", gaps), ("norm", norms), ("still", still))
    }


def empty_queries(*, data: str, seed: int, trees: int) -> dict[str, Any]:
    """Train LightGBM's LambdaMART; compare its own NDCG with ours by the value of queries without gain."""
    import lightgbm

    split = load_split(data, seed)
    settings, cutoffs = TreeSettings(rounds=trees, seed=seed, threads=1), (1, 5, 10)
    asked = settings.parameters() | {"metric": "ndcg", "eval_at": [*cutoffs]}
    whole = lightgbm.Dataset(
        split.train.features, split.train.labels, group=split.train.lengths, params=asked
    )
    rows = []
    booster = lightgbm.train(asked, whole, trees, keep_training_booster=True)
    for name, part in (("validation", split.validation), ("test", split.test)):
        held = whole.create_valid(part.features, part.labels, group=part.lengths)
        printed = [value for _, _, value, *_ in booster.eval(held, name)]
        scores = np.asarray(booster.predict(part.features), np.float64)
        ours = {rule: ndcg(scores, part, cutoffs, rule, ties="rows") for rule in ("one", "skip", "zero")}
        empty = float(np.isnan(ours["skip"][:, 0]).mean())
        for column, (cutoff, value) in enumerate(zip(cutoffs, printed, strict=True)):
            means = {rule: float(np.nanmean(own[:, column])) for rule, own in ours.items()}
            rows.append({"queries": name, "empty": empty, "cutoff": cutoff, "LightGBM": value, **means})
            rows[-1] |= {"apart": abs(value - means["one"])}
    return {"empty": rows}


if __name__ == "__main__":
    main(__spec__)
