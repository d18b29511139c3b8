"""How many topics tell two settings apart: the difference that a paired t-test sees of so many."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lmtune.laboratory.data import COLLECTION_HELP, index_collection, load_pool, short_name
from lmtune.laboratory.experiment import Claim, Experiment, Tables, Unit, figures
from lmtune.laboratory.pictures import Chart
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.effects import LEVEL, POWER, detectable_difference
from lmtune.measures.significance.tests import FEWEST
from lmtune.options import option
from lmtune.reporting.figures.style import Picture
from lmtune.reporting.result_folder import file_name
from lmtune.reporting.tuning_results import check_names
from lmtune.tuning.grid import Surface
from lmtune.tuning.space import ParameterSpace

Vector = NDArray[np.float64]

_SAMPLES = 4000
_MODELS = "bm25", "two-stage"


@dataclass(frozen=True)
class Power(Experiment):
    """Experiment.

    How many topics tell two settings apart, and two models.

    Differences of topics' values, between the defaults of two models, the default and the best setting of all
    topics, and neighbours on a grid, say what a paired t-test of so many topics sees in four of five cases.
    Whether it does is tried on topics drawn with replacement, their differences shifted to that mean.
    """

    name: ClassVar[str] = "power"
    quick: ClassVar[Mapping[str, Any]] = {"topics": 60, "sizes": (10, 50), "grid": (8, 8)}

    datasets: tuple[str, ...] = option(("pydocs",), f"each of {COLLECTION_HELP}", fewest=1)
    measure: str = option("AP", "AP, P@k, nDCG@k ")
    sizes: tuple[int, ...] = option((10, 25, 50, 100, 250, 1000), "numbers of topics", low=FEWEST, fewest=1)
    grid: tuple[int, ...] = option((20, 26), "points along the parameters", low=2, fewest=2)
    topics: int = option(0, "how many topics, drawn by the seed; 0 for all", low=0)
    seed: int = option(0, "of topics, and of what is drawn of them", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_measure(self.measure)
        check_names([short_name(dataset) for dataset in self.datasets])

    def units(self) -> list[Unit]:
        """Return a unit a collection."""
        for dataset in self.datasets:
            index_collection(dataset, topics=self.topics)
        return [
            Unit(file_name(short_name(dataset)), self.examine, {"dataset": dataset})
            for dataset in self.datasets
        ]

    def examine(self, dataset: str) -> dict[str, Any]:
        """Return rows of ``seen``: collection, pair, topics, what of them is seen, and how often it was."""
        rng, rows = np.random.default_rng(self.seed), []
        for pair, differences in self._pairs(dataset):
            deviation = float(differences.std(ddof=1))
            said = {"collection": short_name(dataset), "pair": pair, "difference": float(differences.mean())}
            for size in self.sizes:
                least = detectable_difference(deviation, size)
                row = {"deviation": deviation, "size": size, "seen_from": least}
                rows.append({**said, **row, "found": found_share(differences, size, least, rng)})
        return {"seen": rows}

    def _pairs(self, dataset: str) -> Iterator[tuple[str, Vector]]:
        """Yield names of pairs and topics' differences."""
        measure, defaults = parse_measure(self.measure), {}
        for model in _MODELS:
            pool = load_pool(dataset, model=model, topics=self.topics, seed=self.seed)
            space = ParameterSpace.of(pool.formula)
            values = Surface.compute(pool, [measure], space=space, shape=self.grid).values[:, :, 0]
            defaults[model] = measure_settings(pool, space.vector({})[None], [measure])[:, 0, 0]
            yield f"{model}: best, default", values[:, values.mean(axis=0).argmax()] - defaults[model]
            square = values.reshape(len(values), *self.grid)
            for axis, name in enumerate(space.names, 1):
                steps = np.diff(square, axis=axis).reshape(len(values), -1)
                spread = steps.std(axis=0)
                # The one in the middle stands for all.
                yield f"{model}: a step of {name}", steps[:, np.argsort(spread)[spread.size // 2]]
        first, second = _MODELS
        yield f"{first}, {second}: defaults", defaults[first] - defaults[second]

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw what is seen by the number of topics."""
        title = f"difference in {parse_measure(self.measure).title} seen in {POWER:.0%} of cases"
        seen = tables["seen"].rename(columns={"size": "topics", "seen_from": title})
        caption = f"What a paired t-test at {LEVEL:g} sees, by the number of topics"
        return [Chart("topics", title, "pair", "collection", same=True).draw(seen, "power", caption)]

    def claims(self) -> Sequence[Claim]:
        """Tell what is seen."""
        shown = "difference deviation seen_from found"
        return (Claim("Seen in four of five cases from", figures("seen", "collection pair size", shown)),)


def found_share(differences: Vector, size: int, mean: float, rng: np.random.Generator) -> float:
    """Return how often a paired t-test finds a mean in topics that are drawn with replacement.

    Parameters
    ----------
    differences : numpy.ndarray of float64, shape (topics,)
        Shifted to that mean.
    size : int
        Topics in a sample.
    mean : float
    rng : numpy.random.Generator
        Draws the samples.
    """
    from scipy.special import stdtrit

    shifted = differences - differences.mean() + mean
    critical = float(stdtrit(size - 1, 1.0 - LEVEL / 2.0)) / math.sqrt(size)
    found = 0
    for _ in range(_SAMPLES):
        drawn = shifted[rng.integers(shifted.size, size=size)]
        found += bool(abs(drawn.mean()) > critical * drawn.std(ddof=1))
    return found / _SAMPLES
