"""The RankNet cost over all pairs and its gradient, without an exp or a log for each pair."""

from __future__ import annotations

import math

import numpy as np

from lmtune.compiled import compiled
from lmtune.models.kernels import product_is_safe

# Eight factors of 1 + e**80 stay below e**709, the largest double; where the largest ratio is
# under e**-12, what 1 + ratio rounds away would show in the cost's twelfth digit.
_BLOCK = 8
_SMALLEST_LOG_RATIO, _LARGEST_LOG_RATIO = -12.0, 80.0


@compiled()
def ranknet_topics(  # type: ignore[no-untyped-def]
    topics, doc_start, tf_start, length, tf, relevant, term_start, p, count, lambda_, mu, floored, out
):
    """Fill out[i] = (cost, dcost/dlambda, dcost/dmu) for every topic i of ``topics``.

    Each topic's first ``relevant[t]`` documents are relevant, the rest are not.
    """
    for i in range(topics.size):
        t = topics[i]
        out[i] = 0.0
        first, last = doc_start[t], doc_start[t + 1]
        docs = last - first
        split = relevant[t]
        count_t = count[term_start[t] : term_start[t + 1]]
        if split == 0 or split == docs or count_t.size == 0:
            continue
        length_t = length[first:last].astype(np.float64)
        p_t = p[term_start[t] : term_start[t + 1]]
        block = tf[tf_start[t] : tf_start[t + 1]].reshape(count_t.size, docs)
        likelihood = np.empty(docs)
        dlambda = np.empty(docs)
        dmu = np.empty(docs)
        y_max = 0.0
        for w in range(count_t.size):
            y_max = max(y_max, block[w].max() / p_t[w])
        safe = product_is_safe(y_max, length_t.min(), length_t.max(), count_t.sum(), lambda_, mu)
        _likelihoods(block, length_t, p_t, count_t, lambda_, mu, safe, floored, likelihood, dlambda, dmu)
        if safe:
            spread = math.log(likelihood[split:].max()) - math.log(likelihood[:split].min())
            if _SMALLEST_LOG_RATIO < spread < _LARGEST_LOG_RATIO:
                _pairs_by_products(likelihood, dlambda, dmu, split, out[i])
                continue
            for j in range(docs):
                likelihood[j] = math.log(likelihood[j])
        _pairs_by_logarithms(likelihood, dlambda, dmu, split, out[i])


@compiled()
def _likelihoods(  # type: ignore[no-untyped-def]
    tf, length, p, count, lambda_, mu, product, floored, likelihood, dlambda, dmu
):
    """Fill likelihoods up to a factor of the topic (or their logarithms) and the derivatives.

    ``floored`` raises factors below 1 to 1, with derivatives 0. At lambda = 0, the only one that
    such a model has, a factor is above, at or below 1 for every mu alike: y > |D|, y = |D| or not.
    So the floor makes no kink in mu, and at y = |D| both sides have the derivative 0.
    """
    docs = length.size
    keep = 1.0 - lambda_
    ratio = np.empty(docs)
    for j in range(docs):
        ratio[j] = 1.0 / (mu + length[j])
        likelihood[j] = 1.0 if product else 0.0
        dlambda[j] = 0.0
    for w in range(count.size):
        row = tf[w]
        scale = 1.0 / p[w]
        weight = float(count[w])
        if floored:
            for j in range(docs):
                y = max(row[j] * scale, length[j])
                x = max(keep * (y + mu) * ratio[j] + lambda_, 1.0)
                dlambda[j] += weight * (length[j] - y) * ratio[j] / x
                if product:
                    for _ in range(count[w]):
                        likelihood[j] *= x
                else:
                    likelihood[j] += weight * math.log(x)
            continue
        for j in range(docs):
            y = row[j] * scale
            x = keep * (y + mu) * ratio[j] + lambda_
            dlambda[j] += weight * (length[j] - y) * ratio[j] / x
            if product:
                for _ in range(count[w]):
                    likelihood[j] *= x
            else:
                likelihood[j] += weight * math.log(x)
    for j in range(docs):
        dmu[j] = dlambda[j] * keep * ratio[j]


@compiled()
def _pairs_by_products(likelihood, dlambda, dmu, split, out):  # type: ignore[no-untyped-def]
    """Sum log(1 + P_n / P_r) over pairs: multiply up to eight factors, then take one logarithm.

    Derivatives are summed document by document, so that the inner loop vectorises in the order of
    the text: sums in any other order would depend on how the compiler was called.
    """
    other = likelihood[split:]
    other_dlambda = dlambda[split:]
    other_dmu = dmu[split:]
    factors = np.ones(other.size)
    lambda_sum = np.zeros(other.size)
    mu_sum = np.zeros(other.size)
    cost = 0.0
    for r in range(split):
        inverse = 1.0 / likelihood[r]
        own_dlambda = dlambda[r]
        own_dmu = dmu[r]
        for n in range(other.size):
            odds = other[n] * inverse
            factor = 1.0 + odds
            share = odds / factor
            factors[n] *= factor
            lambda_sum[n] += share * (other_dlambda[n] - own_dlambda)
            mu_sum[n] += share * (other_dmu[n] - own_dmu)
        if (r + 1) % _BLOCK == 0 or r + 1 == split:
            for n in range(other.size):
                cost += math.log(factors[n])
                factors[n] = 1.0
    out[0] = cost
    for n in range(other.size):
        out[1] += lambda_sum[n]
        out[2] += mu_sum[n]


@compiled()
def _pairs_by_logarithms(score, dlambda, dmu, split, out):  # type: ignore[no-untyped-def]
    """Sum softplus(g_n - g_r) over pairs, safe for any difference of scores."""
    for r in range(split):
        for n in range(split, score.size):
            difference = score[n] - score[r]
            small = math.exp(-abs(difference))
            out[0] += max(difference, 0.0) + math.log1p(small)
            share = (1.0 if difference >= 0.0 else small) / (1.0 + small)
            out[1] += share * (dlambda[n] - dlambda[r])
            out[2] += share * (dmu[n] - dmu[r])
