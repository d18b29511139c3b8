"""What runs' scores tell of a query before anything is judged: features of weights that depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.formats.term_values import read_term_values
from lmtune.fusion.runs import Features, RunSet, Scores, ranks

Doubles = NDArray[np.float64]

_TOP = 10


class QueryFeature(NamedTuple):
    """A feature of a query.

    Attributes
    ----------
    what : str
        For a reader.
    of : callable
        From a topic's scores, shape (runs, documents), NaN where a run has not retrieved one, to a value a
        run, in [0, 1].
    by_run : bool
        Whether each run has a power of its own: for what is the same for all runs, which one power could
        not tell apart.
    """

    what: str
    of: Callable[[Scores], Doubles]
    by_run: bool = False


def _drop(scores: Scores) -> Doubles:
    top = np.sort(np.nan_to_num(scores, nan=-np.inf), axis=1)[:, ::-1]
    sizes = (~np.isnan(scores)).sum(axis=1)
    return np.array([_share(own[:n], min(n, _TOP) - 1) for own, n in zip(top, sizes.tolist(), strict=True)])


def _share(falling: Doubles, last: int) -> float:
    """Return which share of the fall of some scores comes before a place."""
    whole = falling[0] - falling[-1] if falling.size else 0.0
    return float((falling[0] - falling[last]) / whole) if whole > 0.0 else 0.0


def _spread(scores: Scores) -> Doubles:
    held = [own[~np.isnan(own)] for own in scores]
    return np.array(
        [2.0 * own.std() / np.ptp(own) if own.size and np.ptp(own) > 0.0 else 0.0 for own in held]
    )


def _tops(scores: Scores) -> Doubles:
    return np.asarray(ranks(scores) <= _TOP, np.float64)


def _agreement(scores: Scores) -> Doubles:
    tops = _tops(scores)
    shared = tops @ tops.T / np.maximum(tops.sum(axis=1), 1.0)[:, None]
    others = max(len(scores) - 1, 1)
    found: Doubles = (shared.sum(axis=1) - np.diag(shared)) / others
    return found


def _overlap(scores: Scores) -> Doubles:
    return np.full(len(scores), _agreement(scores).mean())


def _retrieved(scores: Scores) -> Doubles:
    found: Doubles = (~np.isnan(scores)).mean(axis=1)
    return found


QUERY_FEATURES = {
    "drop": QueryFeature(f"how much of a run's scores' fall comes within its first {_TOP}", _drop),
    "spread": QueryFeature("the deviation of a run's scores, over half of their range", _spread),
    "agreement": QueryFeature(f"the share of a run's first {_TOP} that the other runs have too", _agreement),
    "retrieved": QueryFeature("the share of all runs' documents that a run has", _retrieved),
    "overlap": QueryFeature(f"the runs' mean agreement on the first {_TOP}", _overlap, by_run=True),
}
"""The features of queries by name."""


def features_of(runs: RunSet, most: int) -> dict[str, Features]:
    """Return what each power of runs' weights is of, by name.

    Of more runs than `most` there are none by run, but for features that a user tells.
    """
    found: dict[str, Features] = {}
    for name, feature in QUERY_FEATURES.items():
        if not feature.by_run:
            found[name] = partial(_of_scores, feature.of)
        elif len(runs.names) <= most:
            found |= {f"{name} {run}": partial(_of_run, feature.of, at) for at, run in enumerate(runs.names)}
    for name in dict.fromkeys(name for own in runs.told.values() for name in own):
        found |= {f"{name} {run}": partial(_told, runs.told, name, at) for at, run in enumerate(runs.names)}
    return found


def _of_scores(of: Callable[[Scores], Doubles], _: str, scores: Scores) -> Doubles:
    return of(scores)


def _of_run(of: Callable[[Scores], Doubles], at: int, _: str, scores: Scores) -> Doubles:
    """Return a run's value alone."""
    own = np.zeros(len(scores))
    own[at] = of(scores)[at]
    return own


def _told(told: Mapping[str, Mapping[str, float]], name: str, at: int, topic: str, scores: Scores) -> Doubles:
    own = np.zeros(len(scores))
    own[at] = told[topic][name]
    return own


def told_features(path: PathLike, topics: Iterable[str]) -> dict[str, dict[str, float]]:
    """Read a user's features of queries, by topic.

    Parameters
    ----------
    path : path-like
        Lines ``topic<TAB>feature<TAB>value``, as `lmtune.formats.term_values.read_term_values` reads them.
    topics : iterable of str
        Those that need a value of each feature.

    Raises
    ------
    InputError
        For a malformed line, a value outside [0, 1], a name that is taken, a topic without a value.
    """
    told = read_term_values(path, "feature")
    names = dict.fromkeys(name for own in told.values() for name in own)
    for name in names:
        if name in QUERY_FEATURES or name.split() != [name]:
            taken = f"a word other than {', '.join(QUERY_FEATURES)}"
            raise InputError("bad name of a feature", file=path, value=name, accepted=taken)
    for topic in topics:
        for name in names:
            value = told.get(topic, {}).get(name)
            if value is None or not 0.0 <= value <= 1.0:
                said = f"topic {topic} has no {name}" if value is None else f"topic {topic}, {name}"
                accepted = "from 0 to 1, for each topic and feature"
                raise InputError(said, file=path, value=value, accepted=accepted)
    return told
