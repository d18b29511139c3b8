"""Queries whose terms have weights, as learned sparse retrieval publishes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from lmtune.errors import InputError

Weight = float | tuple[float, ...]

ACCEPTED = 'finite weights by term, {"fish": 2.5, "oil": 0.5}, or words such as fish^2.5 oil'


class WeightedQuery(str):
    """A query whose terms have weights; as text it is Lucene's, ``fish^2.5 oil^0.5``.

    Attributes
    ----------
    weights : dict of str to float, or to tuple of float
        By term; several numbers are what `lmtune.models.weighted` makes a weight of.
    are_terms : bool
        Whether the terms are the index's own, to be looked up as they are. Otherwise they are analysed
        as words are, and weights of words of one term add up.
    """

    weights: dict[str, Weight]
    are_terms: bool

    @classmethod
    def of(cls, weights: Mapping[str, Weight], *, are_terms: bool = False) -> Self:
        """Make a query of weights.

        Raises
        ------
        InputError
            Without a term, or for a weight that is no finite number.
        """
        for term, weight in weights.items():
            numbers = weight if isinstance(weight, tuple) else (weight,)
            if not term.strip() or not all(
                isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) for x in numbers
            ):
                raise InputError(f"bad weight of the term {term!r}", value=weight, accepted=ACCEPTED)
        if not weights:
            raise InputError("a query without terms", value=dict(weights), accepted=ACCEPTED)
        query = cls(" ".join(f"{term}^{_written(weight)}" for term, weight in weights.items()))
        query.weights = dict(weights)
        query.are_terms = are_terms
        return query

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read Lucene's syntax: words with white space between, each with ``^`` and a weight or without.

        A word that comes again counts again.
        """
        weights: dict[str, Weight] = {}
        for word in text.split():
            term, mark, number = word.rpartition("^")
            try:
                weight = float(number) if mark else 1.0
            except ValueError:
                raise InputError("bad weight in a query", value=word, accepted=ACCEPTED) from None
            name = term if mark else word
            weights[name] = _plus(weights.get(name), weight)
        return cls.of(weights)

    def by_term(self, analyze: Callable[[str], Sequence[str]]) -> dict[str, Weight]:
        """Return the weights of an index's terms."""
        if self.are_terms:
            return self.weights
        weights: dict[str, Weight] = {}
        for word, weight in self.weights.items():
            for term in analyze(word):
                weights[term] = _plus(weights.get(term), weight)
        return weights


def _plus(known: Weight | None, weight: Weight) -> Weight:
    assert not isinstance(known, tuple) and not isinstance(weight, tuple)
    return weight if known is None else known + weight


def _written(weight: Weight) -> str:
    return ",".join(f"{number!r}" for number in (weight if isinstance(weight, tuple) else (weight,)))
