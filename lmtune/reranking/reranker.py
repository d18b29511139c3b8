"""A reranker: a network or trees with what their features need, learnt from lists and applied to others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.measures.lists import Measurer, mean_over_lists
from lmtune.measures.measure import Measure, exponential_ndcg, parse_list_measure
from lmtune.reranking.data import RankingData
from lmtune.reranking.learners import feature_networks as training
from lmtune.reranking.learners import trees as lambdamart
from lmtune.reranking.learners.feature_networks import ScoringOptions, Trained
from lmtune.reranking.learners.trees import LambdaMart, TreeSettings
from lmtune.reranking.normalisation import Normalisation, Normaliser
from lmtune.reranking.settings import Settings
from lmtune.reranking.text import training as text_training
from lmtune.reranking.text.lists import check_texts
from lmtune.reranking.text.options import TextOptions, reads_text
from lmtune.reranking.text.training import TextTrained
from lmtune.reranking.training.loop import Progress, TrainingOptions

CUTOFFS = (1, 3, 5, 10)
"""Of the nDCG that is reported on test queries."""


Scorer = Trained | LambdaMart | TextTrained


@dataclass(frozen=True, eq=False)
class Reranker:
    """From features as they come to scores.

    Attributes
    ----------
    scorer : Trained, LambdaMart or TextTrained
        A network, trees, or a network that reads text.
    normaliser : Normaliser or None
        Fitted to the training data; None for trees and texts.
    names : tuple of str
        The features, in order.
    facts : mapping
        What making the same features again takes.
    """

    scorer: Scorer
    normaliser: Normaliser | None
    names: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reads_text(self) -> bool:
        """Whether it reads texts, and looks at no features."""
        return "text" in self.facts

    def cutting(self, **options: Any) -> Self:
        """Return the same of a reranker that reads text, with some of its `TextOptions` changed."""
        changed, scorer = TextOptions(**{**self.facts["text"], **options}), self.scorer
        if isinstance(scorer, TextTrained):
            scorer.network.cut(changed)
        return replace(self, facts={**self.facts, "text": asdict(changed)})

    def score(
        self, data: RankingData, *, progress: Progress | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.floating]:
        """Score every row, shape (rows,).

        Parameters
        ----------
        data : RankingData
            Features as they come, not normalised; or lists with texts.
        progress : callable, optional
            Of texts called with (documents done, in all, how fast).
        **how
            ``device``, the CPU by default; of texts ``bf16``, whether to compute in bfloat16, and
            ``checkpoint``, a folder to keep scores in and to go on from.

        Raises
        ------
        InputError
            For another number of features than in training; of texts, for a document without any.
        """
        if isinstance(self.scorer, TextTrained):
            return self.scorer.score(data, progress=progress, **how)
        device = how.get("device", "cpu")
        scaled = data if self.normaliser is None else self.normaliser.transform(data)
        return self.scorer.score(scaled, device=device)

    def check_features(self, names: Sequence[str], *, file: PathLike | None = None) -> None:
        """Raise InputError unless features are those that the reranker was trained on."""
        known, given = list(self.names), list(names)
        if known == given:
            return
        differing = [name for place, name in enumerate(given) if known[place : place + 1] != [name]]
        raise InputError(
            f"the model was trained on other features ({len(known)}, here {len(given)})",
            file=file,
            value=(differing or known[len(given) :])[0],
            accepted="a model trained on the same features",
        )

    def report(self, test: RankingData) -> Iterator[str]:
        """Yield what `report` does of test queries' scores."""
        return report([(test, self.score(test))], self.scorer.settings.measure)


def report(
    tested: Iterable[tuple[RankingData, NDArray[np.floating]]], measure: str = Settings.measure
) -> Iterator[str]:
    """Yield lines with the means of test queries' measures, one a convention for empty queries.

    Parameters
    ----------
    tested : iterable of (RankingData, numpy.ndarray)
        Queries and their rows' scores; those of several folds count together.
    measure : str
        What validation chose by: it is there beside nDCG at `CUTOFFS`.
    """
    names = reported(measure)
    values = measured(tested, names)
    kept, zero = mean_over_lists(values), np.nan_to_num(values).mean(axis=0)
    for words, means in (("left out", kept), ("count 0", zero)):
        text = "  ".join(f"{name} {mean:.4f}" for name, mean in zip(names, means, strict=True))
        yield f"test, queries without relevant documents {words}: {text}"
        if (kept == zero).all():
            return


def reported(measure: str) -> tuple[Measure, ...]:
    """Return what is reported where validation chooses by a measure: it, and nDCG at `CUTOFFS`."""
    chosen, names = parse_list_measure(measure), tuple(map(exponential_ndcg, CUTOFFS))
    return names if chosen in names else (chosen, *names)


def measured(
    tested: Iterable[tuple[RankingData, NDArray[np.floating]]], measures: Sequence[Measure]
) -> NDArray[np.float64]:
    """Measure queries by their rows' scores.

    Returns
    -------
    numpy.ndarray of float64, shape (queries, measures)
        NaN where a query does not count.
    """
    values = [
        np.column_stack([Measurer(name, data).values(scores) for name in measures]) for data, scores in tested
    ]
    return np.concatenate(values)


def learn(
    train: RankingData,
    validation: RankingData,
    settings: Settings,
    *,
    normalisation: Normalisation | None = None,
    names: Sequence[str] | None = None,
    facts: Mapping[str, Any] | None = None,
    **how: Unpack[TrainingOptions],
) -> Reranker:
    """Learn to rerank: normalise features and train what the settings' loss asks for.

    Parameters
    ----------
    train, validation : RankingData
        What to learn from and to choose by, features as they come.
    settings : Settings
        Of the training; the loss ``lambdamart`` grows trees, on features as they come.
    normalisation : Normalisation, optional
        Of a network's features; its defaults by default.
    names : sequence of str, optional
        The features'; "1", "2", ... by default, as in LETOR files.
    facts : mapping, optional
        What else to remember, such as what making the same features again takes.
    **how
        ``device``, ``checkpoint``, ``checkpoint_every`` and ``progress``, as for `fit_scorer`.

    Returns
    -------
    Reranker

    Raises
    ------
    InputError
        As `fit_scorer`.
    """
    normaliser = None
    if settings.loss.family != "trees" and not reads_text(settings.network):
        normaliser = (normalisation or Normalisation()).fit(train)
        train, validation = normaliser.transform(train), normaliser.transform(validation)
    scorer = fit_scorer(train, validation, settings, **how)
    known = tuple(map(str, range(1, train.features.shape[1] + 1))) if names is None else tuple(names)
    return Reranker(scorer, normaliser, known, facts or {})


def fit_scorer(
    train: RankingData, validation: RankingData, settings: Settings, **how: Unpack[TrainingOptions]
) -> Scorer:
    """Train what the settings ask for on features as they are given: a network, or trees; or on texts.

    Parameters
    ----------
    train, validation, settings, **how
        As for `lmtune.reranking.learners.feature_networks.fit`; trees take the loss's options, the seed and
        ``progress`` alone.

    Raises
    ------
    InputError
        As `lmtune.reranking.learners.feature_networks.fit` and `lmtune.reranking.learners.trees.fit`.
    """
    if settings.loss.family == "trees":
        trees = TreeSettings(**settings.loss.options, measure=settings.measure, seed=settings.seed)
        return lambdamart.fit(train, validation, trees, progress=how.get("progress"))
    if reads_text(settings.network):
        return text_training.fit(check_texts(train), check_texts(validation), settings, **how)
    return training.fit(train, validation, settings, **how)
