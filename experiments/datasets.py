"""Data of the experiments by name: learning-to-rank data, artificial or read, and test collections."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from experiments.synthetic import folder_of
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.storage import pool_for
from lmtune.collections.dataset import split_topics
from lmtune.collections.loading import load
from lmtune.errors import InputError, name_of
from lmtune.index.cache import index_for
from lmtune.rerank.data import RankingData, RankingSplit
from lmtune.rerank.letor_folder import read_letor_folder
from lmtune.rerank.normalisation import Normalisation

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


_ARTIFICIAL = re.compile(r"artificial:([1-9][0-9]{0,6})(?:x([1-9][0-9]{0,6}))?")


@lru_cache(maxsize=2)
def load_split(
    name: str, seed: int = 0, normalisation: Normalisation | None = None, validation: str | None = None
) -> RankingSplit:
    """Return training, validation and test queries, with features ready for a network.

    Parameters
    ----------
    name : str
        ``artificial:1000`` or ``artificial:100x1000``: so many training queries and documents a
        query (50 by default), see `artificial_data`; else a folder of LETOR files,
        of whose folds the first is taken.
    seed : int
        Draws artificial data, and validation queries.
    normalisation : Normalisation, optional
        Of a folder's features; by default z-scores of their logarithms.
    validation : str, optional
        As for `lmtune.rerank.letor_folder.read_letor_folder`.

    Returns
    -------
    RankingSplit
        The same object for the same arguments, not to be changed.

    Raises
    ------
    InputError
        As `lmtune.rerank.letor_folder.read_letor_folder`.
    """
    match = _ARTIFICIAL.fullmatch(name)
    if match is not None:
        return artificial_fold(int(match[1]), documents=int(match[2] or DOCUMENTS), seed=seed)
    fold = read_letor_folder(name, validation=validation, seed=seed)[0]
    return fold.map((normalisation or Normalisation()).fit(fold.train).transform)


def short_name(name: str) -> str:
    """Return what to call a collection: a folder's own name, or the name as it is."""
    return name if ":" in name else name_of(name)


def usable_topics(name: str) -> list[str]:
    """Return the topics of a collection that have a relevant document, after building its index."""
    dataset = load(folder_of(name))
    assert dataset.documents is not None
    index_for(dataset.documents)
    return split_topics(dataset).usable


@lru_cache(maxsize=2)
def load_pool(name: str, *, model: str = "two-stage", topics: int = 0, seed: int = 0) -> CandidatePool:
    """Load a collection and extract the candidates of its topics that have a relevant document.

    Parameters
    ----------
    name : str
        As for `lmtune.load`; it needs documents.
    model : str
        The model whose candidates are extracted.
    topics : int
        How many topics, drawn by `seed`, in the collection's order; 0 for all.
    seed : int
        Of the draw.
    """
    dataset, usable = load(folder_of(name)), usable_topics(name)
    assert dataset.documents is not None
    if topics:
        drawn = np.random.default_rng(seed).permutation(len(usable))[:topics]
        usable = [usable[number] for number in sorted(drawn)]
    chosen = {topic: dataset.topics[topic] for topic in usable}
    return pool_for(index_for(dataset.documents), chosen, dataset.qrels, name=dataset.name, model=model)


def whole_pool(name: str, model: str) -> CandidatePool:
    """Extract all candidates of a collection's topics that have a relevant document; see `load_pool`.

    The documents have the fields of a model such as ``bm25f:title,contents``.
    """
    dataset = load(folder_of(name))
    assert dataset.documents is not None
    topics = {topic: dataset.topics[topic] for topic in split_topics(dataset).usable}
    fields = [field for field in model.partition(":")[2].split(",") if field]
    return CandidatePool.build(
        index_for(dataset.documents, fields=fields), topics, dataset.qrels, model=model
    )
