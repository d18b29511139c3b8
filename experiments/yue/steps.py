"""SPSA on NDCG by the size of its step, and the jumps of NDCG (Yue and Burges 2007, section 5.2)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

from experiments.common import Results, chart, each, intervals, main
from experiments.datasets import load_split
from experiments.spsa.linear import LinearMeasure, first_weights
from experiments.yue.__main__ import descend
from lmtune.measures import paired_t_test
from lmtune.measures.significance.tests import adjusted

QUICK = {"queries": (10, 20), "steps": (0.0001, 0.1), "seeds": 2, "evaluations": 200, "directions": 10}


def experiment(
    *,
    queries: tuple[int, ...] = (10, 100, 1000),
    steps: tuple[float, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    reference: float = 0.1,
    rates: tuple[float, ...] = (0.01, 0.1, 1.0),
    seeds: int = 3,
    evaluations: int = 400,
    directions: int = 200,
    cutoff: int = 10,
    seed: int = 0,
) -> Results:
    """Descend with each initial step and number of generated queries; compare with the reference step.

    Parameters
    ----------
    queries : tuple of int
        numbers of training queries
    steps : tuple of float
        initial distances c of SPSA
    reference : float
        the step that the others are compared with
    rates : tuple of float
        initial rates; validation of the first seed chooses one for each step
    seeds : int
        descents for each step
    evaluations : int
        evaluations of NDCG in a descent
    directions : int
        random directions in which differences of NDCG are compared
    cutoff : int
        cutoff of the NDCG
    seed : int
        seed of the data and of the first descent
    """
    keys = list(product(queries, steps))
    fixed = {"data_seed": seed, "cutoff": cutoff, "seeds": range(seed, seed + seeds), "rates": rates}
    fixed |= {"evaluations": evaluations, "per_step": 2}
    runs = each(descend, [{"data": f"artificial:{n}", "widths": (step,), **fixed} for n, step in keys])
    reached = pd.DataFrame(
        [
            {"queries": n, "step": step, "seed": number, "train": run["train"], "test": run["test"]}
            for (n, step), found in zip(keys, runs, strict=True)
            for number, run in enumerate(found["runs"])
        ]
    )
    asked = {"steps": steps, "reference": reference, "directions": directions, "cutoff": cutoff, "seed": seed}
    jumps = pd.concat(
        [pd.DataFrame(rows) for rows in each(compare_steps, [{"queries": n, **asked} for n in queries])]
    )
    rows = []
    for n, own in reached.groupby("queries"):
        table = own.pivot(index="seed", columns="step", values="train")
        others = [step for step in steps if step != reference]
        p_values = [paired_t_test(table[step].to_numpy(), table[reference].to_numpy()) for step in others]
        for step, p in zip(others, adjusted(p_values), strict=True):
            difference = float((table[step] - table[reference]).mean())
            rows.append({"queries": n, "step": step, "difference": difference, "p_holm": p})
    means = intervals(reached, ["queries", "step"], "train")
    summary = means.merge(jumps, on=["queries", "step"]).merge(pd.DataFrame(rows), how="left")
    drawn = chart(means, "step", "mean", line="queries", between=("low", "high"), log="x")
    return {"summary": summary, "reached": reached, "steps": drawn}


def compare_steps(
    *, queries: int, steps: tuple[float, ...], reference: float, directions: int, cutoff: int, seed: int
) -> list[dict[str, float]]:
    """Compare slopes of NDCG over each step with those over the reference step, in the same directions.

    Returns
    -------
    list of dict
        ``flat``: share of the directions without any jump within the step. ``agreement``: correlation of both
        slopes; near 0 where single jumps dominate the difference.
    """
    net = LinearMeasure(load_split(f"artificial:{queries}", seed).train, f"ndcg@{cutoff}")
    start = first_weights(net.features, seed, 0)
    signs = np.random.default_rng([seed, 2]).choice([-1.0, 1.0], (directions, net.features))

    def slopes(step: float) -> np.ndarray:
        ends = [net.means(start + way * step * signs) for way in (1.0, -1.0)]
        found: np.ndarray = (ends[0] - ends[1]) / (2.0 * step)
        return found

    usual = slopes(reference)
    rows = []
    for step in steps:
        own = slopes(step)
        agreement = float(np.corrcoef(own, usual)[0, 1]) if own.any() else np.nan
        rows.append(
            {"queries": queries, "step": step, "flat": float((own == 0).mean()), "agreement": agreement}
        )
    return rows


if __name__ == "__main__":
    main(__spec__)
