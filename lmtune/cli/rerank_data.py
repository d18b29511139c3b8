"""Where ``lmtune rerank`` gets its data from: LETOR files, or a run with its collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmtune.cli import values
from lmtune.cli.prepare import Names, open_dataset, open_index
from lmtune.cli.screen import stages
from lmtune.errors import InputError
from lmtune.progress import note, timed

if TYPE_CHECKING:
    from lmtune.reranking.data import RankingData

_SHARE = "0.2"


@dataclass(frozen=True)
class RunSource:
    """A run and where its documents' features come from.

    Attributes
    ----------
    run : pathlib.Path
        The run.
    names : Names
        The collection.
    indexes : pathlib.Path
        Where built indexes are kept.
    lambda_, mu : float
        Parameters of the tuned query likelihood.
    depth : int
        Documents a topic.
    """

    run: Path
    names: Names
    indexes: Path
    lambda_: float
    mu: float
    depth: int


@dataclass(frozen=True)
class Known:
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
    record : dict
        What the data are, for ``made.json``.
    """

    train: RankingData
    validation: RankingData
    test: RankingData | None
    names: tuple[str, ...]
    facts: dict[str, Any]
    record: dict[str, Any]


def from_letor(folder: str, validation: str | None, seed: int) -> Known:
    """Read a folder of LETOR files."""
    from lmtune.reranking.letor_folder import read_letor_folder

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
    parts = {"train": fold.train, "validation": fold.validation, "test": fold.test}
    record = {"data": {part: _counts(data) for part, data in parts.items()}}
    return Known(fold.train, fold.validation, fold.test, names, {}, record)


def from_run(source: RunSource, train_topics: str | None, validation: str | None, seed: int) -> Known:
    """Make training data of a run and judgements; topics without a relevant document are left out.

    Raises
    ------
    InputError
        If fewer than two training topics are left.
    """
    from lmtune.datasets.selection import select_topics
    from lmtune.formats.runs import read_run
    from lmtune.reranking.features import FEATURES
    from lmtune.reranking.letor_folder import draw_queries

    run = read_run(source.run)
    data, record = run_features(source, run, only=train_topics, judged=True)
    found = [query for q, query in enumerate(data.queries) if (data.labels[data.rows(q)] > 0).any()]
    if len(found) < 2:
        raise InputError(
            "too few training topics whose ranked documents hold a relevant one",
            file=source.run,
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
    names = tuple(feature.name for feature in FEATURES)
    facts = {"lambda": source.lambda_, "mu": source.mu, "depth": source.depth}
    return Known(
        data.select([query for query in found if query not in held]),
        data.select([query for query in found if query in held]),
        None,
        names,
        facts,
        record,
    )


def run_features(
    source: RunSource, run: Mapping[str, Mapping[str, float]], *, only: str | None = None, judged: bool
) -> tuple[RankingData, dict[str, Any]]:
    """Make the features of a run's documents; also return what the collection is.

    Parameters
    ----------
    source : RunSource
        Where from.
    run : mapping
        The run.
    only : str, optional
        The topics to take, as `lmtune.datasets.selection.select_topics` reads them.
    judged : bool
        Whether to take judged topics alone, and their labels.

    Raises
    ------
    InputError
        If no topic is left.
    """
    from lmtune.datasets.selection import select_topics
    from lmtune.reporting.provenance import describe
    from lmtune.reranking.runs import run_data

    names = source.names
    analyzer = values.analyzer(names.stemmer, names.stopwords, names.index)
    need = ("documents", "topics", "qrels") if judged else ("documents", "topics")
    dataset = open_dataset(names, need=need)
    topics = [topic for topic in run if not judged or topic in dataset.qrels]
    if judged and not topics:
        raise InputError("no topic of the run is judged", file=source.run)
    if only is not None:
        chosen = set(select_topics(only, list(dataset.topics)))
        topics = [topic for topic in topics if topic in chosen]
        if not topics:
            raise InputError("the run has none of the topics", file=source.run, value=only)
    index = open_index(dataset, names, analyzer, source.indexes)
    with stages() as report, timed(f"{dataset.name}: features of {len(topics)} topics"):
        data = run_data(
            {topic: run[topic] for topic in topics},
            index,
            dataset.topics,
            dataset.qrels if judged else None,
            lambda_=source.lambda_,
            mu=source.mu,
            depth=source.depth,
            progress=lambda done, total: report(f"topics of {dataset.name}", done, total),
            on_missing=lambda count, docno: note(
                f"{count} documents of the run are not in the index, such as {docno}"
            ),
        )
    return data, describe(dataset, index)


def _is_share(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "." in text


def _counts(data: RankingData) -> dict[str, int]:
    return {"queries": len(data.queries), "rows": int(data.labels.size)}
