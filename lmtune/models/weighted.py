r"""Parametric weights of query terms, for any formula that is a sum over terms.

.. math:: g(Q;D) = \sum_t w_t\, g_t(D), \qquad
    w_t = \alpha\, c_t\, e^{\theta \cdot x_t} + (1-\alpha)\, \frac{\|f\|}{\|f^s\|}\, f_t^s, \qquad
    \|f\| = \|c\|,

where, for a query term t,

- :math:`g_t(D)` is the formula's score of one occurrence in the query,
- :math:`c_t` is the number of its occurrences in the query,
- :math:`x_t` are its features, with coefficients :math:`\theta`,
- :math:`f_t` is its weight in the feedback model, and the sharpness s is an exponent, and
- :math:`\alpha` is the weight of the original query.

The feedback model is scaled to the norm of the query's counts, at any s. The norm depends on the kind of
feedback: 1 for RM3 (Abdul-Jaleel et al., TREC 2004), 2 for Rocchio, the maximum for Bo1. This is the linear
feature-based model of Metzler and Croft (Information Retrieval 2007) with one feature per term; the
exponential keeps weights positive. Custom features are standardised with the mean and the standard deviation
over the topics of a fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Doubles, Integers32
from lmtune.errors import InputError, check_choice, check_least
from lmtune.index.protocol import CollectionSize, Index, Postings, TermCounts
from lmtune.io.digests import digest
from lmtune.io.files import read_bytes
from lmtune.models.feedback import EXPANSIONS
from lmtune.models.formula import Formula, QueryColumn, Ridge
from lmtune.models.kernels import Documents, TopicDocuments
from lmtune.models.parameter import ANSERINI, Parameter
from lmtune.models.term_features import ALL, QueryTerm, TermFile, term_features

_ORIGINAL = Parameter(
    "original", 0.0, 0.999, "logit", 0.5, "the weight of the original query", source=ANSERINI
)
PLAIN = "plain"
"""Name of the query without feedback and weights."""
_SHARPNESS = Parameter("sharpness", 0.25, 4.0, "log", 1.0, "the exponent of the weights of feedback terms")
# The text after the colon in rm3:10,20, or none.
_SIZES = re.compile(r"|[1-9][0-9]{0,5},[1-9][0-9]{0,5}")
WEIGHTS = "weights"
"""The part of a model's name for weights by features, as in ``bm25+weights:idf,count``."""

_THETA = Parameter("theta", -3.0, 3.0, "linear", 0.0)
"""The coefficient of a feature; 0 ignores the feature."""
_CENTRE = Parameter("centre", 0.0, 0.0, "linear", 0.0, is_counted=True)
SPREAD = Parameter("spread", 1.0, 1.0, "log", 1.0, is_counted=True)
"""Mean and standard deviation of a custom feature over query terms, which standardise it."""
_LARGEST_EXPONENT = 300.0
"""Limit of exponents, so that all weights are finite."""
_ONE_QUERY, _NO_COLUMNS = np.zeros(1, np.intp), np.zeros(0, np.intp)
"""The offset of the columns of a single query, and an empty list of columns."""


class Feedback(NamedTuple):
    """Kind of query expansion (a key of `EXPANSIONS`), and the maximum of documents and terms per topic."""

    kind: str
    documents: int = 10
    terms: int = 20


class _WeightParts(NamedTuple):
    """Parts of the columns' weights; the last three are empty without feedback.

    Attributes
    ----------
    features : numpy.ndarray of float64, shape (features, columns)
        Standardised features x.
    query : numpy.ndarray of float64, shape (columns,)
        Weights c exp(theta x) in the query.
    feedback : numpy.ndarray of float64, shape (columns,)
        Weights in the feedback model, with its sharpness and norm.
    powers : numpy.ndarray of float64, shape (columns,)
        f^s, divided by its maximum over the query's columns.
    logs : numpy.ndarray of float64, shape (columns,)
        log f, and 0 where f is 0.
    """

    features: Doubles
    query: Doubles
    feedback: Doubles = np.zeros(0)
    powers: Doubles = np.zeros(0)
    logs: Doubles = np.zeros(0)

    def weights(self, original: float) -> Doubles:
        """Return the columns' weights, shape (columns,), with a weight alpha of the original query."""
        if not self.feedback.size:
            return self.query
        return original * self.query + (1.0 - original) * self.feedback


class Weighted(Formula):
    """A formula with parametric weights of query terms.

    Parameters
    ----------
    base : Formula
        The formula of the terms' scores, a sum over query terms. It also makes the first search for
        feedback, at its default parameters or at the setting of `with_first_search`.
    feedback : Feedback, optional
        How to expand queries; by default, not at all.
    features : sequence of str or callable
        Names in `lmtune.models.term_features.TERM_FEATURES`, files of values such as ``"tags.tsv"``, and
        functions from a `lmtune.models.term_features.QueryTerm` to a number.

    Raises
    ------
    InputError
        If the kind of feedback or a feature is unknown, the formula counts windows, or the feedback needs
        positive scores but the formula's are log-probabilities.
    """

    def __init__(
        self,
        base: Formula,
        feedback: Feedback | None = None,
        features: Sequence[str | Callable[[QueryTerm], float]] = (),
    ) -> None:
        if base.needs_positions:
            raise InputError(f"{base.name} counts windows, which have no weights", accepted="another model")
        self.base, self.features, self.feedback = base, term_features(features), feedback
        self._feature_arguments = tuple(features)
        name = base.name
        if feedback is not None:
            check_choice("unknown kind of feedback", feedback.kind, EXPANSIONS)
            check_least("too few feedback documents", feedback.documents, 1)
            check_least("too few feedback terms", feedback.terms, 1)
            if EXPANSIONS[feedback.kind].needs_positive_scores and base.is_likelihood:
                raise InputError(
                    f"{feedback.kind} weights feedback documents by their scores, but the scores of "
                    f"{base.name} are logarithms of probabilities",
                    value=f"{base.name}+{feedback.kind}",
                    accepted=f"{base.name}+rm3, or a model with positive scores: bm25+{feedback.kind}",
                )
            name += f"+{feedback.kind}:{feedback.documents},{feedback.terms}"
        thetas = [
            replace(_THETA, name=f"theta_{name}", what=f"the coefficient of {name}: {feature.what}")
            for name, feature in self.features.items()
        ]
        self.needs_positions = any(feature.needs_positions for feature in self.features.values())
        custom = [name for name, feature in self.features.items() if feature.is_custom]
        self._is_custom = np.array([name in custom for name in self.features], np.bool_)
        standardisation = [
            replace(each, name=f"{each.name}_{name}", what=f"the {each.name} of {name} in a fit's topics")
            for each in (_CENTRE, SPREAD)
            for name in custom
        ]
        self.norm = None if feedback is None else EXPANSIONS[feedback.kind].norm
        of_feedback = () if feedback is None else (_ORIGINAL, _SHARPNESS)
        self.weight_rows = 1 + (feedback is not None) + len(self.features)
        self.parameters: tuple[Parameter, ...] = (*base.parameters, *of_feedback, *thetas, *standardisation)
        no_features = {parameter.name: 0.0 for parameter in thetas}
        unexpanded = {
            parameter.name: value
            for parameter, value in zip(of_feedback, (_ORIGINAL.high, 1.0), strict=False)
        }
        self.simpler = (
            (PLAIN, unexpanded | no_features),
            *([("feedback", no_features)] if of_feedback else []),
        )
        named = [feature if isinstance(feature, str) else feature.__name__ for feature in features]
        self.name = name + (f"+{WEIGHTS}:{','.join(named)}" if features else "")
        # With weights, only tf-dominance is valid; it is, for every formula that has any kind of dominance.
        self.dominance = base.dominance and "tf"
        self.fields, self.value_name, self.group_names = base.fields, base.value_name, base.group_names
        # The setting of the first search.
        self.first = np.array([parameter.default for parameter in base.parameters])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the constructor's arguments, because the lambdas of `TERM_FEATURES` cannot be pickled."""
        return _restore, (self.base, self.feedback, self._feature_arguments, self.first)

    @property
    def searches_first(self) -> bool:
        """Whether weights depend on the best documents of a first search."""
        return self.feedback is not None or "feedback" in self.features

    def with_first_search(self, setting: Doubles) -> Weighted:
        """Return the formula with its first search at the base's parameters of a setting."""
        if not self.searches_first or np.array_equal(self.first, setting[: self._base_size]):
            return self
        other = copy(self)
        other.first = setting[: self._base_size].copy()
        return other

    def columns(self, query: Sequence[str]) -> list[QueryColumn]:
        """Return the columns of the base formula."""
        return self.base.columns(query)

    def group_index(self, index: Index, group: int) -> Index:
        """Return the index in which the base formula counts a group's columns."""
        return self.base.group_index(index, group)

    def look_up(self, index: Index, columns: Sequence[QueryColumn]) -> list[Postings | None]:
        """Return the postings in the base formula."""
        return self.base.look_up(index, columns)

    def term_value(self, term: TermCounts) -> float:
        """Return the term statistic of the base formula."""
        return self.base.term_value(term)

    def size(self, index: Index) -> CollectionSize:
        """Return the collection's size in the base formula."""
        return self.base.size(index)

    def lengths(self, index: Index) -> Integers32:
        """Return the lengths of all documents in the base formula."""
        return self.base.lengths(index)

    def field_lengths(self, index: Index, docs: NDArray[np.integer]) -> Integers32:
        """Return the lengths of documents in each field of the base formula."""
        return self.base.field_lengths(index, docs)

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless the parameters of the base formula and of the weights are valid."""
        self.base.check(settings[:, : self._base_size])
        for parameter, values in zip(
            self.parameters[self._base_size :], settings.T[self._base_size :], strict=True
        ):
            for value in values.tolist():
                parameter.require(value)
                if value == 0.0 and parameter.name.startswith(f"{SPREAD.name}_"):
                    raise InputError(f"{parameter.name} is 0", value=value, accepted="above 0")

    def read(self) -> None:
        """Read the files of features, so that errors in them are raised early."""
        for file in self._files:
            file.values  # noqa: B018 - a cached property

    @property
    def stamp(self) -> str | None:  # type: ignore[override]
        """Digests of the feature files, and the first search's setting unless it is the default.

        None if a feature is a function.
        """
        if len(self._files) < self._is_custom.sum():
            return None
        digests = [f"{digest(read_bytes(file.path)):x}" for file in self._files]
        defaults = [parameter.default for parameter in self.base.parameters]
        moved = self.searches_first and self.first.tolist() != defaults
        return ",".join([*digests, *(map(repr, self.first.tolist()) if moved else ())])

    @property
    def _files(self) -> list[TermFile]:
        return [each.compute for each in self.features.values() if isinstance(each.compute, TermFile)]

    @property
    def _base_size(self) -> int:
        """The number of the base formula's parameters, which come first."""
        return len(self.base.parameters)

    def counted_parameters(self, rows: NDArray[Any]) -> dict[str, float]:
        """Return the centre and spread of each custom feature over query terms; a spread of 0 becomes 1."""
        features = self._query_term_features(rows)[self._is_custom]
        centres = features.mean(axis=1) if features.size else np.zeros(len(features))
        spreads = features.std(axis=1) if features.size else np.ones(len(features))
        names = [parameter.name for parameter in self.parameters if parameter.is_counted]
        # The standard deviation of a constant may be a rounding error instead of 0.
        spreads = np.where(spreads > 1e-12 * np.abs(centres), spreads, 1.0)
        return dict(zip(names, np.concatenate((centres, spreads)).tolist(), strict=True))

    def ridge(self, rows: NDArray[Any]) -> Ridge:
        """Return a penalty on the features' coefficients, scaled by the features' standard deviations.

        Parameters
        ----------
        rows : numpy.ndarray of float64, shape (1 + feedback + features, columns)
            As for `weights`, for several queries. Terms that only feedback adds are ignored.
        """
        features, scale = self._query_term_features(rows), np.zeros(len(self.parameters))
        spread = features.std(axis=1) if features.size else np.zeros(len(self.features))
        scale[self._thetas] = np.where(self._is_custom, 1.0, spread)
        return Ridge(np.zeros(len(self.parameters)), scale)

    def _query_term_features(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the features of columns that are in the queries, not only in feedback."""
        return rows[len(rows) - len(self.features) :, rows[0] > 0.0] if self.features else rows[:0]

    @property
    def _thetas(self) -> slice:
        """The positions of the features' coefficients in a setting."""
        first = self._base_size + 2 * (self.feedback is not None)
        return slice(first, first + len(self.features))

    def weights(self, rows: Doubles, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Return a query's weights and their derivatives in the parameters that the base does not have.

        Parameters
        ----------
        rows : numpy.ndarray of float64, shape (1 + feedback + features, columns)
            Counts of the columns in the query, their feedback weights if there is feedback, their features.
        setting : numpy.ndarray of float64, shape (parameters,)
            Values of all parameters.

        Returns
        -------
        weights : numpy.ndarray of float64, shape (columns,)
        derivatives : numpy.ndarray of float64, shape (parameters - base parameters, columns)
        """
        parts, first = self._weight_parts(rows, setting, _ONE_QUERY), self._base_size
        # Centres and spreads are not fitted.
        constants = np.zeros((2 * int(self._is_custom.sum()), rows.shape[1]))
        if self.norm is None:
            return parts.query, np.concatenate((parts.query * parts.features, constants))
        original, feedback = setting[first], parts.feedback
        slope = _norm_slope(parts.powers, parts.logs, self.norm)
        mixing = np.stack((parts.query - feedback, (1.0 - original) * feedback * (parts.logs - slope)))
        slopes = np.concatenate((mixing, original * parts.query * parts.features, constants))
        return parts.weights(original), slopes

    def _weight_parts(self, rows: Doubles, setting: Doubles, starts: NDArray[np.intp]) -> _WeightParts:
        """Return the parts of the weights of one or more queries, whose columns begin at `starts`."""
        features = self._standardise(rows, setting)
        # Summing feature by feature makes a column's weight independent of its position.
        exponent = (setting[self._thetas, None] * features).sum(axis=0)
        query = rows[0] * np.exp(np.clip(exponent, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
        if self.norm is None or not rows.size:
            return _WeightParts(features, query)
        positive = rows[1] > 0.0
        logs = np.log(rows[1], where=positive, out=np.zeros(positive.size))
        sizes = np.diff(starts, append=positive.size)
        heaviest = np.maximum.reduceat(np.where(positive, logs, -np.inf), starts).repeat(sizes)
        powers = np.zeros(positive.size)
        np.exp(setting[self._base_size + 1] * (logs - heaviest), where=positive, out=powers)
        norms = _norms(powers, self.norm, starts)
        scale = _norms(rows[1], self.norm, starts) / np.where(norms, norms, 1.0)
        return _WeightParts(features, query, scale.repeat(sizes) * powers, powers, logs)

    def _standardise(self, rows: Doubles, setting: Doubles) -> Doubles:
        """Return the features, with custom ones standardised."""
        features = rows[len(rows) - len(self.features) :]
        if self._is_custom.any():
            centres, spreads = setting[self._thetas.stop :].reshape(2, -1, 1)
            features = features.copy()
            features[self._is_custom] = (features[self._is_custom] - centres) / spreads
        return features

    def origins(self, rows: Doubles, setting: Doubles) -> dict[str, Doubles]:
        """Return the parts of a query's weights, each of shape (columns,).

        Parameters
        ----------
        rows, setting
            As for `weights`.

        Returns
        -------
        dict of str to numpy.ndarray of float64
            ``"original"`` and, with feedback, ``"expansion"``, which add up to the weights; then, by feature,
            the factor exp(theta x) of the original part.
        """
        weights = self.weights(rows, setting)[0]
        factors = np.exp(setting[self._thetas, None] * self._standardise(rows, setting))
        by_feature = dict(zip(self.features, factors, strict=True))
        if self.feedback is None:
            return {"original": weights, **by_feature}
        only_feedback = setting.copy()
        only_feedback[self._base_size] = 0.0
        expansion = (1.0 - setting[self._base_size]) * self.weights(rows, only_feedback)[0]
        return {"original": weights - expansion, "expansion": expansion, **by_feature}

    def differentiate(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Return the weighted sums of the terms' scores and derivatives."""
        weights, slopes = self.weights(topic.counts, setting)
        # A term has a column for each field, with equal weights.
        step = max(len(self.fields), 1)
        parts, gradients = self.base.parts(topic, setting[: self._base_size])
        # Summing row by row gives documents with equal columns equal scores.
        scores = (weights[::step, None] * parts).sum(axis=0)
        in_base = np.tensordot(weights[::step], gradients, axes=(0, 1))
        return scores, np.concatenate((in_base, slopes[:, ::step] @ parts))

    def contributions(self, topic: TopicDocuments, setting: Doubles) -> Doubles:
        """Return the contribution of each term to each document's score, shape (terms, documents)."""
        weights, _ = self.weights(topic.counts, setting)
        parts, _ = self.base.parts(topic, setting[: self._base_size])
        return weights[:: max(len(self.fields), 1), None] * parts

    def rank_scores(self, documents: Documents, settings: Doubles, out: Doubles) -> None:
        """Fill the scores of the base formula with the weights of each setting, by topic, then by setting."""
        sizes = documents.docs[:, 1] - documents.docs[:, 0]
        ends = np.concatenate(([0], np.cumsum(sizes)))
        terms = documents.terms[documents.terms[:, 0] < documents.terms[:, 1]]
        columns = np.concatenate([_NO_COLUMNS, *(np.arange(*bounds) for bounds in terms.tolist())])
        starts = np.cumsum(terms[:, 1] - terms[:, 0]) - (terms[:, 1] - terms[:, 0])
        rows, weights = documents.counts[:, columns], np.zeros(documents.counts.shape[1])
        scores = out if len(settings) == 1 else np.empty(int(ends[-1]))
        for s, setting in enumerate(settings):
            original = setting[self._base_size] if self.norm is not None else 1.0
            weights[columns] = self._weight_parts(rows, setting, starts).weights(original)
            self.base.rank_scores(
                documents._replace(counts=weights), setting[None, : self._base_size], scores
            )
            if len(settings) > 1:
                for begin, size in zip(ends.tolist(), sizes.tolist(), strict=False):
                    at = begin * len(settings) + s * size
                    out[at : at + size] = scores[begin : begin + size]


def _restore(base: Formula, feedback: Feedback | None, features: Sequence[Any], first: Doubles) -> Weighted:
    """Make a formula from its pickled parts."""
    formula = Weighted(base, feedback, features)
    formula.first = first
    return formula


def norm_of(values: Doubles, norm: float) -> float:
    """Return the norm of order 1, 2 or infinity of non-negative numbers; 0 for an empty array."""
    return float(_norms(values, norm, _ONE_QUERY)[0]) if values.size else 0.0


def _norms(values: Doubles, norm: float, starts: NDArray[np.intp]) -> Doubles:
    """Return the norm of each segment of an array; `starts` are the segments' offsets."""
    if np.isinf(norm):
        return np.asarray(np.maximum.reduceat(values, starts))
    return np.asarray(np.add.reduceat(values**norm, starts) ** (1.0 / norm))


def _norm_slope(powers: Doubles, logs: Doubles, norm: float) -> float:
    """Return the derivative in s of log norm(f^s), from the values f^s and log f."""
    if not powers.any():
        return 0.0
    if np.isinf(norm):
        return float(logs[int(np.argmax(powers))])
    shares = powers**norm
    return float(shares @ logs / shares.sum())


def weighted(base: Formula, parts: Sequence[str]) -> Weighted:
    """Return a formula with the parts after ``+`` in a model's name: ``rm3:10,20``, ``weights:idf``.

    Raises
    ------
    InputError
        If a part is neither feedback nor weights, occurs twice, or has invalid numbers or features.
    """
    kinds = ", ".join(EXPANSIONS)
    accepted = f"{kinds}, or with sizes, rm3:DOCUMENTS,TERMS; {WEIGHTS}, or {WEIGHTS}:idf,count,tags.tsv"
    feedback: Feedback | None = None
    features: list[str] | None = None
    for part in parts:
        kind, _, rest = part.partition(":")
        if kind == WEIGHTS and features is None:
            features = rest.split(",") if rest else [ALL]
        elif kind in EXPANSIONS and feedback is None and _SIZES.fullmatch(rest):
            feedback = Feedback(kind, *map(int, filter(None, rest.split(","))))
        else:
            raise InputError("unknown part of a model's name", value=part, accepted=accepted)
    return Weighted(base, feedback, features or ())
