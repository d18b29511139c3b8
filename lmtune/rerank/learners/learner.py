"""Learners of lists, and the scorers that they make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from lmtune.rerank.data import RankingData
from lmtune.rerank.learners.networks import parse_network
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.rankers import NoOptions
from lmtune.rerank.settings import Settings, TextOptions
from lmtune.rerank.sources import FeatureSettings, ListSource
from lmtune.rerank.training.loop import StepProgress, TrainingOptions


class ScoringOptions(TypedDict, total=False):
    """Where scores are computed; of texts, which take long, how precisely, and where they are kept."""

    device: str
    bf16: bool
    checkpoint: Path | None


class Scorer(Protocol):
    """Scores lists' rows; a learner has made it.

    Attributes
    ----------
    kind : str
        The name of such scorers in a model's folder.
    scales : bool
        Whether features are to be on a common scale.
    has_rate : bool
        Whether it is trained at a learning rate, in epochs.
    """

    kind: ClassVar[str]
    scales: ClassVar[bool]
    has_rate: ClassVar[bool]

    @property
    def settings(self) -> Any:
        """The settings asked for, with the measure that validation chose by."""

    @property
    def label(self) -> str:
        """Its name in a run."""

    @property
    def summary(self) -> str:
        """The outcome of the training, in a line."""

    @property
    def validation(self) -> float:
        """The best epoch's or round's validation value; NaN without."""

    def score(
        self, data: RankingData, *, progress: StepProgress | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.floating]:
        """Score every row, shape (rows,); of texts `progress` is called with (done, in all, how fast)."""

    def source(self, facts: Mapping[str, Any], depth: int | None) -> ListSource:
        """Return what makes of a run what the scorer takes, as in training, or of another depth."""

    def save(self, folder: Path) -> dict[str, Any]:
        """Write its files; return its settings and what else `load` takes, as JSON holds it."""

    @classmethod
    def load(cls, home: Path, files: Mapping[str, bytes], kept: Mapping[str, Any]) -> Self:
        """Make it of its files' content and what the model's record says."""


@dataclass(frozen=True)
class Learner(ABC):
    """Learns a scorer of lists, as settings ask.

    One's own is a subclass; `lmtune.rerank.Ranker.of` makes of it what settings name.

    Attributes
    ----------
    settings : Settings
        All but the data.
    normalisation : Normalisation, optional
        How features are scaled where the scorer wants that; None takes them as they are given.
    scorer : type
        What it makes.
    options : type
        A dataclass of the options that `settings.ranker` has for it.
    """

    settings: Settings
    normalisation: Normalisation | None = None
    scorer: ClassVar[type[Scorer]]
    options: ClassVar[type[Any]] = NoOptions

    def check(self, *, lists: bool = True) -> None:
        """Raise InputError at once where nothing could be learnt in the end.

        Parameters
        ----------
        lists : bool
            Whether there is a run, whose documents have text.
        """
        del lists
        parse_network(self.settings.network)

    def source(self, features: FeatureSettings, text: TextOptions) -> ListSource:
        """Return what is to be seen of a run's documents: their features, unless a learner reads texts."""
        del text
        return features

    @abstractmethod
    def fit(self, train: RankingData, validation: RankingData, **how: Unpack[TrainingOptions]) -> Scorer:
        """Learn from lists, and choose by others.

        Raises
        ------
        InputError
            As `lmtune.rerank.learners.feature_networks.fit` and `lmtune.rerank.learners.trees.fit`.
        """


class FeatureScorer:
    """A scorer that takes features of a run's documents."""

    def source(self, facts: Mapping[str, Any], depth: int | None) -> ListSource:
        """Return the features' settings."""
        usual = FeatureSettings()
        depth = depth or facts.get("depth", usual.depth)
        return FeatureSettings(facts.get("lambda", usual.lambda_), facts.get("mu", usual.mu), depth)
