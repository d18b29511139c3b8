"""Methods that choose a setting on some topics, from an array of the measure by topic and setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune import ParameterSpace
from lmtune.tuning.experiment.result import DEFAULT

Vector = NDArray[np.float64]
Places = NDArray[np.int64]

OPTIMUM = "optimum"
STRENGTHS = (math.inf, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.0)
"""Strengths of shrinkage to the default; infinity gives the default itself."""

_FEW, _BAGS = 10, 100


class Grid(NamedTuple):
    """The measure of every topic at every setting; the last setting is the default.

    Attributes
    ----------
    space : ParameterSpace
        The parameter space of the settings.
    settings : numpy.ndarray of float64, shape (settings, parameters)
    values : numpy.ndarray of float64, shape (topics, settings)
    """

    space: ParameterSpace
    settings: Vector
    values: Vector

    @property
    def points(self) -> Vector:
        """The settings in unbounded coordinates."""
        return np.array([self.space.to_unbounded(one) for one in self.settings])

    def choices(self, topics: Places, rng: np.random.Generator) -> dict[str, Vector]:
        """Return the setting that each method chooses on some topics, by method."""
        values, points = self.values[topics], self.points
        means = values[:, :-1].mean(axis=0)
        ten = rng.choice(means.size, min(_FEW, means.size), replace=False)
        width = np.ptp(self.space.unbounded_box, axis=1)
        distance = (((points - points[-1]) / np.where(width > 0.0, width, 1.0)) ** 2).sum(axis=1)
        drawn = {
            "near": near(values[:, :-1]),
            "bagged": bagged(values[:, :-1], rng),
            "bayes": bayesian(values[:, :-1], rng.spawn(1)[0]),
        }
        averages = {name: points[:-1][own].mean(axis=0) for name, own in drawn.items()}
        return {
            DEFAULT: self.settings[-1],
            "grid": self.settings[means.argmax()],
            "ten": self.settings[ten[means[ten].argmax()]],
            "shrunk": self.settings[shrunk(values, distance)],
            **{name: self.space.from_unbounded(own) for name, own in averages.items()},
        }


def shrunk(values: Vector, distance: Vector) -> int:
    """Choose the setting with the best mean minus strength times squared distance.

    Leave-one-topic-out chooses the strength.

    Parameters
    ----------
    values : numpy.ndarray, shape (topics, settings)
        For two or more topics.
    distance : numpy.ndarray, shape (settings,)
        Squared distance from a setting that is among them.

    Returns
    -------
    int
        Index of the setting. Of equally good `STRENGTHS` the largest is used.
    """
    topics = len(values)
    others = (values.sum(axis=0) - values) / (topics - 1)

    def chosen(means: Vector, strength: float) -> Any:
        # infinity times 0 is NaN
        return np.argmax(means - np.where(distance > 0.0, strength, 0.0) * distance, axis=-1)

    held_out = [values[np.arange(topics), chosen(others, strength)].mean() for strength in STRENGTHS]
    return int(chosen(values.mean(axis=0), STRENGTHS[int(np.argmax(held_out))]))


def near(values: Vector) -> NDArray[np.bool_]:
    """Return a mask of settings within one standard error of the best, from paired differences.

    `values` has shape (topics, settings).
    """
    losses = values[:, [values.mean(axis=0).argmax()]] - values
    close: NDArray[np.bool_] = losses.mean(axis=0) <= losses.std(axis=0, ddof=1) / math.sqrt(len(values))
    return close


def bagged(values: Vector, rng: np.random.Generator) -> Places:
    """Return the best setting of each bootstrap sample of topics; `values` has shape (topics, settings)."""
    counts = rng.multinomial(len(values), np.full(len(values), 1.0 / len(values)), size=_BAGS)
    return _best_by(counts.astype(np.float64), values)


def bayesian(values: Vector, rng: np.random.Generator) -> Places:
    """Return the best setting for each draw of topic weights of the Bayesian bootstrap.

    Rubin, The Bayesian bootstrap, Annals of Statistics 9, 1981: weights are uniform on the simplex.
    """
    return _best_by(rng.dirichlet(np.ones(len(values)), size=_BAGS), values)


def _best_by(weights: Vector, values: Vector) -> Places:
    # not by BLAS: its last bits depend on the number of threads
    best: Places = np.einsum("bt,ts->bs", weights, values).argmax(axis=1)
    return best


def crossed_halves(values: Vector, topics: Places, rng: np.random.Generator) -> Vector:
    """Return each topic's value at the best setting of the other half of the topics.

    Parameters
    ----------
    values : numpy.ndarray, shape (all topics, settings)
    topics : numpy.ndarray of int64
        Topic indices; the result is in this order.
    rng : numpy.random.Generator
        Splits the topics.
    """
    found = np.empty(topics.size)
    first = np.zeros(topics.size, np.bool_)
    first[rng.permutation(topics.size)[: topics.size // 2]] = True
    for half in (first, ~first):
        found[half] = values[topics[half], values[topics[~half]].mean(axis=0).argmax()]
    return found


def decompose(by_topic: Mapping[str, Vector], train: Places, test: Places) -> dict[str, dict[str, float]]:
    """Split the losses of methods into optimisation error and loss on the test topics.

    Parameters
    ----------
    by_topic : mapping of str to numpy.ndarray, shape (all topics,)
        The measure at each method's setting. `OPTIMUM`, the best on the training topics, must be included.
    train, test : numpy.ndarray of int64
        Topic indices.

    Returns
    -------
    dict
        By method: means ``train`` and ``test``; ``optimisation``, the optimisation error on the training
        topics; ``part``, the loss relative to the optimum on the test topics.
    """
    means = {name: (float(own[train].mean()), float(own[test].mean())) for name, own in by_topic.items()}
    top = means[OPTIMUM]
    return {
        name: {"train": own[0], "test": own[1], "optimisation": top[0] - own[0], "part": top[1] - own[1]}
        for name, own in means.items()
    }


def parts_and_gaps(
    values: Mapping[str, Vector],
    refit: Callable[[Places], Vector],
    train: Places,
    test: Places,
    rng: np.random.Generator,
    **common: float,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `decompose`, and the two estimates of the estimation error, ``below`` and ``above``.

    Parameters
    ----------
    values : mapping of str to numpy.ndarray
        Values of all topics by method, with `OPTIMUM`.
    refit : callable
        Fits on the given topics, and returns the values of all topics at the fitted setting.
    train, test : numpy.ndarray
        Training and test topics.
    rng : numpy.random.Generator
        Splits the test topics into halves; each half is evaluated with the setting of the other.
    **common : float
        Further columns of all rows.
    """
    halves = np.array_split(rng.permutation(test), 2)
    crossed = [refit(other)[own] for own, other in zip(halves, halves[::-1], strict=True)]
    hindsight = max(refit(test)[test].mean(), *(own[test].mean() for own in values.values()))
    held_out = values[OPTIMUM][test].mean()
    gaps = {"below": np.concatenate(crossed).mean() - held_out, "above": hindsight - held_out}
    for name, row in decompose(values, train, test).items():
        yield {"method": name, **row, **common, **gaps}
