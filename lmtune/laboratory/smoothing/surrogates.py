"""Gradients of smooth measures against direct search for lambda and mu: is the one level with the other.

Metzler (SIGIR 2007) finds that RankNet does not reach direct search, and asks for a better gradient.
Here RankNet, cures of it and smooth measures of `lmtune.tuning.surrogate` choose parameters on many
small disjoint sets of topics beside Direct, and are measured on the topics outside; what they differ
by is held against a margin, with tests that allow for the splits' overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.laboratory.collections import COLLECTION_HELP, index_collection, load_pool, short_name
from lmtune.laboratory.experiment import Experiment, Tables, Unit
from lmtune.laboratory.smoothing.surrogate_causes import find_causes, say_causes
from lmtune.laboratory.smoothing.surrogate_claims import (
    over_collections,
    say_level,
    say_over_collections,
    say_work,
)
from lmtune.laboratory.smoothing.surrogate_dimensions import say_dimensions, search
from lmtune.laboratory.smoothing.surrogate_splits import (
    Fitted,
    Methods,
    compare_on,
    continuation,
    disjoint_sets,
)
from lmtune.measures.measure import Measure, parse_measure, parse_measures
from lmtune.measures.significance.resampling import corrected_resampling, topics_and_sets
from lmtune.options import option
from lmtune.reporting.results_files import check_names, file_name
from lmtune.tuning.experiment.result import DIRECT, OPTIMAL
from lmtune.tuning.objectives import parse_objective
from lmtune.tuning.spsa import FEWEST

if TYPE_CHECKING:
    from lmtune.reporting.figures.style import Picture

# Training sets of a piece of work.
_TOGETHER = 5
_CONFIDENCE = 0.9
# What else is called RankNet is the paper's.
_NAMES = {"ranknet": "RankNet over lists"}

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Surrogates(Experiment):
    """What to compare, and how."""

    name: ClassVar[str] = "surrogates"
    quick: ClassVar[Mapping[str, Any]] = {
        "topics": 60,
        "measures": ("AP",),
        "sizes": (10, 0),
        "fits": 4,
        "alphas": (8.0,),
        "objectives": ("ranknet",),
        "grid": (6, 8),
        "parameters": (2, 5),
        "draws": 1,
        "evaluations": 40,
    }

    datasets: tuple[str, ...] = option(("pydocs",), f"each of {COLLECTION_HELP}", fewest=1)
    topics: int = option(0, "how many topics, drawn by the seed; 0 for all", low=0)
    measures: tuple[str, ...] = option(
        ("AP", "nDCG@10", "P@10", "Bpref", "RR"), "AP, P@k, Bpref, nDCG@k, RR ...", fewest=1
    )
    sizes: tuple[int, ...] = option(
        (10, 25, 50, 0), "training topics, where they are half of all at most; 0 for half", low=0, fewest=1
    )
    fits: int = option(20, "training sets of each size: disjoint, then drawn anew", low=2)
    alphas: tuple[float, ...] = option(
        (32.0, 4.0, 8.0, 16.0),
        "the smooth AP's last steepness; of other measures, the first",
        low=2,
        fewest=1,
    )
    objectives: tuple[str, ...] = option(
        ("softmax", "ranknet", "song"), "further surrogates, for AP; lambda-ap takes long"
    )
    grid: tuple[int, ...] = option((20, 26), "Direct's points along lambda and mu", low=2, fewest=2)
    margin: float = option(0.002, "differences below it do not matter", above=0)
    parameters: tuple[int, ...] = option((2, 5, 20), "numbers of parameters of made-up models", low=1)
    draws: int = option(5, "made-up models of each number of parameters", low=1)
    made_up: str = option("synthetic:1000x40", "the collection whose documents they rank")
    evaluations: int = option(400, "what SPSA and FDSA may measure on them", low=FEWEST)
    seed: int = option(0, "of topics, training sets and the methods' starts", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._fitted()
        check_names([short_name(dataset) for dataset in self.datasets])

    def units(self) -> list[Unit]:
        """Return units of a few training sets each."""
        units = list(self._units())
        if all(unit.function != self.compare for unit in units):
            accepted = "a size of half of a collection's topics at most"
            raise InputError("no collection is large enough", value=self.sizes, accepted=accepted)
        return units

    def _units(self) -> Iterator[Unit]:
        for dataset in self.datasets:
            topics = index_collection(dataset, topics=self.topics)
            topics = self.topics or topics
            for size in self.sizes:
                train = size or topics // 2
                if not 1 <= train <= topics // 2:
                    continue
                for first in range(0, self.fits, _TOGETHER):
                    key = file_name(f"{short_name(dataset)}-{size or 'half'}-{first}")
                    yield Unit(key, self.compare, {"dataset": dataset, "size": size, "first": first})
            if parse_measure("AP") in self._fitted():
                yield Unit(file_name(f"{short_name(dataset)}-causes"), self.causes, {"dataset": dataset})
        for dimensions in self.parameters:
            for draw in range(self.draws):
                arguments = {"dataset": self.made_up, "dimensions": dimensions}
                arguments |= {"seed": self.seed + draw, "evaluations": self.evaluations}
                yield Unit(f"parameters-{dimensions}-{draw}", search, arguments)

    def compare(self, dataset: str, size: int, first: int) -> dict[str, Any]:
        """Compare the methods over a few training sets.

        Returns
        -------
        dict
            ``rows`` of `lmtune.laboratory.smoothing.surrogate_splits.compare_on` with dataset, size and
            set; by measure and method the ``sums`` over the sets of each test topic's difference to
            Direct; and in how many sets a topic was a test topic, ``counts``.
        """
        methods = _methods(dataset, self.topics, tuple(self._fitted()), self.grid, self.seed)
        topics = methods.pool.topics
        train = size or len(topics) // 2
        rows: list[dict[str, Any]] = []
        counts = np.zeros(len(topics), np.int64)
        sums: dict[str, dict[str, Vector]] = {}
        sets = disjoint_sets(topics, train, self.fits, seed=self.seed)
        for number, own in islice(enumerate(sets), first, first + _TOGETHER):
            found = compare_on(methods, self._fitted(), own)
            place = {"dataset": short_name(dataset), "size": size, "topics": train, "set": number}
            rows += [place | row for row in found.rows]
            counts[found.test] += 1
            for (measure, method), values in found.differences.items():
                by_topic = sums.setdefault(measure, {}).setdefault(method, np.zeros(len(topics)))
                by_topic[found.test] += values[found.test]
        listed = {
            measure: {method: by_topic.tolist() for method, by_topic in own.items()}
            for measure, own in sums.items()
        }
        return {"rows": rows, "sums": listed, "counts": counts.tolist()}

    def causes(self, dataset: str) -> dict[str, Any]:
        """Compute RankNet's cost, cures of it and the smooth AP over the grid, on all topics.

        Returns
        -------
        dict
            Of `lmtune.laboratory.smoothing.surrogate_causes.find_causes`, with the dataset.
        """
        methods = _methods(dataset, self.topics, tuple(self._fitted()), self.grid, self.seed)
        return {"dataset": short_name(dataset), **find_causes(methods, self.alphas[0])}

    def _fitted(self) -> dict[Measure, list[Fitted]]:
        """Return each measure's surrogates."""
        found: dict[Measure, list[Fitted]] = {}
        for measure in parse_measures(self.measures):
            is_ap = measure == parse_measure("AP")
            objective = parse_objective(f"approx-{measure}")
            found[measure] = [
                (f"{objective}, alpha {alpha:g}", str(objective), continuation(alpha))
                for alpha in (self.alphas if is_ap else self.alphas[:1])
            ]
            if is_ap:
                further = [parse_objective(name) for name in self.objectives]
                found[measure] += [
                    (_NAMES.get(str(own), str(own)), str(own), continuation(self.alphas[0]))
                    for own in further
                ]
        return found

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Make the comparison's tables, those of the causes and that of the made-up models.

        ``fits`` has a row a training set, measure and method; ``equivalence`` one a collection, size,
        measure and method, with the difference to Direct on the test topics, its interval and p-values
        by `corrected_resampling`, and by `topics_and_sets` in columns that end in ``_crossed``;
        ``collections`` has the rows of `over_collections`; ``work`` the means of what fits take;
        ``causes`` and ``surfaces`` are those of `find_causes`, by dataset; ``parameters`` has the rows of
        `lmtune.laboratory.smoothing.surrogate_dimensions.search`.
        """
        import pandas as pd

        compared = [found for found in results.values() if "sums" in found]
        causes = [found for found in results.values() if "surface" in found]
        made_up = [row for found in results.values() if isinstance(found, list) for row in found]
        fits = pd.DataFrame([row for found in compared for row in found["rows"]])
        by = ["dataset", "size", "topics", "measure", "method"]
        grouped = fits.groupby(by, sort=False)
        work = grouped[["evaluations", "documents", "seconds"]].mean().dropna().reset_index()
        rows = []
        for (dataset, size, topics, measure, method), own in grouped:
            direct = grouped.get_group((dataset, size, topics, measure, DIRECT))
            means = {"fits": len(own), "direct": direct["test"].mean(), "test": own["test"].mean()}
            difference = own["test"].to_numpy() - direct["test"].to_numpy()
            row = dict(zip(by, (dataset, size, topics, measure, method), strict=True))
            row |= means | {"difference": float(difference.mean())}
            if method not in (DIRECT, OPTIMAL) and len(own) > 1:
                mine = [
                    found
                    for found in compared
                    if (found["rows"][0]["dataset"], found["rows"][0]["size"]) == (dataset, size)
                ]
                row |= self._judged(mine, row, difference)
            rows.append(row)
        surfaces = [pd.DataFrame({"dataset": own["dataset"], **own["surface"]}) for own in causes]
        steps = [{"dataset": own["dataset"], **row} for own in causes for row in own["steps"]]
        equivalence = pd.DataFrame(rows)
        return {
            "equivalence": equivalence,
            "collections": pd.DataFrame(over_collections(equivalence, self.margin)),
            "work": work,
            "fits": fits,
            "causes": pd.DataFrame(steps),
            "surfaces": pd.concat(surfaces, ignore_index=True) if surfaces else pd.DataFrame(),
            "parameters": pd.DataFrame(made_up),
        }

    def _judged(
        self, units: list[Mapping[str, Any]], row: Mapping[str, Any], difference: Vector
    ) -> dict[str, float]:
        """Return p-values and intervals of a method's differences to Direct."""
        counts = np.sum([found["counts"] for found in units], axis=0)
        sums = np.sum([found["sums"][row["measure"]][row["method"]] for found in units], axis=0)
        train, topics = row["topics"], counts.size
        estimates = {
            "": corrected_resampling(difference, train=train, test=topics - train),
            "_crossed": topics_and_sets(
                difference, sums[counts > 0] / counts[counts > 0], independent=topics // train
            ),
        }
        judged: dict[str, float] = {}
        for suffix, estimate in estimates.items():
            low, high = estimate.interval(_CONFIDENCE)
            both = estimate.equivalence(self.margin)
            judged |= {
                f"low{suffix}": low,
                f"high{suffix}": high,
                f"p_value{suffix}": estimate.p_value,
                f"p_not_worse{suffix}": both.not_worse,
                f"p_equivalent{suffix}": both.equivalent,
            }
        return judged

    def pictures(self, found: Tables) -> list[Picture]:
        """Draw each method's difference to Direct by size, and where each objective leads."""
        from lmtune.laboratory.smoothing.surrogates_pictures import (
            cost_surfaces,
            differences,
            dimensions,
            mends,
        )
        from lmtune.reporting.figures.style import Picture

        drawn = []
        table = found["equivalence"]
        for measure in table["measure"].unique().tolist():
            figure = differences(table[table["measure"] == measure], margin=self.margin)
            title = f"{parse_measure(measure).title} on test topics, minus Direct's"
            drawn.append(Picture(f"differences-{file_name(measure)}", title, figure))
        if len(found["causes"]):
            figure = mends(found["causes"])
            drawn.append(Picture("causes", "What mends RankNet's cost, step by step", figure))
            for dataset, own in found["surfaces"].groupby("dataset", sort=False):
                figure = cost_surfaces(own)
                title = "MAP, RankNet's cost and the smooth AP over lambda and mu"
                name = f"surfaces-{file_name(str(dataset))}"
                drawn.append(Picture(name, title, figure, str(dataset)))
        if len(found["parameters"]):
            figure = dimensions(found["parameters"])
            title = "MAP reached and evaluations as parameters grow in number"
            drawn.append(Picture("parameters", title, figure))
        return drawn

    def conclusions(self, found: Tables) -> list[str]:
        """Say which methods are level with Direct, where, and what they take."""
        steps = found["causes"].to_dict("records")
        by_dataset = [list(own) for _, own in groupby(steps, key=itemgetter("dataset"))]
        return [
            *say_level(found["equivalence"], self.margin),
            *(say_over_collections(found["collections"], self.margin) if len(found["collections"]) else []),
            *say_work(found["work"]),
            *(say_causes(own) for own in by_dataset),
            *(say_dimensions(found["parameters"]) if len(found["parameters"]) else []),
        ]


@lru_cache(maxsize=2)
def _methods(
    dataset: str, topics: int, measures: tuple[Measure, ...], grid: tuple[int, ...], seed: int
) -> Methods:
    return Methods.over(load_pool(dataset, topics=topics, seed=seed), measures, grid, seed)
