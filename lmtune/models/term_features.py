"""Features of query terms, from which term weights are computed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

from lmtune.errors import InputError, check_choice
from lmtune.io.term_values import read_term_values
from lmtune.models.bm25 import idf
from lmtune.models.feedback import TermStatistics


class QueryTerm(NamedTuple):
    """A query term with its statistics, the input of a feature.

    Attributes
    ----------
    topic : str
        The query's identifier.
    term : str
        The term, as in the index.
    times : float
        Occurrences of the term in the query, or its weight there.
    place : int
        Rank of the term's first occurrence among the query's distinct terms, from 0.
    terms : int
        Number of distinct terms in the query.
    statistics : TermStatistics
        Frequencies of the term in the collection.
    documents, tokens : int
        Size of the collection.
    feedback : float
        P(w|F), the term's share of the tokens of the feedback documents.
    beside : int
        Occurrences in the collection directly before or after a word that is also the term's neighbour in the
        query. It is 0 unless a feature needs positions.
    """

    topic: str
    term: str
    times: float
    place: int
    terms: int
    statistics: TermStatistics
    documents: int
    tokens: int
    feedback: float
    beside: int = 0


class TermFeature(NamedTuple):
    """A function of a query term, with its description.

    Attributes
    ----------
    what : str
        A short description.
    compute : callable
        Computes the value of a query term.
    is_custom : bool
        Whether the user supplied it. Its values have any magnitude, so that they are standardised.
    needs_positions : bool
        Whether the index must have positions.
    """

    what: str
    compute: Callable[[QueryTerm], float]
    is_custom: bool = False
    needs_positions: bool = False


# Added before the logarithm, so that very small values do not become outliers.
_LEAST_IDF, _LEAST_FEEDBACK = 0.05, 1e-4

TERM_FEATURES = {
    "idf": TermFeature(
        "log idf", lambda word: math.log(idf(word.statistics.df, word.documents) + _LEAST_IDF)
    ),
    "burstiness": TermFeature(
        "log(cf / df), Church and Gale (1995)", lambda word: math.log(word.statistics.cf / word.statistics.df)
    ),
    "feedback": TermFeature(
        "log(P(w|F) / P(w|C)): share of the feedback documents over share of the collection",
        lambda word: math.log((word.feedback + _LEAST_FEEDBACK) / (word.statistics.cf / word.tokens)),
    ),
    "count": TermFeature(
        "log of the occurrences in the query", lambda word: math.log(max(word.times, _LEAST_FEEDBACK))
    ),
    "place": TermFeature("position in the query, 0 to 1", lambda word: word.place / word.terms),
    "length": TermFeature("log of the number of terms in the query", lambda word: math.log(word.terms)),
    "characters": TermFeature("length in tens of characters", lambda word: len(word.term) / 10.0),
    "digits": TermFeature("1 if it has a digit", lambda word: float(any(c.isdigit() for c in word.term))),
    "phrase": TermFeature(
        "the share of its occurrences that are next to its neighbour in the query",
        lambda word: min(word.beside / word.statistics.cf, 1.0),
        needs_positions=True,
    ),
}
"""Term features by name. Users can add functions of a `QueryTerm` and files of values."""

ALL = "all"
"""The name that stands for all features of `TERM_FEATURES` that need no positions."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class TermFile:
    """A feature with values from a file, by topic and word; the file is read on first use.

    Parameters
    ----------
    path : str
        A file for `lmtune.io.term_values.read_term_values`. Its words are analysed as query words are. A term
        has the mean of its words' values, and 0 without any.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def values(self) -> dict[str, dict[str, float]]:
        """The values of the file, by topic and word."""
        return read_term_values(self.path)

    def of_terms(
        self, analyze: Callable[[str], Sequence[str]], topics: Mapping[str, object]
    ) -> Callable[[QueryTerm], float]:
        """Return the feature as a function of index terms.

        Raises
        ------
        InputError
            If the file has none of the topics.
        """
        if not topics.keys() & self.values.keys():
            raise InputError(
                "the file of term values has none of the topics",
                file=self.path,
                value=next(iter(self.values)),
                accepted=f"topics such as {next(iter(topics))}",
            )
        values: dict[tuple[str, str], list[float]] = {}
        for topic in topics:
            for word, value in self.values.get(topic, {}).items():
                for term in analyze(word):
                    values.setdefault((topic, term), []).append(value)
        means = {key: sum(each) / len(each) for key, each in values.items()}
        return partial(_look_up_mean, means)

    def __call__(self, word: QueryTerm) -> float:
        """Raise `NotImplementedError`: the function that `of_terms` returns computes values."""
        raise NotImplementedError(self.path)


def _look_up_mean(means: Mapping[tuple[str, str], float], word: QueryTerm) -> float:
    return means.get((word.topic, word.term), 0.0)


def term_features(features: Sequence[str | Callable[[QueryTerm], float]]) -> dict[str, TermFeature]:
    """Return features by name: those of `TERM_FEATURES`, files (``tags.tsv`` is ``tags``) and functions.

    Raises
    ------
    InputError
        If a name is unknown or occurs twice, or if a custom feature has a bad name.
    """
    named: dict[str, TermFeature] = {}
    for listed in features:
        every = [name for name, feature in TERM_FEATURES.items() if not feature.needs_positions]
        for item in every if listed == ALL else [listed]:
            name, feature = _name_feature(item)
            if name in named or (feature.is_custom and (name in TERM_FEATURES or not _NAME.fullmatch(name))):
                accepted = "letters and digits, no name twice and none of " + ", ".join(TERM_FEATURES)
                raise InputError("bad name of a term feature", value=name, accepted=accepted)
            named[name] = feature
    return named


def _name_feature(feature: str | Callable[[QueryTerm], float]) -> tuple[str, TermFeature]:
    if not isinstance(feature, str):
        name = getattr(feature, "__name__", type(feature).__name__)
        return name, TermFeature((feature.__doc__ or name).strip().partition("\n")[0], feature, True)
    if "." in feature or "/" in feature:
        name = Path(feature).name.partition(".")[0]
        return name, TermFeature(f"the values of {feature}", TermFile(feature), True)
    check_choice("unknown term feature", feature, [ALL, *TERM_FEATURES, "a file such as tags.tsv"])
    return feature, TERM_FEATURES[feature]
