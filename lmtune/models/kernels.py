"""Compiled arithmetic of the models, shared by scoring, measuring and RankNet.

Nothing here uses fast-math: two documents with the same term frequencies and the same length must
get the same bits wherever they stand in an array, or ties would break at random.
"""

from __future__ import annotations

import math

import numpy as np

from lmtune.compiled import compiled

# Products of factors stay within e**-600 .. e**600, well inside the range of a double; outside
# it the kernels add logarithms instead.
_SAFE_LOG = 600.0
# A query that repeats its terms more often is quicker with logarithms.
_LARGEST_WEIGHT = 200


@compiled()
def log_likelihood(tf, length, p, count, lambda_, mu, g, dg_dlambda, dg_dmu):  # type: ignore[no-untyped-def]
    """Fill g and its two partial derivatives, one document at a time.

    1 - x is a sum of non-negative terms, so ``log1p`` keeps its relative accuracy where x is near
    1; and P(w|C) - a = (P(w|C) |D| - tf) / (mu + |D|) avoids the cancellation of the printed form.
    """
    terms, docs = tf.shape
    keep = 1.0 - lambda_
    for i in range(docs):
        size = float(length[i])
        whole = mu + size
        total = 0.0
        slope = 0.0
        for w in range(terms):
            pw = p[w]
            t = float(tf[w, i])
            x = keep * (t + mu * pw) / whole + lambda_ * pw
            if x > 0.5:
                rest = keep * ((size - t) + mu * (1.0 - pw)) / whole + lambda_ * (1.0 - pw)
                total += count[w] * math.log1p(-rest)
            else:
                total += count[w] * math.log(x)
            slope += count[w] * ((pw * size - t) / whole / x)
        g[i] = total
        dg_dlambda[i] = slope
        dg_dmu[i] = slope * keep / whole


@compiled()
def floored_log_likelihood(tf, length, p, count, mu, g, dg_dmu):  # type: ignore[no-untyped-def]
    """Fill Lucene's Dirichlet score and its derivative, one document at a time.

    With y = tf / P(w|C) a term's score is log((y + mu) / (mu + |D|)) = log1p((y - |D|) /
    (mu + |D|)) where y > |D|, which does not depend on mu, and 0 elsewhere. So no score has a kink
    in mu; where y = |D|, both sides have the derivative 0.
    """
    terms, docs = tf.shape
    for i in range(docs):
        size = float(length[i])
        whole = mu + size
        total = 0.0
        slope = 0.0
        for w in range(terms):
            y = tf[w, i] / p[w]
            if y > size:
                total += count[w] * math.log1p((y - size) / whole)
                slope -= count[w] * ((y - size) / whole / (y + mu))
        g[i] = total
        dg_dmu[i] = slope


@compiled()
def relative_frequencies(tf, p, y):  # type: ignore[no-untyped-def]
    """Fill y = tf / P(w|C), which does not depend on the parameters."""
    for w in range(tf.shape[0]):
        row = tf[w]
        out = y[w]
        scale = 1.0 / p[w]
        for i in range(row.size):
            out[i] = row[i] * scale


@compiled()
def product_is_safe(y_max, length_min, length_max, weight, lambda_, mu):  # type: ignore[no-untyped-def]
    """Say whether no product of ``weight`` factors can leave the range of a double."""
    if weight > _LARGEST_WEIGHT:
        return False
    low = (1.0 - lambda_) * mu / (mu + length_max) + lambda_
    high = (1.0 - lambda_) * (y_max + mu) / (mu + length_min) + lambda_
    return low > 0.0 and weight * max(abs(math.log(low)), abs(math.log(high))) < _SAFE_LOG


@compiled()
def scores_as_product(p_min, longest, weight, lambda_, mu):  # type: ignore[no-untyped-def]
    """Say whether `rank_scores` multiplies, whichever documents there are to score.

    ``longest`` is the collection's longest document: the answer, and with it every bit of a
    score, must not depend on the other candidates. No y exceeds |D| / P(w|C), and
    (|D| / P + mu) / (mu + |D|) grows with |D|. Where lengths are rounded down by up to an eighth,
    y exceeds that by as much: for the largest weight by exp(27), which the safe range leaves room
    for.
    """
    return product_is_safe(longest / p_min, longest, longest, weight, lambda_, mu)


@compiled()
def rank_scores(y, length, count, lambda_, mu, product, floored, ratio, score):  # type: ignore[no-untyped-def]
    """Fill scores that order documents exactly as the query likelihood does.

    With y = tf / P(w|C) the likelihood is proportional to the product over query terms of
    (y + mu) (1 - lambda) / (mu + |D|) + lambda: one division a document, two multiply-adds a
    term, no logarithm. Where that product could leave the range of a double, the sum of its
    logarithms stands in. ``floored`` raises factors below 1 to 1, as Lucene's Dirichlet
    smoothing does.
    """
    docs = length.size
    keep = 1.0 - lambda_
    for i in range(docs):
        ratio[i] = keep / (mu + length[i])
        score[i] = 1.0 if product else 0.0
    for w in range(count.size):
        row = y[w]
        if floored and product:
            for _ in range(count[w]):
                for i in range(docs):
                    score[i] *= max((row[i] + mu) * ratio[i] + lambda_, 1.0)
        elif floored:
            for i in range(docs):
                factor = max((row[i] + mu) * ratio[i] + lambda_, 1.0)
                score[i] += count[w] * math.log(factor)
        elif product:
            for _ in range(count[w]):
                for i in range(docs):
                    score[i] *= (row[i] + mu) * ratio[i] + lambda_
        else:
            for i in range(docs):
                score[i] += count[w] * math.log((row[i] + mu) * ratio[i] + lambda_)


@compiled()
def count_above(score, length_of_prefix, threshold):  # type: ignore[no-untyped-def]
    """Count the documents ranked above one that scores ``threshold`` and stands at that position.

    Positions are the tie order: an equal score earlier in the array ranks above. The document may
    be in the array itself: it does not count.
    """
    above = np.int64(0)
    head = score[:length_of_prefix]
    for i in range(head.size):
        above += np.int64(head[i] >= threshold)
    tail = score[length_of_prefix:]
    for i in range(tail.size):
        above += np.int64(tail[i] > threshold)
    return above


@compiled()
def topic_rank_scores(tf, length, p, count, longest, lambda_, mu, floored=False):  # type: ignore[no-untyped-def]
    """Return `rank_scores` of one topic; it must match a document at least."""
    sizes = length.astype(np.float64)
    y = np.empty(tf.shape)
    relative_frequencies(tf, p, y)
    score = np.empty(sizes.size)
    safe = scores_as_product(p.min(), longest, count.sum(), lambda_, mu)
    rank_scores(y, sizes, count, lambda_, mu, safe, floored, np.empty(sizes.size), score)
    return score
