"""What a certificate needs to know of a formula: its coordinates, its scores' twins and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_choice
from lmtune.models.bm25_taylor_kernels import slack_of
from lmtune.models.formula import Formula
from lmtune.models.kernels import product_is_safe
from lmtune.tuning.certificate.bound_kernels import BM25, TWO_STAGE
from lmtune.tuning.space import ParameterSpace

Integers = NDArray[np.int64]
Point = tuple[float, float]

_UNIT = 2.0**-53
# Stands for mu or k1 = 0, which have no logarithm. Every computed score is the same to the last bit;
# for mu where lambda is no smaller than the other.
_TINY, _LEAST_LAMBDA = 1e-200, 1e-100
# How near tf / |D| and P(w|C) count as equal; far above their rounding, far below what two
# different fractions of token counts differ by.
_NEUTRAL = 1e-13


class TopicScores(NamedTuple):
    """What one topic's scores are made of.

    Attributes
    ----------
    tf, length : numpy.ndarray of int64, shapes (terms, documents) and (documents,)
        Documents that are equal in both have equal bits at every setting.
    alike : numpy.ndarray of int64, shape (documents,)
        Equal numbers for documents of equal scores at every setting, but for rounding.
    placed : numpy.ndarray of int64, shape (documents,)
        Equal numbers, 0 or more, for documents whose order is that of their places at every
        setting; -1 for none.
    y : numpy.ndarray of float64, shape (terms, documents)
        Frequencies, as the model of scores takes them.
    size : numpy.ndarray of float64, shape (documents,)
        Lengths, as it takes them.
    weight : numpy.ndarray of float64, shape (terms,)
        What each term counts.
    product : bool
        Whether products are safe in the whole range.
    slack : float
        What covers the rounding of two scores and of their models.
    """

    tf: Integers
    length: Integers
    alike: Integers
    placed: Integers
    y: NDArray[np.float64]
    size: NDArray[np.float64]
    weight: NDArray[np.float64]
    product: bool
    slack: float


class Proof(NamedTuple):
    """A formula's part in a certificate.

    Attributes
    ----------
    model : int
        Which kernel models its scores over a box.
    first_widths : tuple of float
        The first boxes are no larger than this; nothing is decided in larger ones.
    to_point, to_setting : callable
        From a setting to the coordinates in which boxes stand, and back.
    check : callable
        Raises `InputError` for a space that it cannot do.
    topic : callable
        A topic's `TopicScores`, given its place in a pool and the space.
    """

    model: int
    first_widths: Point
    to_point: Callable[[float, float], Point]
    to_setting: Callable[[float, float], Point]
    check: Callable[[ParameterSpace], None]
    topic: Callable[[CandidatePool, int, ParameterSpace], TopicScores]


def proof_of(formula: Formula) -> Proof:
    """Return a formula's proof.

    Raises
    ------
    InputError
        Where there is none.
    """
    check_choice("no certificate's proof holds for this model", formula.bounds, _PROOFS)
    return _PROOFS[formula.bounds]


def row_ids(columns: list[Integers]) -> Integers:
    """Give equal rows, and no others, equal numbers, in lexicographic order."""
    ids = columns[0].copy()
    for column in columns[1:]:
        width = int(column.max(initial=0)) + 1
        if int(ids.max(initial=0)) + 1 > 2**62 // width:
            ids = np.unique(ids, return_inverse=True)[1].astype(np.int64)
        ids = ids * width + column
    return ids


def _check_two_stage(space: ParameterSpace) -> None:
    lambdas, mus = space.parameters
    if mus.high == 0.0 and lambdas.low < _LEAST_LAMBDA:
        raise InputError(
            "lambda is too near 0 for a certificate at mu = 0",
            value=lambdas.low,
            accepted=f"{_LEAST_LAMBDA:g} or more",
        )


def _two_stage(pool: CandidatePool, t: int, space: ParameterSpace) -> TopicScores:
    r"""Describe scores of two-stage smoothing.

    Twins have equal lengths, and equal term frequencies up to an exchange between terms with the
    same P(w|C) and count; or, both of them, tf = P(w|C) \|D\| in every term, so that smoothing
    changes nothing. Where mu is 0, lengths and term frequencies need only be proportional.
    """
    tf, length, p, count = _columns(pool, t)
    neutral: NDArray[np.bool_] = np.asarray((np.abs(tf - p[:, None] * length) <= _NEUTRAL * tf).all(axis=0))
    alike = _alike(tf, length, p, count, proportional=space.high[1] == 0.0, but=neutral)
    y = tf * (1.0 / p)[:, None]
    product, slack = _two_stage_rounding(y, length, count, space)
    placed, size, weight = row_ids([length, *tf]), length.astype(np.float64), count.astype(np.float64)
    return TopicScores(tf, length, alike, placed, y, size, weight, product, slack)


def _bm25(pool: CandidatePool, t: int, space: ParameterSpace) -> TopicScores:
    """Describe scores of BM25.

    Twins have equal lengths, and equal term frequencies up to an exchange between terms with the
    same idf and count; where b is 1, they need only be proportional. Where b is 0, lengths do not
    count; where k1 is 0, neither do repetitions. Of documents with equal frequencies the shorter one
    is first at every setting, also where b = 0 makes them equal: the order of their places.
    """
    tf, length, idf, count = _columns(pool, t)
    size = length / pool.mean_length
    if space.high[0] == 0.0:
        tf = np.minimum(tf, 1)
    if 0.0 in space.high:
        length = np.zeros_like(length)
        size = np.ones(length.size)
    alike = _alike(tf, length, idf, count, proportional=space.low[1] == 1.0)
    weight = idf * count
    y = tf.astype(np.float64)
    slack = slack_of(weight)
    return TopicScores(tf, length, alike, row_ids([*tf]), y, size, weight, product=False, slack=slack)


def _columns(pool: CandidatePool, t: int) -> tuple[Integers, Integers, NDArray[np.float64], Integers]:
    terms = pool.term_rows(t)
    tf = pool.tf_block(pool.candidates, t).astype(np.int64)
    return (
        tf,
        pool.candidates.length[pool.candidates.rows(t)].astype(np.int64),
        pool.value[terms],
        pool.count[terms],
    )


def _alike(
    tf: Integers,
    length: Integers,
    value: NDArray[np.float64],
    count: Integers,
    *,
    proportional: bool,
    but: NDArray[np.bool_] | None = None,
) -> Integers:
    """Give documents numbers by length and by frequencies, sorted within terms of equal value and count."""
    common = np.gcd.reduce([length, *tf]) if proportional else np.ones_like(length)
    order = np.lexsort((count, value))
    key = np.stack([value[order], count[order]])
    edges = np.flatnonzero((np.diff(key) != 0).any(axis=0)) + 1
    parts = np.split((tf // common)[order], edges)
    columns = [length // common, *np.concatenate([np.sort(part, axis=0) for part in parts])]
    return row_ids(columns if but is None else [np.where(but, 0, column) for column in columns])


def _two_stage_rounding(
    y: NDArray[np.float64], length: Integers, count: Integers, space: ParameterSpace
) -> tuple[bool, float]:
    r"""Say whether products are safe in the whole range, and bound the rounding of a score.

    The measuring kernel computes a factor x with 8 roundings at most (2 in tf / P(w|C), 1 in the
    sum with mu, 3 in (1 - lambda) / (mu + \|D|), the product, the sum with lambda), all of them in
    sums and products of non-negative numbers: log x is right to 8 units u = 2^-53. A product of W
    factors adds W of them; a sum of W logarithms, \|log x| <= M, adds 3 M each (with its product
    with a count) and W M a sum: at most u W (9 + M (3 + W)) in all. A model's value has the
    roundings of exp and expm1 besides, and costs less than as much again. Two scores, two values
    and their difference: less than twice 32 u W (1 + M (1 + W)), and every document's error
    includes one of these.
    """
    weight = int(count.sum())
    (lambda_, mu), most_y = space.low.tolist(), float(y.max())
    shortest, longest = float(length.min()), float(length.max())
    low = (1.0 - lambda_) * mu / (mu + longest) + lambda_
    high = (1.0 - lambda_) * (most_y + mu) / (mu + shortest) + lambda_
    largest = max(-math.log(low) if low > 0.0 else math.inf, abs(math.log(high)))
    # Factors are nearest to 0 and to infinity at the lowest lambda and mu.
    product = bool(product_is_safe(most_y, shortest, longest, weight, lambda_, mu))
    return product, 32.0 * _UNIT * weight * (1.0 + largest * (1.0 + weight))


_TWO_STAGE = Proof(
    TWO_STAGE,
    first_widths=(0.8, 1.5),
    to_point=lambda lambda_, mu: (math.log1p(-lambda_), math.log(mu or _TINY)),
    to_setting=lambda s, u: (0.0 - math.expm1(s), math.exp(u)),
    check=_check_two_stage,
    topic=_two_stage,
)
_BM25 = Proof(
    BM25,
    first_widths=(0.8, 0.15),
    to_point=lambda k1, b: (math.log(k1 or _TINY), b),
    to_setting=lambda s, b: (math.exp(s), b),
    check=lambda _: None,
    topic=_bm25,
)
_PROOFS = {"two-stage": _TWO_STAGE, "bm25": _BM25}
