"""Comparison of losses and rankers on the same data, over several trials."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from lmtune.devices import is_spread, parse_devices, run_on_devices
from lmtune.errors import FilePosition, InputError, PathLike, check_least
from lmtune.io.digests import digest
from lmtune.measures.lists import Empty, mean_over_lists
from lmtune.measures.measure import Measure
from lmtune.measures.significance.comparison import Comparison, ComparisonOptions
from lmtune.measures.significance.comparison import compare as compare_values
from lmtune.measures.significance.tests import FEWEST, MeanInterval, confidence_interval
from lmtune.parallel import Task, in_task_order
from lmtune.rerank.data import RankingSplit
from lmtune.rerank.learners.learner import Scorer
from lmtune.rerank.loss_names import Loss, parse_losses
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.rankers import Ranker
from lmtune.rerank.reranker import evaluate_queries, learner_of, load_model, reported_measures
from lmtune.rerank.settings import Settings, reads_text
from lmtune.rerank.training.loop import Training, TrainingOptions

Method = Loss | Ranker
_Report = Callable[[str, int, int, str], None]
Over = Literal["queries", "trials"]
OVER: tuple[Over, ...] = get_args(Over)
"""Units of paired tests of losses."""


@dataclass(frozen=True)
class Outcome:
    """The test results of one loss or ranker.

    Attributes
    ----------
    label : str
        The loss, as the user wrote it; several of a grid if folds selected different ones.
    rates : tuple of float
        The learning rate that each fold selected on its validation queries; empty if unknown.
    measures : tuple of Measure
    queries : numpy.ndarray, shape (trials, queries, measures)
        Values of each test query; NaN for queries without relevant documents.
    trials : tuple of tuple of Training
        The trainings of each fold, one per trial; empty for trees.
    """

    label: str
    rates: tuple[float, ...]
    measures: tuple[Measure, ...]
    queries: NDArray[np.float64]
    trials: tuple[tuple[Training, ...], ...] = ()

    @property
    def rate_text(self) -> str:
        """The selected learning rates, each once."""
        return " or ".join(f"{rate:g}" for rate in dict.fromkeys(self.rates))

    @property
    def trained(self) -> list[Training]:
        """All trainings, in order of folds."""
        return [one for fold in self.trials for one in fold]

    def by_trial(self, empty: Empty, measure: Measure) -> NDArray[np.float64]:
        """Return each trial's mean over queries; queries without relevant documents are skipped or 0."""
        values = self.queries[:, :, self.measures.index(measure)]
        return mean_over_lists(values.T) if empty == "skip" else np.nan_to_num(values).mean(axis=1)

    def by_query(self, empty: Empty, measure: Measure) -> NDArray[np.float64]:
        """Return each query's mean over trials; queries without relevant documents are skipped or 0."""
        means: NDArray[np.float64] = self.queries[:, :, self.measures.index(measure)].mean(axis=0)
        return means[~np.isnan(means)] if empty == "skip" else np.nan_to_num(means)

    def interval(self, empty: Empty, measure: Measure) -> MeanInterval:
        """Return the mean with its 95% interval over trials; over queries if there is a single trial."""
        values = self.by_trial(empty, measure)
        if values.size == 1 and not np.isnan(values[0]):
            values = self.by_query(empty, measure)
        return confidence_interval(values.tolist())


def contrasts(
    outcomes: Sequence[Outcome], empty: Empty, measure: Measure, *, over: Over
) -> Comparison | None:
    """Test all pairs of losses by paired t-tests with Holm's correction.

    Parameters
    ----------
    outcomes : sequence of Outcome
        One per loss.
    empty : {"skip", "zero"}
        Whether queries without a relevant document are skipped or have value 0.
    measure : Measure
        One of the outcomes' measures.
    over : {"queries", "trials"}
        Unit of pairing: queries, with their means over trials; or trials, with their means over
        queries (trial t of every loss has the same seed).

    Returns
    -------
    Comparison or None
        None for fewer than two losses, or fewer than three queries or trials.
    """
    by = "by_query" if over == "queries" else "by_trial"
    values = {outcome.label: getattr(outcome, by)(empty, measure) for outcome in outcomes}
    first, *others = values
    if not others or values[first].size < FEWEST:
        return None
    rest = {label: values[label] for label in others}
    options = ComparisonOptions(pairwise=True)
    return compare_values(values[first], rest, options, baseline=first, measures=[str(measure)])


def compare(
    data: Folds | Sequence[RankingSplit],
    losses: Sequence[Method | Sequence[Method]],
    settings: Settings,
    *,
    rates: Sequence[float] = (),
    trials: int = 10,
    normalisation: Normalisation | None = None,
    report: _Report | None = None,
    **how: Unpack[TrainingOptions],
) -> list[Outcome]:
    """Train each loss several times and evaluate it on the test queries.

    Parameters
    ----------
    data : sequence of RankingSplit, or Folds
        In each trial, the test queries of all folds are pooled.
    losses : sequence of Loss or Ranker, or of sequences of these
        The losses and rankers to compare. An item can be a sequence of variants of a loss, from which each
        fold selects the one with the highest validation value, a mean over trials.
    settings : Settings
        Everything but the loss; trial t has seed ``settings.seed + t``. The validation measure is reported
        in addition to nDCG.
    rates : sequence of float
        Learning rates, from which each fold selects one for each loss in the same way: its validation
        queries may be other folds' test queries. Default: the settings' rate. Not used for trees.
    trials : int
        Trials per loss, 1 or more.
    normalisation : Normalisation, optional
        Scaling of features, fitted on each fold's training data; default ``Normalisation()``.
    report : callable, optional
        Called with (loss, steps done, total, status).
    **how
        As for `lmtune.rerank.learners.feature_networks.fit`. Each training has a subfolder of
        ``checkpoint``, and uses one of several devices; see `lmtune.devices`.

    Raises
    ------
    InputError
        As `lmtune.rerank.learners.learner.Learner.fit`.
    """
    data = data if isinstance(data, Folds) else Folds(data, normalisation or Normalisation())
    check_least("bad number of trials", trials, 1)
    measures = reported_measures(settings.validation_measure)
    variants_by_loss = [
        [
            replace(settings.with_method(method), learning_rate=rate)
            for method in methods
            for rate in _rates(settings.with_method(method), rates)
        ]
        for methods in ([entry] if isinstance(entry, Method) else entry for entry in losses)
    ]
    scorers = _train_all(data, list(chain(*variants_by_loss)), trials, how, report)
    outcomes = []
    for variants in variants_by_loss:
        trained = [[list(islice(scorers, trials)) for _ in data.splits] for _ in variants]
        values = [[np.mean([one.validation for one in fold]) for fold in folds] for folds in trained]
        selected = np.argmax(values, axis=0).tolist()
        best = [trained[variant][fold] for fold, variant in enumerate(selected)]
        label = " or ".join(dict.fromkeys(str(variants[variant].method) for variant in selected))
        device = parse_devices(how.get("device", "cpu"))[0]
        queries = [data.measure(trial, measures, device) for trial in zip(*best, strict=True)]
        trainings = tuple(tuple(one for one in fold if isinstance(one, Training)) for fold in best)
        rates = tuple(fold[0].settings.learning_rate for fold in best)
        networks = trainings if trainings[0] else ()
        outcomes.append(Outcome(label, rates, measures, np.array(queries), networks))
    return outcomes


def measure_models(
    files: Sequence[PathLike],
    splits: Sequence[RankingSplit],
    settings: Settings,
    trials: int,
    names: Sequence[str] | None = None,
) -> list[Outcome]:
    """Evaluate trained models on the test queries.

    Parameters
    ----------
    files : sequence of path-like
        See `lmtune.rerank.reranker.load_model`. Files of other programs do not record whether a model has
        learnt from the test queries.
    splits, settings, trials
        As for `compare`. A model has the same values in each trial.
    names : sequence of str, optional
        Names of the features, if they have any.

    Raises
    ------
    InputError
        If a path is not a model, or its features differ.
    """
    measures, outcomes = reported_measures(settings.validation_measure), []
    for file in files:
        with FilePosition(file):
            if reads_text(str(file)) or not (model := load_model(file)).names:
                raise InputError("the model reads text: it has no features", accepted="a model of features")
            if names is not None:
                model.check_features(names)
            model.note_seen([query for split in splits for query in split.test.queries], file=file)
            scored = [(split.test, model.score(split.test)) for split in splits]
        values = evaluate_queries(scored, measures)
        outcomes.append(Outcome(Path(file).name, (), measures, np.repeat(values[None], trials, axis=0)))
    return outcomes


@dataclass(frozen=True)
class Folds:
    """The folds of a comparison, with raw features for trees and normalised ones for networks."""

    splits: Sequence[RankingSplit]
    normalisation: Normalisation

    @cached_property
    def scaled(self) -> list[RankingSplit]:
        """The folds with features normalised for networks."""
        return [split.map(self.normalisation.fit(split.train).transform) for split in self.splits]

    def train(self, fold: int, settings: Settings, **how: Unpack[TrainingOptions]) -> Scorer:
        """Train on one fold; see `lmtune.rerank.reranker.learner_of`."""
        learner = learner_of(settings)
        split = self._data(learner.scorer)[fold]
        return learner.fit(split.train, split.validation, **how)

    def measure(self, trial: Sequence[Any], measures: Sequence[Measure], device: str) -> NDArray[np.float64]:
        """Evaluate a trial on the test queries of all folds, shape (queries, measures)."""
        tests = [self._data(scorer)[fold].test for fold, scorer in enumerate(trial)]
        scores = [scorer.score(test, device=device) for scorer, test in zip(trial, tests, strict=True)]
        return evaluate_queries(zip(tests, scores, strict=True), measures)

    def _data(self, scorer: Scorer | type[Scorer]) -> Sequence[RankingSplit]:
        return self.scaled if scorer.scales else self.splits


def _rates(settings: Settings, rates: Sequence[float]) -> Sequence[float]:
    return (rates if learner_of(settings).scorer.has_rate else ()) or [settings.learning_rate]


def _report_step(
    report: _Report,
    loss: str,
    number: int,
    trainings: int,
    prefix: str,
    done: int,
    total: int,
    status: str = "",
) -> None:
    """Report a step of one training as a step of all trainings of a loss."""
    report(loss, number * total + done, trainings * total, prefix + status)


def _train_all(
    data: Folds, variants: Sequence[Settings], trials: int, how: TrainingOptions, report: _Report | None
) -> Iterator[Scorer]:
    """Yield the scorers of all settings, folds and trials, in this order."""
    devices = how.get("device", "cpu")
    spread, per_variant = is_spread(devices), len(data.splits) * trials
    trainings = list(itertools.product(variants, range(len(data.splits)), range(trials)))

    def tasks() -> Iterator[Task]:
        for number, (settings, fold, trial) in enumerate(trainings):
            seeded, options = replace(settings, seed=settings.seed + trial), how.copy()
            if report is not None and not spread:
                fold_text = f"fold {fold + 1}, " if len(data.splits) > 1 else ""
                rate = f"rate {settings.learning_rate:g}, " if learner_of(settings).scorer.has_rate else ""
                prefix = f"{rate}{fold_text}trial {trial + 1}, "
                position = str(settings.method), number % per_variant, per_variant
                options["progress"] = partial(_report_step, report, *position, prefix)
            if (folder := how.get("checkpoint")) is not None:
                # The name has a digest of the settings, so that other settings have another folder.
                content = json.dumps(seeded.as_record()).encode()
                options["checkpoint"] = (
                    folder / f"{settings.method.name}-{digest(content):08x}-fold{fold + 1}"
                )
            yield _train, {"fold": fold, "settings": seeded, "how": options}

    for done, scorer in enumerate(in_task_order(run_on_devices(list(tasks()), devices, shared=data)), 1):
        if report is not None and spread:
            report("trainings", done, len(trainings), "")
        yield scorer


def _train(data: Folds, fold: int, settings: Settings, how: TrainingOptions, device: str) -> Scorer:
    options: TrainingOptions = {**how, "device": device}
    return data.train(fold, settings, **options)


def read_losses(text: str, settings: Settings) -> list[list[Method]]:
    """Parse comma-separated losses and rankers, each possibly a grid, and check that they can be trained.

    Raises
    ------
    InputError
        If a loss or network is unknown, or a loss is listed twice.
    """
    losses: list[list[Method]] = [[*parse_losses(part)] for part in text.split(",")]
    methods = [loss for grid in losses for loss in grid]
    if len(set(map(str, methods))) < len(methods):
        raise InputError("a loss is listed twice", value=text, accepted="each loss once")
    for method in methods:
        learner_of(settings.with_method(method)).check()
    return losses


def empty_queries(splits: Sequence[RankingSplit]) -> int:
    """Count test queries without a relevant document."""
    return sum(
        int((np.add.reduceat(split.test.labels > 0, split.test.starts[:-1]) == 0).sum()) for split in splits
    )


def history_rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return one record per epoch of every trial."""
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
        for fold, trainings in enumerate(outcome.trials, 1)
        for trial, trained in enumerate(trainings, 1)
        for row in trained.history
    ]
