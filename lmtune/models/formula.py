"""Base classes of scoring formulas: parameters, index look-ups, scores and gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Booleans, Doubles, Integers32
from lmtune.errors import InputError
from lmtune.index.protocol import CollectionSize, Index, Postings, TermCounts
from lmtune.io.topics import WeightedQuery
from lmtune.models.kernels import NO_FIELDS, Documents, TopicDocuments
from lmtune.models.parameter import Parameter, shares

# Shares typed by hand are rounded. Their sum is a common factor, which changes no ranking.
_SHARE_TOLERANCE = 1e-3


class QueryColumn(NamedTuple):
    """A query term, or a window of terms, with counts in documents: a row of a topic's frequencies.

    Attributes
    ----------
    term : str
        A term, or another key that the formula looks up.
    group : int
        Kind of the column, such as a field or a kind of window; 0 if the formula has one kind.
    times : int, float or tuple of float
        Occurrences in the query, the weight there, or the inputs of a weight in `lmtune.models.weighted`.
    """

    term: str
    group: int
    times: int | float | tuple[float, ...]


def query_columns(
    terms: Iterable[Sequence[str]], group: NDArray[np.int8], count: NDArray[Any]
) -> list[list[QueryColumn]]:
    """Rebuild the columns of topics from each topic's terms and the concatenated groups and counts."""
    times = count.tolist() if count.ndim == 1 else [tuple(each) for each in count.T.tolist()]
    rest = zip(group.tolist(), times, strict=True)
    return [[QueryColumn(term, *next(rest)) for term in topic_terms] for topic_terms in terms]


class Factor(NamedTuple):
    """A factor of a term's score, as in the score explanations of search engines.

    Attributes
    ----------
    name, formula : str
        Name and formula of the factor, as in Lucene's explanations where Lucene has it.
    value : float
    inputs : dict of str to float
        Values of the variables in the formula.
    """

    name: str
    value: float
    formula: str
    inputs: dict[str, float]


class TermOccurrence(NamedTuple):
    """A term's statistics in the collection and in one document.

    Attributes
    ----------
    term : TermCounts
        Frequencies in the collection.
    tf, length : int
        Frequency in the document, and the document's length, both as the formula counts them.
    mean_length : float
        Mean length of the collection's documents.
    """

    term: TermCounts
    tf: int
    length: int
    mean_length: float


class Ridge(NamedTuple):
    """Ridge penalty: the sum of squares of ``scale * (parameter - centre)``.

    Attributes
    ----------
    centre, scale : numpy.ndarray of float64, shape (parameters,)
        A parameter of scale 0 is not penalised.
    """

    centre: Doubles
    scale: Doubles

    def at(self, setting: Doubles) -> tuple[float, Doubles]:
        """Return the penalty at a setting and its gradient."""
        excess = self.scale * (setting - self.centre)
        return float(excess @ excess), 2.0 * self.scale * excess


class Formula(ABC):
    """A score of a document for a query, with named parameters.

    A custom formula defines `name`, `parameters` and `differentiate`. Candidates, measures and tuners then
    work with it. Other methods can be overridden with faster code. Documents with equal columns must get
    bitwise equal scores.

    Attributes
    ----------
    name : str
        Label of results and stored candidates.
    parameters : sequence of Parameter
        The parameters, in the order of every vector of settings. A fixed parameter has equal bounds.
    dominance : str or None
        Kind of dominance that `lmtune.candidates.skyband` may prune by. ``"tf"``: no score falls if a term
        frequency rises or the length falls, in any field. ``"e"``: two-stage smoothing. None: no pruning.
    needs_positions : bool
        Whether the index must have positions, because the formula counts windows.
    fields : tuple of str
        The document fields that the index must have.
    value_name : str
        Name of `term_value`, for output.
    group_names : tuple of str
        Names of the kinds of columns, if there are several.
    is_likelihood : bool
        Whether a term's score is its count in the query times the logarithm of a probability.
    stamp : str or None
        Digests of the files that the formula reads. None if candidates cannot be cached, because a change of
        their inputs would not be noticed.
    weight_rows : int
        Number of values in a column's `times`; 0 for a single count or weight.
    simpler : tuple of (str, dict of str to float)
        Nested formulas where a ridge's path begins, from the simplest: a name, and the fixed parameters.
        Empty if the formula has no ridge.
    """

    name: str
    parameters: Sequence[Parameter]
    dominance: str | None = None
    needs_positions: bool = False
    fields: tuple[str, ...] = ()
    value_name: str = "P(w|C)"
    group_names: tuple[str, ...] = ()
    is_likelihood: bool = False
    stamp: str | None = ""
    weight_rows: int = 0
    simpler: tuple[tuple[str, dict[str, float]], ...] = ()

    @abstractmethod
    def differentiate(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score one topic's documents and differentiate the scores.

        Parameters
        ----------
        topic : TopicDocuments
            Its documents and terms.
        setting : numpy.ndarray of float64, shape (parameters,)
            Inside the domain.

        Returns
        -------
        scores : numpy.ndarray of float64, shape (documents,)
        gradients : numpy.ndarray of float64, shape (parameters, documents)
            The derivative of each score in each parameter.
        """

    def analyze_query(self, index: Index, text: str) -> tuple[Sequence[str], list[QueryColumn]]:
        """Return the terms and the columns of a query, with the weights of a weighted query.

        Raises
        ------
        InputError
            If the query has weights and the formula counts windows.
        """
        if not isinstance(text, WeightedQuery):
            query = index.analyze(text)
            return query, self.columns(query)
        if self.needs_positions and not text.are_terms:
            raise InputError(
                f"{self.name} counts windows, which have no weights",
                value=text,
                accepted="a query without weights",
            )
        weights = text.by_term(index.analyze)
        columns = self.columns(list(weights))
        return list(weights), [column._replace(times=weights[column.term]) for column in columns]

    def parts(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score and differentiate each term separately, for one occurrence in the query.

        Parameters
        ----------
        topic, setting
            As for `differentiate`; the counts of the terms are ignored.

        Returns
        -------
        parts : numpy.ndarray of float64, shape (terms, documents)
        gradients : numpy.ndarray of float64, shape (parameters, terms, documents)
        """
        step = max(len(self.fields), 1)
        rows = [slice(at, at + step) for at in range(0, topic.value.size, step)]
        parts = np.empty((len(rows), topic.length.size))
        gradients = np.empty((setting.size, *parts.shape))
        for at, row in enumerate(rows):
            one = topic._replace(
                tf=topic.tf[row], value=topic.value[row], counts=np.ones(step), group=topic.group[row]
            )
            parts[at], gradients[:, at] = self.differentiate(one, setting)
        return parts, gradients

    def columns(self, query: Sequence[str]) -> list[QueryColumn]:
        """Return the columns of an analysed query; by default, its distinct terms."""
        return [QueryColumn(term, 0, count) for term, count in Counter(query).items()]

    def ridge(self, rows: NDArray[Any]) -> Ridge:  # noqa: ARG002 - some scale by values of query terms
        """Return the ridge penalty, given the values of columns in queries, shape (weight_rows, columns)."""
        zeros = np.zeros(len(self.parameters))
        return Ridge(zeros, zeros)

    def with_first_search(self, setting: Doubles) -> Formula:  # noqa: ARG002 - some search first
        """Return the formula with its first search, if any, at a setting."""
        return self

    def counted_parameters(self, rows: NDArray[Any]) -> dict[str, float]:  # noqa: ARG002 - some standardise
        """Return the parameters computed from the values of columns in queries, by name."""
        return {}

    def group_index(self, index: Index, group: int) -> Index:  # noqa: ARG002 - here all groups share it
        """Return the index that counts a group's columns: the whole index or that of a field."""
        return index

    def look_up(self, index: Index, columns: Sequence[QueryColumn]) -> list[Postings | None]:
        """Return the postings of each column, or None if no document has it."""
        return [self.group_index(index, column.group).postings(column.term) for column in columns]

    def term_value(self, term: TermCounts) -> float:
        """Return the term statistic in the formula: by default P(w|C), the share of all tokens."""
        return float(term.cf) / term.size.terms

    def score_factors(self, occurrence: TermOccurrence, setting: Doubles) -> list[Factor]:  # noqa: ARG002
        """Return the factors of a term's score, for one occurrence in the query; none by default."""
        return []

    @property
    def bounds(self) -> str:
        """The name of the formula whose score bounds (certificates, regions) are valid for this one."""
        return self.name

    def size(self, index: Index) -> CollectionSize:
        """Return the collection's size in the formula: its tokens and its non-empty documents."""
        return CollectionSize.of(index)

    def lengths(self, index: Index) -> Integers32:
        """Return the lengths of all documents as the formula uses them, shape (num_docs,)."""
        return np.asarray(index.lengths)

    def field_lengths(self, index: Index, docs: NDArray[np.integer]) -> Integers32:  # noqa: ARG002
        """Return documents' lengths in each of `fields`, shape (fields, documents)."""
        return NO_FIELDS

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless settings, shape (settings, parameters), are in the domain.

        Raises
        ------
        InputError
            With the parameter, its value and its domain.
        """
        for parameter, values in zip(self.parameters, settings.T, strict=True):
            for value in values.tolist():
                parameter.require(value)
            if parameter.is_fixed and (values != parameter.low).any():
                raise InputError(
                    f"{self.name} has no {parameter.name}",
                    value=float(values[values != parameter.low][0]),
                    accepted=f"{parameter.low:g}, as in ParameterSpace.of({self.name!r})",
                )
        for names, axes in shares(self.parameters).items():
            sums = settings[:, axes].sum(axis=1)
            if (np.abs(sums - 1.0) > _SHARE_TOLERANCE).any():
                off = float(sums[np.argmax(np.abs(sums - 1.0))])
                raise InputError(f"{names} do not add up to 1", value=off, accepted="a sum of 1")

    def rank_scores(self, documents: Documents, settings: Doubles, out: Doubles) -> None:
        """Fill scores that rank the documents; they may differ from `differentiate` in scale.

        Parameters
        ----------
        documents : Documents
            The documents of some topics.
        settings : numpy.ndarray of float64, shape (settings, parameters)
            Inside the domain.
        out : numpy.ndarray of float64
            The scores, by topic, then by setting, then by document.
        """
        filled = 0
        for topic in documents.topics():
            for setting in settings:
                out[filled : filled + topic.length.size] = self.differentiate(topic, setting)[0]
                filled += topic.length.size

    def likelihoods(
        self,
        documents: Documents,
        setting: Doubles,
        likelihood: Doubles,
        gradient: Doubles,
        product: Booleans,
    ) -> None:
        """Fill the scores, or their exponentials, and the gradients for pairwise losses such as RankNet's.

        Parameters
        ----------
        documents : Documents
            The documents of some topics.
        setting : numpy.ndarray of float64, shape (parameters,)
            Inside the domain.
        likelihood : numpy.ndarray of float64, shape (documents,)
            Scores, or exp(score) up to a factor per topic.
        gradient : numpy.ndarray of float64, shape (parameters, documents)
            The derivative of each score in each parameter.
        product : numpy.ndarray of bool, shape (topics,)
            Whether `likelihood` has exp(score) for a topic, instead of the score.
        """
        filled = 0
        product[:] = False
        for topic in documents.topics():
            end = filled + topic.length.size
            likelihood[filled:end], gradient[:, filled:end] = self.differentiate(topic, setting)
            filled = end


class Kernels(NamedTuple):
    """The compiled methods of a formula.

    The arguments are a topic or documents, one or several settings, the formula's switches, and the output
    arrays. The output arrays of `differentiate` are zeros. Without `likelihoods`, `differentiate` is called
    for each topic.
    """

    rank_scores: Callable[..., None]
    differentiate: Callable[..., None]
    likelihoods: Callable[..., None] | None = None


class CompiledFormula(Formula):
    """A formula computed by Numba kernels.

    Attributes
    ----------
    kernels : Kernels
        The compiled functions.
    switches : tuple of bool
        Flags for the kernels, if several formulas share them.
    """

    kernels: Kernels
    switches: tuple[bool, ...] = ()

    def differentiate(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score one topic's documents and differentiate the scores in every parameter."""
        scores = np.zeros(topic.length.size)
        gradients = np.zeros((setting.size, topic.length.size))
        self.kernels.differentiate(topic, setting, *self.switches, scores, gradients)
        return scores, gradients

    def rank_scores(self, documents: Documents, settings: Doubles, out: Doubles) -> None:
        """Fill scores that rank the documents."""
        self.kernels.rank_scores(documents, settings, *self.switches, out)

    def likelihoods(
        self,
        documents: Documents,
        setting: Doubles,
        likelihood: Doubles,
        gradient: Doubles,
        product: Booleans,
    ) -> None:
        """Fill the scores, or their exponentials, and the gradients for pairwise losses."""
        if self.kernels.likelihoods is not None:
            self.kernels.likelihoods(documents, setting, *self.switches, likelihood, gradient, product)
        else:
            super().likelihoods(documents, setting, likelihood, gradient, product)
