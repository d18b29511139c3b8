"""LambdaMART by LightGBM: boosted trees, the baseline of networks."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Mapping, Sequence
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
from lmtune.progress import count_callback
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
    """Boosted trees that score documents, and the history of their training.

    Attributes
    ----------
    settings : TreeSettings
    text : str
        The trees up to the best round, in LightGBM's file format.
    best_round : int
        Number of trees, from 1.
    history : tuple of float
        Mean of the validation measure after each tree.
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
        # Check first: LightGBM aborts the process on truncated text.
        if not self.text.startswith("tree\n") or "\nend of trees" not in self.text:
            raise InputError("not a complete LightGBM model", accepted="a file that LightGBM wrote")
        try:
            return _lightgbm().Booster(model_str=self.text)
        except Exception as error:
            raise InputError(f"not a LightGBM model ({error})") from error

    @property
    def features(self) -> int:
        """Number of features."""
        return int(self._booster.num_feature())

    @property
    def trees(self) -> int:
        """Number of trees."""
        return int(self._booster.num_trees())

    @property
    def gains(self) -> list[float]:
        """LightGBM's gain importance: the summed gain of each feature's splits in training."""
        return [float(gain) for gain in self._booster.feature_importance("gain")]

    @property
    def validation(self) -> float:
        """Validation value of the best round."""
        return self.history[self.best_round - 1]

    @property
    def summary(self) -> str:
        """One line with the number of trees and the validation value."""
        measure = self.settings.validation_measure.label
        return f"{self.best_round} trees, validation {measure} {self.validation:.4f}"

    def score(
        self, data: RankingData, *, progress: StepProgress | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.float64]:
        """Score every row on the CPU, shape (rows,).

        Raises
        ------
        InputError
            If the number of features differs from training.
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
        """Write the trees and the history of validation values; see `Scorer`."""
        folder.joinpath(TREES).write_text(self.text, encoding="utf-8")
        folder.joinpath(HISTORY).write_text(csv_text(["round", "validation"], enumerate(self.history, 1)))
        return {"settings": asdict(self.settings), "best_round": self.best_round}

    @classmethod
    def load(cls, folder: Path, files: Mapping[str, bytes], model: Mapping[str, Any]) -> Self:
        """Load the scorer that `save` wrote; see `Scorer`."""
        del folder
        history = tuple(float(value) for _, value in csv_rows(files[HISTORY]))
        text = files[TREES].decode(errors="replace")
        trees = cls(TreeSettings(**model["settings"]), text, model["best_round"], history)
        trees.trees  # noqa: B018 - checks that LightGBM can parse the text
        return trees


class TreeLearner(Learner):
    """Trains LambdaMART on raw features."""

    scorer = LambdaMart
    options = TreeSettings
    used = ("ranker", "measure", "seed")

    def check(self, *, lists: bool = True) -> None:
        """Raise InputError if the network reads text, MissingExtraError if LightGBM is not installed."""
        if reads_text(self.settings.network):
            raise InputError("trees cannot read text", value=self.settings.label, accepted="another ranker")
        if find_spec("lightgbm") is None:
            raise MissingExtraError(self.settings.label, "neural")
        super().check(lists=lists)

    def fit(self, train: RankingData, validation: RankingData, **how: Unpack[TrainingOptions]) -> LambdaMart:
        """Train LambdaMART; of the options only `progress` is used."""
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
    """Train LambdaMART (Burges 2010) with early stopping by the validation measure.

    The same data and settings give the same trees.

    Parameters
    ----------
    train, validation : RankingData
        Training queries, and queries for early stopping. Features need no normalisation. Query weights
        multiply gradients.
    settings : TreeSettings, optional
    progress : callable or bool, optional
        Called with (trees grown, maximum, status); True draws a bar.

    Returns
    -------
    LambdaMart

    Raises
    ------
    InputError
        If labels are not integers up to 30, a query has more than 10,000 rows, the numbers of features
        differ, a part has no relevant document, or there are too few rows for a split.
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
    # LightGBM's NDCG is 1 for queries without a relevant document, so validation uses ours.
    held_out = data.create_valid(
        validation.features, label=validation.labels, group=validation.lengths, params=settings.parameters()
    )
    booster.add_valid(held_out, "validation")
    measurer = Measurer(settings.validation_measure, validation)
    history: list[float] = []

    def measure(scores: NDArray[np.float64], _: Any) -> tuple[str, float, bool]:
        return "validation", measurer.mean(scores), True

    best, report = 0, count_callback(progress, "growing trees")
    for grown in range(1, settings.rounds + 1):
        try:
            cannot_split = booster.update()
        except lightgbm.basic.LightGBMError as error:
            raise InputError(f"LightGBM cannot grow a tree ({' '.join(str(error).split())})") from None
        if cannot_split and grown == 1:
            raise InputError(
                "too few training rows for a split",
                value=len(train.labels),
                accepted="more rows, or smaller min_rows and min_hessian",
            )
        value = booster.eval_valid(measure)[0][2]
        history.append(value)
        if value > history[best]:
            best = grown - 1
        if report is not None:
            report(grown, settings.rounds, f"{measurer.measure.label} {value:.4f}")
        if cannot_split or grown - 1 - best >= settings.patience:
            break
    if not math.isfinite(history[best]):
        raise InputError("the validation value is not finite", value=history[best])
    text = booster.model_to_string(num_iteration=best + 1)
    return LambdaMart(settings, text, best + 1, tuple(history))


def name_features(text: str, names: Sequence[str]) -> str:
    """Return LightGBM's text of a model with other feature names, which have no blanks."""
    known = re.search(r"^feature_names=(.*)$", text, re.MULTILINE)
    new_of: dict[str, str] = dict(zip(known[1].split() if known else (), names, strict=True))
    trees, mark, rest = text.partition("\nend of trees")
    trees = re.sub(r"^feature_names=.*$", f"feature_names={' '.join(names)}", trees, flags=re.MULTILINE)
    return (
        trees
        + mark
        + re.sub(r"^(\S+)(?==\d+$)", lambda line: new_of.get(line[1], str(line[1])), rest, flags=re.MULTILINE)
    )


def _check(train: RankingData, validation: RankingData) -> None:
    for name, data in check_training_data(train, validation).items():
        whole = (data.labels == np.floor(data.labels)) & (data.labels <= _HIGHEST_LABEL)
        if not whole.all():
            raise InputError(
                f"bad label in the {name} data for LambdaMART",
                value=float(data.labels[int(np.argmin(whole))]),
                accepted=f"integers from 0 to {_HIGHEST_LABEL}",
            )
        if (most := int(data.lengths.max(initial=0))) > _MOST_ROWS:
            raise InputError(
                f"too many rows of a query in the {name} data for LambdaMART",
                value=most,
                accepted=f"up to {_MOST_ROWS:,}",
            )


def _lightgbm() -> ModuleType:
    try:
        return importlib.import_module("lightgbm")
    except ImportError as error:
        raise MissingExtraError("LambdaMART", "neural") from error
