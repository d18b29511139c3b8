"""Methods of tuning compared as parameters grow in number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from experiments.data import COLLECTION_HELP, short_name
from experiments.experiment import Claim, Experiment, Tables, Unit, figures
from experiments.methods import Choice, Methods
from experiments.pictures import Chart, stacked
from experiments.synthetic import folder_of
from lmtune.datasets.collection import Collection, named_collections
from lmtune.datasets.folds import Fold
from lmtune.errors import InputError
from lmtune.formats.result_folders import file_name
from lmtune.measures.measure import Measure, parse_measure
from lmtune.measures.significance.tests import adjusted, paired_t_test
from lmtune.models.model import find_model
from lmtune.models.parameter import shares
from lmtune.options import option
from lmtune.reporting.figures.style import Picture
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.certificate.problem import proof_of
from lmtune.tuning.coordinate_ascent import CoordinateAscent
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.experiment.preparation import prepare
from lmtune.tuning.experiment.result import APPROX, DIRECT, OPTIMAL, RANKNET, SIGNIFICANCE
from lmtune.tuning.experiment.smooth import smooth_form
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.spsa import SPSA
from lmtune.tuning.surrogate import ALPHAS
from lmtune.tuning.tuner import EVALUATIONS, FEWEST

_BY_DIRECT = f"method == '{DIRECT}'"
_WORSE = f"p_holm < {SIGNIFICANCE} and difference < 0"
_WORK = ("evaluations", "documents", "seconds")
# Enough to compile all kernels before anything is timed.
_WARM = 20


@dataclass(frozen=True)
class Parameters(Experiment):
    """Experiment.

    What tuning takes and reaches as parameters grow in number, and how the models compare.

    Every method chooses on each fold's training topics and is measured on the others. Methods are compared
    with Direct, and models with one another by what Direct chose, with Holm's correction.
    """

    name: ClassVar[str] = "parameters"
    quick: ClassVar[Mapping[str, Any]] = {
        "datasets": ("synthetic:1000x40",),
        "models": ("dirichlet", "bm25"),
        "evaluations": 20,
        "restarts": 1,
    }

    datasets: tuple[str, ...] = option(("pydocs",), f"each of {COLLECTION_HELP}", fewest=1)
    models: tuple[str, ...] = option(
        ("dirichlet", "jelinek-mercer", "two-stage", "bm25", "sdm"),
        "models, as fields:title+contents",
        fewest=1,
    )
    measure: str = option("AP", "AP, P@k, Bpref, nDCG@k, RR ...")
    folds: int = option(2, "of the topics", low=2)
    restarts: int = option(4, "of the coordinate ascent that begins without a grid", low=0)
    evaluations: int = option(EVALUATIONS, "what SPSA may measure", low=FEWEST)
    certify: float = option(
        0.0, "prove Optimal to be this near the best, of models with a proof; 0: no", low=0
    )
    seed: int = option(0, "of folds and starts", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_measure(self.measure)
        for model in self.models:
            find_model(_name(model))
        for names in (self.models, [short_name(dataset) for dataset in self.datasets]):
            if len(set(names)) < len(names):
                raise InputError("one is named twice", value=names, accepted="different ones")

    @cached_property
    def judged_by(self) -> Measure:
        """The measure."""
        return parse_measure(self.measure)

    def units(self) -> list[Unit]:
        """Return a unit a collection and model."""
        return [
            Unit(file_name(f"{short_name(dataset)}-{model}"), self.tune, {"dataset": dataset, "model": model})
            for dataset in self.datasets
            for model in self.models
        ]

    def tune(self, dataset: str, model: str) -> dict[str, Any]:
        """Tune a model on a collection by every method.

        Returns
        -------
        dict
            ``rows``: a row a method and fold, with its test topics' ``values``, and one of Optimal.
        """
        plan = Plan((self.measure,), model=_name(model), seed=self.seed)  # type: ignore[arg-type]
        [collection] = named_collections([folder_of(dataset)], Collection())
        ready = prepare(collection, Split(folds=str(self.folds)), plan)
        over = Methods.over(ready.pool, plan.measures, plan.grid, self.seed, plan.space)
        methods = self._methods(over)
        for choose in methods.values():
            choose(ready.folds[0].train[:_WARM])
        keys = {"dataset": short_name(dataset), "model": model, "parameters": _freedom(plan.space)}
        rows = []
        for number, fold in enumerate(ready.folds, 1):
            chosen = {name: choose(fold.train) for name, choose in methods.items()}
            rows += [keys | {"fold": number, **row} for row in self._rows(over, fold, chosen)]
        return {"rows": rows}

    def _methods(self, over: Methods) -> dict[str, Callable[[Sequence[str]], Choice]]:
        measure = self.judged_by
        shared: dict[str, Any] = {"measure": self.measure, "seed": self.seed}
        return {
            DIRECT: partial(over.direct, measure),
            "coordinate ascent": partial(over.search, CoordinateAscent(restarts=self.restarts, **shared)),
            "SPSA": partial(over.search, SPSA(evaluations=self.evaluations, **shared)),
            RANKNET: over.ranknet,
            "RankNet, L-BFGS": partial(over.ranknet, optimizer="l-bfgs"),
            APPROX: partial(over.surrogate, str(smooth_form(measure)), ALPHAS),
        }

    def _rows(self, over: Methods, fold: Fold, chosen: Mapping[str, Choice]) -> Iterator[dict[str, Any]]:
        places, test = map(over.pool.positions, (fold.train, fold.test))
        settings = [choice.tuner.best_params_ for choice in chosen.values()]
        judged = over.judged(self.judged_by, [*chosen.values()], places, test)
        for (name, choice), row, by_topic in zip(chosen.items(), judged.rows, judged.values.T, strict=True):
            yield {
                **{"method": name, "setting": choice.tuner.best_params_, "train": row["train"]},
                **{"values": by_topic[test].tolist(), **choice.work},
                "climbs": len(getattr(choice.tuner, "ends_", ())),
                "agreeing": choice.tuner.n_agreeing_ if isinstance(choice.tuner, CoordinateAscent) else 0,
            }
        best, bound = dict(judged.best), None
        value = best.pop("test")
        if self.certify and _is_provable(over):
            optimum = CertifiedOptimum(
                self.measure, space=over.space, tolerance=self.certify, starts=[best, *settings]
            ).fit(over.pool, topics=fold.test)
            best, value, bound = optimum.best_params_, optimum.best_value_, optimum.bound_
        yield {"method": OPTIMAL, "setting": best, "values": [value] * len(test), "bound": bound}

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Make the tables of methods and of models, and each fold's choices.

        ``methods`` has a row a collection, model and method: means over test topics, the difference to
        Direct with its p-value (paired t-test) before and after Holm's correction over the model's
        methods, and a fold's mean work. ``models`` has each pair of models by Direct's choices,
        corrected over the pairs of a collection. ``folds`` has settings, and climbs that agree.
        """
        folds = super().tables(results)["rows"]
        by = ["dataset", "model", "parameters"]
        rows, values = [], {}
        for keys, model in folds.groupby(by, sort=False):
            by_method = {
                str(method): np.concatenate(part["values"].tolist())
                for method, part in model.groupby("method", sort=False)
            }
            values[keys[:2]] = by_method[DIRECT]
            rows += _against_direct(dict(zip(by, keys, strict=True)), model, by_method)
        settings = [" ".join(f"{n}={value:.6g}" for n, value in one.items()) for one in folds["setting"]]
        shown = folds.assign(setting=settings, test=[float(np.mean(topics)) for topics in folds["values"]])
        pairs = [row for dataset in folds["dataset"].unique() for row in _between_models(dataset, values)]
        tables = {"methods": pd.DataFrame(rows), "models": pd.DataFrame(pairs)}
        return tables | {"folds": shown.drop(columns="values")}

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw work and quality by the number of parameters, means over collections and models."""
        keys = ["method", "free parameters"]
        rows = tables["methods"].rename(columns={"parameters": keys[1]}).query(f"method != '{OPTIMAL}'")
        means = rows.groupby(keys, sort=False).mean(numeric_only=True).reset_index().sort_values(keys[1])
        difference = f"{self.judged_by.title} on test topics, minus Direct's"
        titles = {"evaluations": "settings a fold", "documents": "documents scored a fold"}
        titles |= {"seconds": "seconds a fold", "difference": difference}
        chart = Chart(keys[1], line="method", panel="panel", wide=2, levels={difference: (0.0,)})
        caption = "Tuning by the number of free parameters"
        return [chart.draw(stacked(means, keys, titles), "growth", caption)]

    def claims(self) -> Sequence[Claim]:
        """Return what each method takes and reaches, and which models differ."""
        title = self.judged_by.title
        return (
            Claim(
                f"A fold, {title} on test topics, by free parameters",
                figures(
                    "methods",
                    "parameters method",
                    "evaluations documents seconds test minus_Direct=difference",
                    "mean",
                    f"method != '{OPTIMAL}'",
                ),
            ),
            Claim(
                "Significantly worse than Direct (Holm)",
                figures("methods", "parameters method", "models=model", "size", _WORSE),
            ),
            Claim(
                f"{title} on test topics by Direct",
                figures("methods", "dataset model", "test", where=_BY_DIRECT),
            ),
            Claim("Models compared", figures("models", "dataset baseline model", "difference p_holm")),
        )


def _name(model: str) -> str:
    """Return a model's name; among options, which commas part, fields are joined by ``+``."""
    return model.replace("+", ",")


def _freedom(space: ParameterSpace) -> int:
    """Count free parameters, less one for each group that adds up to 1."""
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
            | {work: part[work].mean() for work in _WORK}
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
