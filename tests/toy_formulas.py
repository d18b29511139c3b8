"""Formulas of one and of five parameters, written for tests alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmtune.models.formula import Formula
from lmtune.models.kernels import TopicDocuments
from lmtune.models.parameter import Parameter

Array = NDArray[np.float64]


class Saturated(Formula):
    """The sum of log(1 + tf / k) / -log p: rarer terms count less, to be different."""

    name = "saturated"
    parameters: tuple[Parameter, ...] = (
        Parameter("k", 0.05, 50.0, "log", 1.0, "where a frequency saturates", start=5.0),
    )

    def differentiate(self, topic: TopicDocuments, setting: Array) -> tuple[Array, Array]:
        [k] = setting
        weight = (topic.counts / -np.log(topic.value))[:, None]
        scores = (weight * np.log1p(topic.tf / k)).sum(axis=0)
        slope = (weight * -topic.tf / (k * (k + topic.tf))).sum(axis=0)
        return scores, slope[None]


class Mixed(Formula):
    """w times a saturated frequency to the power a, with pivoted length b, on two linear weights."""

    name = "mixed"
    parameters = (
        Parameter("k", 0.1, 20.0, "log", 1.2, "where a frequency saturates"),
        Parameter("b", 0.0, 0.95, "logit", 0.75, "how much the length counts"),
        Parameter("rare", -2.0, 2.0, "linear", 0.5, "how much rarity counts", start=0.0),
        Parameter("short", -1.0, 1.0, "linear", 0.0, "what is added for short documents"),
        Parameter("fixed", 3.0, 3.0, "linear", 3.0, "what the pivot is"),
    )

    def differentiate(self, topic: TopicDocuments, setting: Array) -> tuple[Array, Array]:
        k, b, rare, short, pivot = setting
        count, idf = topic.counts[:, None], -np.log(topic.value)[:, None]
        relative = topic.length / pivot
        room = k * (1.0 - b + b * relative)
        part = topic.tf / (topic.tf + room)
        weight = count * np.exp(rare * np.log(idf))
        scores = (weight * part).sum(axis=0) + short / (1.0 + topic.length)
        inner = -topic.tf / (topic.tf + room) ** 2
        gradients = [
            (weight * inner).sum(axis=0) * room / k,
            (weight * inner).sum(axis=0) * k * (relative - 1.0),
            (weight * np.log(idf) * part).sum(axis=0),
            1.0 / (1.0 + topic.length),
            (weight * inner).sum(axis=0) * -k * b * relative / pivot,
        ]
        return scores, np.array(gradients)
