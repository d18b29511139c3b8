"""The view behind a page: candidates, measures, marked settings, and fast evaluation of settings."""

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
"""Documents of a ranking on the page."""

_REMEMBERED = 8
# Factors within this distance of 1 print as 1.
_FACTOR_TOLERANCE = 5e-3


class Mark(NamedTuple):
    """A setting marked on the page.

    Attributes
    ----------
    name : str
        The method, such as ``Direct``.
    measure : str
        The measure that it was tuned for; "" for any.
    setting : dict of str to float
        The parameters.
    path : sequence of dict of str to float
        The settings on the search path; empty if unknown.
    bound : float or None
        The proven upper bound over all settings on all topics, if any.
    recommended : bool
        Whether this is the recommended setting; the page starts with it.
    """

    name: str
    measure: str
    setting: dict[str, float]
    path: Sequence[dict[str, float]] = ()
    bound: float | None = None
    recommended: bool = False


def stamp_of(index: Index) -> int:
    """Return the time of an index's last change in nanoseconds; 0 if it has no files."""
    folder = getattr(index, "path", None)
    if folder is None:
        return 0
    return max((file.stat().st_mtime_ns for file in Path(folder).glob("*") if file.is_file()), default=-1)


@dataclass(frozen=True)
class View:
    """A collection or a set of runs, with the measures and marks of its page.

    Attributes
    ----------
    pool : CandidatePool
        The candidates of all topics.
    space : ParameterSpace
        The parameters and the ranges of their sliders.
    measures : tuple of Measure
        The measures on the page.
    model : str
        The model's name on the command line; "" for runs.
    queries : mapping of str to str
        The topics' texts; empty for runs.
    marks : tuple of Mark
        The default setting first.
    source : Sequence of str
        The command-line arguments of the collection or the runs, for printed commands.
    texts : Texts or None
        The documents' texts, if available.
    depth : int
        Run depth.
    regions : Regions or None
        The candidates by regions of parameter space, if these make evaluation faster.
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
        """The index, for document identifiers."""
        return self.pool.index

    def vector(self, setting: Setting) -> Doubles:
        """Return a setting's values in the space's order.

        Raises
        ------
        InputError
            If a name is not a parameter, or a value is outside its range.
        """
        vector = self.space.vector({**self.default, **setting})
        for axes in shares(self.space.parameters).values():
            if not vector[axes].sum() > 0.0:
                raise InputError("the shares add up to 0", value=setting, accepted="at least one above 0")
        for parameter, value in zip(self.space.parameters, vector.tolist(), strict=True):
            # A share may be below the searched range: the rest that others leave of 1.
            low = 0.0 if parameter.share else parameter.low
            if not parameter.is_counted and not low <= value <= parameter.high:
                raise InputError(
                    f"{parameter.name} is outside its range",
                    value=value,
                    accepted=f"{parameter.low:g} to {parameter.high:g}",
                )
        return self.space.normalise_shares(vector)

    @property
    def axes(self) -> list[int]:
        """The indices of the parameters that are axes of pictures.

        The last of two shares follows from the first and is no axis; so does the last of three shares if
        there are no other parameters.
        """
        axes = [number for number, parameter in enumerate(self.space.parameters) if not parameter.is_fixed]
        for group in shares(self.space.parameters).values():
            if len(group) == 2 or len(axes) == len(group) == 3:
                axes.remove(group[-1])
        return axes

    @property
    def default(self) -> dict[str, float]:
        """The initial setting."""
        return self.marks[0].setting

    def values(self, settings: Doubles, *, threads: int | None = None) -> Doubles:
        """Measure settings, shape (settings, parameters); return shape (topics, settings, measures)."""
        return measure_settings(
            self.pool, settings, self.measures, depth=self.depth, regions=self.regions, threads=threads
        )

    def value(self, vector: Doubles) -> Doubles:
        """Measure one setting, shape (topics, measures); the last few results are cached."""
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
        """Return the query's count, or weight, of each column of topic t."""
        counts = self.pool.count[..., self.pool.term_rows(t)]
        if isinstance(self.pool.formula, Weighted):
            counts = self.pool.formula.weights(counts, vector)[0]
        weights: list[float] = counts.tolist()
        return weights

    def weight_origins(self, t: int, vector: Doubles) -> list[str]:
        """Return the parts of the query's weight of each column of topic t, as text."""
        formula, counts = self.pool.formula, self.pool.count[..., self.pool.term_rows(t)]
        if not isinstance(formula, Weighted):
            return [""] * counts.shape[-1]
        origins = formula.origins(counts, vector)
        texts = []
        for at, times in enumerate(counts[0].tolist()):
            parts = [f"query {origins['original'][at]:.3g}"] if times else []
            shown = [(name, float(origins[name][at])) for name in formula.features] if times else []
            factors = [
                f"{name} ×{factor:.3g}" for name, factor in shown if abs(factor - 1.0) >= _FACTOR_TOLERANCE
            ]
            parts[:1] = [f"{parts[0]} ({', '.join(factors)})"] if factors else parts[:1]
            expansion = origins["expansion"][at] if "expansion" in origins else 0.0
            texts.append(" + ".join([*parts, *([f"expansion {expansion:.3g}"] if expansion else [])]))
        return texts

    def parts(self, t: int, candidate: int, vector: Doubles) -> dict[str, float]:
        """Return the contribution of each term of topic t, or of each run, to a candidate's score."""
        if not self.model:
            at = np.array([candidate])
            _, columns = self.pool.formula.differentiate(self.pool.topic_documents(t, at), vector)
            return dict(zip(self.space.names, (vector * columns[:, 0]).tolist(), strict=True))
        return term_parts(self.pool, t, candidate, vector)
