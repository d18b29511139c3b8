"""What a page shows: candidates, measures, settings worth a look; and every setting's values, fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.explaining import term_parts
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.regions import Regions
from lmtune.errors import InputError
from lmtune.index.protocol import Index
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure
from lmtune.models.parameter import Setting, shares
from lmtune.models.weighted import Weighted
from lmtune.tuning.space import ParameterSpace

SHOWN = 50
"""Documents of a ranking that a page shows."""

_REMEMBERED = 8
# A factor nearer to 1 changes no digit that is shown.
_TOLD = 5e-3


class Mark(NamedTuple):
    """A setting that is shown from the start.

    Attributes
    ----------
    name : str
        A method's, such as ``Direct``.
    measure : str
        What it was tuned for; "" for any.
    setting : dict of str to float
    path : sequence of dict of str to float
        The settings that the search went through; empty where none were kept.
    bound : float or None
        What no setting exceeds on all topics, where that was proved.
    recommended : bool
        Whether it is what tuning says to use: the page begins with it.
    """

    name: str
    measure: str
    setting: dict[str, float]
    path: Sequence[dict[str, float]] = ()
    bound: float | None = None
    recommended: bool = False


def stamp_of(index: Index) -> int:
    """Return when an index's files last changed, in nanoseconds; 0 where it has none."""
    folder = getattr(index, "path", None)
    if folder is None:
        return 0
    return max((file.stat().st_mtime_ns for file in Path(folder).glob("*") if file.is_file()), default=-1)


@dataclass(frozen=True)
class View:
    """A collection, or runs side by side, and what of it is shown.

    Attributes
    ----------
    pool : CandidatePool
        The candidates of all topics.
    space : ParameterSpace
        Where parameters can be dragged.
    measures : tuple of Measure
        What is shown of a setting.
    model : str
        As the command line names it; "" for runs.
    queries : mapping of str to str
        Topics' text; "" of runs.
    marks : tuple of Mark
        The model's own setting first.
    source : Sequence of str
        What the command line was given to open it, for commands that are shown.
    texts : Texts or None
        The documents', where they are kept.
    depth : int
        Run depth.
    regions : Regions or None
        The candidates cell by cell, where that makes settings several times faster.
    stamp : int
        `stamp_of` the index when it was opened.
    """

    pool: CandidatePool
    space: ParameterSpace
    measures: tuple[Measure, ...]
    model: str
    queries: Mapping[str, str]
    marks: tuple[Mark, ...]
    source: Sequence[str] = ()
    texts: Any = None
    depth: int = DEPTH
    regions: Regions | None = None
    stamp: int = 0
    _known: dict[bytes, Doubles] = field(default_factory=dict, repr=False)

    @property
    def index(self) -> Index:
        """Where documents' names come from."""
        return self.pool.index

    def vector(self, setting: Setting) -> Doubles:
        """Return a setting's values in the space's order.

        Raises
        ------
        InputError
            For a name that is no parameter's, and a value outside its range.
        """
        vector = self.space.vector({**self.default, **setting})
        for axes in shares(self.space.parameters).values():
            if not vector[axes].sum() > 0.0:
                raise InputError("shares that add up to nothing", value=setting, accepted="one above 0")
        for parameter, value in zip(self.space.parameters, vector.tolist(), strict=True):
            low = (
                0.0 if parameter.share else parameter.low
            )  # what others leave of 1 may be less than is searched
            if not parameter.is_counted and not low <= value <= parameter.high:
                raise InputError(
                    f"{parameter.name} is outside its range",
                    value=value,
                    accepted=f"{parameter.low:g} to {parameter.high:g}",
                )
        return self.space.normalise_shares(vector)

    @property
    def axes(self) -> list[int]:
        """The places of the parameters along which a page draws.

        The last of two that share 1 does what the first leaves; so does that of three, if they are all.
        """
        axes = [at for at, own in enumerate(self.space.parameters) if not own.is_fixed]
        for group in shares(self.space.parameters).values():
            if len(group) == 2 or len(axes) == len(group) == 3:
                axes.remove(group[-1])
        return axes

    @property
    def default(self) -> dict[str, float]:
        """The setting to begin with."""
        return self.marks[0].setting

    def values(self, settings: Doubles, *, threads: int | None = None) -> Doubles:
        """Measure settings, shape (settings, parameters): shape (topics, settings, measures)."""
        return measure_settings(
            self.pool, settings, self.measures, depth=self.depth, regions=self.regions, threads=threads
        )

    def value(self, vector: Doubles) -> Doubles:
        """Measure one setting, shape (topics, measures); the last few are remembered."""
        key = vector.tobytes()
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._known[key] = self.values(vector[None])[:, 0]
        return self._known[key]

    def scores(self, t: int, places: Integers, vector: Doubles) -> Doubles:
        """Score some of topic t's candidates."""
        return self.pool.formula.differentiate(self.pool.topic_documents(t, places), vector)[0]

    def weights(self, t: int, vector: Doubles) -> list[float]:
        """Return how often topic t's query has each of its columns, or its weight there."""
        counts = self.pool.count[..., self.pool.term_rows(t)]
        if isinstance(self.pool.formula, Weighted):
            counts = self.pool.formula.weights(counts, vector)[0]
        weights: list[float] = counts.tolist()
        return weights

    def made(self, t: int, vector: Doubles) -> list[str]:
        """Say of each column of topic t's query what its weight is made of."""
        formula, counts = self.pool.formula, self.pool.count[..., self.pool.term_rows(t)]
        if not isinstance(formula, Weighted):
            return [""] * counts.shape[-1]
        origins = formula.origins(counts, vector)
        said = []
        for at, times in enumerate(counts[0].tolist()):
            parts = [f"query {origins['original'][at]:.3g}"] if times else []
            shown = [(name, float(origins[name][at])) for name in formula.features] if times else []
            factors = [f"{name} ×{factor:.3g}" for name, factor in shown if abs(factor - 1.0) >= _TOLD]
            parts[:1] = [f"{parts[0]} ({', '.join(factors)})"] if factors else parts[:1]
            expansion = origins["expansion"][at] if "expansion" in origins else 0.0
            said.append(" + ".join([*parts, *([f"expansion {expansion:.3g}"] if expansion else [])]))
        return said

    def parts(self, t: int, place: int, vector: Doubles) -> dict[str, float]:
        """Return what each term of topic t gives a candidate alone; of runs, each one's part of the sum."""
        if not self.model:
            at = np.array([place])
            _, columns = self.pool.formula.differentiate(self.pool.topic_documents(t, at), vector)
            return dict(zip(self.space.names, (vector * columns[:, 0]).tolist(), strict=True))
        return term_parts(self.pool, t, place, vector)
