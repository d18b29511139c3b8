"""Numba kernels of two-stage smoothing, and the arrays of all kernels.

No kernel uses fast-math. Documents with equal term frequencies and lengths must get bitwise equal scores at
any position in an array; otherwise rounding would break ties.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Booleans, Doubles, Integers, Integers32
from lmtune.compiled import compiled

# Products of factors are computed only if they stay within e**-600 .. e**600, well inside the range of a
# double; otherwise the kernels add logarithms.
_SAFE_LOG = 600.0
# With more factors than this, logarithms are faster.
_LARGEST_WEIGHT = 200
# The probabilities of an empty document at mu = 0 are computed at this mu, which gives their limit, P(w|C).
SMALLEST_MU = 1e-200
# Number of documents scored at a time, so that their data fit into the L1 cache.
_DOCUMENTS = 512


NO_FIELDS, NO_MEANS = np.empty((0, 0), np.int32), np.empty(0)
"""Field lengths and their means for formulas without fields."""


class Documents(NamedTuple):
    """Documents of several topics in flat arrays, topic by topic.

    Attributes
    ----------
    docs : numpy.ndarray of int64, shape (topics, 2)
        Begin and end of each topic's documents in `length`.
    tfs : numpy.ndarray of int64, shape (topics, 2)
        Begin and end of each topic's block of term frequencies, (terms x documents), in `tf`.
    terms : numpy.ndarray of int64, shape (topics, 2)
        Begin and end of each topic's columns, the rows of that block, in `value`, `counts` and `group`.
    length : numpy.ndarray of int32
        Document lengths, as the formula uses them.
    tf : numpy.ndarray of int32
        Term frequencies.
    value : numpy.ndarray of float64
        The formula's `term_value` of each column.
    counts : numpy.ndarray of int64 or float64
        Occurrences of each column in its query, or its weight there.
    group : numpy.ndarray of int8
        Kind of each column; see `lmtune.models.formula.QueryColumn`.
    longest : int
        The length of the collection's longest document.
    mean_length : float
        The mean length of the collection's documents.
    field_length : numpy.ndarray of int32, shape (fields, documents)
        Document lengths in each field, if the formula uses them.
    field_mean : numpy.ndarray of float64, shape (fields,)
        Their means over the collection.
    """

    docs: Integers
    tfs: Integers
    terms: Integers
    length: Integers32
    tf: Integers32
    value: Doubles
    counts: NDArray[Any]
    group: NDArray[np.int8]
    longest: int
    mean_length: float
    field_length: Integers32 = NO_FIELDS
    field_mean: Doubles = NO_MEANS

    def of(self, topics: Integers | slice) -> Documents:
        """Return the documents of some of the topics; the flat arrays are shared."""
        return self._replace(docs=self.docs[topics], tfs=self.tfs[topics], terms=self.terms[topics])

    def topics(self) -> Iterator[TopicDocuments]:
        """Yield the documents of each topic."""
        for docs, tfs, terms in zip(self.docs, self.tfs, self.terms, strict=True):
            length, columns = self.length[slice(*docs)].astype(np.int64), slice(*terms)
            tf = self.tf[slice(*tfs)].astype(np.int64).reshape(terms[1] - terms[0], length.size)
            query = self.value[columns], self.counts[..., columns], self.group[columns]
            yield TopicDocuments(
                tf, length, *query, self.mean_length, self.field_length[:, slice(*docs)], self.field_mean
            )


class TopicDocuments(NamedTuple):
    """One topic's documents and terms.

    Attributes
    ----------
    tf : numpy.ndarray of int64 or int32, shape (terms, documents)
        Occurrences of each query term in each document.
    length : numpy.ndarray of int64 or int32, shape (documents,)
        Document lengths, as the formula uses them.
    value : numpy.ndarray of float64, shape (terms,)
        The formula's `term_value` of each term.
    counts : numpy.ndarray of int64 or float64, shape (terms,)
        Occurrences of each term in the query, or its weight there.
    group : numpy.ndarray of int8, shape (terms,)
        Kind of each column; see `lmtune.models.formula.QueryColumn`.
    mean_length : float
        The mean length of the collection's documents.
    field_length : numpy.ndarray of int32, shape (fields, documents)
        Document lengths in each field, if the formula uses them.
    field_mean : numpy.ndarray of float64, shape (fields,)
        Their means over the collection.
    """

    tf: NDArray[Any]
    length: NDArray[Any]
    value: Doubles
    counts: NDArray[Any]
    group: NDArray[np.int8]
    mean_length: float
    field_length: Integers32 = NO_FIELDS
    field_mean: Doubles = NO_MEANS


@compiled(inline=True)
def topic_of(documents: Documents, i: int) -> TopicDocuments:
    """Return the documents of topic number i, as views."""
    rows = slice(documents.docs[i, 0], documents.docs[i, 1])
    terms = slice(documents.terms[i, 0], documents.terms[i, 1])
    length, value = documents.length[rows], documents.value[terms]
    tf = documents.tf[documents.tfs[i, 0] : documents.tfs[i, 1]].reshape(value.size, length.size)
    rest = documents.counts[terms], documents.group[terms], documents.mean_length
    return TopicDocuments(tf, length, value, *rest, documents.field_length[:, rows], documents.field_mean)


@compiled()
def product_is_safe(
    y_max: float, length_min: float, length_max: float, weight: int, lambda_: float, mu: float
) -> bool:
    """Return whether products of `weight` factors always stay in the range of a double."""
    if weight > _LARGEST_WEIGHT:
        return False
    low = (1.0 - lambda_) * mu / (mu + length_max) + lambda_
    high = (1.0 - lambda_) * (y_max + mu) / (mu + length_min) + lambda_
    return low > 0.0 and weight * max(abs(math.log(low)), abs(math.log(high))) < _SAFE_LOG


@compiled()
def repeats(counts: NDArray[Any]) -> int:
    """Return the number of factors in a product, or a number above the limit if counts are not integers."""
    factors = 0
    for count in counts:
        whole = int(count)
        if whole != count or whole < 0:
            return _LARGEST_WEIGHT + 1
        factors += whole
    return factors


@compiled()
def scores_as_product(p_min: float, longest: int, weight: int, lambda_: float, mu: float) -> bool:
    """Return whether `rank_two_stage` multiplies factors instead of adding logarithms.

    The result must not depend on the candidates, so that a document's score does not either. It therefore
    depends on the length of the collection's longest document, ``longest``.

    The bound: y <= |D| / P(w|C), and (|D| / P + mu) / (mu + |D|) increases with |D|. If lengths are rounded
    down, by up to an eighth, y can exceed the bound by as much. For the largest weight this is a factor of
    exp(27), which is still safe.
    """
    return bool(product_is_safe(longest / p_min, longest, longest, weight, lambda_, mu))


@compiled()
def rank_two_stage(documents: Documents, settings: Doubles, floored: bool, out: Doubles) -> None:
    """Fill scores that rank documents exactly as the query likelihood does.

    With y = tf / P(w|C), the likelihood is proportional to the product over query terms of
    (y + mu) (1 - lambda) / (mu + |D|) + lambda. This takes one division per document, two multiply-adds per
    term, and no logarithm. If the product could leave the range of a double, its logarithms are summed.
    ``floored`` raises factors below 1 to 1, as in Lucene's Dirichlet smoothing. ``settings`` has the columns
    lambda and mu. `lmtune.models.formula.Formula.rank_scores` specifies ``out``.

    y is computed from tf in each use, because reading a stored y would take twice the memory bandwidth.
    """
    filled = 0
    for i in range(documents.docs.shape[0]):
        topic = topic_of(documents, i)
        docs = topic.length.size
        if docs == 0:
            continue
        scores = out[filled : filled + docs * settings.shape[0]].reshape(settings.shape[0], docs)
        columns = topic.tf, topic.length, topic.value, topic.counts
        rank_two_stage_topic(*columns, documents.longest, settings, floored, scores)
        filled += scores.size


@compiled()
def rank_two_stage_topic(
    tf: Integers32,
    length: Integers32,
    p: Doubles,
    count: Integers,
    longest: int,
    settings: Doubles,
    floored: bool,
    out: Doubles,
) -> None:
    """Fill out[s, j] with the score of document j at setting s, for one topic with documents."""
    ratio, scale = np.empty(min(length.size, _DOCUMENTS)), 1.0 / p
    p_min, weight = p[0], repeats(count)
    for w in range(p.size):
        p_min = min(p_min, p[w])
    for s in range(settings.shape[0]):
        lambda_, mu = settings[s, 0], settings[s, 1]
        product = scores_as_product(p_min, longest, weight, lambda_, mu)
        _score(tf, scale, length, count, lambda_, mu, product, floored, ratio, out[s])


@compiled()
def _score(
    tf: Integers32,
    scale: Doubles,
    length: Integers32,
    count: Integers,
    lambda_: float,
    mu: float,
    product: bool,
    floored: bool,
    ratio: Doubles,
    score: Doubles,
) -> None:
    keep, simple = 1.0 - lambda_, product and not floored
    for first in range(0, score.size, ratio.size):
        last = min(first + ratio.size, score.size)
        size, part, w = length[first:last], score[first:last], 0
        if simple and count[0] == 1:
            # The most frequent case, in one pass: the product of 1 and a factor is the factor.
            row, by, w = tf[0, first:last], scale[0], 1
            for i in range(part.size):
                ratio[i] = keep / (mu + size[i])
                part[i] = (row[i] * by + mu) * ratio[i] + lambda_
        else:
            for i in range(part.size):
                ratio[i] = keep / (mu + size[i])
                part[i] = 1.0 if product else 0.0
        while w < count.size:
            row, by = tf[w, first:last], scale[w]
            if simple and w + 1 < count.size and count[w] == 1 and count[w + 1] == 1:
                # Two terms per pass, because loading and storing the scores takes as long as multiplying.
                after, then, w = tf[w + 1, first:last], scale[w + 1], w + 1
                for i in range(part.size):
                    by_one = part[i] * ((row[i] * by + mu) * ratio[i] + lambda_)
                    part[i] = by_one * ((after[i] * then + mu) * ratio[i] + lambda_)
            else:
                add_term(row, by, count[w], lambda_, mu, product, floored, ratio, part)
            w += 1


@compiled()
def add_term(
    tf: Integers32,
    scale: float,
    count: int,
    lambda_: float,
    mu: float,
    product: bool,
    floored: bool,
    ratio: Doubles,
    score: Doubles,
) -> None:
    """Multiply the scores by one term's factors, or add their logarithms."""
    docs = score.size
    if floored and product:
        for _ in range(int(count)):
            for i in range(docs):
                score[i] *= max((tf[i] * scale + mu) * ratio[i] + lambda_, 1.0)
    elif floored:
        for i in range(docs):
            score[i] += count * math.log(max((tf[i] * scale + mu) * ratio[i] + lambda_, 1.0))
    elif product:
        for _ in range(int(count)):
            for i in range(docs):
                score[i] *= (tf[i] * scale + mu) * ratio[i] + lambda_
    else:
        for i in range(docs):
            score[i] += count * math.log((tf[i] * scale + mu) * ratio[i] + lambda_)


@compiled()
def differentiate_two_stage(
    topic: TopicDocuments, setting: Doubles, floored: bool, score: Doubles, gradient: Doubles
) -> None:
    """Fill the scores and the zero array of derivatives; ``floored`` is Lucene's Dirichlet smoothing."""
    if floored:
        floored_log_likelihood(topic, setting[1], score, gradient[1])
    else:
        log_likelihood(topic, setting[0], setting[1], score, gradient)


@compiled()
def log_likelihood(
    topic: TopicDocuments, lambda_: float, mu: float, score: Doubles, gradient: Doubles
) -> None:
    """Fill the scores, shape (documents,), and derivatives in lambda and mu, shape (2, documents)."""
    terms, docs = topic.tf.shape
    keep = 1.0 - lambda_
    for i in range(docs):
        size = float(topic.length[i])
        whole = mu + size
        total = 0.0
        slope = 0.0
        for w in range(terms):
            part, in_lambda = _log_probability(topic.value[w], float(topic.tf[w, i]), size, lambda_, mu)
            total += topic.counts[w] * part
            slope += topic.counts[w] * in_lambda
        score[i] = total
        gradient[0, i] = slope
        gradient[1, i] = slope * keep / whole


@compiled()
def log_probabilities(
    topic: TopicDocuments, lambda_: float, mu: float, score: Doubles, gradient: Doubles
) -> None:
    """Fill log P(w|D), shape (terms, documents), and derivatives, shape (2, terms, documents)."""
    terms, docs = topic.tf.shape
    keep = 1.0 - lambda_
    for w in range(terms):
        for i in range(docs):
            size = float(topic.length[i])
            part, slope = _log_probability(topic.value[w], float(topic.tf[w, i]), size, lambda_, mu)
            score[w, i] = part
            gradient[0, w, i] = slope
            gradient[1, w, i] = slope * keep / (mu + size)


@compiled()
def _log_probability(p: float, t: float, size: float, lambda_: float, mu: float) -> tuple[float, float]:
    """Return log P(w|D) and its derivative in lambda.

    For x near 1, ``log1p`` is accurate because 1 - x is a sum of non-negative terms. The derivative uses
    (P(w|C) |D| - tf) / (mu + |D|), which avoids the cancellation of the published form P(w|C) - a with
    a = (tf + mu P(w|C)) / (mu + |D|).
    """
    keep, whole = 1.0 - lambda_, mu + size
    x = keep * (t + mu * p) / whole + lambda_ * p
    if x > 0.5:
        rest = keep * ((size - t) + mu * (1.0 - p)) / whole + lambda_ * (1.0 - p)
        part = math.log1p(-rest)
    else:
        part = math.log(x)
    return part, (p * size - t) / whole / x


@compiled()
def floored_log_likelihood(topic: TopicDocuments, mu: float, score: Doubles, slope: Doubles) -> None:
    """Fill the scores and derivatives in mu of Lucene's Dirichlet smoothing.

    With y = tf / P(w|C), a term's score is log((y + mu) / (mu + |D|)) = log1p((y - |D|) / (mu + |D|)) if
    y > |D|, and 0 otherwise. This condition does not depend on mu, so that no score has a kink in mu. At
    y = |D| the derivative is 0 in both cases.
    """
    terms, docs = topic.tf.shape
    for i in range(docs):
        size = float(topic.length[i])
        whole = mu + size
        total = 0.0
        derivative = 0.0
        for w in range(terms):
            y = topic.tf[w, i] / topic.value[w]
            if y > size:
                total += topic.counts[w] * math.log1p((y - size) / whole)
                derivative -= topic.counts[w] * ((y - size) / whole / (y + mu))
        score[i] = total
        slope[i] = derivative


@compiled()
def two_stage_likelihoods(
    documents: Documents,
    setting: Doubles,
    floored: bool,
    likelihood: Doubles,
    gradient: Doubles,
    product: Booleans,
) -> None:
    """Fill likelihoods and gradients as specified in `lmtune.models.formula.Formula.likelihoods`.

    ``floored`` raises factors below 1 to 1, with derivative 0. A floored model has lambda = 0. Then a factor
    is above 1 if and only if y > |D|, for every mu, so that the floor makes no kink in mu. At y = |D| the
    derivative is 0 in both cases.
    """
    lambda_, mu = setting[0], max(setting[1], SMALLEST_MU)
    keep = 1.0 - lambda_
    filled = 0
    for i in range(documents.docs.shape[0]):
        topic = topic_of(documents, i)
        tf, length, p, count = topic.tf, topic.length.astype(np.float64), topic.value, topic.counts
        docs = length.size
        y_max = 0.0
        for w in range(p.size):
            row, most = tf[w], np.int32(0)
            for j in range(docs):
                most = max(most, row[j])
            y_max = max(y_max, most / p[w])
        product[i] = product_is_safe(y_max, length.min(), length.max(), repeats(count), lambda_, mu)
        safe = product[i]
        values = likelihood[filled : filled + docs]
        dlambda = gradient[0, filled : filled + docs]
        dmu = gradient[1, filled : filled + docs]
        filled += docs
        ratio, factor = np.empty(docs), np.empty(docs)
        for j in range(docs):
            ratio[j] = 1.0 / (mu + length[j])
            values[j] = 1.0 if safe else 0.0
            dlambda[j] = 0.0
        for w in range(p.size):
            scale = 1.0 / p[w]
            weight = float(count[w])
            row = tf[w]
            if floored:
                for j in range(docs):
                    y = max(row[j] * scale, length[j])
                    x = max(keep * (y + mu) * ratio[j] + lambda_, 1.0)
                    dlambda[j] += weight * (length[j] - y) * ratio[j] / x
                    factor[j] = x
            else:
                for j in range(docs):
                    y = row[j] * scale
                    x = keep * (y + mu) * ratio[j] + lambda_
                    dlambda[j] += weight * (length[j] - y) * ratio[j] / x
                    factor[j] = x
            if safe:
                for _ in range(int(count[w])):
                    for j in range(docs):
                        values[j] *= factor[j]
            else:
                for j in range(docs):
                    values[j] += count[w] * math.log(factor[j])
        for j in range(docs):
            dmu[j] = dlambda[j] * keep * ratio[j]
