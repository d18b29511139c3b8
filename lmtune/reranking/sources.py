"""Where training data come from: LETOR files, or a run with its collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmtune.datasets.collection import AnyIndex, Collection
from lmtune.datasets.dataset import Dataset
from lmtune.datasets.selection import select_topics
from lmtune.errors import InputError
from lmtune.formats.runs import read_run
from lmtune.options import option
from lmtune.progress import Progress, note, silent, timed
from lmtune.reranking.data import RankingData
from lmtune.reranking.features import FEATURES
from lmtune.reranking.letor_folder import draw_queries, read_letor_folder
from lmtune.reranking.runs import run_data

_SHARE = 0.2


@dataclass(frozen=True)
class FeatureSettings:
    """The features of a run's documents.

    Attributes
    ----------
    lambda_, mu : float
        Parameters of the tuned query likelihood.
    depth : int
        Documents of a topic, from the top.
    """

    lambda_: float = option(0.4, "Of the tuned feature.", flag="--lambda")
    mu: float = option(2500.0, "Of the tuned feature.")
    depth: int = option(1000, "Documents of a topic that are scored.")


@dataclass(frozen=True)
class RunFeatures:
    """The features of a run's documents, and where they come from.

    Attributes
    ----------
    data : RankingData
        The features; labels where judgements were asked for.
    dataset : Dataset
        Topics and judgements.
    index : ColumnarIndex or LuceneIndex
        The documents.
    """

    data: RankingData
    dataset: Dataset
    index: AnyIndex


@dataclass(frozen=True)
class TrainingData:
    """Training data with what a model must remember of it.

    Attributes
    ----------
    train, validation : RankingData
        What to learn from and to choose by.
    test : RankingData or None
        What to report on.
    names : tuple of str
        The features.
    facts : dict
        What making the same features again takes.
    source : RunFeatures or None
        The run's features, unless the data are of LETOR files.
    """

    train: RankingData
    validation: RankingData
    test: RankingData | None
    names: tuple[str, ...]
    facts: dict[str, Any]
    source: RunFeatures | None = None


def from_letor(folder: str, validation: str | None, seed: int) -> TrainingData:
    """Read a folder of LETOR files, of one fold; see `read_letor_folder`."""
    with timed(f"{folder}: read"):
        folds = read_letor_folder(folder, validation=validation, seed=seed)
    if len(folds) > 1:
        raise InputError(
            "the folder has several folds",
            file=folder,
            accepted=f"one of them, such as {Path(folder) / folds[0].name}",
        )
    [fold] = folds
    names = tuple(str(number) for number in range(1, fold.train.features.shape[1] + 1))
    return TrainingData(fold.train, fold.validation, fold.test, names, {})


def from_run(
    path: Path,
    collection: Collection,
    features: FeatureSettings,
    *,
    train_topics: str | None = None,
    validation: str | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> TrainingData:
    """Make training data of a run and judgements; topics without a relevant document are left out.

    Parameters
    ----------
    path : path
        The run.
    collection : Collection
        Its topics, judgements and index.
    features : FeatureSettings
        What the features depend on.
    train_topics : str, optional
        The topics to learn from, as `lmtune.datasets.selection.select_topics` reads them.
    validation : str, optional
        Those of them to choose by, or a share; a fifth by default.
    seed : int
        Of the share.
    progress : Progress
        Called while documents are indexed and features made.

    Raises
    ------
    InputError
        If fewer than two training topics are left.
    """
    made = run_features(
        path, read_run(path), collection, features, only=train_topics, judged=True, progress=progress
    )
    data = made.data
    found = [query for q, query in enumerate(data.queries) if (data.labels[data.rows(q)] > 0).any()]
    if len(found) < 2:
        raise InputError(
            "too few training topics whose ranked documents hold a relevant one",
            file=path,
            value=len(found),
            accepted="two or more",
        )
    if len(found) < len(data.queries):
        note(
            f"{len(data.queries) - len(found)} of {len(data.queries)} topics have no relevant "
            "document in the run: nothing can be learnt from them"
        )
    if validation is None or _is_share(validation):
        held = draw_queries(found, float(validation or _SHARE), seed)
    else:
        held = set(select_topics(validation, found))
    return TrainingData(
        train=data.select([query for query in found if query not in held]),
        validation=data.select([query for query in found if query in held]),
        test=None,
        names=tuple(feature.name for feature in FEATURES),
        facts={"lambda": features.lambda_, "mu": features.mu, "depth": features.depth},
        source=made,
    )


def run_features(
    path: Path,
    run: Mapping[str, Mapping[str, float]],
    collection: Collection,
    features: FeatureSettings,
    *,
    only: str | None = None,
    judged: bool,
    progress: Progress = silent,
) -> RunFeatures:
    """Make the features of a run's documents.

    Parameters
    ----------
    path : path
        The run's file, for messages.
    run : mapping
        The run.
    collection : Collection
        Its topics, judgements and index.
    features : FeatureSettings
        What the features depend on.
    only : str, optional
        The topics to take, as `lmtune.datasets.selection.select_topics` reads them.
    judged : bool
        Whether to take judged topics alone, and their labels.
    progress : Progress
        Called while documents are indexed and features made.

    Raises
    ------
    InputError
        If no topic is left.
    """
    need = ("documents", "topics", "qrels") if judged else ("documents", "topics")
    dataset = collection.load(need, progress=progress)
    topics = [topic for topic in run if not judged or topic in dataset.qrels]
    if judged and not topics:
        raise InputError("no topic of the run is judged", file=path)
    if only is not None:
        chosen = set(select_topics(only, list(dataset.topics)))
        topics = [topic for topic in topics if topic in chosen]
        if not topics:
            raise InputError("the run has none of the topics", file=path, value=only)
    index = collection.open_index(dataset, progress=progress)
    with timed(f"{dataset.name}: features of {len(topics)} topics"):
        data = run_data(
            {topic: run[topic] for topic in topics},
            index,
            dataset.topics,
            dataset.qrels if judged else None,
            lambda_=features.lambda_,
            mu=features.mu,
            depth=features.depth,
            progress=lambda done, total: progress(f"topics of {dataset.name}", done, total),
            on_missing=lambda count, docno: note(
                f"{count} documents of the run are not in the index, such as {docno}"
            ),
        )
    return RunFeatures(data, dataset, index)


def _is_share(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "." in text
