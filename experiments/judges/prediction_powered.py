"""Coverage of intervals of prediction-powered means, in simulations and on real labels.

    python -m experiments.judges.prediction_powered [--labels ../shared/data/llmjudge]

Simulated: human values of a measure in (0, 1), and correlated, higher values of a model.

Real: nDCG@10 of each topic by NIST's labels and by each language model's labels, for rankings by the other
models' labels. Topics are resampled from the 25; the true value is their mean. Nominal coverage is 95%.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from experiments.common import Results, main
from experiments.judges.reading import read_labels
from lmtune.measures.from_files import topic_values
from lmtune.measures.judges.prediction_powered import powered_mean

QUICK = {"draws": 100}
WAYS = ("tuned", "weight 1", "judged alone")
Doubles = NDArray[np.float64]


def coverage(human: Doubles, model: Doubles, n: int, truth: float) -> list[float]:
    """Return coverage and mean width: tuned, weight 1, only the human-judged topics."""
    ends = [
        powered_mean(human[:, :n], model[:, :n], model[:, n:], tuned=tuned).interval()
        for tuned in (True, False)
    ]
    few = human[:, :n]
    ends.append(stats.t.interval(0.95, n - 1, few.mean(axis=1), few.std(axis=1, ddof=1) / n**0.5))
    return [
        float(x)
        for low, high in ends
        for x in (((low <= truth) & (truth <= high)).mean(), (high - low).mean())
    ]


def simulated(draws: int) -> Iterator[tuple[str, int, int, list[float]]]:
    for n in (8, 10, 25, 50):
        for others in (50, 400):
            for rho in (0.0, 0.5, 0.9):
                rng = np.random.default_rng(0)
                skill, noise = rng.normal(size=(2, draws, n + others))
                human = 1.0 / (1.0 + np.exp(-skill))
                model = 1.0 / (1.0 + np.exp(-0.7 - rho * skill - (1.0 - rho**2) ** 0.5 * noise))
                yield f"correlation {rho:g}", n, others, coverage(human, model, n, 0.5)


def real(folder: Path, draws: int) -> Iterator[tuple[str, int, int, list[float]]]:
    nist, labels, runs = read_labels(folder)
    names = sorted(runs)[::6]  # rankings; those of one group are similar
    people = {name: topic_values(nist, runs[name], "nDCG@10")["nDCG@10"].to_numpy() for name in names}
    for n, others in ((8, 50), (10, 50), (10, 400), (25, 50), (25, 400)):
        means, differences = [], []
        for judge, own in labels.items():
            rest = [name for name in names if name != judge]
            by_model = {name: topic_values(own, runs[name], "nDCG@10")["nDCG@10"].to_numpy() for name in rest}
            drawn = np.random.default_rng(0).integers(0, 25, (draws, n + others))
            for name, second in pairwise(rest):
                y, f = people[name], by_model[name]
                means.append(coverage(y[drawn], f[drawn], n, float(y.mean())))
                y, f = y - people[second], f - by_model[second]
                differences.append(coverage(y[drawn], f[drawn], n, float(y.mean())))
        for what, found in (("means", means), ("differences", differences)):
            yield f"LLMJudge, {what}: mean", n, others, np.mean(found, axis=0).tolist()
            yield f"LLMJudge, {what}: least", n, others, np.min(found, axis=0).tolist()


def experiment(*, draws: int = 4000, labels: str = "") -> Results:
    """Compute how often the intervals cover the true mean, and their widths.

    Parameters
    ----------
    draws : int
        simulated samples; an eighth as many for real labels
    labels : str
        a folder with qrels.nist.txt and labels
    """
    rows = list(simulated(draws))
    if labels:
        rows += real(Path(labels), draws // 8)
    columns = [f"{way}, {figure}" for way in WAYS for figure in ("holds", "width")]
    table = pd.DataFrame(
        [(*row[:3], *row[3]) for row in rows], columns=["what", "judged", "others", *columns]
    )
    return {"intervals": table}


if __name__ == "__main__":
    main(__spec__)
