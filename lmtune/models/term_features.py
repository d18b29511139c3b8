"""Features of query terms, from which weights are learnt; declared as data."""

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
    """What features look at.

    Attributes
    ----------
    topic : str
        The query's identifier.
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
    beside : int
        How often in the collection it stands directly before or after a word that it does so in the query;
        0 where no feature needs positions.
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
    """A feature.

    Attributes
    ----------
    what : str
        For a reader.
    compute : callable
        Its value.
    is_own : bool
        Whether it is a user's, of any size.
    needs_positions : bool
        Whether an index must have positions.
    """

    what: str
    compute: Callable[[QueryTerm], float]
    is_own: bool = False
    needs_positions: bool = False


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
    "phrase": TermFeature(
        "the share of its occurrences that stand beside its neighbour in the query, part of a phrase",
        lambda own: min(own.beside / own.statistics.cf, 1.0),
        needs_positions=True,
    ),
}
"""Features of terms by name. What a user adds is a function of a `QueryTerm`, or a file of values."""

ALL = "all"
"""What a model's name says for every feature of `TERM_FEATURES` that any index has."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class TermFile:
    """A feature whose values a file has, by topic and word; read when it is first asked for.

    Parameters
    ----------
    path : str
        As `lmtune.io.term_values.read_term_values` takes it. Words are analysed as those of queries;
        of several of one term their mean is taken, and a term without any has 0.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def values(self) -> dict[str, dict[str, float]]:
        """By topic and word, as the file has them."""
        return read_term_values(self.path)

    def of_terms(
        self, analyze: Callable[[str], Sequence[str]], topics: Mapping[str, object]
    ) -> Callable[[QueryTerm], float]:
        """Return the feature for an index's terms.

        Raises
        ------
        InputError
            Where the file has none of the topics.
        """
        if not topics.keys() & self.values.keys():
            raise InputError(
                "no topic that is asked for is in the file of values",
                file=self.path,
                value=next(iter(self.values)),
                accepted=f"topics such as {next(iter(topics))}",
            )
        found: dict[tuple[str, str], list[float]] = {}
        for topic in topics:
            for word, value in self.values.get(topic, {}).items():
                for term in analyze(word):
                    found.setdefault((topic, term), []).append(value)
        means = {key: sum(own) / len(own) for key, own in found.items()}
        return partial(_looked_up, means)

    def __call__(self, own: QueryTerm) -> float:
        """Refuse: words are looked up by `of_terms`."""
        raise NotImplementedError(self.path)


def _looked_up(means: Mapping[tuple[str, str], float], own: QueryTerm) -> float:
    return means.get((own.topic, own.term), 0.0)


def term_features(features: Sequence[str | Callable[[QueryTerm], float]]) -> dict[str, TermFeature]:
    """Return features by name: those of `TERM_FEATURES`, files (``tags.tsv`` is ``tags``) and functions.

    Raises
    ------
    InputError
        For a name that there is not, one that comes twice, or a user's that is none for a parameter.
    """
    found: dict[str, TermFeature] = {}
    for given in features:
        every = [name for name, own in TERM_FEATURES.items() if not own.needs_positions]
        for feature in every if given == ALL else [given]:
            name, own = _named(feature)
            if name in found or (own.is_own and (name in TERM_FEATURES or not _NAME.fullmatch(name))):
                accepted = "letters and digits, no name twice and none of " + ", ".join(TERM_FEATURES)
                raise InputError("bad name of a feature of terms", value=name, accepted=accepted)
            found[name] = own
    return found


def _named(feature: str | Callable[[QueryTerm], float]) -> tuple[str, TermFeature]:
    if not isinstance(feature, str):
        name = getattr(feature, "__name__", type(feature).__name__)
        return name, TermFeature((feature.__doc__ or name).strip().partition("\n")[0], feature, True)
    if "." in feature or "/" in feature:
        name = Path(feature).name.partition(".")[0]
        return name, TermFeature(f"the values of {feature}", TermFile(feature), True)
    check_choice("unknown feature of terms", feature, [ALL, *TERM_FEATURES, "a file such as tags.tsv"])
    return feature, TERM_FEATURES[feature]
