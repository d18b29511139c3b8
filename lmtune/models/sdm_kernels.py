"""Numba kernels of the sequential dependence model.

A setting has 8 values: the weights of ordered and unordered windows, then lambda and mu of terms, of
ordered windows and of unordered windows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Booleans, Doubles, Integers
from lmtune.compiled import compiled
from lmtune.models.kernels import (
    SMALLEST_MU,
    Documents,
    TopicDocuments,
    add_term,
    log_likelihood,
    repeats,
    scores_as_product,
    topic_of,
)

GROUPS = 3


@compiled()
def group_starts(group: NDArray[np.int8]) -> Integers:
    """Return the offset of each group in columns sorted by group, and the end of the last group."""
    starts = np.zeros(GROUPS + 1, np.int64)
    for number in group:
        starts[number + 1 :] += 1
    return starts


@compiled()
def weight_of(setting: Doubles, group: int) -> float:
    """Return a group's weight; that of the terms is 1 minus the weights of the windows."""
    return float(setting[group - 1] if group else max(1.0 - setting[0] - setting[1], 0.0))


@compiled()
def rank_sdm(documents: Documents, settings: Doubles, out: Doubles) -> None:
    """Fill scores as specified in `lmtune.models.formula.Formula.rank_scores`.

    A group's likelihood is a product of factors, relative to an empty document. If that product could leave
    the range of a double, logarithms are summed, as in `lmtune.models.kernels.rank_two_stage`. A group is
    recomputed only if its lambda or mu differ from the previous setting. Each operation is monotone in every
    factor, provided that ``math.log`` is monotone.
    """
    filled = 0
    for i in range(documents.docs.shape[0]):
        topic = topic_of(documents, i)
        tf, length, p, count = topic.tf, topic.length, topic.value, topic.counts
        starts, docs = group_starts(topic.group), length.size
        logs, ratio = np.zeros((GROUPS, docs)), np.empty(docs)
        for s in range(settings.shape[0]):
            setting = settings[s]
            for g in range(GROUPS):
                col = slice(starts[g], starts[g + 1])
                lambda_, mu = setting[2 + 2 * g], setting[3 + 2 * g]
                known = s > 0 and settings[s - 1, 2 + 2 * g] == lambda_ and settings[s - 1, 3 + 2 * g] == mu
                if known or starts[g] == starts[g + 1]:
                    continue
                product = scores_as_product(p[col].min(), documents.longest, repeats(count[col]), lambda_, mu)
                logs[g] = 1.0 if product else 0.0
                for j in range(docs):
                    ratio[j] = (1.0 - lambda_) / (mu + length[j])
                for w in range(starts[g], starts[g + 1]):
                    add_term(tf[w], 1.0 / p[w], count[w], lambda_, mu, product, False, ratio, logs[g])
                if product:
                    for j in range(docs):
                        logs[g, j] = math.log(logs[g, j])
            score = out[filled : filled + docs]
            filled += docs
            for j in range(docs):
                score[j] = 0.0
                for g in range(GROUPS):
                    score[j] += weight_of(setting, g) * logs[g, j]


@compiled()
def differentiate_sdm(topic: TopicDocuments, setting: Doubles, score: Doubles, gradient: Doubles) -> None:
    """Fill scores, shape (documents,), and their derivatives, shape (8, documents)."""
    starts = group_starts(topic.group)
    log_p, slopes = np.empty(score.size), np.empty((2, score.size))
    score[:] = 0.0
    gradient[:] = 0.0
    for g in range(GROUPS):
        part = slice(starts[g], starts[g + 1])
        columns = topic.value[part], topic.counts[part], topic.group[part]
        group = TopicDocuments(topic.tf[part], topic.length, *columns, topic.mean_length)
        # A judged document may be empty. At mu = 0 its probabilities are then the limit for mu -> 0, P(w|C).
        log_likelihood(group, setting[2 + 2 * g], max(setting[3 + 2 * g], SMALLEST_MU), log_p, slopes)
        weight = weight_of(setting, g)
        for j in range(score.size):
            score[j] += weight * log_p[j]
            gradient[2 + 2 * g, j] = weight * slopes[0, j]
            gradient[3 + 2 * g, j] = weight * slopes[1, j]
            for window in range(1, GROUPS):
                gradient[window - 1, j] += log_p[j] if g == window else -log_p[j] if g == 0 else 0.0


@compiled()
def sdm_likelihoods(
    documents: Documents, setting: Doubles, score: Doubles, gradient: Doubles, product: Booleans
) -> None:
    """Fill scores and derivatives of each topic in turn; `product` is false throughout."""
    product[:] = False
    filled = 0
    for i in range(documents.docs.shape[0]):
        topic = topic_of(documents, i)
        rows = slice(filled, filled + topic.length.size)
        differentiate_sdm(topic, setting, score[rows], gradient[:, rows])
        filled += topic.length.size
