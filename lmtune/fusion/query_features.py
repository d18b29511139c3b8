"""What runs' scores tell of a query before anything is judged: features of weights that depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.fusion.normalisation import ranks
from lmtune.fusion.runs import Features, Scores

Doubles = NDArray[np.float64]

_TOP = 10


class QueryFeature(NamedTuple):
    """A feature of a query.

    Attributes
    ----------
    what : str
        For a reader.
    of : Features
        From a topic's scores, shape (runs, documents), NaN where a run has not retrieved one, to a value a
        run, in [0, 1].
    by_run : bool
        Whether each run has a power of its own: for what is the same for all runs, which one power could
        not tell apart.
    """

    what: str
    of: Features
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


def features_of(runs: Sequence[str], most: int) -> dict[str, Features]:
    """Return what each power of some runs' weights is of, by name; of more runs than `most` none by run."""
    found: dict[str, Features] = {}
    for name, feature in QUERY_FEATURES.items():
        if not feature.by_run:
            found[name] = feature.of
        elif len(runs) <= most:
            found |= {f"{name} {run}": partial(_of_run, feature.of, at) for at, run in enumerate(runs)}
    return found


def _of_run(of: Features, at: int, scores: Scores) -> Doubles:
    """Return a run's value alone."""
    own = np.zeros(len(scores))
    own[at] = of(scores)[at]
    return own
