"""Numba kernels of the models of several fields: the mixture of language models, and BM25.

A topic's columns are ordered by term, then by field. A setting has the fields' weights, a parameter per field
(mu or b), and a common parameter (lambda or k1). In the mixture, p is 0 for a field without the term.
"""

from __future__ import annotations

import math

import numpy as np

from lmtune.arrays import Doubles, Integers32
from lmtune.compiled import compiled
from lmtune.models.bm25_kernels import LEAST_ROOM
from lmtune.models.kernels import Documents, TopicDocuments, topic_of

# Lower limit of products, well inside the range of a double, and an upper limit of document lengths.
_SMALLEST, _LONGEST = 1e-290, 2.0**31


@compiled()
def rank_mixture(documents: Documents, settings: Doubles, out: Doubles) -> None:
    """Fill scores as specified in `lmtune.models.formula.Formula.rank_scores` with the mixture.

    Each operation is monotone, including its rounding. Therefore no computed score falls if a frequency rises
    or a field's length falls. Factors are multiplied as long as the product cannot underflow, and then a
    logarithm is added. The setting and the query's terms alone determine where.
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
def differentiate_mixture(topic: TopicDocuments, setting: Doubles, score: Doubles, gradient: Doubles) -> None:
    """Add scores, shape (documents,), and derivatives, shape (parameters, documents), to zero arrays."""
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


@compiled()
def rank_bm25_fields(documents: Documents, settings: Doubles, summed: bool, out: Doubles) -> None:
    """Fill scores as specified in `lmtune.models.formula.Formula.rank_scores`: BM25F, or a sum if `summed`.

    A term's score is computed as w - w / (1 + x / k1). Each operation is monotone, including its rounding.
    Therefore no computed score falls if a frequency rises or a field's length falls, and absent terms add 0.
    """
    fields = documents.field_length.shape[0]
    filled = 0
    for i in range(documents.docs.shape[0]):
        topic = topic_of(documents, i)
        tf, lengths, idf, count = topic.tf, topic.field_length, topic.value, topic.counts
        docs = lengths.shape[1]
        scale, x = np.empty((fields, docs)), np.empty(docs)
        for s in range(settings.shape[0]):
            weight, b, k1 = settings[s, :fields], settings[s, fields : 2 * fields], settings[s, 2 * fields]
            for f in range(fields):
                flat, slope = 1.0 - b[f], b[f] / documents.field_mean[f]
                factor = (1.0 if summed else fields * weight[f]) / max(k1, LEAST_ROOM)
                for j in range(docs):
                    scale[f, j] = factor / max(flat + slope * lengths[f, j], LEAST_ROOM)
            score = out[filled : filled + docs]
            filled += docs
            score[:] = 0.0
            for first in range(0, idf.size, fields):
                x[:] = 0.0
                for f in range(fields):
                    for j in range(docs):
                        x[j] += tf[first + f, j] * scale[f, j]
                    if summed:
                        _add_part(count[first] * weight[f] * idf[first + f], x, score)
                if not summed:
                    _add_part(count[first] * idf[first : first + fields].min(), x, score)


@compiled()
def _add_part(most: float, x: Doubles, score: Doubles) -> None:
    for j in range(x.size):
        score[j] += most - most / (1.0 + x[j])
        x[j] = 0.0


@compiled()
def differentiate_bm25_fields(
    topic: TopicDocuments, setting: Doubles, summed: bool, score: Doubles, gradient: Doubles
) -> None:
    """Add scores, shape (documents,), and derivatives, shape (parameters, documents), to zero arrays."""
    fields = topic.field_length.shape[0]
    weight, b, k1 = setting[:fields], setting[fields : 2 * fields], max(setting[2 * fields], LEAST_ROOM)
    columns, docs = topic.tf.shape
    room, turn, part = np.empty(fields), np.empty(fields), np.empty(fields)
    for j in range(docs):
        for f in range(fields):
            relative = topic.field_length[f, j] / topic.field_mean[f]
            room[f] = max((1.0 - b[f]) + b[f] * relative, LEAST_ROOM)
            turn[f] = (1.0 - relative) / room[f]
        for first in range(0, columns, fields):
            x, count = 0.0, topic.counts[first]
            for f in range(fields):
                part[f] = topic.tf[first + f, j] / room[f]
                if summed:
                    most = count * topic.value[first + f]
                    share = part[f] / (k1 + part[f])
                    slope = most * weight[f] * share / (k1 + part[f])
                    score[j] += most * weight[f] * share
                    gradient[f, j] += most * share
                    gradient[fields + f, j] += slope * k1 * turn[f]
                    gradient[2 * fields, j] -= slope
                x += fields * weight[f] * part[f]
            if summed:
                continue
            most = count * topic.value[first : first + fields].min()
            slope = most / (k1 + x)
            score[j] += slope * x
            gradient[2 * fields, j] -= slope * x / (k1 + x)
            slope *= k1 / (k1 + x) * fields
            for f in range(fields):
                gradient[f, j] += slope * part[f]
                gradient[fields + f, j] += slope * weight[f] * part[f] * turn[f]
