"""Base classes of learners, and of the scorers that they train."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.options import flags, options_of
from lmtune.rerank.data import RankingData
from lmtune.rerank.learners.networks import parse_network
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.rankers import NoOptions
from lmtune.rerank.settings import Settings, TextOptions, reads_text
from lmtune.rerank.sources import FeatureSettings, ListSource
from lmtune.rerank.training.loop import StepProgress, TrainingOptions


class ScoringOptions(TypedDict, total=False):
    """Options of `Scorer.score`: the device; for texts also bfloat16 and a folder to resume from."""

    device: str
    bf16: bool
    checkpoint: Path | None


class Scorer(Protocol):
    """A trained model that scores documents.

    Attributes
    ----------
    kind : str
        The name of this class of scorers in a model's folder.
    scales : bool
        Whether features must be normalised first.
    has_rate : bool
        Whether it is trained in epochs with a learning rate.
    """

    kind: ClassVar[str]
    scales: ClassVar[bool]
    has_rate: ClassVar[bool]

    @property
    def settings(self) -> Any:
        """The settings of training; they have an attribute `validation_measure`."""

    @property
    def label(self) -> str:
        """The default tag of runs."""

    @property
    def summary(self) -> str:
        """One line with the result of training."""

    @property
    def validation(self) -> float:
        """Validation value of the best epoch or round; NaN without validation data."""

    def score(
        self, data: RankingData, *, progress: StepProgress | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.floating]:
        """Score every row, shape (rows,); for texts, `progress` gets (done, total, speed)."""

    def source(self, facts: Mapping[str, Any], depth: int | None) -> ListSource:
        """Return the source that makes the scorer's input from a run, as in training or to another depth."""

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the scorer's files; return ``"settings"`` and further items for `load`, as JSON values."""

    @classmethod
    def load(cls, folder: Path, files: Mapping[str, bytes], model: Mapping[str, Any]) -> Self:
        """Load a scorer from its folder, the content of its files, and ``model.json``."""


@dataclass(frozen=True)
class Learner(ABC):
    """Base class of learners, which train scorers.

    For a custom learner, write a subclass and pass ``Settings(ranker=lmtune.rerank.Ranker.of(subclass))``.

    Attributes
    ----------
    settings : Settings
    normalisation : Normalisation, optional
        Scaling of features, for scorers that need it; None uses them unchanged.
    scorer : type
        The class of the trained scorer.
    options : type
        A dataclass of the learner's options, set by ``settings.ranker.options``.
    used : tuple of str
        The fields of `Settings` that training uses; empty for all.
    """

    settings: Settings
    normalisation: Normalisation | None = None
    scorer: ClassVar[type[Scorer]]
    options: ClassVar[type[Any]] = NoOptions
    used: ClassVar[tuple[str, ...]] = ()

    def check(self, *, lists: bool = True) -> None:
        """Raise InputError if the settings cannot be trained; for a check before reading data.

        Parameters
        ----------
        lists : bool
            Whether the data come from a run, so that documents have text.
        """
        del lists
        parse_network(self.settings.network)

    def check_used(self, text: TextOptions, *, lists: bool) -> None:
        """Raise InputError for the first option that differs from its default and has no effect.

        Parameters
        ----------
        text : TextOptions
            Used only by networks that read text.
        lists : bool
            Whether the data come from a run, so that documents have ranks.
        """
        settings, network = self.settings, self.settings.network
        unset = Settings() if self.used else Settings(network=network)
        unused = {field.name for field in options_of(settings)} - {*self.used} if self.used else set()
        unused |= set() if settings.warm_up else {"warm_up_loss"}
        unused |= set() if lists else {"negatives"}
        for given, default, names, reader in (
            (settings, unset, unused, settings.ranker.name),
            (text, TextOptions(), set() if reads_text(network) else None, network),
        ):
            for field in options_of(given):
                value = getattr(given, field.name)
                if (names is None or field.name in names) and value != getattr(default, field.name):
                    raise InputError(
                        f"{flags(field)[0]} has no effect with {reader}",
                        value=getattr(value, "label", value),
                        accepted="without it",
                    )

    def source(self, features: FeatureSettings, text: TextOptions) -> ListSource:
        """Return the source of a run's lists: features, or texts for learners that read text."""
        del text
        return features

    @abstractmethod
    def fit(self, train: RankingData, validation: RankingData, **how: Unpack[TrainingOptions]) -> Scorer:
        """Train a scorer; `validation` selects the best epoch or round.

        Raises
        ------
        InputError
            As `lmtune.rerank.learners.feature_networks.fit` and `lmtune.rerank.learners.trees.fit`.
        """


class FeatureScorer:
    """Base class of scorers on features."""

    def source(self, facts: Mapping[str, Any], depth: int | None) -> ListSource:
        """Return the settings of the features, as in training or to another depth."""
        default = FeatureSettings()
        depth = depth or facts.get("depth", default.depth)
        parameters = facts.get("lambda", default.lambda_), facts.get("mu", default.mu)
        return FeatureSettings(*parameters, depth, only=facts.get("only"))
