"""Numba kernels of BM25."""

from __future__ import annotations

import numpy as np

from lmtune.arrays import Booleans, Doubles, Integers32
from lmtune.compiled import compiled
from lmtune.models.kernels import Documents, TopicDocuments, topic_of

# Lower limit of n = k1 (1 - b + b |D| / L), which can be 0. With it, absent terms score 0 instead of 0 / 0.
LEAST_ROOM = 1e-300


@compiled()
def rank_bm25(documents: Documents, settings: Doubles, out: Doubles) -> None:
    """Fill scores as specified in `lmtune.models.formula.Formula.rank_scores`; settings are k1 and b.

    With n = k1 (1 - b + b |D| / L) and the mean length L, a term's score is computed as
    w - w / (1 + tf (1 / n)). Each operation is monotone, including its rounding. Therefore no computed score
    falls if a frequency rises or the length falls, and absent terms add 0.
    """
    filled = 0
    for i in range(documents.docs.shape[0]):
        topic = topic_of(documents, i)
        docs = topic.length.size
        scores = out[filled : filled + docs * settings.shape[0]].reshape(settings.shape[0], docs)
        rank_bm25_topic(
            topic.tf, topic.length, topic.value * topic.counts, documents.mean_length, settings, scores
        )
        filled += scores.size


@compiled()
def rank_bm25_topic(
    tf: Integers32, length: Integers32, weight: Doubles, mean_length: float, settings: Doubles, out: Doubles
) -> None:
    """Fill out[s, j] with the score of document j at setting s, for one topic."""
    inverse = np.empty(length.size)
    for s in range(settings.shape[0]):
        k1, b = settings[s]
        flat, slope = k1 * (1.0 - b), k1 * b / mean_length
        score = out[s]
        for j in range(score.size):
            inverse[j] = 1.0 / max(flat + slope * length[j], LEAST_ROOM)
            score[j] = 0.0
        for w in range(weight.size):
            row, most = tf[w], weight[w]
            for j in range(score.size):
                score[j] += most - most / (1.0 + row[j] * inverse[j])


@compiled()
def differentiate_bm25(topic: TopicDocuments, setting: Doubles, score: Doubles, gradient: Doubles) -> None:
    """Fill scores, shape (documents,), and their derivatives in k1 and b, shape (2, documents)."""
    k1, b = setting
    tf, length, mean_length, weight = topic.tf, topic.length, topic.mean_length, topic.value * topic.counts
    for j in range(length.size):
        share = (1.0 - b) + b * length[j] / mean_length
        room = max(k1 * share, LEAST_ROOM)
        total = 0.0
        slope = 0.0
        for w in range(weight.size):
            part = tf[w, j] / (tf[w, j] + room)
            total += weight[w] * part
            slope -= weight[w] * part / (tf[w, j] + room)
        score[j] = total
        gradient[0, j] = slope * share
        gradient[1, j] = slope * k1 * ((length[j] - mean_length) / mean_length)


@compiled()
def bm25_likelihoods(
    documents: Documents, setting: Doubles, score: Doubles, gradient: Doubles, product: Booleans
) -> None:
    """Fill scores and derivatives of each topic in turn; `product` is false throughout."""
    product[:] = False
    filled = 0
    for i in range(documents.docs.shape[0]):
        topic = topic_of(documents, i)
        rows = slice(filled, filled + topic.length.size)
        differentiate_bm25(topic, setting, score[rows], gradient[:, rows])
        filled += topic.length.size
