"""Settings chosen on some topics from a table of the measure of all topics at all settings."""

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
"""Of the pull to the default; the largest is the default itself."""

_FEW, _BAGS = 10, 100


class Grid(NamedTuple):
    """A measure of every topic at settings, of which the last is the default.

    Attributes
    ----------
    space : ParameterSpace
        Where the settings lie.
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
        """Choose settings by some topics' values alone, by the name of the method."""
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
    """Choose the best mean minus a strength times a squared distance, the strength by leaving topics out.

    Parameters
    ----------
    values : numpy.ndarray, shape (topics, settings)
        Of two topics or more.
    distance : numpy.ndarray, shape (settings,)
        From a setting that is among them.

    Returns
    -------
    int
        The setting's place; of equally good strengths of `STRENGTHS` the largest counts.
    """
    topics = len(values)
    others = (values.sum(axis=0) - values) / (topics - 1)

    def chosen(means: Vector, strength: float) -> Any:
        # Infinity times 0 is no number.
        return np.argmax(means - np.where(distance > 0.0, strength, 0.0) * distance, axis=-1)

    held_out = [values[np.arange(topics), chosen(others, strength)].mean() for strength in STRENGTHS]
    return int(chosen(values.mean(axis=0), STRENGTHS[int(np.argmax(held_out))]))


def near(values: Vector) -> NDArray[np.bool_]:
    """Say which settings, of values (topics, settings), are within a standard error of the best, paired."""
    losses = values[:, [values.mean(axis=0).argmax()]] - values
    close: NDArray[np.bool_] = losses.mean(axis=0) <= losses.std(axis=0, ddof=1) / math.sqrt(len(values))
    return close


def bagged(values: Vector, rng: np.random.Generator) -> Places:
    """Return the best settings of bootstrap samples of topics, given values of (topics, settings)."""
    counts = rng.multinomial(len(values), np.full(len(values), 1.0 / len(values)), size=_BAGS)
    return _best_by(counts.astype(np.float64), values)


def bayesian(values: Vector, rng: np.random.Generator) -> Places:
    """Return the best settings of draws from the posterior of topics: the Bayesian bootstrap's weights.

    Rubin, The Bayesian bootstrap, Annals of Statistics 9, 1981: shares of topics evenly from the simplex.
    """
    return _best_by(rng.dirichlet(np.ones(len(values)), size=_BAGS), values)


def _best_by(weights: Vector, values: Vector) -> Places:
    # Not by BLAS, whose bits depend on threads.
    best: Places = np.einsum("bt,ts->bs", weights, values).argmax(axis=1)
    return best


def crossed_halves(values: Vector, topics: Places, rng: np.random.Generator) -> Vector:
    """Return each topic's value at the best setting of the half of topics that it is not in.

    Parameters
    ----------
    values : numpy.ndarray, shape (all topics, settings)
    topics : numpy.ndarray of int64
        Places; the result has their order.
    rng : numpy.random.Generator
        Cuts them in two.
    """
    found = np.empty(topics.size)
    first = np.zeros(topics.size, np.bool_)
    first[rng.permutation(topics.size)[: topics.size // 2]] = True
    for half in (first, ~first):
        found[half] = values[topics[half], values[topics[~half]].mean(axis=0).argmax()]
    return found


def decompose(by_topic: Mapping[str, Vector], train: Places, test: Places) -> dict[str, dict[str, float]]:
    """Cut methods' losses in two.

    Parameters
    ----------
    by_topic : mapping of str to numpy.ndarray, shape (all topics,)
        By method the measure at its choice, that of the training topics' best, `OPTIMUM`, among them.
    train, test : numpy.ndarray of int64
        Places of topics.

    Returns
    -------
    dict
        By method: means ``train`` and ``test``; ``optimisation``, what it misses on the training topics; and
        ``part``, what it loses to the optimum on the test topics.
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
    """Yield the rows of `decompose`, with the least and most that few topics lose: ``below``, ``above``.

    Parameters
    ----------
    values : mapping of str to numpy.ndarray
        Each method's values of all topics, `OPTIMUM` among them.
    refit : callable
        Of topics; fits on these, and returns the setting's values of all topics.
    train, test : numpy.ndarray
        The topics that methods were fitted on, and the others.
    rng : numpy.random.Generator
        Cuts the others in halves that judge each other's setting.
    **common : float
        What all rows have as well.
    """
    halves = np.array_split(rng.permutation(test), 2)
    crossed = [refit(other)[own] for own, other in zip(halves, halves[::-1], strict=True)]
    hindsight = max(refit(test)[test].mean(), *(own[test].mean() for own in values.values()))
    held_out = values[OPTIMUM][test].mean()
    gaps = {"below": np.concatenate(crossed).mean() - held_out, "above": hindsight - held_out}
    for name, row in decompose(values, train, test).items():
        yield {"method": name, **row, **common, **gaps}
