"""Methods of tuning compared: direct search and RankNet for lambda and mu; all, as parameters grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.collection import Collection, named_collections
from lmtune.datasets.folds import Fold, cross_validation
from lmtune.errors import InputError
from lmtune.laboratory.data import COLLECTION_HELP, index_collection, load_pool, short_name
from lmtune.laboratory.experiment import Claim, Experiment, Statistic, Tables, Unit, figures
from lmtune.laboratory.landscape import concavity
from lmtune.laboratory.methods import Choice, Methods
from lmtune.laboratory.pictures import Chart, stacked
from lmtune.measures.measure import Measure, parse_measure, parse_measures
from lmtune.measures.significance.tests import adjusted, paired_t_test
from lmtune.models.model import find_model
from lmtune.models.parameter import shares
from lmtune.options import option
from lmtune.reporting.figures.style import Picture
from lmtune.reporting.result_folder import file_name
from lmtune.reporting.tuning_results import check_names
from lmtune.reporting.tuning_tables import as_records
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.certificate.problem import proof_of
from lmtune.tuning.coordinate_ascent import CoordinateAscent
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.preparation import Split, prepare
from lmtune.tuning.experiment.result import (
    APPROX,
    DIRECT,
    OPTIMAL,
    RANKNET,
    SIGNIFICANCE,
    STOPPED,
    CollectionResult,
)
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.experiment.smooth import smooth_form
from lmtune.tuning.grid import Surface
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.spsa import EVALUATIONS, FEWEST, SPSA
from lmtune.tuning.surrogate import ALPHAS

NEAR = 0.9
"""How near the best both ends of a pair are, for concavity near the top."""

SLACK = 0.01
"""A shortfall of this share of the range is hardly more than the steps of a measure."""


def _significance(tables: Tables) -> pd.DataFrame:
    """Count the cells of the table in which RankNet is better or worse."""
    cells = tables["table1"].pivot(index=["dataset", "measure"], columns="method")
    marks = {"better": ("beats_direct", RANKNET), "worse": ("beats_ranknet", DIRECT)}
    marks["worse than Optimal"] = ("beats_ranknet", OPTIMAL)
    counts = {name: cells[mark].eq(True).sum() for name, mark in marks.items()}
    return pd.DataFrame([{"cells": len(cells), **counts}], index=[""])


def _on_small_sets(tables: Tables) -> pd.DataFrame:
    """Compare RankNet with Direct on the small sets, measure by measure."""
    cases = {}
    for measure, rows in tables["small"].groupby("measure", sort=False) if len(tables["small"]) else ():
        tests = rows.pivot(index=["dataset", "fold"], columns="method")
        gain, marked = (
            tests["test"][RANKNET] - tests["test"][DIRECT],
            tests["p_value_direct"][RANKNET] < SIGNIFICANCE,
        )
        cases[measure] = {
            "sets": gain.size,
            **{"higher": (gain > 0).sum(), "significantly higher": (marked & (gain > 0)).sum()},
            **{"lower": (gain < 0).sum(), "significantly lower": (marked & (gain < 0)).sum()},
            "mean difference": gain.mean(),
            "p over the sets": paired_t_test(tests["test"][RANKNET], tests["test"][DIRECT]),
        }
    return pd.DataFrame.from_dict(cases, orient="index")


def _larger(other: str) -> Statistic:
    """Count the collections and measures in which RankNet loses more than another method."""

    def statistic(tables: Tables) -> pd.DataFrame:
        losses = tables["losses"].pivot(index=["sets", "dataset", "measure"], columns="method")
        losses = losses[losses["folds"][RANKNET] > 1]
        if other not in losses["mean"]:
            return pd.DataFrame()
        larger = {
            name: losses[name][RANKNET] > losses[name][other] for name in ("mean", "deviation", "worst")
        }
        return pd.DataFrame({"cases": 1, **larger}).groupby("sets", sort=False).sum()

    return statistic


_NEAR_TOP = f"within {1.0 - NEAR:.0%} of the best"
CLAIMS = (
    Claim(
        "Means on test topics",
        figures("table1", "dataset measure method", "mean p_against_Direct=p_value_direct"),
    ),
    Claim(f"RankNet against Direct (paired t-test, p < {SIGNIFICANCE:g})", _significance),
    Claim("RankNet against Direct on small disjoint training and test sets", _on_small_sets),
    Claim("RankNet's loss is larger than Direct's", _larger(DIRECT)),
    Claim("RankNet's loss is larger than when it is stopped on validation topics", _larger(STOPPED)),
    Claim("Loss against Optimal", figures("losses", "sets dataset measure method", "mean worst deviation")),
    Claim(
        "Work of a fold",
        figures("work", "dataset method", "evaluations documents pairs documents_scored", "mean"),
    ),
    Claim(
        "Midpoints that are concave, also within so much of the range, over the whole grid and at the top "
        f"({_NEAR_TOP}; {SLACK:.0%})",
        figures("concavity", "dataset measure part", "pairs concave concave_within quasi_concave maxima"),
    ),
    Claim("Notes", figures("notes", "dataset note")),
)


@dataclass(frozen=True)
class Estimators(Experiment):
    """Experiment.

    Direct search against RankNet for lambda and mu: Metzler's table and what it claims.

    Beside the table of ``lmtune tune``, whose two halves of a collection's topics train and test each
    other, the topics are cut into many small disjoint training and test sets of a TREC collection's
    size: one collection then says how often either is significantly better, and how consistent each
    is. The measures over the grid are tested for concavity, which Metzler and Croft found of MAP with
    two parameters (as Yue and Burges 2007 cite them).
    """

    name: ClassVar[str] = "estimators"
    quick: ClassVar[Mapping[str, Any]] = {"topics": 500, "small": 50}

    datasets: tuple[str, ...] = option(("pydocs",), "pydocs, folders, irds:ID, synthetic:NAME", fewest=1)
    topics: int = option(0, "how many topics, drawn by the seed; 0 for all", low=0)
    measures: tuple[str, ...] = option(("AP", "Bpref", "p@10"), "AP, P@k, Bpref, nDCG@k ...")
    folds: int = option(2, "cross-validation of the table", low=2)
    small: int = option(50, "topics in each small training and test set; 0 for none", low=0)
    validation: float = option(0.2, "share of training topics that RankNet-val stops on; 0 for no such row")
    seed: int = option(0, "of topics, folds and the methods' starts", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._plan()
        check_names([short_name(dataset) for dataset in self.datasets])
        if self.small == 1:
            raise InputError("bad small", value=self.small, accepted="0, or 2 or more")

    def units(self) -> list[Unit]:
        """Return a unit a collection."""
        for dataset in self.datasets:
            index_collection(dataset, topics=self.topics)
        return [
            Unit(file_name(short_name(dataset)), self.compare, {"dataset": dataset})
            for dataset in self.datasets
        ]

    def compare(self, dataset: str) -> dict[str, Any]:
        """Compare Direct, RankNet and Optimal on one collection.

        Returns
        -------
        dict
            Rows of ``table1``, ``fits``, ``small`` (both `_fits`), ``work``, ``concavity`` and ``notes``.
        """
        pool = load_pool(dataset, topics=self.topics, seed=self.seed)
        plan = self._plan()
        result = run_experiment(pool, cross_validation(pool.topics, self.folds, seed=self.seed), plan)
        splits = small_splits(pool.topics, self.small, seed=self.seed)
        assert result.surface is not None
        tables = {
            "table1": as_records([result]),
            "fits": _fits(result),
            "small": _fits(run_experiment(pool, splits, plan)) if splits else [],
            "work": _work(pool, result, plan),
            "concavity": _concavity(result.surface, pool),
            "notes": [{"note": note} for note in result.notes],
        }
        return {
            name: [{"dataset": short_name(dataset), **row} for row in rows] for name, rows in tables.items()
        }

    def _plan(self) -> Plan:
        shape: dict[str, Any] = {"validation": self.validation, "approx": False, "final": False}
        return Plan(tuple(parse_measures(self.measures)), seed=self.seed, **shape)

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Make ``table1``, ``fits``, ``small``, ``losses``, ``work``, ``concavity`` and ``notes``.

        ``fits`` and ``small`` have a row a fold, measure and method; ``losses`` sums them up: by how
        much a method's mean on the test topics is below Optimal's, as a share, over the folds.
        """
        tables = super().tables(results)
        sets = {"folds": tables["fits"], "small": tables["small"]}
        losses = [_losses(part, name) for name, part in sets.items() if len(part)]
        first = tables.pop("table1").drop(columns="collection")
        return {"table1": first, "losses": pd.concat(losses, ignore_index=True), **tables}

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw the losses of the small sets, or of the folds where there are none."""
        drawn = []
        chart = Chart("method", "below Optimal, %", "line", "panel", bold="mean", same=True)
        for sets, name, what in (
            ("small", "losses-small", "small training and test sets"),
            ("fits", "losses", "folds"),
        ):
            if len(tables[sets]):
                folds = relative_losses(tables[sets]).assign(line=lambda rows: rows["fold"].astype(str))
                folds["panel"] = folds["dataset"] + ", " + folds["measure"]
                folds["below Optimal, %"] = 100.0 * folds["loss"]
                keys = ["panel", "method", "line"]
                means = folds.assign(line="mean").groupby(keys, sort=False)["below Optimal, %"].mean()
                both = pd.concat([folds, means.reset_index()])
                drawn.append(chart.draw(both, name, f"Loss against Optimal over {what}, each and mean"))
        return drawn

    def claims(self) -> Sequence[Claim]:
        """Return the paper's claims, and the limits of the collections."""
        return CLAIMS


def small_splits(topics: Sequence[str], size: int, *, seed: int = 0) -> list[Fold]:
    """Cut topics into disjoint training and test sets of one size, as many as they make.

    Parameters
    ----------
    topics : sequence of str
        In the order that each set keeps.
    size : int
        Topics in each set; 0 for no sets at all.
    seed : int
        Of the shuffle.

    Returns
    -------
    list of Fold
        No topic is in two sets, so that the folds are independent; topics left over are in none.
    """
    if size == 0:
        return []
    order = np.random.default_rng([seed, size]).permutation(len(topics))
    parts = [
        tuple(topics[number] for number in sorted(order[first : first + size]))
        for first in range(0, len(topics) - size + 1, size)
    ]
    return [Fold(*pair) for pair in zip(parts[::2], parts[1::2], strict=False)]


def _fits(result: CollectionResult) -> Iterator[dict[str, Any]]:
    """Yield a row a fold, measure and method, with two-sided paired t-tests within the fold."""
    values = {(row.measure, row.method): row.values for row in result.rows}
    begins = np.cumsum([0, *(len(fold.test) for fold in result.folds)])
    for row in result.rows:
        for number, fit in enumerate(row.fits):
            here = slice(begins[number], begins[number + 1])
            tests = {
                f"p_value_{other.lower()}": paired_t_test(row.values[here], values[row.measure, other][here])
                for other in (DIRECT, RANKNET)
            }
            yield {
                **{"measure": str(row.measure), "method": row.method, "fold": number + 1, **fit.params},
                **{"train": fit.train_value, "test": fit.test_value, "evaluations": fit.evaluations},
                **{"at_edge": ", ".join(fit.at_edge), **tests},
            }


def _work(pool: CandidatePool, result: CollectionResult, plan: Plan) -> list[dict[str, Any]]:
    """Count what a fold's search takes: evaluations, documents scored in one, pairs in one."""
    pairs = Pairs.build(pool, rel=plan.rel, stand_ins=plan.stand_ins)
    documents = {DIRECT: np.diff(pool.candidates.start), RANKNET: np.diff(pairs.columns.start)}
    rows = []
    for number, fold in enumerate(result.folds):
        train = pool.positions(fold.train)
        for row in result.rows:
            if row.method in documents and (row.method != RANKNET or row.measure == result.rows[0].measure):
                scored = int(documents[row.method][train].sum())
                evaluations = row.fits[number].evaluations
                measure = str(row.measure) if row.method == DIRECT else "(all)"
                judged = int(pairs.per_topic[train].sum()) if row.method == RANKNET else 0
                work = {"evaluations": evaluations, "documents": scored, "pairs": judged}
                work["documents_scored"] = evaluations * scored
                rows.append({"fold": number + 1, "method": row.method, "measure": measure, **work})
    return rows


def _concavity(surface: Surface, pool: CandidatePool) -> Iterator[dict[str, Any]]:
    """Test every measure's mean over all topics, over the whole grid and near its top."""
    shape = [np.unique(axis).size for axis in surface.settings.T]
    for measure in surface.measures:
        means = surface.means(measure, pool.positions()).reshape(shape)
        for part, floor in (("whole", -np.inf), ("top", NEAR * means.max())):
            exact, within = (concavity(means, floor=floor, slack=s) for s in (0.0, SLACK))
            yield {
                **{"measure": str(measure), "part": part, "range": float(np.ptp(means)), **exact._asdict()},
                **{"concave_within": within.concave, "quasi_concave_within": within.quasi_concave},
            }


def relative_losses(fits: pd.DataFrame) -> pd.DataFrame:
    """Return all methods' folds but Optimal's with ``loss``: 1 - test value / Optimal's."""
    keys = ["dataset", "measure", "fold"]
    best = fits[fits["method"] == OPTIMAL].set_index(keys)["test"].rename("best")
    others = fits[fits["method"] != OPTIMAL].join(best, on=keys)
    return others.assign(loss=np.where(others["best"] > 0.0, 1.0 - others["test"] / others["best"], 0.0))


def _losses(fits: pd.DataFrame, sets: str) -> pd.DataFrame:
    grouped = relative_losses(fits).groupby(["dataset", "measure", "method"], sort=False)["loss"]
    summary = grouped.agg(folds="size", mean="mean", deviation="std", worst="max").reset_index()
    summary.insert(0, "sets", sets)
    return summary


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
        [collection] = named_collections([dataset], Collection())
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
