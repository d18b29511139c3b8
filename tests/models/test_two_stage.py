"""The scorer against the paper's printed formulas in 50-digit arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from support import COLLECTIONS

from lmtune.errors import InputError
from lmtune.models.formula import Formula
from lmtune.models.kernels import Documents, TopicDocuments, rank_two_stage
from lmtune.models.two_stage import TWO_STAGE, check_parameters, score, score_and_gradient

mp.dps = 50

RELATIVE = 1e-12
ROUNDING = 2.0**-53
"""The largest relative error of one rounded operation."""


Document = tuple[list[int], int, list[float], list[int]]


def paper(document: Document, lambda_: Any, mu: Any) -> tuple[Any, ...]:
    """Evaluate Metzler (2007), section 3, as printed; also how far doubles may be from its gradient.

    Each term may have the relative error of 12 digits. Its numerator P(w|C) |D| - tf may cancel: the
    product is rounded before tf, an integer, is taken away, so that the difference has an error of
    half a unit in the last place of the product, however small it is itself.
    """
    tf, size, p, count = document
    lambda_, mu, length = mpf(lambda_), mpf(mu), mpf(size)
    g = dlambda = dmu = error_lambda = error_mu = mpf(0)
    for t, pw, c in zip(tf, p, count, strict=True):
        t, pw, c = mpf(int(t)), mpf(float(pw)), int(c)
        a = (t + mu * pw) / (mu + length)
        x = (1 - lambda_) * a + lambda_ * pw
        g += c * mp.log(x)
        in_lambda = (pw - a) / x
        in_mu = (1 - lambda_) * length / (mu + length) ** 2 * (pw - t / length) / x
        dlambda += c * in_lambda
        dmu += c * in_mu
        cancelling = pw * length / (mu + length) / x
        error = c * (RELATIVE * abs(in_lambda) + ROUNDING * (1 + RELATIVE) * cancelling)
        error_lambda += error
        error_mu += error * (1 - lambda_) / (mu + length)
    return g, dlambda, dmu, error_lambda, error_mu


PARAMETERS = [
    (0.0, 1e-12),
    (0.0, 1e-3),
    (0.0, 1.0),
    (0.0, 2500.0),
    (0.0, 1e9),
    (1e-15, 50.0),
    (0.4, 2500.0),
    (0.7, 1e-9),
    (0.5, 1e9),
    (0.95, 10.0),
    (1 - 1e-9, 1e-6),
    (1 - 1e-15, 300.0),
    (1 - 1e-12, 1e9),
    (0.3, 0.0),
    (0.999, 0.0),
]


@st.composite
def documents(draw: st.DrawFn) -> Document:
    terms = draw(st.integers(1, 8))
    tf = draw(st.lists(st.integers(0, 40), min_size=terms, max_size=terms))
    length = max(1, sum(tf)) + draw(st.integers(0, 5000))
    # Exact powers and arbitrary ones; 0.999... is a term that nearly is the collection.
    p = draw(
        st.lists(st.one_of(st.floats(1e-10, 0.05), st.floats(0.05, 1 - 1e-9)), min_size=terms, max_size=terms)
    )
    count = draw(st.lists(st.integers(1, 4), min_size=terms, max_size=terms))
    return tf, length, p, count


def assert_agrees(document: Document, lambda_: float, mu: float) -> None:
    tf, length, p, count = document
    ours = score_and_gradient(np.array(tf)[:, None], [length], p, lambda_=lambda_, mu=mu, count=count)
    g, dlambda, dmu, error_lambda, error_mu = paper(document, lambda_, mu)
    assert abs(ours.score[0] - g) <= RELATIVE * abs(g)
    # A sum whose terms cancel has no relative accuracy to speak of; its terms have.
    assert abs(ours.dlambda[0] - dlambda) <= error_lambda
    assert abs(ours.dmu[0] - dmu) <= error_mu


@pytest.mark.slow
@settings(max_examples=COLLECTIONS, deadline=None)
@given(documents(), st.floats(0.0, 1.0, exclude_max=True), st.floats(1e-6, 1e7))
def test_random_settings_agree_with_the_formula(document: Document, lambda_: float, mu: float) -> None:
    assert_agrees(document, lambda_, mu)


@pytest.mark.first_case
@pytest.mark.parametrize(("lambda_", "mu"), PARAMETERS)
@settings(max_examples=40, deadline=None)
@given(documents())
@example(([1], 20, [0.05], [1]))  # P(w|C) |D| is 1 + 5.6e-17, in doubles 1: nothing is left of its term
def test_extreme_settings_agree_with_the_formula(lambda_: float, mu: float, document: Document) -> None:
    assert_agrees(document, lambda_, mu)


@pytest.mark.parametrize(("lambda_", "mu"), PARAMETERS)
@pytest.mark.parametrize(
    "document",
    [
        ([1], 1, [1e-6], [1]),  # a document of one word, which is the query
        ([1], 1, [0.999999], [3]),
        ([0, 0], 1, [1e-4, 0.2], [1, 1]),  # a document that lacks every term
        ([3, 0, 1], 4, [0.1, 1e-9, 0.5], [1, 2, 5]),  # repeated query terms
    ],
)
def test_odd_documents_agree_with_the_formula(lambda_: float, mu: float, document: Document) -> None:
    assert_agrees(document, lambda_, mu)


@settings(max_examples=COLLECTIONS, deadline=None)
@given(documents(), st.floats(0.01, 0.98), st.floats(1.0, 1e5))
@example(([1], 20, [0.05], [1]), 0.5, 100.0)
def test_gradient_agrees_with_central_differences(document: Document, lambda_: float, mu: float) -> None:
    tf, length, p, count = document
    ours = score_and_gradient(np.array(tf)[:, None], [length], p, lambda_=lambda_, mu=mu, count=count)
    h = mpf(10) ** -15  # in 50 digits the difference quotient is good to about 1e-30

    def g(a: Any, b: Any) -> Any:
        return paper(document, a, b)[0]

    in_lambda = (g(mpf(lambda_) + h, mu) - g(mpf(lambda_) - h, mu)) / (2 * h)
    in_mu = (g(lambda_, mpf(mu) + h) - g(lambda_, mpf(mu) - h)) / (2 * h)
    *_, error_lambda, error_mu = paper(document, lambda_, mu)
    assert abs(ours.dlambda[0] - in_lambda) <= error_lambda
    assert abs(ours.dmu[0] - in_mu) <= error_mu


def test_gradient_agrees_with_differences_of_our_own_scores() -> None:
    rng = np.random.default_rng(0)
    tf = rng.poisson(1.0, (4, 50))
    length = tf.sum(0) + rng.integers(1, 300, 50)
    p = rng.uniform(1e-5, 1e-2, 4)
    ours = score_and_gradient(tf, length, p, lambda_=0.4, mu=800.0)
    h = 1e-5
    up = score(tf, length, p, lambda_=0.4 + h, mu=800.0)
    down = score(tf, length, p, lambda_=0.4 - h, mu=800.0)
    np.testing.assert_allclose((up - down) / (2 * h), ours.dlambda, rtol=1e-6, atol=1e-9)
    h = 1e-2
    up = score(tf, length, p, lambda_=0.4, mu=800.0 + h)
    down = score(tf, length, p, lambda_=0.4, mu=800.0 - h)
    np.testing.assert_allclose((up - down) / (2 * h), ours.dmu, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("lambda_", "mu"), [(-0.1, 10), (1.0, 10), (float("nan"), 10), (0.5, -1), (0.5, float("inf")), (0.0, 0.0)]
)
def test_parameters_outside_their_domain_are_refused(lambda_: float, mu: float) -> None:
    with pytest.raises(InputError, match=r"lambda|mu"):
        check_parameters(lambda_, mu)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(InputError, match=r"\(2, 3\)"):
        score(np.zeros((2, 3)), [1, 2, 3], [0.1], lambda_=0.1, mu=10.0)


@pytest.mark.parametrize("floored", [False, True])
@pytest.mark.parametrize("count", [[1], [1, 1, 1, 1], [1, 2, 1, 1, 3], [2, 1, 1, 1]])
@pytest.mark.parametrize("size", [1, 512, 1300])
def test_blocks_and_pairs_of_terms_keep_all_bits(size: int, count: list[int], floored: bool) -> None:
    rng = np.random.default_rng(size)
    tf = rng.integers(0, 900, (len(count), size)).astype(np.int32)
    length = rng.integers(1, 900, size).astype(np.int32)
    docs, tfs, terms = (np.array([[0, end]]) for end in (size, tf.size, len(count)))
    value, group = rng.uniform(0.001, 0.5, len(count)), np.zeros(len(count), np.int8)
    y = tf * (1.0 / value)[:, None]
    documents = Documents(docs, tfs, terms, length, tf.ravel(), value, np.array(count), group, 900, 300.0)
    found = np.empty((2, size))
    settings_ = np.array([[0.3, 120.0], [0.0, 2000.0]])
    rank_two_stage(documents, settings_, floored, found.ravel())
    for (lambda_, mu), scores in zip(settings_, found, strict=True):
        ratio, expected = (1.0 - lambda_) / (mu + length), np.ones(size)
        for row in np.repeat(y, count, axis=0):
            factor = (row + mu) * ratio + lambda_
            expected *= np.maximum(factor, 1.0) if floored else factor
        np.testing.assert_array_equal(scores, expected)


def test_parts_are_those_of_one_term_each_to_the_bit() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        terms, docs = rng.integers(1, 6), rng.integers(1, 40)
        tf = rng.integers(0, 9, (terms, docs))
        value = rng.uniform(1e-3, 0.9, terms) ** rng.integers(1, 4)
        length = tf.sum(axis=0) + rng.integers(0, 90, docs)
        topic = TopicDocuments(tf, length, value, rng.normal(size=terms), np.zeros(terms, np.int8), 50.0)
        setting = np.array([rng.choice([0.1, 0.99]), rng.choice([1e-200, 1.0, 1000.0])])
        for ours, one_by_one in zip(
            TWO_STAGE.parts(topic, setting), Formula.parts(TWO_STAGE, topic, setting), strict=True
        ):
            np.testing.assert_array_equal(ours, one_by_one)
