"""Data of the experiments by name: artificial or LETOR learning-to-rank data, and test collections."""

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
"""Features per document, and the default number of documents per query."""

# Shares of the labels 0 to 4, approximately those of MSLR-WEB30K.
_LABEL_SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)
# Shares of the polynomial's variance, by degree. With independent coefficients, nearly all variance would be
# cubic, which a linear network cannot learn.
_DEGREE_SHARES = (0.6, 0.3, 0.1)
_PRODUCTS = 50
_SAMPLE = 20_000


@dataclass(frozen=True)
class Polynomial:
    """A random polynomial of degree 3 without a constant, with variance 1 over [-1, 1]^features.

    Attributes
    ----------
    factors : tuple of numpy.ndarray, shape (degree, features, products)
        One array per degree. The part of degree d is a sum of products of d linear forms.
    """

    factors: tuple[NDArray[np.float64], ...]

    @classmethod
    def draw(cls, features: int, seed: int) -> Polynomial:
        """Draw coefficients uniformly in [-1, 1] and scale each degree's part to its variance."""
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
    """Draw artificial data: features uniform in [-1, 1], and labels 0 to 4 without noise.

    Like the artificial data of Burges, Ragno and Le (2006), also used by Yue and Burges (2007, section 5):
    50 features, 50 documents per query, labels by thresholds on a random cubic polynomial. 60% of the
    polynomial's variance is linear, 30% quadratic and 10% cubic. 52%, 32%, 13%, 2% and 1% of the documents
    have labels 0 to 4, approximately as in MSLR-WEB30K.

    Parameters
    ----------
    queries : int
        Number of queries. The first queries do not depend on it.
    documents : int
        Number of documents per query.
    seed : int
        Seed of the polynomial, features and thresholds.
    part : int
        1 or more; different parts share the polynomial and have different queries.

    Returns
    -------
    RankingData

    Raises
    ------
    InputError
        If there is less than one query or fewer than two documents.
    """
    if queries < 1 or documents < 2:
        raise InputError(
            "too few artificial queries or documents",
            value=f"{queries}x{documents}",
            accepted="1 query and 2 documents, or more",
        )
    polynomial = Polynomial.draw(FEATURES, seed)
    calibration = np.random.default_rng([seed, 1]).uniform(-1.0, 1.0, (_SAMPLE, FEATURES))
    limits = np.quantile(polynomial(calibration), np.cumsum(_LABEL_SHARES)[:-1])
    rng = np.random.default_rng([seed, 1 + part])
    x = rng.uniform(-1.0, 1.0, (queries * documents, FEATURES)).astype(np.float32)
    labels = np.searchsorted(limits, polynomial(x.astype(np.float64)))
    return RankingData.from_lengths(x, labels, np.full(queries, documents))


def artificial_fold(queries: int, *, documents: int = DOCUMENTS, seed: int = 0) -> RankingSplit:
    """Draw training queries, half as many validation queries, and as many test queries."""
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
    """Return training, validation and test queries, with normalised features.

    Parameters
    ----------
    name : str
        ``artificial:QUERIES`` or ``artificial:QUERIESxDOCUMENTS``, such as ``artificial:100x1000``: the
        number of training queries and of documents per query (default 50), see `artificial_data`.
        Otherwise a folder of LETOR files; its first fold is used.
    seed : int
        Seed of artificial data, and of the choice of validation queries.
    normalisation : Normalisation, optional
        Normalisation of a folder's features; by default z-scores of their logarithms.
    validation : str, optional
        As in `lmtune.rerank.letor_folder.read_letor_folder`.

    Returns
    -------
    RankingSplit
        A cached object, which must not be modified.

    Raises
    ------
    InputError
        As in `lmtune.rerank.letor_folder.read_letor_folder`.
    """
    match = _ARTIFICIAL.fullmatch(name)
    if match is not None:
        return artificial_fold(int(match[1]), documents=int(match[2] or DOCUMENTS), seed=seed)
    fold = read_letor_folder(name, validation=validation, seed=seed)[0]
    return fold.map((normalisation or Normalisation()).fit(fold.train).transform)


def short_name(name: str) -> str:
    """Return the display name of a collection: the last part of a folder's path, or the name unchanged."""
    return name if ":" in name else name_of(name)


def usable_topics(name: str) -> list[str]:
    """Return the topics of a collection with a relevant document; also builds the collection's index."""
    dataset = load(folder_of(name))
    assert dataset.documents is not None
    index_for(dataset.documents)
    return split_topics(dataset).usable


@lru_cache(maxsize=2)
def load_pool(name: str, *, model: str = "two-stage", topics: int = 0, seed: int = 0) -> CandidatePool:
    """Load a collection and extract the candidates of its topics with a relevant document.

    Parameters
    ----------
    name : str
        As in `lmtune.load`; the collection must have documents.
    model : str
        The model to extract candidates for.
    topics : int
        Number of topics to draw; they keep the collection's order. 0 takes all topics.
    seed : int
        Seed of the draw.
    """
    dataset, usable = load(folder_of(name)), usable_topics(name)
    assert dataset.documents is not None
    if topics:
        drawn = np.random.default_rng(seed).permutation(len(usable))[:topics]
        usable = [usable[number] for number in sorted(drawn)]
    chosen = {topic: dataset.topics[topic] for topic in usable}
    return pool_for(index_for(dataset.documents), chosen, dataset.qrels, name=dataset.name, model=model)


def whole_pool(name: str, model: str) -> CandidatePool:
    """Extract candidates of a collection without pruning or storage; see `load_pool`.

    The index has the fields of a model such as ``bm25f:title,contents``.
    """
    dataset = load(folder_of(name))
    assert dataset.documents is not None
    topics = {topic: dataset.topics[topic] for topic in split_topics(dataset).usable}
    fields = [field for field in model.partition(":")[2].split(",") if field]
    return CandidatePool.build(
        index_for(dataset.documents, fields=fields), topics, dataset.qrels, model=model
    )
