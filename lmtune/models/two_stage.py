"""Query likelihood with two-stage smoothing, and its analytic gradient.

The model and its derivatives follow Metzler, "Using Gradient Descent to Optimize Language Modeling Smoothing
Parameters" (SIGIR 2007), section 3. Two-stage smoothing is due to Zhai and Lafferty (SIGIR 2002).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.arrays import Booleans, Doubles, Integers32
from lmtune.errors import InputError
from lmtune.index.protocol import Index, TermCounts
from lmtune.index.quantised import quantised_lengths
from lmtune.models.formula import CompiledFormula, Factor, Formula, Kernels, TermOccurrence
from lmtune.models.kernels import (
    SMALLEST_MU,
    Documents,
    TopicDocuments,
    differentiate_two_stage,
    log_probabilities,
    rank_two_stage,
    two_stage_likelihoods,
)
from lmtune.models.parameter import ANSERINI, Parameter

LAMBDA = Parameter(
    "lambda", 0.0, 0.95, "logit", 0.0, "the weight of the collection model", start=0.5, source=ANSERINI
)
MU = Parameter(
    "mu", 1.0, 100_000.0, "log", 1000.0, "the weight of the Dirichlet prior", unit="tokens", source=ANSERINI
)


class Gradient(NamedTuple):
    """Scores and their partial derivatives, each of shape (documents,).

    Attributes
    ----------
    score : numpy.ndarray of float64
        The log-likelihood g(Q; D), natural logarithm.
    dlambda : numpy.ndarray of float64
        The derivative of g in lambda.
    dmu : numpy.ndarray of float64
        The derivative of g in mu.
    """

    score: Doubles
    dlambda: Doubles
    dmu: Doubles


class TwoStage(CompiledFormula):
    r"""Two-stage smoothing; `score` computes a document's score.

    Documents are ranked by the product over query terms of a factor that rises with :math:`y = tf / p` and
    falls with the document's length,

    .. math:: x = (1 - \lambda) \frac{y + \mu}{\mu + |D|} + \lambda .
    """

    name = "two-stage"
    parameters = (LAMBDA, MU)
    dominance = "e"
    is_likelihood = True
    kernels = Kernels(rank_two_stage, differentiate_two_stage, two_stage_likelihoods)
    switches: tuple[bool, ...] = (False,)

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless settings satisfy `check_parameters`."""
        for lambda_, mu in settings.tolist():
            check_parameters(lambda_, mu)
        super().check(settings)

    def parts(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score and differentiate each term separately."""
        parts, gradients = np.empty(topic.tf.shape), np.empty((2, *topic.tf.shape))
        log_probabilities(topic, setting[0], setting[1], parts, gradients)
        return parts, gradients

    def score_factors(self, occurrence: TermOccurrence, setting: Doubles) -> list[Factor]:
        """Return a single factor, log P(w|D)."""
        term, tf, length, _ = occurrence
        (lambda_, mu), p = setting.tolist(), self.term_value(term)
        smoothed = (tf + max(mu, SMALLEST_MU) * p) / (length + max(mu, SMALLEST_MU))
        value = math.log((1.0 - lambda_) * smoothed + lambda_ * p)
        formula = "log((1 - lambda) (freq + mu P) / (dl + mu) + lambda P), P = cf / |C|"
        inputs = {"freq": tf, "dl": length, "P": p, "cf": term.cf, "|C|": term.size.terms}
        return [Factor("log P(w|D)", value, formula, {**inputs, "lambda": lambda_, "mu": mu})]


TWO_STAGE = TwoStage()


def require_two_stage(formula: Formula, what: str) -> None:
    """Raise `InputError` unless a formula is two-stage smoothing, as the method `what` requires."""
    if formula.name != TWO_STAGE.name:
        raise InputError(
            f"{what} is valid only for two-stage smoothing without a floor",
            value=formula.name,
            accepted=TWO_STAGE.name,
        )


def check_parameters(lambda_: float, mu: float) -> None:
    """Raise `InputError` unless (lambda, mu) is in the model's domain.

    Parameters
    ----------
    lambda_ : float
        0 <= lambda < 1, the weight of the collection model.
    mu : float
        mu > 0, in tokens; mu = 0 is Jelinek-Mercer smoothing and requires lambda > 0.

    Raises
    ------
    InputError
        With the parameter, its value and its domain.
    """
    if not (math.isfinite(lambda_) and 0.0 <= lambda_ < 1.0):
        raise InputError("lambda is outside its domain", value=lambda_, accepted="0 <= lambda < 1")
    if not (math.isfinite(mu) and mu >= 0.0):
        raise InputError("mu is outside its domain", value=mu, accepted="mu > 0, in tokens")
    if mu == 0.0 and lambda_ == 0.0:
        raise InputError(
            "lambda = 0 with mu = 0 gives absent terms probability 0",
            value=(lambda_, mu),
            accepted="mu > 0, or mu = 0 with 0 < lambda < 1 (Jelinek-Mercer)",
        )


def score(
    tf: ArrayLike,
    length: ArrayLike,
    p: ArrayLike,
    *,
    lambda_: float,
    mu: float,
    count: ArrayLike | None = None,
) -> Doubles:
    r"""Score documents by query likelihood with two-stage smoothing.

    .. math:: g(Q;D) = \sum_{w \in Q} \log\Big((1-\lambda)
        \frac{tf_{w,D} + \mu P(w|C)}{\mu + |D|} + \lambda P(w|C)\Big)

    Parameters
    ----------
    tf : array_like of int, shape (terms, documents)
        Occurrences of each query term in each document.
    length : array_like of int, shape (documents,)
        Document lengths in tokens, at least the column sums of `tf`; at least 1 if mu is 0.
    p : array_like of float, shape (terms,)
        The collection model, P(w|C) = cf_w / \|C\|, each in (0, 1].
    lambda_, mu : float
        Smoothing parameters; see `check_parameters`.
    count : array_like of int, shape (terms,), optional
        Occurrences of each term in the query; by default 1.

    Returns
    -------
    numpy.ndarray of float64, shape (documents,)
        Natural logarithms of the query likelihood.

    Raises
    ------
    InputError
        If parameters are outside their domain, the arrays' shapes do not fit, or frequencies are
        impossible.

    Examples
    --------
    >>> score([[2], [0]], [10], [0.01, 0.001], lambda_=0.0, mu=100.0).round(6)
    array([-10.604934])
    """
    return score_and_gradient(tf, length, p, lambda_=lambda_, mu=mu, count=count).score


def score_and_gradient(
    tf: ArrayLike,
    length: ArrayLike,
    p: ArrayLike,
    *,
    lambda_: float,
    mu: float,
    count: ArrayLike | None = None,
) -> Gradient:
    r"""Score documents and differentiate the scores in lambda and mu.

    With x the smoothed probability of a term (the argument of the logarithm in `score`),

    .. math::
        \frac{\partial g}{\partial\lambda} &= \sum_{w \in Q}
            \frac{P(w|C)\,|D| - tf_{w,D}}{(\mu + |D|)\, x_w} \\
        \frac{\partial g}{\partial\mu} &= \frac{1-\lambda}{\mu + |D|}
            \frac{\partial g}{\partial\lambda}

    These are the derivatives in the paper, each as a single fraction.

    Parameters
    ----------
    tf, length, p, lambda_, mu, count
        As for `score`.

    Returns
    -------
    Gradient
        Scores and both derivatives, each of shape (documents,).

    Raises
    ------
    InputError
        As for `score`.
    """
    check_parameters(lambda_, mu)
    topic = as_topic(tf, length, p, count)
    _check_lengths(topic, mu)
    scores, gradients = TWO_STAGE.differentiate(topic, np.array([lambda_, mu], np.float64))
    return Gradient(scores, *gradients)


def as_topic(tf: ArrayLike, length: ArrayLike, p: ArrayLike, count: ArrayLike | None) -> TopicDocuments:
    """Convert the arguments of `score` to a `TopicDocuments` for the kernels.

    Raises
    ------
    InputError
        If shapes do not fit or values are impossible.
    """
    tf_ = np.ascontiguousarray(tf, dtype=np.int64)
    length_ = np.ascontiguousarray(length, dtype=np.int64)
    p_ = np.ascontiguousarray(p, dtype=np.float64)
    count_ = np.ones(p_.shape, np.int64) if count is None else np.ascontiguousarray(count, np.int64)
    if tf_.ndim != 2 or tf_.shape != (p_.size, length_.size) or count_.shape != p_.shape:
        raise InputError(
            "shapes do not fit",
            value={"tf": tf_.shape, "length": length_.shape, "p": p_.shape, "count": count_.shape},
            accepted="tf (terms, documents), length (documents,), p and count (terms,)",
        )
    _check(
        ("a term's probability", ~((p_ > 0.0) & (p_ <= 1.0)), p_, "0 < p <= 1"),
        ("a term's count", count_ < 0, count_, "0 or more"),
        ("a term frequency", (tf_ < 0).any(axis=0), tf_.min(axis=0, initial=0), "0 or more"),
        ("a document's length", length_ < 0, length_, "0 or more"),
    )
    # Two-stage smoothing ignores the groups and the mean length.
    return TopicDocuments(tf_, length_, p_, count_, np.zeros(p_.size, np.int8), 1.0)


def _check_lengths(topic: TopicDocuments, mu: float) -> None:
    tf, length = topic.tf, topic.length
    _check(
        ("a document's length", length < tf.sum(axis=0), length, "at least its term frequencies"),
        ("a document's length", (length == 0) & (mu == 0.0), length, "1 or more if mu is 0"),
    )


def _check(*wrong: tuple[str, Any, NDArray[Any], str]) -> None:
    for what, bad, values, accepted in wrong:
        if bad.any():
            value = values[int(np.argmax(bad))].item()
            raise InputError(f"{what} is outside its domain", value=value, accepted=accepted)


class LuceneDirichlet(TwoStage):
    r"""Lucene's Dirichlet smoothing (LMDirichletSimilarity): two-stage smoothing with factors >= 1.

    .. math:: \sum_w \max\Big(0, \log\big(1 + \frac{tf}{\mu p}\big) + \log\frac{\mu}{\mu + |D|}\Big)
        = \sum_w \log \max(1, x) \quad (\lambda = 0),

    with p = (cf + 1) / (\|C\| + 1) and lengths rounded as in `lmtune.index.quantised`. A term that the
    document lacks has x < 1, so that the floor ignores it, as Lucene does. Lucene computes each term in
    single precision; this is double precision.
    """

    name = "lucene-dirichlet"
    parameters = (replace(LAMBDA, low=0.0, high=0.0), MU)
    dominance = "tf"
    is_likelihood = False
    switches = (True,)

    def term_value(self, term: TermCounts) -> float:
        """Return P(w|C) with one added occurrence, (cf + 1) / (|C| + 1)."""
        return (term.cf + 1.0) / (term.size.terms + 1.0)

    def score_factors(self, occurrence: TermOccurrence, setting: Doubles) -> list[Factor]:
        """Return a single factor, the sum of Lucene's termWeight and norm, floored at 0."""
        term, tf, length, _ = occurrence
        mu, p = float(setting[1]), self.term_value(term)
        value = max(0.0, math.log1p(tf / (mu * p)) + math.log(mu / (length + mu)))
        formula = "max(0, log(1 + freq / (mu P)) + log(mu / (dl + mu))), P = (cf + 1) / (|C| + 1)"
        inputs = {"freq": tf, "dl": length, "P": p, "cf": term.cf, "|C|": term.size.terms}
        return [Factor("score", value, formula, {**inputs, "mu": mu})]

    def lengths(self, index: Index) -> Integers32:
        """Return the lengths of all documents, rounded as in Lucene."""
        return quantised_lengths(np.asarray(index.lengths))

    parts = Formula.parts

    def likelihoods(
        self,
        documents: Documents,
        setting: Doubles,
        likelihood: Doubles,
        gradient: Doubles,
        product: Booleans,
    ) -> None:
        """Fill likelihoods and gradients; the derivative in lambda is 0, because lambda is fixed."""
        super().likelihoods(documents, setting, likelihood, gradient, product)
        gradient[0] = 0.0


LUCENE_DIRICHLET = LuceneDirichlet()
