"""Compiled arithmetic of mixtures of fields.

A topic's columns are its terms, and of each term the fields that hold it, ascending: where the
field does not rise from one column to the next, another term begins.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled
from lmtune.models.kernels import Documents, TopicDocuments


@compiled()
def rank_scores(documents: Documents, settings: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Fill scores, as `lmtune.models.formula.Formula.rank_scores` says; settings are weights, mus, lambda.

    Each operation is monotone and so is its rounding: no computed score falls as a frequency rises
    or a field's length falls.
    """
    fields = documents.field_length.shape[0]
    filled = 0
    for i in range(documents.docs.shape[0]):
        lengths = documents.field_length[:, documents.docs[i, 0] : documents.docs[i, 1]]
        columns = slice(documents.terms[i, 0], documents.terms[i, 1])
        p, count, group = documents.value[columns], documents.counts[columns], documents.group[columns]
        docs = lengths.shape[1]
        tf = documents.tf[documents.tfs[i, 0] : documents.tfs[i, 1]].reshape(p.size, docs)
        scale = np.empty((fields, docs))
        x = np.empty(docs)
        for s in range(settings.shape[0]):
            setting = settings[s]
            lambda_ = setting[2 * fields]
            for f in range(fields):
                for j in range(docs):
                    scale[f, j] = setting[f] * (1.0 - lambda_) / (setting[fields + f] + lengths[f, j])
            score = out[filled : filled + docs]
            filled += docs
            score[:] = 0.0
            for c in range(p.size):
                f = group[c]
                prior, floor = setting[fields + f] * p[c], setting[f] * lambda_ * p[c]
                own, row = scale[f], tf[c]
                if c == 0 or f <= group[c - 1]:
                    x[:] = 0.0
                for j in range(docs):
                    x[j] += (row[j] + prior) * own[j] + floor
                if c + 1 == p.size or group[c + 1] <= f:
                    for j in range(docs):
                        score[j] += count[c] * math.log(x[j])


@compiled()
def differentiate(
    topic: TopicDocuments,
    setting: NDArray[np.float64],
    score: NDArray[np.float64],
    gradient: NDArray[np.float64],
) -> None:
    """Fill scores, shape (documents,); add derivatives to gradient, shape (parameters, documents)."""
    fields = topic.field_length.shape[0]
    lambda_ = setting[2 * fields]
    columns, docs = topic.tf.shape
    for j in range(docs):
        score[j] = 0.0
        first = 0
        while first < columns:
            end = first + 1
            while end < columns and topic.group[end] > topic.group[end - 1]:
                end += 1
            x = 0.0
            for c in range(first, end):
                f = topic.group[c]
                mu, p = setting[fields + f], topic.value[c]
                x += setting[f] * (
                    (1.0 - lambda_) * (topic.tf[c, j] + mu * p) / (mu + topic.field_length[f, j])
                    + lambda_ * p
                )
            score[j] += topic.counts[first] * math.log(x)
            for c in range(first, end):
                f = topic.group[c]
                mu, p, length = setting[fields + f], topic.value[c], topic.field_length[f, j]
                share = topic.counts[first] / x
                turn = setting[f] * (p * length - topic.tf[c, j]) / (mu + length)
                gradient[f, j] += share * (
                    (1.0 - lambda_) * (topic.tf[c, j] + mu * p) / (mu + length) + lambda_ * p
                )
                gradient[fields + f, j] += share * (1.0 - lambda_) * turn / (mu + length)
                gradient[2 * fields, j] += share * turn
            first = end
