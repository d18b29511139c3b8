"""YetiRank by CatBoost: boosted symmetric trees."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, MissingExtraError
from lmtune.io.csv_files import csv_text
from lmtune.measures.lists import Measurer
from lmtune.progress import count_callback
from lmtune.rerank.data import RankingData, check_training_data
from lmtune.rerank.learners.learner import FeatureScorer, Learner, ScoringOptions
from lmtune.rerank.rankers import YetiSettings
from lmtune.rerank.settings import reads_text
from lmtune.rerank.training.loop import HISTORY, StepProgress, TrainingOptions, csv_rows

_FILE = "trees.cbm"


@dataclass(frozen=True, eq=False)
class YetiRank(FeatureScorer):
    """Boosted trees of CatBoost, and the history of their training.

    Attributes
    ----------
    settings : YetiSettings
        With the learning rate that CatBoost chose.
    content : bytes
        The trees up to the best round, in CatBoost's file format.
    history : tuple of float
        Mean of the validation measure after each tree.
    model : catboost.CatBoost
        The model of `content`.
    """

    settings: YetiSettings
    content: bytes = field(repr=False)
    history: tuple[float, ...]
    model: Any = field(repr=False)

    label: ClassVar = "yetirank"
    kind: ClassVar = "yetirank"
    scales: ClassVar = False
    has_rate: ClassVar = False

    @classmethod
    def of(cls, settings: YetiSettings, content: bytes, history: tuple[float, ...]) -> Self:
        """Read the trees; raise InputError if they are not CatBoost's."""
        model = _catboost().CatBoost()
        try:
            model.load_model(blob=content)
        except Exception as error:
            raise InputError(f"not a CatBoost model ({' '.join(str(error).split())})") from error
        return cls(settings, content, history, model)

    @property
    def validation(self) -> float:
        """Validation value of the best round."""
        return max(self.history)

    @property
    def summary(self) -> str:
        """One line with the number of trees and the validation value."""
        measure = self.settings.validation_measure.label
        return f"{self.model.tree_count_} trees, validation {measure} {self.validation:.4f}"

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
        width = len(self.model.feature_names_)
        if data.features.shape[1] != width:
            accepted = f"{width}, as in training"
            raise InputError("wrong number of features", value=data.features.shape[1], accepted=accepted)
        return np.asarray(
            self.model.predict(data.features, thread_count=1) if len(data.labels) else [], float
        )

    def as_json(self) -> bytes:
        """Return the trees in CatBoost's JSON."""
        with TemporaryDirectory() as folder:
            path = Path(folder, "trees.json")
            self.model.save_model(str(path), format="json")
            return path.read_bytes()

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the trees and the history of validation values; see `Scorer`."""
        folder.joinpath(_FILE).write_bytes(self.content)
        folder.joinpath(HISTORY).write_text(csv_text(["round", "validation"], enumerate(self.history, 1)))
        return {"settings": asdict(self.settings)}

    @classmethod
    def load(cls, folder: Path, files: Mapping[str, bytes], model: Mapping[str, Any]) -> Self:
        """Load the scorer that `save` wrote; see `Scorer`."""
        del folder
        history = tuple(float(value) for _, value in csv_rows(files[HISTORY]))
        return cls.of(YetiSettings(**model["settings"]), files[_FILE], history)


class YetiLearner(Learner):
    """Trains YetiRank on raw features."""

    scorer = YetiRank
    options = YetiSettings
    used = ("ranker", "measure", "seed")

    def check(self, *, lists: bool = True) -> None:
        """Raise InputError if the network reads text, MissingExtraError if CatBoost is not installed."""
        if reads_text(self.settings.network):
            raise InputError("trees cannot read text", value=self.settings.label, accepted="another ranker")
        if find_spec("catboost") is None:
            raise MissingExtraError("YetiRank", "catboost")
        super().check(lists=lists)

    def fit(self, train: RankingData, validation: RankingData, **how: Unpack[TrainingOptions]) -> YetiRank:
        """Train YetiRank; of the options only `progress` is used."""
        settings = self.settings
        trees = self.options(**settings.ranker.options, measure=settings.measure, seed=settings.seed)
        return fit(train, validation, trees, progress=how.get("progress"))


def fit(
    train: RankingData,
    validation: RankingData,
    settings: YetiSettings | None = None,
    *,
    progress: StepProgress | bool | None = None,
) -> YetiRank:
    """Train YetiRank (Gulin et al. 2011; its modes are Lyzhin et al.'s, ICML 2023).

    All trees are grown; the model keeps those up to the best round on the validation queries.

    Parameters
    ----------
    train, validation : RankingData
        Training queries, and queries that select the round. Features need no normalisation. Query weights
        multiply gradients.
    settings : YetiSettings, optional
    progress : callable or bool, optional
        Called with (trees grown, maximum, status); True draws a bar.

    Returns
    -------
    YetiRank

    Raises
    ------
    InputError
        If the numbers of features differ, a part has no relevant document, or CatBoost cannot train.
    MissingExtraError
        If CatBoost is not installed.
    """
    settings = settings or YetiSettings()
    catboost = _catboost()
    check_training_data(train, validation)
    weights = None if train.weights is None else train.weights[train.query_of_row]
    pool = catboost.Pool(train.features, train.labels, group_id=train.query_of_row, group_weight=weights)
    model = catboost.CatBoost(settings.parameters())
    report = count_callback(progress, "growing trees")

    def after_iteration(info: Any) -> bool:
        if report is not None:
            report(info.iteration, settings.rounds, "")
        return True

    try:
        model.fit(pool, callbacks=[SimpleNamespace(after_iteration=after_iteration)])
    except catboost.CatBoostError as error:
        raise InputError(f"CatBoost cannot grow trees ({' '.join(str(error).split())})") from None
    measurer = Measurer(settings.validation_measure, validation)
    stages = model.staged_predict(validation.features, thread_count=1)
    history = tuple(measurer.mean(np.asarray(scores)) for scores in stages)
    model.shrink(int(np.argmax(history)) + 1)
    rate = float(f"{model.get_all_params()['learning_rate']:g}")  # single precision
    return YetiRank.of(replace(settings, learning_rate=rate), model._serialize_model(), history)


def _catboost() -> ModuleType:
    try:
        return importlib.import_module("catboost")
    except ImportError as error:
        raise MissingExtraError("YetiRank", "catboost") from error
