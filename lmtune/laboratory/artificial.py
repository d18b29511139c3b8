"""Artificial learning-to-rank data whose labels follow a random cubic polynomial."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.reranking.data import RankingData, RankingSplit

FEATURES, DOCUMENTS = 50, 50
"""Features a document and, by default, documents a query."""

# About those of MSLR-WEB30K.
_LABEL_SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)
# Of the polynomial's variance, by degree. With independent coefficients nearly all of it would be
# cubic, of which a linear net can learn nothing.
_DEGREE_SHARES = (0.6, 0.3, 0.1)
_PRODUCTS = 50
_SAMPLE = 20_000


@dataclass(frozen=True)
class Polynomial:
    """A random polynomial of degree 3 without a constant, of variance 1 over [-1, 1]^features.

    Attributes
    ----------
    factors : tuple of numpy.ndarray, shape (degree, features, products)
        One array a degree: the polynomial's part of that degree is a sum of products of as many
        linear forms.
    """

    factors: tuple[NDArray[np.float64], ...]

    @classmethod
    def draw(cls, features: int, seed: int) -> Polynomial:
        """Draw coefficients, uniform in [-1, 1], and scale each degree's part to its share."""
        rng = np.random.default_rng([seed, 0])
        sample = rng.uniform(-1.0, 1.0, (_SAMPLE, features))
        factors = []
        for degree, share in enumerate(_DEGREE_SHARES, 1):
            drawn = rng.uniform(-1.0, 1.0, (degree, features, _PRODUCTS if degree > 1 else 1))
            spread = float(np.std(cls((drawn,))(sample)))
            drawn[0] *= np.sqrt(share) / spread
            factors.append(drawn)
        return cls(tuple(factors))

    def __call__(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Evaluate at points, (points, features) to (points,)."""
        total = np.zeros(x.shape[0])
        for factors in self.factors:
            total += np.prod([x @ one for one in factors], axis=0).sum(axis=1)
        return total


def artificial_data(queries: int, *, documents: int = DOCUMENTS, seed: int = 0, part: int = 1) -> RankingData:
    """Draw queries whose documents have features uniform in [-1, 1] and noiseless labels 0 to 4.

    In the manner of Burges, Ragno and Le (2006), whose artificial data Yue and Burges (2007,
    section 5) use: 50 features, 50 documents a query, labels by thresholds on a random cubic
    polynomial. Of the polynomial's variance 60% is linear, 30% quadratic and 10% cubic; 52%, 32%,
    13%, 2% and 1% of the documents have labels 0 to 4, about as in MSLR-WEB30K.

    Parameters
    ----------
    queries : int
        How many; the first ones are the same whatever their number.
    documents : int
        A query's documents.
    seed : int
        Draws the polynomial and all else.
    part : int
        1 or more; other parts have the same polynomial and other queries.

    Returns
    -------
    RankingData

    Raises
    ------
    InputError
        For fewer than one query or two documents.
    """
    if queries < 1 or documents < 2:
        raise InputError(
            "too little artificial data",
            value=f"{queries}x{documents}",
            accepted="1 query and 2 documents or more",
        )
    polynomial = Polynomial.draw(FEATURES, seed)
    calibration = np.random.default_rng([seed, 1]).uniform(-1.0, 1.0, (_SAMPLE, FEATURES))
    limits = np.quantile(polynomial(calibration), np.cumsum(_LABEL_SHARES)[:-1])
    rng = np.random.default_rng([seed, 1 + part])
    x = rng.uniform(-1.0, 1.0, (queries * documents, FEATURES)).astype(np.float32)
    labels = np.searchsorted(limits, polynomial(x.astype(np.float64)))
    return RankingData.from_lengths(x, labels, np.full(queries, documents))


def artificial_fold(queries: int, *, documents: int = DOCUMENTS, seed: int = 0) -> RankingSplit:
    """Draw training queries, half as many for validation, and as many for tests."""
    sizes = (queries, max(1, queries // 2), queries)
    parts = (
        artificial_data(size, documents=documents, seed=seed, part=part) for part, size in enumerate(sizes, 1)
    )
    return RankingSplit(f"artificial:{queries}x{documents}", *parts)
