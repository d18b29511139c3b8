"""Compiled arithmetic of mixtures of fields.

A topic's columns are its terms, and of each term all the fields; p is 0 in one that lacks the term.
"""

from __future__ import annotations

import math

import numpy as np

from lmtune.arrays import Doubles, Integers32
from lmtune.compiled import compiled
from lmtune.models.kernels import Documents, TopicDocuments, topic_of

# Products stay well inside the range of a double; no document is longer.
_SMALLEST, _LONGEST = 1e-290, 2.0**31


@compiled()
def rank_scores(documents: Documents, settings: Doubles, out: Doubles) -> None:
    """Fill scores, as `lmtune.models.formula.Formula.rank_scores` says; settings are weights, mus, lambda.

    Each operation is monotone and so is its rounding: no computed score falls as a frequency rises
    or a field's length falls. A logarithm is taken of as many factors together as cannot leave the
    range of a double, which the setting and the query's terms alone decide.
    """
    fields = documents.field_length.shape[0]
    filled = 0
    for i in range(documents.docs.shape[0]):
        topic = topic_of(documents, i)
        tf, lengths, p, count = topic.tf, topic.field_length, topic.value, topic.counts
        docs = lengths.shape[1]
        scale = np.empty((fields, docs))
        x, product = np.empty(docs), np.empty(docs)
        for s in range(settings.shape[0]):
            setting = settings[s]
            keep = 1.0 - setting[2 * fields]
            for f in range(fields):
                for j in range(docs):
                    scale[f, j] = setting[f] * keep / (setting[fields + f] + lengths[f, j])
            score = out[filled : filled + docs]
            filled += docs
            score[:] = 0.0
            product[:] = 1.0
            smallest = 1.0
            for first in range(0, p.size, fields):
                x[:] = 0.0
                least = 0.0
                for f in range(fields):
                    c, mu = first + f, setting[fields + f]
                    prior, floor = mu * p[c], setting[f] * (1.0 - keep) * p[c]
                    _add_field(tf[c], prior, floor, scale[f], x)
                    least += setting[f] * keep * prior / (mu + _LONGEST) + floor
                times = int(count[first])
                if times != count[first] or times < 0:
                    for j in range(docs):
                        score[j] += count[first] * math.log(x[j])
                    continue
                for _ in range(times):
                    if smallest * least < _SMALLEST:
                        _add_logarithms(product, score)
                        smallest = 1.0
                    smallest *= least
                    for j in range(docs):
                        product[j] *= x[j]
            _add_logarithms(product, score)


@compiled()
def _add_field(tf: Integers32, prior: float, floor: float, scale: Doubles, x: Doubles) -> None:
    for j in range(x.size):
        x[j] += (tf[j] + prior) * scale[j] + floor


@compiled()
def _add_logarithms(product: Doubles, score: Doubles) -> None:
    for j in range(score.size):
        score[j] += math.log(product[j])
        product[j] = 1.0


@compiled()
def differentiate(topic: TopicDocuments, setting: Doubles, score: Doubles, gradient: Doubles) -> None:
    """Add scores, shape (documents,), and derivatives, shape (parameters, documents), to zeros."""
    fields = topic.field_length.shape[0]
    lambda_ = setting[2 * fields]
    columns, docs = topic.tf.shape
    part, turn = np.empty(fields), np.empty(fields)
    for j in range(docs):
        for first in range(0, columns, fields):
            x = 0.0
            for f in range(fields):
                mu, p, tf = setting[fields + f], topic.value[first + f], topic.tf[first + f, j]
                whole = mu + topic.field_length[f, j]
                part[f] = (1.0 - lambda_) * (tf + mu * p) / whole + lambda_ * p
                turn[f] = setting[f] * (p * topic.field_length[f, j] - tf) / whole
                x += setting[f] * part[f]
            score[j] += topic.counts[first] * math.log(x)
            share = topic.counts[first] / x
            for f in range(fields):
                whole = setting[fields + f] + topic.field_length[f, j]
                gradient[f, j] += share * part[f]
                gradient[fields + f, j] += share * (1.0 - lambda_) * turn[f] / whole
                gradient[2 * fields, j] += share * turn[f]
