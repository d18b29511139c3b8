"""Topics' values at settings, measured once for all searches of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure
from lmtune.tuning.grid import Surface
from lmtune.tuning.tuner import Point


@dataclass
class KnownValues:
    """Measures of topics at settings, each measured when it is first asked for.

    A topic's values depend neither on the fold nor on the search that asks, and scoring takes far longer
    than a further measure of the scores: whoever asks for one gets all.

    Attributes
    ----------
    pool : CandidatePool
        The collection.
    measures : sequence of Measure
        What is measured.
    depth : int
        Run depth.
    """

    pool: CandidatePool
    measures: Sequence[Measure]
    depth: int = DEPTH
    _found: dict[Point, NDArray[np.float64]] = field(default_factory=dict)

    @classmethod
    def on(cls, surface: Surface, pool: CandidatePool, measures: Sequence[Measure], depth: int) -> Self:
        """Begin with what a grid's surface has of some of its measures."""
        columns = [surface.measures.index(measure) for measure in measures]
        own = surface.values[:, :, columns].transpose(1, 0, 2)
        return cls(pool, measures, depth, dict(zip(map(tuple, surface.settings.tolist()), own, strict=True)))

    def at(self, settings: Sequence[Point], topics: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values at settings of topics, places in the pool: shape (measures, topics, settings)."""
        nothing = np.full((len(self.pool.topics), len(self.measures)), np.nan)
        own = [self._found.setdefault(point, nothing) for point in settings]
        new = [n for n, values in enumerate(own) if np.isnan(values[topics]).any()]
        if new:
            given = np.array([settings[n] for n in new])
            found = measure_settings(self.pool, given, self.measures, topics=topics, depth=self.depth)
            for n, values in zip(new, found.transpose(1, 0, 2), strict=True):
                own[n] = own[n].copy() if own[n] is nothing else own[n]
                own[n][topics] = values
                self._found[settings[n]] = own[n]
        return np.stack([values[topics].T for values in own], axis=2)


def together(measures: Sequence[Measure]) -> list[list[Measure]]:
    """Part measures into those that cost little beside scoring, and each of the others alone."""
    fast = [measure for measure in measures if not measure.is_slow]
    return [[*fast]] * bool(fast) + [[measure] for measure in measures if measure.is_slow]
