"""The same training with several seeds, and what its results are worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lmtune.errors import InputError
from lmtune.reranking.data import RankingData
from lmtune.reranking.loop import Progress
from lmtune.reranking.settings import Settings
from lmtune.reranking.training import Trained, fit


class Interval(NamedTuple):
    """A mean and half the width of its confidence interval, NaN for a single value."""

    mean: float
    half: float


def confidence_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """Estimate a mean from independent values by Student's t.

    Parameters
    ----------
    values : sequence of float
        One a trial.
    level : float
        The interval covers the true mean with this probability, if values are normal.

    Raises
    ------
    InputError
        For no value, or a level outside (0, 1).
    """
    from scipy.stats import t

    found = np.asarray(values, np.float64)
    if found.size == 0 or not 0.0 < level < 1.0:
        raise InputError("no interval", value=(found.size, level), accepted="values, 0 < level < 1")
    if found.size == 1:
        return Interval(float(found[0]), math.nan)
    error = float(found.std(ddof=1)) / math.sqrt(found.size)
    return Interval(float(found.mean()), float(t.ppf(0.5 + level / 2, found.size - 1)) * error)


def run_trials(
    train: RankingData,
    validation: RankingData | None,
    settings: Settings,
    *,
    trials: int = 10,
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[Trained]:
    """Train with the settings' seed and those that follow it.

    Parameters
    ----------
    train, validation, settings, device
        As for `lmtune.reranking.training.fit`.
    trials : int
        How many.
    progress : callable, optional
        Called with (steps done, steps in all trials, a few words).

    Raises
    ------
    InputError
        For fewer trials than one; as `fit`.
    """
    if trials < 1:
        raise InputError("bad number of trials", value=trials, accepted="1 or more")
    results = []
    for trial in range(trials):

        def report(done: int, total: int, words: str, trial: int = trial) -> None:
            if progress is not None:
                progress(trial * total + done, trials * total, f"trial {trial + 1}, {words}")

        seeded = replace(settings, seed=settings.seed + trial)
        results.append(fit(train, validation, seeded, device=device, progress=report))
    return results
