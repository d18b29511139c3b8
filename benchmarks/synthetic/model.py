"""Model of a synthetic collection: its size, and the distribution of each topic."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

import numpy as np

VERSION = 1
"""Version of the generator; increased if the same shape gives another collection."""

REFERENCE = 528_155
"""Number of documents of TREC's Robust04 collection; the constants below are for this size."""

PASSAGES, QUERIES = 8_841_823, 6_980
"""Numbers of passages of MS MARCO and of queries of its small development set."""

MEAN_LENGTH, LENGTH_SIGMA, SHORTEST, LONGEST = 300.0, 0.75, 10, 30_000
COMMON_WORDS = 32
# Powers of a document's length: for its probability to be in the topical area (relevant documents are longer:
# Singhal, Buckley and Mitra, SIGIR 1996), and for its number of topical words.
AREA_GROWTH, TOPICAL_GROWTH = 0.75, 0.6
TOPICAL_SHAPE = 0.8
AFFINITY_POWER, AFFINITY_SCALE = 1.25, 0.53

_TERM_SHARES = (0.33, 0.67, 0.88)
_TYPICAL_DF, _DF_SIGMA, _FEWEST_DOCS, _MOST_DOCS = 27_000.0, 1.15, 250.0, 150_000.0
_TYPICAL_RELEVANT, _RELEVANT_SIGMA, _FEWEST_RELEVANT, _MOST_RELEVANT = 52.0, 0.95, 4.0, 450.0
_POOL_DEPTH = 390.0


@dataclass(frozen=True)
class Shape:
    """Size of a synthetic collection, and its seed.

    Attributes
    ----------
    documents, topics : int
        Numbers of documents and topics.
        seed : int
            Seed of every draw.
    """

    documents: int
    topics: int
    seed: int = 0

    @property
    def scale(self) -> float:
        """The number of documents as a multiple of Robust04's."""
        return self.documents / REFERENCE

    @property
    def pool_depth(self) -> int:
        """Number of documents of each run in the pool."""
        return max(10, round(_POOL_DEPTH * math.pow(min(1.0, self.scale), 0.4)))

    def stream(self, *purpose: str | int) -> np.uint64:
        """Return the key of the stream of random numbers for one purpose."""
        name = repr((VERSION, self.documents, self.seed, *purpose)).encode()
        return np.uint64(int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little"))


@dataclass(frozen=True)
class TermModel:
    """Distribution of a query term over documents.

    Attributes
    ----------
    df : float
        Target document frequency outside the topical area.
    burstiness : float
        Mean frequency in documents with the term; above 1.
    strength : float
        Additional occurrences for each token and unit of affinity, in a document of average length in the
        topical area.
    """

    df: float
    burstiness: float
    strength: float


@dataclass(frozen=True)
class TopicModel:
    """Terms and relevance of a topic.

    Attributes
    ----------
    terms : tuple of TermModel
        Its two to five query terms.
    area : float
        Share of documents in the topical area; only these can be relevant.
    relevant : float
        Number of relevant documents that assessors look for.
    """

    terms: tuple[TermModel, ...]
    area: float
    relevant: float


def topic_model(shape: Shape, topic: int) -> TopicModel:
    """Draw the model of a topic.

    Document frequencies are lognormal (median 27,000 at Robust04's size) and proportional to the number of
    documents. In smaller collections areas have a larger share of the documents, fewer documents are
    relevant, and topical documents have fewer topical words; otherwise they would be too easy to find.

    Parameters
    ----------
    shape : Shape
        The collection.
    topic : int
        The topic's number.
    """
    # Only Random.random is the same in every version of Python.
    random = Random(int(shape.stream("topic", topic))).random
    scale = shape.scale
    small = min(1.0, scale)
    area = _log_uniform(random, 0.002, 0.02) * small**-0.3
    relevant = _lognormal(random, _TYPICAL_RELEVANT, _RELEVANT_SIGMA)
    relevant = min(max(relevant, _FEWEST_RELEVANT), _MOST_RELEVANT) * small**0.3
    terms = []
    for _ in range(2 + bisect(_TERM_SHARES, random())):
        df = min(max(_lognormal(random, _TYPICAL_DF, _DF_SIGMA), _FEWEST_DOCS), _MOST_DOCS)
        burstiness = 1.25 + 1.35 * random()
        strength = _log_uniform(random, 0.0009, 0.0072) * min(1.0, math.sqrt(df / 8000.0))
        strength *= small**0.15
        terms.append(TermModel(max(df * scale, 3.0), burstiness, strength))
    return TopicModel(tuple(terms), min(area, 0.3), max(relevant, 2.0))


def _log_uniform(random: Callable[[], float], low: float, high: float) -> float:
    return low * math.pow(high / low, random())


def _lognormal(random: Callable[[], float], median: float, sigma: float) -> float:
    # random() may return 0, but never 1
    return median * math.exp(sigma * NormalDist().inv_cdf(max(random(), 2.0**-53)))
