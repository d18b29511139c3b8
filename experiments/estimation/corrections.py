"""Error rates and power of corrections for several comparisons, on archives of runs.

    python -m experiments.estimation.corrections ../shared/data/{trec_covid_round1,trec_dl21_runs} pydocs

An archive is a folder with judgments (``qrels*``) and ``runs``. Of a collection, the settings of a grid are
the runs. Its topics are the population. Each draw takes some runs, the first as baseline, makes a part of
them equal, and draws topics with replacement. Runs are made equal in two ways:

- ``shifted``: each run's values are shifted to the baseline's mean over the population; its variance stays
- ``permuted``: the values of equal runs are permuted within each topic

Procedures are tested on two families: each run with the baseline, and all pairs. Columns:

- ``family_error``: how often at least one equal pair is called different
- ``false_discoveries``: the mean share of equal pairs among those called different
- ``power``: the mean share of different pairs that are called different, in the right direction
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from experiments.common import Results, each, gather, main
from experiments.datasets import load_pool, short_name
from lmtune import ParameterSpace
from lmtune.io.qrels import read_qrels
from lmtune.measures import parse_measure
from lmtune.measures.from_files import EvaluationOptions, evaluations
from lmtune.measures.significance.tests import LEVEL, adjusted, wilcoxon_test
from lmtune.measures.significance.tukey import randomized_hsd, tukey_hsd
from lmtune.tuning.direct import Surface

QUICK = {"draws": 10, "grid": (4, 4), "permutations": 99}
FAMILIES = ("baseline", "all pairs")
EQUAL = {"half": 0.5, "all": 1.0}
COLUMNS = ("family_error", "false_discoveries", "power")
NULLS = ("shifted", "permuted")

Values = NDArray[np.float64]


def experiment(
    *,
    archives: tuple[str, ...],
    measure: str = "nDCG@10",
    runs: int = 10,
    topics: int = 50,
    draws: int = 300,
    permutations: int = 999,
    grid: tuple[int, ...] = (6, 6),
    seed: int = 0,
) -> Results:
    """Estimate error rates and power of each procedure.

    Parameters
    ----------
    archives : tuple of str
        folders with qrels* and runs, or collections for lmtune.load
    measure : str
        the measure
    runs : int
        number of runs in a draw
    topics : int
        number of topics in a draw, at most all of the archive
    draws : int
        number of draws for each archive, part and way of making runs equal
    permutations : int
        permutations of the randomized HSD
    grid : tuple of int
        grid points along each parameter of BM25 and two-stage smoothing, for collections
    seed : int
        seed of draws and permutations
    """
    shared: dict[str, Any] = {"measure": measure, "runs": runs, "topics": topics, "draws": draws}
    shared |= {"permutations": permutations, "grid": grid, "seed": seed}
    return gather(each(examine, [{"archive": archive, **shared} for archive in archives]))


def examine(
    *, archive: str, measure: str, grid: tuple[int, ...], runs: int, topics: int, draws: int, **options: int
) -> dict[str, Any]:
    """Return the rows of ``corrections`` for an archive."""
    values = archive_values(archive, measure, grid)
    topics = min(topics, len(values))
    rows = []
    for nulls in NULLS:
        for part, share in EQUAL.items():
            rng = np.random.default_rng(options["seed"])
            counted: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
            for _ in range(draws):
                sample, truth = _draw(values, rng, runs, topics, share, nulls)
                for family, name, pairs, found in _called(sample, options["permutations"], options["seed"]):
                    differs = truth[pairs[:, 1]] - truth[pairs[:, 0]]
                    counted.setdefault((family, name), []).append(_errors(found, differs))
            for (family, name), errors in counted.items():
                means = dict(zip(COLUMNS, np.mean(errors, axis=0).tolist(), strict=True))
                own = {"archive": short_name(archive), "runs": runs, "topics": topics, "equal": part}
                rows.append({**own, "made": nulls, "family": family, "procedure": name, **means})
    return {"corrections": rows}


def archive_values(archive: str, measure: str, grid: tuple[int, ...]) -> Values:
    """Return values of runs, or of settings on a grid, in shape (topics, runs)."""
    folder = Path(archive)
    if not (folder / "runs").is_dir():
        parts = []
        for model in ("bm25", "two-stage"):
            pool = load_pool(archive, model=model)
            space = ParameterSpace.of(pool.formula)
            parts.append(
                Surface.compute(pool, [parse_measure(measure)], space=space, shape=grid).values[:, :, 0]
            )
        return np.concatenate(parts, axis=1)
    qrels: dict[str, Mapping[str, int]] = {}
    for file in sorted(folder.glob("qrels*")):
        qrels |= read_qrels(file)
    files = sorted((folder / "runs").iterdir())
    every = evaluations(qrels, files, measure, settings=EvaluationOptions(complete=True))
    return np.stack([one.columns[0].values for one in every], axis=1)


def _draw(
    values: Values, rng: np.random.Generator, runs: int, topics: int, share: float, nulls: str
) -> tuple[Values, Values]:
    """Return a sample of values, shape (topics, runs), and the true means of its runs."""
    chosen = values[:, rng.choice(values.shape[1], runs, replace=False)]
    equal = np.arange(runs) < 1 + round(share * (runs - 1))
    truth = chosen.mean(axis=0)
    if nulls == "shifted":
        chosen = chosen + np.where(equal, truth[0] - truth, 0.0)
    sample = chosen[rng.integers(len(values), size=topics)]
    if nulls == "permuted":
        sample[:, equal] = rng.permuted(sample[:, equal], axis=1)
    truth[equal] = truth[equal].mean() if nulls == "permuted" else truth[0]
    return sample, truth


def _called(
    sample: Values, permutations: int, seed: int
) -> Iterator[tuple[str, str, NDArray[np.int64], Values]]:
    """Yield family, procedure, pairs, and the sign of each significant difference, 0 for the others."""
    topics, runs = sample.shape
    pairs = np.array([*combinations(range(runs), 2)])
    differences = sample[:, pairs[:, 1]] - sample[:, pairs[:, 0]]
    means, spread = differences.mean(axis=0), differences.std(axis=0, ddof=1)
    t = np.abs(means) / np.maximum(spread / np.sqrt(topics), np.finfo(float).tiny)
    single = np.where(spread > 0.0, 2.0 * stdtr(topics - 1, -t), 1.0)
    ranked = np.array([wilcoxon_test(own, np.zeros(topics)).p_value for own in differences.T])
    hsd, drawn = tukey_hsd(sample), randomized_hsd(sample, permutations=permutations, seed=seed)
    for family in FAMILIES:
        own = pairs[:, 0] == 0 if family == "baseline" else np.full(len(pairs), True)
        first, second = pairs[own].T
        p_values = {
            "t, none": single[own],
            "t, Holm": adjusted(single[own].tolist(), "holm"),
            "t, BH": adjusted(single[own].tolist(), "bh"),
            "Wilcoxon, BH": adjusted(ranked[own].tolist(), "bh"),
            "HSD": hsd.p_values[first, second],
            "randomized HSD": drawn.p_values[first, second],
        }
        for name, p in p_values.items():
            yield family, name, pairs[own], np.sign(means[own]) * (np.asarray(p) < LEVEL)


def _errors(called: Values, differs: Values) -> tuple[float, float, float]:
    """Return whether an equal pair is called, the share of equal pairs among the called, and the power."""
    is_equal = differs == 0.0
    false, found = int(np.count_nonzero(called[is_equal])), int(np.count_nonzero(called))
    right = called[~is_equal] == np.sign(differs[~is_equal])
    return float(false > 0), false / max(found, 1), float(right.mean()) if right.size else math.nan


if __name__ == "__main__":
    main(__spec__)
