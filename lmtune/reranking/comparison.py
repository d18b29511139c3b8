"""Losses held against each other on the same data: the papers' table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, MissingExtraError
from lmtune.measures.lists import Empty, ndcg
from lmtune.progress import note
from lmtune.reranking.data import RankingData, RankingSplit
from lmtune.reranking.loss_names import Loss, parse_loss
from lmtune.reranking.networks import parse_network
from lmtune.reranking.normalisation import Normalisation
from lmtune.reranking.settings import Settings
from lmtune.reranking.training import Trained
from lmtune.reranking.trials import Interval, confidence_interval, run_trials

if TYPE_CHECKING:
    from lmtune.reranking.lambdamart import TreeSettings

CUTOFFS = (1, 3, 5, 10)
Report = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Outcome:
    """What one loss came to.

    Attributes
    ----------
    label : str
        The loss, as the user wrote it.
    rate : float
        The learning rate that validation chose; NaN where there is none.
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

    def interval(self, empty: Empty, cutoff: int) -> Interval:
        """Return the mean over trials at one of `CUTOFFS`, with its 95% interval."""
        return confidence_interval(self.values[empty][:, CUTOFFS.index(cutoff)].tolist())


def compare(
    folds: Sequence[RankingSplit],
    losses: Sequence[Loss],
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
    folds : sequence of RankingSplit
        Test queries of all folds count together in each trial.
    losses : sequence of Loss
        ``lambdamart`` is LightGBM's.
    settings : Settings
        All but the loss; trial t has seed ``settings.seed + t``.
    rates : sequence of float
        Learning rates to choose from by the mean validation value over folds and trials; the
        settings' own by default.
    trials : int
        Trials a loss.
    normalisation : Normalisation, optional
        Of each fold's features, fitted to its training data; its defaults by default.
    device : str
        Where to train.
    report : callable, optional
        Called with (loss, steps done, steps in all, a few words).

    Raises
    ------
    InputError
        As `lmtune.reranking.training.fit`.
    """
    scaled = [fold.map((normalisation or Normalisation()).fit(fold.train).transform) for fold in folds]
    outcomes = []
    for loss in losses:
        if loss.family == "trees":
            outcomes.append(_trees(folds, loss, settings.seed, trials, report))
            continue
        own_settings = replace(settings, loss=loss)
        best: tuple[float, float, list[list[Trained]]] | None = None
        for rate in rates or [settings.learning_rate]:
            found = []
            for number, fold in enumerate(scaled):

                def tell(done: int, total: int, words: str, number: int = number) -> None:
                    if report is not None:
                        where = f"fold {number + 1}, " if len(scaled) > 1 else ""
                        text = f"rate {rate:g}, {where}{words}"  # noqa: B023
                        name = str(loss)  # noqa: B023
                        report(name, number * total + done, len(scaled) * total, text)

                found.append(
                    run_trials(
                        fold.train,
                        fold.validation,
                        replace(own_settings, learning_rate=rate),
                        trials=trials,
                        device=device,
                        progress=tell,
                    )
                )
            value = float(np.mean([trial.validation for own in found for trial in own]))
            if best is None or value > best[0]:
                best = (value, rate, found)
        assert best is not None
        _, rate, kept = best
        tests = [fold.test for fold in scaled]
        scores = [
            [own[trial].score(test, device=device) for own, test in zip(kept, tests, strict=True)]
            for trial in range(trials)
        ]
        outcomes.append(Outcome(str(loss), rate, _measure(tests, scores), tuple(map(tuple, kept))))
    return outcomes


def _measure(
    tests: Sequence[RankingData], scores: Sequence[Sequence[NDArray[np.floating]]]
) -> dict[Empty, NDArray[np.float64]]:
    values: dict[Empty, NDArray[np.float64]] = {}
    conventions: tuple[Empty, ...] = ("skip", "zero")
    for empty in conventions:
        rows = []
        for own in scores:
            measured = [
                ndcg(found, test, CUTOFFS, empty=empty) for found, test in zip(own, tests, strict=True)
            ]
            rows.append(np.nanmean(np.concatenate(measured), axis=0))
        values[empty] = np.array(rows)
    return values


def tree_settings(loss: Loss, seed: int) -> TreeSettings:
    """Return the settings of trees with a loss's options."""
    from lmtune.reranking.lambdamart import TreeSettings

    return TreeSettings(**{"seed": seed, **loss.options})


def _trees(
    folds: Sequence[RankingSplit], loss: Loss, seed: int, trials: int, report: Report | None
) -> Outcome:
    from lmtune.reranking import lambdamart

    asked_for = tree_settings(loss, seed)
    grown: list[list[NDArray[np.floating]]] = []
    for trial in range(trials):
        scores: list[NDArray[np.floating]] = []
        for number, fold in enumerate(folds):

            def tell(done: int, total: int, words: str, place: int = len(folds) * trial + number) -> None:
                if report is not None:
                    count = len(folds) * trials
                    report(str(loss), place * total + done, count * total, words)

            settings = replace(asked_for, seed=seed + trial)
            found = lambdamart.fit(fold.train, fold.validation, settings, progress=tell)
            scores.append(found.model.predict(fold.test))
        grown.append(scores)
    rate = asked_for.learning_rate
    return Outcome(str(loss), rate, _measure([fold.test for fold in folds], grown))


def read_losses(text: str, settings: Settings) -> list[Loss]:
    """Read losses to compare, with commas between; check that they can be trained.

    Raises
    ------
    InputError
        For an unknown loss or network, a loss named twice, or one that the optimizer cannot minimise.
    """
    from importlib.util import find_spec

    losses = [parse_loss(part) for part in text.split(",")]
    if len(set(map(str, losses))) < len(losses):
        raise InputError("a loss is named twice", value=text, accepted="each once")
    for loss in losses:
        if loss.family != "trees":
            loss.check_optimizer(settings.optimizer)
        elif find_spec("lightgbm") is None:
            raise MissingExtraError("lambdamart", "neural")
    parse_network(settings.network)
    return losses


def note_empty_queries(folds: Sequence[RankingSplit]) -> int:
    """Count test queries without a relevant document, and say how many there are."""
    missing = sum(
        int((np.add.reduceat(fold.test.labels > 0, fold.test.starts[:-1]) == 0).sum()) for fold in folds
    )
    total = sum(len(fold.test.queries) for fold in folds)
    note(f"{total} test queries, {missing} of them without a relevant document")
    return missing


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
