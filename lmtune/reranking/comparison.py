"""Losses held against each other on the same data: the papers' table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, MissingExtraError
from lmtune.measures.lists import Empty, ndcg
from lmtune.measures.significance.effects import MeanInterval, confidence_interval
from lmtune.reranking.data import RankingData, RankingSplit
from lmtune.reranking.loop import Progress
from lmtune.reranking.loss_names import Loss, parse_losses
from lmtune.reranking.networks import parse_network
from lmtune.reranking.normalisation import Normalisation
from lmtune.reranking.reranker import CUTOFFS, Scorer, fit_scorer
from lmtune.reranking.settings import Settings
from lmtune.reranking.training import Trained

Report = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Outcome:
    """What one loss came to.

    Attributes
    ----------
    label : str
        The loss, as the user wrote it.
    rate : float
        The learning rate that validation chose.
    values : dict of str to numpy.ndarray, shape (trials, cutoffs)
        Mean test nDCG of each trial, by what queries without relevant documents count:
        ``"skip"`` or ``"zero"``.
    trials : tuple of tuple of Trained
        One tuple a fold; empty for trees.
    """

    label: str
    rate: float
    values: dict[Empty, NDArray[np.float64]]
    trials: tuple[tuple[Trained, ...], ...] = ()

    @property
    def trained(self) -> list[Trained]:
        """All trainings, fold by fold."""
        return [one for own in self.trials for one in own]

    def interval(self, empty: Empty, cutoff: int) -> MeanInterval:
        """Return the mean over trials at one of `CUTOFFS`, with its 95% interval."""
        return confidence_interval(self.values[empty][:, CUTOFFS.index(cutoff)].tolist())


def compare(
    splits: Sequence[RankingSplit],
    losses: Sequence[Loss | Sequence[Loss]],
    settings: Settings,
    *,
    rates: Sequence[float] = (),
    trials: int = 10,
    normalisation: Normalisation | None = None,
    device: str = "cpu",
    report: Report | None = None,
) -> list[Outcome]:
    """Train each loss several times and measure it on the test queries.

    Parameters
    ----------
    splits : sequence of RankingSplit
        Folds, for one; test queries of all of them count together in each trial.
    losses : sequence of Loss, or of several to choose from
        ``lambdamart`` is LightGBM's, on features as they come. Of one loss with several options
        validation chooses, as it does a learning rate.
    settings : Settings
        All but the loss; trial t has seed ``settings.seed + t``.
    rates : sequence of float
        Learning rates to choose from by the mean validation value over folds and trials; the
        settings' own by default. Trees have their own.
    trials : int
        Trials a loss, 1 or more.
    normalisation : Normalisation, optional
        Of each fold's features, fitted to its training data; its defaults by default.
    device : str
        Where to train.
    report : callable, optional
        Called with (loss, steps done, steps in all, a few words).

    Raises
    ------
    InputError
        As `lmtune.reranking.reranker.fit_scorer`.
    """
    scaled = [split.map((normalisation or Normalisation()).fit(split.train).transform) for split in splits]
    outcomes = []
    for given in losses:
        some = [given] if isinstance(given, Loss) else given
        trees = some[0].family == "trees"
        data = splits if trees else scaled
        asked = [
            replace(settings, loss=loss, learning_rate=rate)
            for loss in some
            for rate in ([] if trees else rates) or [settings.learning_rate]
        ]
        tried = [_train(data, own, trials, device, report) for own in asked]
        place = int(np.argmax([np.mean([one.validation for own in found for one in own]) for found in tried]))
        best, loss = tried[place], asked[place].loss
        tests = [split.test for split in data]
        scores = [
            [own[trial].score(test, device=device) for own, test in zip(best, tests, strict=True)]
            for trial in range(trials)
        ]
        networks = tuple(tuple(one for one in own if isinstance(one, Trained)) for own in best)
        rate = best[0][0].settings.learning_rate
        outcomes.append(Outcome(str(loss), rate, _measure(tests, scores), () if trees else networks))
    return outcomes


def _train(
    splits: Sequence[RankingSplit], settings: Settings, trials: int, device: str, report: Report | None
) -> list[list[Scorer]]:
    """Train every trial of every fold."""
    found = []
    for number, split in enumerate(splits):

        def tell(done: int, total: int, words: str, number: int = number) -> None:
            if report is not None:
                rate = "" if settings.loss.family == "trees" else f"rate {settings.learning_rate:g}, "
                where = f"fold {number + 1}, " if len(splits) > 1 else ""
                place, count = number * total + done, len(splits) * total
                report(str(settings.loss), place, count, f"{rate}{where}{words}")

        found.append(run_trials(split, settings, trials=trials, device=device, progress=tell))
    return found


def run_trials(
    split: RankingSplit,
    settings: Settings,
    *,
    trials: int = 10,
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[Scorer]:
    """Train with the settings' seed and those that follow it.

    Parameters
    ----------
    split : RankingSplit
        What to learn from and to choose by, normalised for networks.
    settings, device
        As for `lmtune.reranking.training.fit`.
    trials : int
        How many.
    progress : callable, optional
        Called with (steps done, steps in all trials, a few words).

    Raises
    ------
    InputError
        For fewer trials than one; as `lmtune.reranking.reranker.fit_scorer`.
    """
    if trials < 1:
        raise InputError("bad number of trials", value=trials, accepted="1 or more")
    results = []
    for trial in range(trials):

        def report(done: int, total: int, words: str, trial: int = trial) -> None:
            if progress is not None:
                progress(trial * total + done, trials * total, f"trial {trial + 1}, {words}")

        seeded = replace(settings, seed=settings.seed + trial)
        results.append(fit_scorer(split.train, split.validation, seeded, device=device, progress=report))
    return results


def _measure(
    tests: Sequence[RankingData], scores: Sequence[Sequence[NDArray[np.floating]]]
) -> dict[Empty, NDArray[np.float64]]:
    conventions: tuple[Empty, ...] = ("skip", "zero")
    values = {}
    for empty in conventions:
        queries = [
            np.concatenate([ndcg(*pair, CUTOFFS, empty=empty) for pair in zip(own, tests, strict=True)])
            for own in scores
        ]
        values[empty] = np.array([np.nanmean(found, axis=0) for found in queries])
    return values


def read_losses(text: str, settings: Settings) -> list[list[Loss]]:
    """Read losses to compare, with commas between, each one or a grid; check that they can be trained.

    Raises
    ------
    InputError
        For an unknown loss or network, a loss named twice, or one that the optimizer cannot minimise.
    """
    losses = [parse_losses(part) for part in text.split(",")]
    every = [loss for some in losses for loss in some]
    if len(set(map(str, every))) < len(every):
        raise InputError("a loss is named twice", value=text, accepted="each once")
    for loss in every:
        if loss.family != "trees":
            replace(settings, loss=loss)  # raises where the other settings do not suit it
        elif find_spec("lightgbm") is None:
            raise MissingExtraError("lambdamart", "neural")
    parse_network(settings.network)
    return losses


def empty_queries(splits: Sequence[RankingSplit]) -> int:
    """Count test queries without a relevant document."""
    return sum(
        int((np.add.reduceat(split.test.labels > 0, split.test.starts[:-1]) == 0).sum()) for split in splits
    )


def history_rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return every epoch of every trial as records."""
    return [
        {
            "loss": outcome.label,
            "fold": fold,
            "trial": trial,
            "epoch": row.epoch,
            "value": row.loss,
            "objective": row.objective,
            "validation": row.validation,
            "best": int(row.epoch == trained.best_epoch),
        }
        for outcome in outcomes
        for fold, own in enumerate(outcome.trials, 1)
        for trial, trained in enumerate(own, 1)
        for row in trained.history
    ]
