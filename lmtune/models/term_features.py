"""Features of query terms, from which weights are learnt; declared as data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from lmtune.models.bm25 import idf
from lmtune.models.feedback import TermStatistics


class QueryTerm(NamedTuple):
    """What features look at.

    Attributes
    ----------
    term : str
        The index's term.
    times : float
        How often the query has it, or its weight there.
    place : int
        Where it stands first among the query's distinct terms, from 0.
    terms : int
        How many distinct terms the query has.
    statistics : TermStatistics
        The term's in the collection.
    documents, tokens : int
        The collection's size.
    feedback : float
        P(w|F), its share of the best documents' tokens.
    """

    term: str
    times: float
    place: int
    terms: int
    statistics: TermStatistics
    documents: int
    tokens: int
    feedback: float


class TermFeature(NamedTuple):
    """A feature: what it is for a reader, and how it is computed."""

    what: str
    compute: Callable[[QueryTerm], float]


# Keep logarithms of rare values in reach of the others.
_LEAST_IDF, _LEAST_FEEDBACK = 0.05, 1e-4

TERM_FEATURES = {
    "idf": TermFeature("log idf", lambda own: math.log(idf(own.statistics.df, own.documents) + _LEAST_IDF)),
    "burstiness": TermFeature(
        "log(cf / df), Church and Gale's (1995)", lambda own: math.log(own.statistics.cf / own.statistics.df)
    ),
    "feedback": TermFeature(
        "log of the share in the first search's best documents over that in the collection",
        lambda own: math.log((own.feedback + _LEAST_FEEDBACK) / (own.statistics.cf / own.tokens)),
    ),
    "count": TermFeature(
        "log of how often the query has it", lambda own: math.log(max(own.times, _LEAST_FEEDBACK))
    ),
    "place": TermFeature("its place in the query, 0 to 1", lambda own: own.place / own.terms),
    "length": TermFeature("log of how many terms the query has", lambda own: math.log(own.terms)),
    "characters": TermFeature("tens of characters", lambda own: len(own.term) / 10.0),
    "digits": TermFeature("1 with a digit in it", lambda own: float(any(c.isdigit() for c in own.term))),
}
"""Features of terms by name. What a user adds is a function of a `QueryTerm` too."""
