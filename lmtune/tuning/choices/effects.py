"""What each choice moves: an analysis of variance of the means of all cases, tuned and at their defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.measures.significance.effects import mean_interval
from lmtune.tuning.choices.experiment import ChoiceResult, Key
from lmtune.tuning.experiment.result import DEFAULT

PARAMETERS, INTERACTIONS = "parameters", "interactions"
"""The factor of every case: tuned, or at its default; and what no factor explains alone."""

_CONFIDENCE = 0.95


class Effect(NamedTuple):
    """What a factor moves.

    Attributes
    ----------
    factor : str
        A choice, ``"parameters"``, or ``"interactions"``, which has a share alone.
    share : float
        Of the variance of the cells' means over topics.
    best, worst : str
        The levels with the best and the worst mean over all their cells.
    difference : float
        Between these means.
    interval : (float, float)
        Its 95% interval over topics, by Student's t, for these two levels.
    """

    factor: str
    share: float
    best: str = ""
    worst: str = ""
    difference: float = 0.0
    interval: tuple[float, float] = (0.0, 0.0)


def effects(result: ChoiceResult, key: Key) -> list[Effect]:
    """Decompose the held-out means of all cases, tuned by a method and at their defaults; none untuned."""
    if len(result.known_rows(key)) < len(result.cases):
        return []
    methods = {"tuned": key, "default": (key[0], DEFAULT)}
    levels = {choice.name: choice.values for choice in result.choices} | {PARAMETERS: tuple(methods)}
    values = np.array(
        [[result.case_row(own, case).values for own in methods.values()] for case in range(len(result.cases))]
    )
    return list(decompose(values.reshape(*map(len, levels.values()), -1), levels))


def decompose(values: NDArray[np.float64], levels: Mapping[str, Sequence[str]]) -> Iterator[Effect]:
    """Yield each factor's effect, and that of all interactions together.

    In a full factorial design the sums of squares of the factors, each the cells of a level times the
    squared distance of the level's mean from the grand mean, and that of the interactions add up to the
    sum of squares of the cells' means (Montgomery, Design and Analysis of Experiments, chapter 5).

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (levels of each factor ..., topics)
        A cell's value on each topic.
    levels : mapping of str to sequence of str
        The factors' levels, in the order of the axes.
    """
    cells = values.mean(axis=-1)
    grand = float(cells.mean())
    whole = float(((cells - grand) ** 2).sum())
    rest = 1.0 if whole > 0.0 else 0.0
    for axis, (factor, names) in enumerate(levels.items()):
        by_level = np.moveaxis(values, axis, 0).reshape(len(names), -1, values.shape[-1]).mean(axis=1)
        means = by_level.mean(axis=1)
        squares = cells.size / len(names) * float(((means - grand) ** 2).sum())
        share = squares / whole if whole > 0.0 else 0.0
        rest -= share
        best, worst = int(means.argmax()), int(means.argmin())
        yield Effect(
            factor,
            share,
            names[best],
            names[worst],
            float(means[best] - means[worst]),
            mean_interval(by_level[best], by_level[worst], _CONFIDENCE),
        )
    yield Effect(INTERACTIONS, max(0.0, rest))
