"""Compiled drawing of a synthetic collection.

Every random number is a hash of a stream's key and an index. The generator is SplitMix64 (Steele, Lea and
Flood, OOPSLA 2014), which computes its n-th output without the earlier ones. Draws therefore do not depend on
the order of the work or on library versions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]
Longs = NDArray[np.int64]
Shorts = NDArray[np.uint16]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
_ONE = np.uint64(1)
_UNIT = 2.0**-53


@compiled()
def uniform(key: np.uint64, index: int) -> float:
    """Return the random number in (0, 1) at an index of a stream."""
    x = key + (np.uint64(index) + _ONE) * _GOLDEN
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    x = x ^ (x >> _S31)
    return (np.float64(x >> _S11) + 0.5) * _UNIT


def moved(key: np.uint64, places: int) -> np.uint64:
    """Return the key of the same stream, shifted by `places` numbers."""
    return np.uint64((int(key) + places * int(_GOLDEN)) % (1 << 64))


@compiled()
def logit(u: float) -> float:
    """Map a uniform to a logistic number, with standard deviation pi / sqrt(3)."""
    return math.log(u / (1.0 - u))


@compiled()
def draw_lengths(
    key: np.uint64, mean: float, sigma: float, shortest: int, longest: int, lengths: Integers
) -> None:
    """Fill lognormal lengths, clipped to the range; `mean` is the mean before clipping."""
    centre = math.log(mean) - 0.5 * sigma * sigma
    for d in range(lengths.size):
        radius = math.sqrt(-2.0 * math.log(uniform(key, 2 * d)))  # Box and Muller
        normal = radius * math.cos(2.0 * math.pi * uniform(key, 2 * d + 1))
        length = round(math.exp(centre + sigma * normal))
        lengths[d] = min(max(length, shortest), longest)


@compiled()
def draw_area(
    key: np.uint64, chance: Floats, power: float, scale: float, docs: Integers, affinity: Floats
) -> int:
    """Fill the documents of a topical area and their affinities (Weibull); return their number.

    One uniform number u determines both: the document is in the area if u < chance, and u / chance gives its
    affinity.
    """
    count = 0
    for d in range(docs.size):
        u = uniform(key, d)
        if u < chance[d]:
            docs[count] = d
            affinity[count] = scale * (-math.log(u / chance[d])) ** power
            count += 1
    return count


@compiled()
def _share_with_term(lengths: Integers, rate: float, shape: float) -> float:
    absent = 0.0
    for i in range(lengths.size):
        absent += math.exp(-shape * math.log1p(lengths[i] * rate / shape))
    return 1.0 - absent / lengths.size


@compiled()
def solve_shape(lengths: Integers, rate: float, share: float, low: float, high: float) -> float:
    """Find the shape of the negative binomial with which a share of documents contains the term.

    The share grows with the shape. If no shape in the range fits, an end of the range is returned.
    """
    for _ in range(40):
        middle = math.sqrt(low * high)
        if _share_with_term(lengths, rate, middle) < share:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


@compiled()
def _negative_binomial(u: float, absent: float, ratio: float, shape: float, most: int) -> int:
    """Invert the distribution: P(0) = absent, P(t + 1) = P(t) ratio (t + shape) / (t + 1)."""
    frequency = 0
    chance = absent
    below = absent
    while u >= below and frequency < most:
        chance *= ratio * (frequency + shape) / (frequency + 1.0)
        frequency += 1
        below += chance
    return frequency


@compiled()
def draw_background(key: np.uint64, lengths: Integers, rate: float, shape: float, tf: Integers) -> None:
    """Fill the background frequencies of a term.

    Negative binomial with mean ``rate`` x length, at most the length.
    """
    longest = lengths.max()
    absent = np.empty(longest + 1)
    ratio = np.empty(longest + 1)
    for length in range(longest + 1):
        odds = length * rate / shape
        ratio[length] = odds / (1.0 + odds)
        absent[length] = -1.0
    for d in range(lengths.size):
        length = lengths[d]
        if absent[length] < 0.0:
            absent[length] = math.exp(-shape * math.log1p(length * rate / shape))
        u = uniform(key, d)
        tf[d] = 0
        if u >= absent[length]:
            tf[d] = _negative_binomial(u, absent[length], ratio[length], shape, length)


@compiled()
def add_topical(
    key: np.uint64, docs: Integers, mean: Floats, shape: float, most: Integers, tf: Integers
) -> None:
    """Add a term's frequencies in the documents of its topical area.

    Negative binomial with the given mean, at most ``most``, for each document.
    """
    for i in range(docs.size):
        d = docs[i]
        odds = mean[i] / shape
        absent = math.exp(-shape * math.log1p(odds))
        ratio = odds / (1.0 + odds)
        tf[d] += _negative_binomial(uniform(key, d), absent, ratio, shape, most[i])


@compiled()
def compress(tf: Integers, docs: Integers, tfs: Integers) -> int:
    """Fill the postings of one term; return their number."""
    count = 0
    for d in range(tf.size):
        if tf[d] > 0:
            docs[count] = d
            tfs[count] = tf[d]
            count += 1
    return count


@compiled()
def add_frequencies(docs: Integers, tfs: Integers, total: Integers) -> None:
    """Add the frequencies of a term to the totals of the documents."""
    for i in range(docs.size):
        total[docs[i]] += tfs[i]


@compiled()
def draw_common(key: np.uint64, share: float, free: Integers, left: Integers, tf: Integers) -> None:
    """Fill the frequencies of a common word, a share of each document's free tokens.

    The share is rounded up or down at random, and is at most the number of remaining tokens.
    """
    for d in range(free.size):
        wanted = np.int32(math.floor(share * free[d] + uniform(key, d)))
        tf[d] = min(wanted, left[d])
        left[d] -= tf[d]


@compiled()
def retrieval_scores(
    tf: Integers, lengths: Integers, p: Floats, lambda_: float, mu: float, score: Floats
) -> None:
    """Fill products that order documents as query likelihood with two-stage smoothing."""
    for i in range(lengths.size):
        ratio = (1.0 - lambda_) / (mu + lengths[i])
        product = 1.0
        for w in range(p.size):
            product *= (tf[w, i] / p[w] + mu) * ratio + lambda_
        score[i] = product


@compiled()
def disturb(key: np.uint64, docs: Integers, score: Floats, spread: float, out: Floats) -> None:
    """Fill scores with a logistic error of scale ``spread`` in their logarithms."""
    for i in range(docs.size):
        out[i] = score[i] * math.exp(spread * logit(uniform(key, docs[i])))


@compiled()
def assess(key: np.uint64, docs: Integers, affinity: Floats, spread: float, out: Floats) -> None:
    """Fill the affinities that an assessor sees, with a logistic error."""
    for i in range(docs.size):
        out[i] = affinity[i] + spread * logit(uniform(key, docs[i]))


class PassageStreams(NamedTuple):
    """Keys of streams, and parameters of the words of passages."""

    tokens: np.uint64
    areas: np.uint64
    words: np.uint64
    vocabulary: int
    flattened: float
    area_count: int
    area_words: int
    together: int
    longest: int
    topical: float
    repeated: float


@compiled()
def _log_uniform(u: float, low: float, high: float) -> int:
    return int(low * math.exp(u * math.log(high / low)))


@compiled()
def area_word(streams: PassageStreams, document: int, u: float) -> int:
    """Return a word of a document's area, by Zipf's law."""
    area = int(uniform(streams.areas, document // streams.together) * streams.area_count)
    rank = _log_uniform(u, 1.0, streams.area_words + 1.0)
    v = uniform(streams.words, area * streams.area_words + rank)
    word: int = min(_log_uniform(v, 100.0, float(streams.vocabulary)), streams.vocabulary - 1)
    return word


@compiled()
def draw_passage(streams: PassageStreams, document: int, tokens: Integers) -> None:
    """Fill a document's words: repetitions, words of its area, and words of the whole collection."""
    q = streams.flattened
    for i in range(tokens.size):
        place = 2 * (document * streams.longest + i)
        u, v = uniform(streams.tokens, place), uniform(streams.tokens, place + 1)
        if u < streams.repeated and i > 0:
            tokens[i] = tokens[int(v * i)]
        elif u < streams.repeated + streams.topical:
            tokens[i] = area_word(streams, document, v)
        else:
            word = int(q * math.exp(v * math.log(1.0 + streams.vocabulary / q)) - q)
            tokens[i] = min(word, streams.vocabulary - 1)


@compiled()
def count_passages(streams: PassageStreams, first: int, lengths: Integers, df: Longs) -> None:
    """Add the document frequency of each word in the documents from ``first`` on."""
    tokens = np.empty(streams.longest, np.int32)
    for d in range(lengths.size):
        own = tokens[: lengths[d]]
        draw_passage(streams, first + d, own)
        own.sort()
        for i in range(own.size):
            df[own[i]] += i == 0 or own[i] != own[i - 1]


@compiled()
def fill_passages(
    streams: PassageStreams,
    first: int,
    number: int,
    lengths: Integers,
    end: Longs,
    docs: Integers,
    tfs: Shorts,
) -> None:
    """Fill postings of documents numbered from ``number``, and advance the end of each word's postings."""
    tokens = np.empty(streams.longest, np.int32)
    for d in range(lengths.size):
        own = tokens[: lengths[d]]
        draw_passage(streams, first + d, own)
        own.sort()
        begin = 0
        for i in range(1, own.size + 1):
            if i == own.size or own[i] != own[begin]:
                at = end[own[begin]]
                docs[at] = number + d
                tfs[at] = i - begin
                end[own[begin]] = at + 1
                begin = i
