r"""Weights of query terms with parameters of their own, on top of any formula that adds terms up.

.. math:: g(Q;D) = \sum_t w_t\, g_t(D), \qquad
    w_t = \alpha\, c_t\, e^{\theta \cdot x_t} + (1-\alpha)\, \frac{\|f\|}{\|f^s\|}\, f_t^s, \qquad
    \|f\| = \|c\|,

with :math:`g_t(D)` the part of the score that the formula gives a term occurring once in the query,
:math:`c_t` how often it occurs there, :math:`x_t` its features, :math:`f_t` its weight in the feedback
model, s that model's sharpness and :math:`\alpha` the weight of the original query; the norm is that of
the kind of feedback (1 for RM3: Abdul-Jaleel et al., TREC 2004; 2 for Rocchio's, the largest for Bo1). It
is Metzler and Croft's (Information Retrieval 2007) linear feature-based model with a feature a term, in
which weights cannot become negative. A user's feature may be of any size: it is x minus its centre, over its
spread, both counted on the topics of a fit.
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
"""The query as it is: neither feedback nor weights."""
_SHARPNESS = Parameter(
    "sharpness", 0.25, 4.0, "log", 1.0, "how much heavy feedback terms outweigh light ones"
)
_SIZES = re.compile(r"|[1-9][0-9]{0,5},[1-9][0-9]{0,5}")
WEIGHTS = "weights"
"""What a model's name says after ``+`` where terms have weights by features; they follow a colon."""

_THETA = Parameter("theta", -3.0, 3.0, "linear", 0.0)
"""Of each feature: the power to which weights are raised by it; 0 leaves them."""
_CENTRE = Parameter("centre", 0.0, 0.0, "linear", 0.0, is_counted=True)
SPREAD = Parameter("spread", 1.0, 1.0, "log", 1.0, is_counted=True)
"""What a user's feature is standardised by: its mean over query terms, and its standard deviation."""
_LARGEST = 300.0
"""Of an exponent's size: no setting makes a weight infinite."""
_ONE, _NONE = np.zeros(1, np.intp), np.zeros(0, np.intp)
"""Where columns of one query begin; and no columns."""


class Feedback(NamedTuple):
    """How queries are expanded: a kind of `EXPANSIONS`, feedback documents and terms a topic, at most."""

    kind: str
    documents: int = 10
    terms: int = 20


class _Made(NamedTuple):
    """Of columns: standardised features, weights in the query and in the feedback, and what those are of."""

    features: Doubles
    query: Doubles
    feedback: Doubles = np.zeros(0)
    powers: Doubles = np.zeros(0)
    logs: Doubles = np.zeros(0)

    def weights(self, original: float) -> Doubles:
        """Return the weights, given that of the original query."""
        if not self.feedback.size:
            return self.query
        return original * self.query + (1.0 - original) * self.feedback


class Weighted(Formula):
    """A formula whose query terms have weights with parameters.

    Parameters
    ----------
    base : Formula
        What scores a term: its score must be a sum over the query's terms. It makes the first search for
        feedback, at its parameters' defaults, or where `drawing` says.
    feedback : Feedback, optional
        How to expand queries.
    features : sequence of str or callable
        Of `lmtune.models.term_features.TERM_FEATURES`; files of a user's values, such as ``"tags.tsv"``;
        functions from a `lmtune.models.term_features.QueryTerm` to a number.

    Raises
    ------
    InputError
        For a kind of feedback or a feature that there is not, a formula that counts windows, or one of
        log-probabilities beside feedback that needs positive scores.
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
        self._given = tuple(features)
        name = base.name
        if feedback is not None:
            check_choice("unknown kind of feedback", feedback.kind, EXPANSIONS)
            check_least("too few feedback documents", feedback.documents, 1)
            check_least("too few feedback terms", feedback.terms, 1)
            if EXPANSIONS[feedback.kind].needs_positive_scores and base.is_likelihood:
                raise InputError(
                    f"{feedback.kind} weights feedback documents by their scores, which {base.name} "
                    "makes logarithms of probabilities",
                    value=f"{base.name}+{feedback.kind}",
                    accepted=f"{base.name}+rm3, or a model with positive scores: bm25+{feedback.kind}",
                )
            name += f"+{feedback.kind}:{feedback.documents},{feedback.terms}"
        own = [
            replace(_THETA, name=f"theta_{name}", what=f"the power of {feature.what}")
            for name, feature in self.features.items()
        ]
        self.needs_positions = any(feature.needs_positions for feature in self.features.values())
        users = [name for name, feature in self.features.items() if feature.is_own]
        self._users = np.array([name in users for name in self.features], np.bool_)
        units = [
            replace(unit, name=f"{unit.name}_{name}", what=f"the {unit.name} of {name} in a fit's topics")
            for unit in (_CENTRE, SPREAD)
            for name in users
        ]
        self.norm = None if feedback is None else EXPANSIONS[feedback.kind].norm
        more = () if feedback is None else (_ORIGINAL, _SHARPNESS)
        self.weight_rows = 1 + (feedback is not None) + len(self.features)
        self.parameters: tuple[Parameter, ...] = (*base.parameters, *more, *own, *units)
        none = {parameter.name: 0.0 for parameter in own}
        unexpanded = {
            parameter.name: value for parameter, value in zip(more, (_ORIGINAL.high, 1.0), strict=False)
        }
        self.simpler = ((PLAIN, unexpanded | none), *([("feedback", none)] if more else []))
        named = [own if isinstance(own, str) else own.__name__ for own in features]
        self.name = name + (f"+{WEIGHTS}:{','.join(named)}" if features else "")
        self.dominance = base.dominance and "tf"
        self.fields, self.value_name, self.group_names = base.fields, base.value_name, base.group_names
        self.first = np.array([parameter.default for parameter in base.parameters])

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to other processes by what it was made of: the features' functions do not."""
        return _restored, (self.base, self.feedback, self._given, self.first)

    @property
    def searches_first(self) -> bool:
        """Whether it looks at the best documents of a first search."""
        return self.feedback is not None or "feedback" in self.features

    def drawing(self, setting: Doubles) -> Weighted:
        """Return the formula whose first search is made at a setting's part for the base."""
        if not self.searches_first or np.array_equal(self.first, setting[: self._size]):
            return self
        other = copy(self)
        other.first = setting[: self._size].copy()
        return other

    def columns(self, query: Sequence[str]) -> list[QueryColumn]:
        """Return the formula's columns."""
        return self.base.columns(query)

    def part(self, index: Index, group: int) -> Index:
        """Return where the formula counts columns of a group."""
        return self.base.part(index, group)

    def look_up(self, index: Index, columns: Sequence[QueryColumn]) -> list[Postings | None]:
        """Return what the formula looks up."""
        return self.base.look_up(index, columns)

    def term_value(self, term: TermCounts) -> float:
        """Return what the formula takes of a term."""
        return self.base.term_value(term)

    def size(self, index: Index) -> CollectionSize:
        """Return how large a collection is to the formula."""
        return self.base.size(index)

    def lengths(self, index: Index) -> Integers32:
        """Return the formula's lengths."""
        return self.base.lengths(index)

    def field_lengths(self, index: Index, docs: NDArray[np.integer]) -> Integers32:
        """Return the formula's lengths in fields."""
        return self.base.field_lengths(index, docs)

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless the formula's own parameters, and the weights', are in their domain."""
        self.base.check(settings[:, : self._size])
        for parameter, values in zip(self.parameters[self._size :], settings.T[self._size :], strict=True):
            for value in values.tolist():
                parameter.require(value)
                if value == 0.0 and parameter.name.startswith(f"{SPREAD.name}_"):
                    raise InputError(f"{parameter.name} is 0", value=value, accepted="above 0")

    def read(self) -> None:
        """Read the files of features, so that what is wrong with them is said at once."""
        for path in self._files:
            path.values  # noqa: B018 - kept for later

    @property
    def stamp(self) -> str | None:  # type: ignore[override]
        """Digests of files of features, and where the first search is; None where functions are features."""
        if len(self._files) < self._users.sum():
            return None
        known = [f"{digest(read_bytes(file.path)):x}" for file in self._files]
        usual = [parameter.default for parameter in self.base.parameters]
        moved = self.searches_first and self.first.tolist() != usual
        return ",".join([*known, *(map(repr, self.first.tolist()) if moved else ())])

    @property
    def _files(self) -> list[TermFile]:
        return [own.compute for own in self.features.values() if isinstance(own.compute, TermFile)]

    @property
    def _size(self) -> int:
        return len(self.base.parameters)

    def counted(self, rows: NDArray[Any]) -> dict[str, float]:
        """Return each user's feature's centre and spread over query terms; a spread of 0 is 1."""
        features = self._of_query_terms(rows)[self._users]
        centres = features.mean(axis=1) if features.size else np.zeros(len(features))
        spreads = features.std(axis=1) if features.size else np.ones(len(features))
        names = [parameter.name for parameter in self.parameters if parameter.is_counted]
        # A constant's deviation is rounding.
        spreads = np.where(spreads > 1e-12 * np.abs(centres), spreads, 1.0)
        return dict(zip(names, np.concatenate((centres, spreads)).tolist(), strict=True))

    def ridge(self, rows: NDArray[Any]) -> Ridge:
        """Pull the powers of features to 0, each in units of the feature's standard deviation.

        Parameters
        ----------
        rows : numpy.ndarray of float64, shape (1 + feedback + features, columns)
            As for `weights`, of some queries; what is no query term plays no part.
        """
        features, scale = self._of_query_terms(rows), np.zeros(len(self.parameters))
        spread = features.std(axis=1) if features.size else np.zeros(len(self.features))
        scale[self._thetas] = np.where(self._users, 1.0, spread)
        return Ridge(np.zeros(len(self.parameters)), scale)

    def _of_query_terms(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows[len(rows) - len(self.features) :, rows[0] > 0.0] if self.features else rows[:0]

    @property
    def _thetas(self) -> slice:
        first = self._size + 2 * (self.feedback is not None)
        return slice(first, first + len(self.features))

    def weights(self, rows: Doubles, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Return a query's weights and their derivatives in the parameters after the formula's own.

        Parameters
        ----------
        rows : numpy.ndarray of float64, shape (1 + feedback + features, columns)
            A column's count in the query, its feedback weight where there is feedback, its features.
        setting : numpy.ndarray of float64, shape (parameters,)
            Of all parameters.

        Returns
        -------
        weights : numpy.ndarray of float64, shape (columns,)
        derivatives : numpy.ndarray of float64, shape (parameters - the formula's, columns)
        """
        made, first = self._made(rows, setting, _ONE), self._size
        units = np.zeros((2 * int(self._users.sum()), rows.shape[1]))
        if self.norm is None:
            return made.query, np.concatenate((made.query * made.features, units))
        original, feedback = setting[first], made.feedback
        slope = _norm_slope(made.powers, made.logs, self.norm)
        own = np.stack((made.query - feedback, (1.0 - original) * feedback * (made.logs - slope)))
        slopes = np.concatenate((own, original * made.query * made.features, units))
        return made.weights(original), slopes

    def _made(self, rows: Doubles, setting: Doubles, starts: NDArray[np.intp]) -> _Made:
        """Return what the weights of queries are made of, given where each query's columns begin."""
        features = self._standardised(rows, setting)
        # Feature by feature, so that a column's weight does not depend on its place.
        exponent = (setting[self._thetas, None] * features).sum(axis=0)
        query = rows[0] * np.exp(np.clip(exponent, -_LARGEST, _LARGEST))
        if self.norm is None or not rows.size:
            return _Made(features, query)
        held = rows[1] > 0.0
        logs = np.log(rows[1], where=held, out=np.zeros(held.size))
        sizes = np.diff(starts, append=held.size)
        heaviest = np.maximum.reduceat(np.where(held, logs, -np.inf), starts).repeat(sizes)
        powers = np.zeros(held.size)
        np.exp(setting[self._size + 1] * (logs - heaviest), where=held, out=powers)
        norms = _norms(powers, self.norm, starts)
        scale = _norms(rows[1], self.norm, starts) / np.where(norms, norms, 1.0)
        return _Made(features, query, scale.repeat(sizes) * powers, powers, logs)

    def _standardised(self, rows: Doubles, setting: Doubles) -> Doubles:
        """Return the features, users' own in units of their spread."""
        features = rows[len(rows) - len(self.features) :]
        if self._users.any():
            centres, spreads = setting[self._thetas.stop :].reshape(2, -1, 1)
            features = features.copy()
            features[self._users] = (features[self._users] - centres) / spreads
        return features

    def origins(self, rows: Doubles, setting: Doubles) -> dict[str, Doubles]:
        """Return what a query's weights are made of, each of shape (columns,).

        Parameters
        ----------
        rows, setting
            As of `weights`.

        Returns
        -------
        dict of str to numpy.ndarray of float64
            ``"original"`` and, where there is feedback, ``"expansion"``, which add up to the weights; then by
            feature the factor exp(theta x) that is in the original's part.
        """
        weights = self.weights(rows, setting)[0]
        factors = np.exp(setting[self._thetas, None] * self._standardised(rows, setting))
        made = dict(zip(self.features, factors, strict=True))
        if self.feedback is None:
            return {"original": weights, **made}
        alone = setting.copy()
        alone[self._size] = 0.0
        expansion = (1.0 - setting[self._size]) * self.weights(rows, alone)[0]
        return {"original": weights - expansion, "expansion": expansion, **made}

    def differentiate(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Add up terms' parts and derivatives, each times its weight."""
        weights, slopes = self.weights(topic.counts, setting)
        step = max(len(self.fields), 1)
        parts, gradients = self.base.parts(topic, setting[: self._size])
        # Row by row, so that documents of equal columns have equal scores.
        scores = (weights[::step, None] * parts).sum(axis=0)
        own = np.tensordot(weights[::step], gradients, axes=(0, 1))
        return scores, np.concatenate((own, slopes[:, ::step] @ parts))

    def contributions(self, topic: TopicDocuments, setting: Doubles) -> Doubles:
        """Return what each term adds to each document's score, shape (terms, documents)."""
        weights, _ = self.weights(topic.counts, setting)
        parts, _ = self.base.parts(topic, setting[: self._size])
        return weights[:: max(len(self.fields), 1), None] * parts

    def rank_scores(self, documents: Documents, settings: Doubles, out: Doubles) -> None:
        """Fill the formula's scores at each setting's weights."""
        sizes = documents.docs[:, 1] - documents.docs[:, 0]
        ends = np.concatenate(([0], np.cumsum(sizes)))
        terms = documents.terms[documents.terms[:, 0] < documents.terms[:, 1]]
        columns = np.concatenate([_NONE, *(np.arange(*own) for own in terms.tolist())])
        starts = np.cumsum(terms[:, 1] - terms[:, 0]) - (terms[:, 1] - terms[:, 0])
        rows, weights = documents.counts[:, columns], np.zeros(documents.counts.shape[1])
        scores = out if len(settings) == 1 else np.empty(int(ends[-1]))
        for s, setting in enumerate(settings):
            original = setting[self._size] if self.norm is not None else 1.0
            weights[columns] = self._made(rows, setting, starts).weights(original)
            self.base.rank_scores(documents._replace(counts=weights), setting[None, : self._size], scores)
            if len(settings) > 1:
                for begin, size in zip(ends.tolist(), sizes.tolist(), strict=False):
                    at = begin * len(settings) + s * size
                    out[at : at + size] = scores[begin : begin + size]


def _restored(base: Formula, feedback: Feedback | None, features: Sequence[Any], first: Doubles) -> Weighted:
    formula = Weighted(base, feedback, features)
    formula.first = first
    return formula


def norm_of(values: Doubles, norm: float) -> float:
    """Return a norm of numbers that are 0 or more: 1, 2 or infinity; 0 of none."""
    return float(_norms(values, norm, _ONE)[0]) if values.size else 0.0


def _norms(values: Doubles, norm: float, starts: NDArray[np.intp]) -> Doubles:
    """Return the norm of each part of an array, given where parts begin."""
    if np.isinf(norm):
        return np.asarray(np.maximum.reduceat(values, starts))
    return np.asarray(np.add.reduceat(values**norm, starts) ** (1.0 / norm))


def _norm_slope(powers: Doubles, logs: Doubles, norm: float) -> float:
    """Return the derivative of the logarithm of a norm of f^s in s, given f^s and log f."""
    if not powers.any():
        return 0.0
    if np.isinf(norm):
        return float(logs[int(np.argmax(powers))])
    shares = powers**norm
    return float(shares @ logs / shares.sum())


def weighted(base: Formula, parts: Sequence[str]) -> Weighted:
    """Return the formula of a model's name: what it says after each ``+``, ``rm3:10,20``, ``weights:idf``.

    Raises
    ------
    InputError
        For what is neither, comes twice, or has no such numbers or features.
    """
    kinds = ", ".join(EXPANSIONS)
    accepted = f"{kinds}, also as rm3:10,20 (documents, terms); {WEIGHTS}, or {WEIGHTS}:idf,count,tags.tsv"
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
