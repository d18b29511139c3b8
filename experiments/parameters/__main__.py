"""Cost and effectiveness of tuning by number of parameters, and comparison of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import Results, chart, each, main
from experiments.datasets import short_name
from experiments.methods import Choice, Methods
from experiments.synthetic import folder_of
from lmtune import (
    SPSA,
    CertifiedOptimum,
    Collection,
    CoordinateAscent,
    InputError,
    ParameterSpace,
    Plan,
    Split,
)
from lmtune.collections.collection import named_collections
from lmtune.collections.folds import Fold
from lmtune.measures import paired_t_test, parse_measure
from lmtune.measures.significance.tests import adjusted
from lmtune.models.parameter import shares
from lmtune.tuning.certificate.problem import proof_of
from lmtune.tuning.experiment.preparation import prepare
from lmtune.tuning.experiment.result import APPROX, DIRECT, OPTIMAL, RANKNET
from lmtune.tuning.surrogate import ALPHAS, smooth_form
from lmtune.tuning.tuner import EVALUATIONS

QUICK = {
    "datasets": ("synthetic:1000x40",),
    "models": ("dirichlet", "bm25"),
    "evaluations": 20,
    "restarts": 1,
}
WORK = ("evaluations", "documents", "seconds")
WARM = 20
"""Topics used to compile all kernels before timing."""


@dataclass(frozen=True)
class Tuning:
    """Options of the tuning of each model.

    Attributes
    ----------
    measure : str
        AP, P@k, Bpref, nDCG@k, RR
    folds : int
        number of folds

    restarts : int
        restarts of the coordinate ascent without a grid
    evaluations : int
        budget of evaluations for SPSA
    certify : float
        tolerance of a certificate for Optimal, for models that have one; 0: none
    seed : int
        seed of folds and starts
    """

    measure: str = "AP"
    folds: int = 2
    restarts: int = 4
    evaluations: int = EVALUATIONS
    certify: float = 0.0
    seed: int = 0


TUNING = Tuning()


def experiment(
    tuning: Tuning = TUNING,
    *,
    datasets: tuple[str, ...] = ("pydocs",),
    models: tuple[str, ...] = ("dirichlet", "jelinek-mercer", "two-stage", "bm25", "sdm"),
) -> Results:
    """Tune models by several methods on each fold's training topics, and evaluate them on the others.

    Methods are compared with Direct. Models are compared with each other at Direct's settings. Tests are
    paired t-tests with Holm's correction.

    Parameters
    ----------
    tuning : Tuning
        options of a fit
    datasets : tuple of str
        collections: names or paths for lmtune.load
    models : tuple of str
        models, such as fields:title+contents

    Returns
    -------
    dict
        ``methods`` has a row for each collection, model and method: means over test topics, difference from
        Direct, and mean cost of a fold. ``models`` has each pair of models. ``folds`` has settings and
        climbs.
    """
    calls = [
        {"tuning": tuning, "dataset": dataset, "model": model} for dataset in datasets for model in models
    ]
    every = pd.DataFrame([row for rows in each(tune, calls) for row in rows])
    by = ["dataset", "model", "parameters"]
    rows, values = [], {}
    for keys, model in every.groupby(by, sort=False):
        by_method = {
            str(method): np.concatenate(part["values"].tolist())
            for method, part in model.groupby("method", sort=False)
        }
        values[keys[:2]] = by_method[DIRECT]
        rows += _against_direct(dict(zip(by, keys, strict=True)), model, by_method)
    settings = [" ".join(f"{n}={value:.6g}" for n, value in one.items()) for one in every["setting"]]
    shown = every.assign(setting=settings, test=[float(np.mean(topics)) for topics in every["values"]])
    pairs = [row for dataset in every["dataset"].unique() for row in _between_models(dataset, values)]
    methods = pd.DataFrame(rows)
    means = methods[methods["method"] != OPTIMAL].groupby(["method", "parameters"], sort=False)
    growth = means[[*WORK, "difference"]].mean().reset_index().sort_values("parameters")
    long = growth.melt(["method", "parameters"], [*WORK, "difference"], "what", "a fold")
    return {
        "methods": methods,
        "models": pd.DataFrame(pairs),
        "folds": shown.drop(columns="values"),
        "growth": chart(long, "parameters", "a fold", line="method", panel="what"),
    }


def tune(*, tuning: Tuning, dataset: str, model: str) -> list[dict[str, Any]]:
    """Tune a model on a collection; return a row for each method and fold, and for Optimal."""
    measure, seed = tuning.measure, tuning.seed
    plan = Plan((measure,), model=_name(model), seed=seed)  # type: ignore[arg-type]
    [collection] = named_collections([folder_of(dataset)], Collection())
    ready = prepare(collection, Split(folds=str(tuning.folds)), plan)
    over = Methods.over(ready.pool, plan.measures, plan.grid, seed, plan.space)
    judged_by = parse_measure(measure)
    shared: dict[str, Any] = {"measure": measure, "seed": seed}
    methods: dict[str, Callable[[Sequence[str]], Choice]] = {
        DIRECT: partial(over.direct, judged_by),
        "coordinate ascent": partial(over.search, CoordinateAscent(restarts=tuning.restarts, **shared)),
        "SPSA": partial(over.search, SPSA(evaluations=tuning.evaluations, **shared)),
        RANKNET: over.ranknet,
        "RankNet, L-BFGS": partial(over.ranknet, optimizer="l-bfgs"),
        APPROX: partial(over.surrogate, str(smooth_form(judged_by)), ALPHAS),
    }
    for choose in methods.values():
        choose(ready.folds[0].train[:WARM])
    keys = {"dataset": short_name(dataset), "model": model, "parameters": _freedom(plan.space)}
    rows = []
    for number, fold in enumerate(ready.folds, 1):
        chosen = {name: choose(fold.train) for name, choose in methods.items()}
        rows += [keys | {"fold": number, **row} for row in _rows(over, fold, chosen, measure, tuning.certify)]
    return rows


def _rows(
    over: Methods, fold: Fold, chosen: Mapping[str, Choice], measure: str, certify: float
) -> Iterator[dict[str, Any]]:
    places, test = map(over.pool.positions, (fold.train, fold.test))
    settings = [choice.tuner.best_params_ for choice in chosen.values()]
    judged = over.judged(parse_measure(measure), [*chosen.values()], places, test)
    for (name, choice), row, by_topic in zip(chosen.items(), judged.rows, judged.values.T, strict=True):
        yield {
            **{"method": name, "setting": choice.tuner.best_params_, "train": row["train"]},
            **{"values": by_topic[test].tolist(), **choice.work},
            "climbs": len(getattr(choice.tuner, "ends_", ())),
            "agreeing": choice.tuner.n_agreeing_ if isinstance(choice.tuner, CoordinateAscent) else 0,
        }
    best, bound = dict(judged.best), None
    value = best.pop("test")
    if certify and _is_provable(over):
        optimum = CertifiedOptimum(
            measure, space=over.space, tolerance=certify, starts=[best, *settings]
        ).fit(over.pool, topics=fold.test)
        best, value, bound = optimum.best_params_, optimum.best_value_, optimum.bound_
    yield {"method": OPTIMAL, "setting": best, "values": [value] * len(test), "bound": bound}


def _name(model: str) -> str:
    """Return a model's name; fields are joined by ``+``, because commas separate options."""
    return model.replace("+", ",")


def _freedom(space: ParameterSpace) -> int:
    """Count free parameters, minus one for each group that sums to 1."""
    return len(space.free) - len(shares(space.free))


def _is_provable(over: Methods) -> bool:
    try:
        proof_of(over.pool.formula)
    except InputError:
        return False
    return True


def _against_direct(
    keys: dict[str, Any], model: pd.DataFrame, values: Mapping[str, Any]
) -> list[dict[str, Any]]:
    others = [method for method in values if method not in (DIRECT, OPTIMAL)]
    p_values = [paired_t_test(values[method], values[DIRECT]) for method in others]
    tested = dict(zip(others, zip(p_values, adjusted(p_values), strict=True), strict=True))
    rows = []
    for method, mine in values.items():
        part = model[model["method"] == method]
        p_value, p_holm = tested.get(method, (np.nan, np.nan))
        sizes = part["values"].map(len)
        bounds = part["bound"].astype(float) if "bound" in part else None
        rows.append(
            keys
            | {"method": method, "topics": mine.size, "train": part["train"].mean(), "test": mine.mean()}
            | {"difference": mine.mean() - values[DIRECT].mean(), "p_value": p_value, "p_holm": p_holm}
            | {work: part[work].mean() for work in WORK}
            | {"bound": np.nan if bounds is None else float((bounds * sizes).sum(skipna=False) / sizes.sum())}
        )
    return rows


def _between_models(dataset: str, values: Mapping[Any, Any]) -> list[dict[str, Any]]:
    by_model = {model: of for (name, model), of in values.items() if name == dataset}
    pairs = list(combinations(by_model, 2))
    p_values = [paired_t_test(by_model[b], by_model[a]) for a, b in pairs]
    rows = [
        {"dataset": dataset, "baseline": a, "model": b, "difference": by_model[b].mean() - by_model[a].mean()}
        for a, b in pairs
    ]
    tested = zip(rows, p_values, adjusted(p_values), strict=True)
    return [row | {"p_value": p_value, "p_holm": p_holm} for row, p_value, p_holm in tested]


if __name__ == "__main__":
    main(__spec__)
