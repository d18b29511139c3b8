"""What a retrieval formula is: its parameters, what it reads off an index, scores and gradients."""

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

# What a person types is rounded; no order depends on it.
_OFF = 1e-3


class QueryColumn(NamedTuple):
    """What of a query a formula counts in documents: a row of a topic's frequencies.

    Attributes
    ----------
    term : str
        A term, or what else the formula looks up.
    group : int
        Which of the formula's kinds of columns it is; 0 where there is but one.
    times : int, float or tuple of float
        How often it occurs in the query; its weight there; or what `lmtune.models.weighted` makes that of.
    """

    term: str
    group: int
    times: int | float | tuple[float, ...]


def query_columns(
    terms: Iterable[Sequence[str]], group: NDArray[np.int8], count: NDArray[Any]
) -> list[list[QueryColumn]]:
    """Put the columns of some topics together, given each topic's terms and the others in a row."""
    times = count.tolist() if count.ndim == 1 else [tuple(own) for own in count.T.tolist()]
    rest = zip(group.tolist(), times, strict=True)
    return [[QueryColumn(term, *next(rest)) for term in own] for own in terms]


class Factor(NamedTuple):
    """A factor of a term's part of a score, as search engines account for it.

    Attributes
    ----------
    name, formula : str
        Lucene's names, where it has them.
    value : float
    made_of : dict of str to float
        The numbers of the formula.
    """

    name: str
    value: float
    formula: str
    made_of: dict[str, float]


class Held(NamedTuple):
    """What the collection and a document hold of a term.

    Attributes
    ----------
    term : TermCounts
    tf, length : int
        In the document, as the formula counts; its length as the formula takes it.
    mean_length : float
    """

    term: TermCounts
    tf: int
    length: int
    mean_length: float


class Ridge(NamedTuple):
    """A penalty: the sum of squares of ``scale * (parameter - centre)``.

    Attributes
    ----------
    centre, scale : numpy.ndarray of float64, shape (parameters,)
        A scale of 0 leaves a parameter alone.
    """

    centre: Doubles
    scale: Doubles

    def at(self, setting: Doubles) -> tuple[float, Doubles]:
        """Return the penalty at a setting, and its derivatives in the parameters."""
        excess = self.scale * (setting - self.centre)
        return float(excess @ excess), 2.0 * self.scale * excess


class Formula(ABC):
    """A score of a document for a query, with named parameters.

    A formula of one's own gives `name`, `parameters` and `differentiate`; candidates, measures and
    tuners then work with it. The other methods may be overridden where compiled code is faster.
    Documents of equal columns must get equal scores to the last bit.

    Attributes
    ----------
    name : str
        What results and kept candidates are labelled with.
    parameters : sequence of Parameter
        Their order is that of every vector of settings. One that the formula fixes stays among
        them, with equal bounds.
    dominance : str or None
        Which proofs of `lmtune.candidates.skyband` hold: ``"tf"`` where no score falls as a term
        frequency rises or the length falls, in any field; ``"e"`` for two-stage smoothing; None for
        no pruning.
    needs_positions : bool
        Whether it counts windows, so that an index must have positions.
    fields : tuple of str
        The fields of documents that an index must have.
    value_name : str
        What `term_value` is, for a reader.
    group_names : tuple of str
        What its kinds of columns are counted in, where there are several.
    is_likelihood : bool
        Whether a term's part of the score is how often the query has it times the logarithm of a probability.
    stamp : str or None
        Digests of the files that it reads; None where candidates cannot be kept, for nothing tells whether
        what made them is the same.
    weight_rows : int
        How many numbers a column's `times` has; 0 where it is a single count or weight.
    simpler : tuple of (str, dict of str to float)
        Formulas that a ridge's path begins with, from the simplest: a name, and the parameters that it
        holds fixed. Empty where a ridge has no meaning.
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

    def asked(self, index: Index, text: str) -> tuple[Sequence[str], list[QueryColumn]]:
        """Return a query's terms, and what to look up of it: `columns`, with the weights of a weighted query.

        Raises
        ------
        InputError
            For weights where windows of terms count too.
        """
        if not isinstance(text, WeightedQuery):
            query = index.analyze(text)
            return query, self.columns(query)
        if self.needs_positions and not text.are_terms:
            raise InputError(
                f"{self.name} counts windows, which have no weights", value=text, accepted="a query in words"
            )
        weights = text.by_term(index.analyze)
        columns = self.columns(list(weights))
        return list(weights), [column._replace(times=weights[column.term]) for column in columns]

    def parts(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score and differentiate each term by itself, as if it came once in the query.

        Parameters
        ----------
        topic, setting
            As for `differentiate`; what terms count is not looked at.

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
        """Return what to look up of an analysed query: each distinct term, by default."""
        return [QueryColumn(term, 0, count) for term, count in Counter(query).items()]

    def ridge(self, rows: NDArray[Any]) -> Ridge:  # noqa: ARG002 - some are in units of what queries hold
        """Return what a ridge pulls the parameters to, given what some queries hold of their columns."""
        nothing = np.zeros(len(self.parameters))
        return Ridge(nothing, nothing)

    def drawing(self, setting: Doubles) -> Formula:  # noqa: ARG002 - some search first
        """Return the formula whose first search, if it makes one, is at a setting."""
        return self

    def counted(self, rows: NDArray[Any]) -> dict[str, float]:  # noqa: ARG002 - some have units to count
        """Return the parameters that follow from what some queries hold of their columns, by name."""
        return {}

    def part(self, index: Index, group: int) -> Index:  # noqa: ARG002 - all groups are of the whole text
        """Return where columns of a group are counted: the index, or that of a field of the documents."""
        return index

    def look_up(self, index: Index, columns: Sequence[QueryColumn]) -> list[Postings | None]:
        """Return each column's documents and frequencies there, None for one that no document holds."""
        return [self.part(index, column.group).postings(column.term) for column in columns]

    def term_value(self, term: TermCounts) -> float:
        """Return what scoring takes of a term: P(w|C), its share of the collection's tokens."""
        return float(term.cf) / term.size.terms

    def account(self, held: Held, setting: Doubles) -> list[Factor]:  # noqa: ARG002 - not all have one
        """Return factors whose product is a term's part of the score, as if it came once; none by default."""
        return []

    @property
    def bounds(self) -> str:
        """The formula whose proofs of certificates and of regions hold for this one too."""
        return self.name

    def size(self, index: Index) -> CollectionSize:
        """Return how large a collection is to scoring: its tokens, and the documents that hold one."""
        return CollectionSize.of(index)

    def lengths(self, index: Index) -> Integers32:
        """Return the lengths of all documents, shape (num_docs,)."""
        return np.asarray(index.lengths)

    def field_lengths(self, index: Index, docs: NDArray[np.integer]) -> Integers32:  # noqa: ARG002
        """Return documents' lengths in each of `fields`, shape (fields, documents)."""
        return NO_FIELDS

    def check(self, settings: Doubles) -> None:
        """Raise unless settings, shape (settings, parameters), are in the domain.

        Raises
        ------
        InputError
            Naming the parameter, its value and its domain.
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
            if (np.abs(sums - 1.0) > _OFF).any():
                off = float(sums[np.argmax(np.abs(sums - 1.0))])
                raise InputError(f"{names} do not add up to 1", value=off, accepted="shares of 1")

    def rank_scores(self, documents: Documents, settings: Doubles, out: Doubles) -> None:
        """Fill scores that order documents: all that measuring looks at.

        Parameters
        ----------
        documents : Documents
            Of some topics.
        settings : numpy.ndarray of float64, shape (settings, parameters)
            Inside the domain.
        out : numpy.ndarray of float64
            Topic by topic and, within a topic, setting by setting, a score of each document.
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
        """Fill what RankNet's pairs are made of.

        Parameters
        ----------
        documents : Documents
            Of some topics.
        setting : numpy.ndarray of float64, shape (parameters,)
            Inside the domain.
        likelihood : numpy.ndarray of float64, shape (documents,)
            Scores; or where `product` says so exp of them, up to a factor of the topic.
        gradient : numpy.ndarray of float64, shape (parameters, documents)
            The derivative of each score in each parameter.
        product : numpy.ndarray of bool, shape (topics,)
            Which of the two `likelihood` holds for each topic.
        """
        filled = 0
        product[:] = False
        for topic in documents.topics():
            end = filled + topic.length.size
            likelihood[filled:end], gradient[:, filled:end] = self.differentiate(topic, setting)
            filled = end


class Kernels(NamedTuple):
    """The compiled methods of a formula.

    Each takes a topic or documents, a setting or several, the formula's switches, and the arrays that it
    fills; `differentiate` gets zeros. Without `likelihoods`, `differentiate` is called for each topic.
    """

    rank_scores: Callable[..., None]
    differentiate: Callable[..., None]
    likelihoods: Callable[..., None] | None = None


class CompiledFormula(Formula):
    """A formula of compiled arithmetic.

    Attributes
    ----------
    kernels : Kernels
        What computes it.
    switches : tuple of bool
        What formulas of the same kernels differ in.
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
        """Fill scores that order documents."""
        self.kernels.rank_scores(documents, settings, *self.switches, out)

    def likelihoods(
        self,
        documents: Documents,
        setting: Doubles,
        likelihood: Doubles,
        gradient: Doubles,
        product: Booleans,
    ) -> None:
        """Fill what RankNet's pairs are made of."""
        if self.kernels.likelihoods is not None:
            self.kernels.likelihoods(documents, setting, *self.switches, likelihood, gradient, product)
        else:
            super().likelihoods(documents, setting, likelihood, gradient, product)
