"""LambdaMART by LightGBM: the baseline of boosted trees, which networks are compared with."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, MissingExtraError
from lmtune.io.csv_files import csv_text
from lmtune.measures.lists import Measurer
from lmtune.progress import counted
from lmtune.rerank.data import RankingData, check_training_data
from lmtune.rerank.learners.learner import FeatureScorer, Learner, ScoringOptions
from lmtune.rerank.rankers import TreeSettings
from lmtune.rerank.settings import reads_text
from lmtune.rerank.training.loop import HISTORY, StepProgress, TrainingOptions, csv_rows

TREES = "trees.txt"
"""The file of a model's trees."""

_HIGHEST_LABEL = 30
_MOST_ROWS = 10_000  # LightGBM's limit


@dataclass(frozen=True, eq=False)
class LambdaMart(FeatureScorer):
    """Boosted trees that score documents, and how they came about.

    Attributes
    ----------
    settings : TreeSettings
        What was asked for.
    text : str
        The trees up to the best round, as LightGBM writes them to a file.
    best_round : int
        From 1.
    history : tuple of float
        The validation measure's mean after each tree, over the queries that count.
    """

    settings: TreeSettings
    text: str
    best_round: int
    history: tuple[float, ...]

    label: ClassVar = "lambdamart"
    kind: ClassVar = "trees"
    scales: ClassVar = False
    has_rate: ClassVar = False

    @cached_property
    def _booster(self) -> Any:
        # Before LightGBM sees it: on a text cut short it aborts the process.
        if not self.text.startswith("tree\n") or "\nend of trees" not in self.text:
            raise InputError("no LightGBM model, or cut short", accepted="what LightGBM wrote")
        try:
            return _lightgbm().Booster(model_str=self.text)
        except Exception as error:
            raise InputError(f"no LightGBM model ({error})") from error

    @property
    def features(self) -> int:
        """How many features the trees take."""
        return int(self._booster.num_feature())

    @property
    def trees(self) -> int:
        """How many trees there are."""
        return int(self._booster.num_trees())

    @property
    def gains(self) -> list[float]:
        """Gains of the splits by each feature in training, as LightGBM sums it."""
        return [float(gain) for gain in self._booster.feature_importance("gain")]

    @property
    def validation(self) -> float:
        """The best round's validation value."""
        return self.history[self.best_round - 1]

    @property
    def summary(self) -> str:
        """The best round, in a line."""
        measure = self.settings.validation_measure.label
        return f"{self.best_round} trees, validation {measure} {self.validation:.4f}"

    def score(
        self, data: RankingData, *, progress: StepProgress | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.float64]:
        """Score every row, shape (rows,), whatever the device.

        Raises
        ------
        InputError
            For another number of features than in training.
        """
        del progress, how
        if data.features.shape[1] != self.features:
            raise InputError(
                "wrong number of features",
                value=data.features.shape[1],
                accepted=f"{self.features}, as in training",
            )
        if not data.labels.size:
            return np.zeros(0)
        return np.asarray(self._booster.predict(data.features), np.float64)

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the trees and the validation value after each; see `Scorer`."""
        folder.joinpath(TREES).write_text(self.text, encoding="utf-8")
        folder.joinpath(HISTORY).write_text(csv_text(["round", "validation"], enumerate(self.history, 1)))
        return {"settings": asdict(self.settings), "best_round": self.best_round}

    @classmethod
    def load(cls, home: Path, files: Mapping[str, bytes], kept: Mapping[str, Any]) -> Self:
        """Make it of what `save` wrote."""
        del home
        history = tuple(float(value) for _, value in csv_rows(files[HISTORY]))
        text = files[TREES].decode(errors="replace")
        trees = cls(TreeSettings(**kept["settings"]), text, kept["best_round"], history)
        trees.trees  # noqa: B018 - to see that it can be read
        return trees


class TreeLearner(Learner):
    """Grows trees on features as they come."""

    scorer = LambdaMart
    options = TreeSettings

    def check(self, *, lists: bool = True) -> None:
        """Raise InputError for a network that reads text, MissingExtraError without LightGBM."""
        if reads_text(self.settings.network):
            raise InputError("trees read no text", value=self.settings.label, accepted="another ranker")
        if find_spec("lightgbm") is None:
            raise MissingExtraError(self.settings.label, "neural")
        super().check(lists=lists)

    def fit(self, train: RankingData, validation: RankingData, **how: Unpack[TrainingOptions]) -> LambdaMart:
        """Grow trees: of the options `progress` alone has a use."""
        settings = self.settings
        trees = self.options(**settings.ranker.options, measure=settings.measure, seed=settings.seed)
        return fit(train, validation, trees, progress=how.get("progress"))


def fit(
    train: RankingData,
    validation: RankingData,
    settings: TreeSettings | None = None,
    *,
    progress: StepProgress | bool | None = None,
) -> LambdaMart:
    """Grow trees by LambdaMART (Burges 2010), until the validation measure no longer rises.

    The same data and settings give the same trees.

    Parameters
    ----------
    train, validation : RankingData
        What to learn from and what tells when to stop. Features need no normalisation. Queries' weights
        multiply their gradients.
    settings : TreeSettings, optional
        Everything else.
    progress : callable or bool, optional
        Called with (trees grown, trees at most, a few words); True draws a bar.

    Returns
    -------
    LambdaMart

    Raises
    ------
    InputError
        For labels that are no whole numbers up to 30, a query of more than 10,000 rows, data whose features
        differ in number, or no relevant document in either, or too few rows for a single split.
    MissingExtraError
        If LightGBM is not installed.
    """
    settings = settings or TreeSettings()
    lightgbm = _lightgbm()
    _check(train, validation)
    data = lightgbm.Dataset(
        train.features,
        label=train.labels,
        weight=None if train.weights is None else train.weights[train.query_of_row] / train.weights.mean(),
        group=train.lengths,
        params=settings.parameters(),
    )
    booster = lightgbm.Booster(settings.parameters(), data)
    # LightGBM's own measure gives 1 to queries without a relevant document: ours chooses.
    held_out = data.create_valid(
        validation.features, label=validation.labels, group=validation.lengths, params=settings.parameters()
    )
    booster.add_valid(held_out, "validation")
    measurer = Measurer(settings.validation_measure, validation)
    measured: list[float] = []

    def measure(scores: NDArray[np.float64], _: Any) -> tuple[str, float, bool]:
        return "validation", measurer.mean(scores), True

    best, told = 0, counted(progress, "growing trees")
    for grown in range(1, settings.rounds + 1):
        try:
            stuck = booster.update()
        except lightgbm.basic.LightGBMError as error:
            raise InputError(f"LightGBM cannot grow a tree ({' '.join(str(error).split())})") from None
        if stuck and grown == 1:
            raise InputError(
                "the training data are too few for a single split",
                value=len(train.labels),
                accepted="more rows, or smaller min_rows and min_hessian",
            )
        value = booster.eval_valid(measure)[0][2]
        measured.append(value)
        if value > measured[best]:
            best = grown - 1
        if told is not None:
            told(grown, settings.rounds, f"{measurer.measure.label} {value:.4f}")
        if stuck or grown - 1 - best >= settings.patience:
            break
    if not math.isfinite(measured[best]):
        raise InputError("the validation value is not finite", value=measured[best])
    text = booster.model_to_string(num_iteration=best + 1)
    return LambdaMart(settings, text, best + 1, tuple(measured))


def _check(train: RankingData, validation: RankingData) -> None:
    for name, data in check_training_data(train, validation).items():
        whole = (data.labels == np.floor(data.labels)) & (data.labels <= _HIGHEST_LABEL)
        if not whole.all():
            raise InputError(
                f"LambdaMART cannot take a label of the {name} data",
                value=float(data.labels[int(np.argmin(whole))]),
                accepted=f"whole numbers from 0 to {_HIGHEST_LABEL}",
            )
        if (most := int(data.lengths.max(initial=0))) > _MOST_ROWS:
            raise InputError(
                f"LambdaMART cannot take as many rows of a query of the {name} data",
                value=most,
                accepted=f"up to {_MOST_ROWS:,}",
            )


def _lightgbm() -> ModuleType:
    try:
        return importlib.import_module("lightgbm")
    except ImportError as error:
        raise MissingExtraError("LambdaMART", "neural") from error
