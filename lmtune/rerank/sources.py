"""Training data from LETOR files, or from a run and its collection."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.collections.collection import AnyIndex, Collection
from lmtune.collections.dataset import Dataset, split_topics
from lmtune.collections.folds import make_folds, select_topics
from lmtune.errors import InputError, check_least
from lmtune.index.protocol import Index
from lmtune.io.frames import as_qrels, as_run, as_topics
from lmtune.io.rows import QrelsLike, RunLike, TopicsLike
from lmtune.io.runs import Ranking, read_run
from lmtune.io.term_values import weights_of
from lmtune.measures.judged_ranking import trec_eval_order
from lmtune.models.two_stage import check_parameters
from lmtune.options import option
from lmtune.progress import Count, Progress, note, quantity, silent, timed
from lmtune.rerank.custom_features import (
    CustomFeature,
    custom_features_option,
    parse_custom_features,
    with_custom_features,
)
from lmtune.rerank.data import RankingData, RankingSplit
from lmtune.rerank.exchange.engine_features import choose_features
from lmtune.rerank.features import compute_features, features_of, look_up_documents
from lmtune.rerank.letor_folder import draw_queries, read_letor_folder

Run = Mapping[str, Mapping[str, float]]
"""A run: scores by topic and docno."""


def run_data(
    run: RunLike,
    index: Index,
    topics: TopicsLike,
    qrels: QrelsLike | None = None,
    *,
    lambda_: float = 0.4,
    mu: float = 2500.0,
    depth: int = 1000,
    fields: Sequence[str] = (),
    progress: Count | None = None,
    on_missing: Callable[[int, str], None] | None = None,
) -> RankingData:
    """Compute the features of a run's documents.

    Only the run's documents are looked up; no candidate pool is needed. Documents without a query term
    have frequencies of 0. Documents that are not in the index count as empty.

    Parameters
    ----------
    run : mapping of str to mapping of str to float, or others
        Scores by topic and docno; or a frame, rows or a file, see `lmtune.io.frames`.
    index : Index
        The collection's index; for a candidate pool, ``pool.index``.
    topics : mapping of str to str, or others
        Query text by topic; or a frame, rows or a file. Topics that are not in the run are ignored.
    qrels : mapping of str to mapping of str to int, or others, optional
        Judgments; or a frame, rows or a file. Labels are gains; 0 if negative or unjudged.
    lambda_, mu : float
        The tuned parameters, for the first feature.
    depth : int
        Maximum number of documents per topic, in order of score; ties by docno, descending, as in
        trec_eval.
    fields : sequence of str
        Indexed fields; each adds further features.
    progress : callable, optional
        Called with (topics done, total).
    on_missing : callable, optional
        Called at the end with the number of documents that are not in the index, if any, and one of
        them.

    Returns
    -------
    RankingData
        Columns are `lmtune.rerank.features.features_of` the fields. Topics are in the run's order,
        rows in rank order, with docnos.

    Raises
    ------
    InputError
        If no topic of the run has a text, the index has none of the documents, a score is not
        finite, or a parameter is out of bounds.
    """
    check_parameters(lambda_, mu)
    check_least("bad depth", depth, 1)
    texts, gains = as_topics(topics), {} if qrels is None else as_qrels(qrels)
    ranked = select_known_topics(as_run(run), texts)
    orders = {topic: rank_docnos(scores)[:depth] for topic, scores in ranked.items()}
    all_docnos = [docno for docnos in orders.values() for docno in docnos]
    scores = np.array([ranked[topic][docno] for topic, docnos in orders.items() for docno in docnos])
    starts = np.cumsum([0, *map(len, orders.values())])
    docs = _doc_numbers(index, all_docnos, on_missing)
    features = np.empty((len(all_docnos), len(features_of(fields))), np.float32)
    labels = np.zeros(len(all_docnos), np.float32)
    for done, (topic, (first, last)) in enumerate(zip(orders, pairwise(starts.tolist()), strict=True), 1):
        rows = slice(first, last)
        ranked_rows = docs[rows], scores[rows]
        features[rows] = compute_features(
            look_up_documents(
                index, texts[topic], *ranked_rows, lambda_=float(lambda_), mu=float(mu), fields=fields
            )
        )
        judged = gains.get(topic, {})
        if judged:
            labels[rows] = [max(0, judged.get(docno, 0)) for docno in all_docnos[rows]]
        if progress is not None:
            progress(done, len(orders))
    return RankingData(features, labels, starts.astype(np.int64), tuple(orders), tuple(all_docnos))


def select_known_topics(run: Run, texts: Container[str]) -> Run:
    """Return the topics of a run that have a text, and print a note about the others.

    Raises
    ------
    InputError
        If the run has no documents, or none of its topics has a text.
    """
    ranked = {topic: scores for topic, scores in run.items() if scores}
    if not ranked:
        raise InputError("the run is empty", accepted="at least one topic")
    unknown = [topic for topic in ranked if topic not in texts]
    if len(unknown) == len(ranked):
        raise InputError(
            "the collection has no topic of the run", value=unknown[0], accepted="a run of its topics"
        )
    if unknown:
        skipped = f"{quantity(len(unknown), 'topic')} of the run, such as {unknown[0]}"
        note(f"{skipped}, skipped: not in the collection")
    return {topic: scores for topic, scores in ranked.items() if topic in texts}


def reranked(run: RunLike, data: RankingData, scores: ArrayLike) -> list[Ranking]:
    """Rank a run's topics by new scores, for `lmtune.io.runs.write_run`.

    Parameters
    ----------
    run : mapping of str to mapping of str to float, or others
        The run; see `run_data`.
    data : RankingData
        The scored documents of the run, from `run_data`.
    scores : array_like of float, shape (rows,)
        Finite scores, higher is better; ties keep the order of the rows.

    Returns
    -------
    list of Ranking
        Documents without a new score follow in the run's order; their scores are 1, 2, ... below the
        lowest.

    Raises
    ------
    InputError
        If the data has no docnos, or scores have another shape or are not finite.
    """
    original, values = as_run(run), np.asarray(scores, np.float64)
    if data.docnos is None:
        raise InputError("the data has no docnos", accepted="data made from a run")
    if values.shape != data.labels.shape or not np.isfinite(values).all():
        raise InputError("bad scores", value=values.shape, accepted=f"{data.labels.size} finite numbers")
    ranked = []
    for q, topic in enumerate(data.queries):
        rows = data.rows(q)
        order = np.argsort(-values[rows], kind="stable")
        docnos = [data.docnos[rows.start + int(number)] for number in order]
        scored = set(docnos)
        rest = [docno for docno in rank_docnos(original[topic]) if docno not in scored]
        below = values[rows].min() - np.arange(1, len(rest) + 1)
        ranked.append(Ranking(topic, docnos + rest, np.concatenate((values[rows][order], below))))
    return ranked


def rank_docnos(scores: Mapping[str, float]) -> list[str]:
    """Return the docnos of one topic in trec_eval's order."""
    return trec_eval_order(list(scores), list(scores.values()))


def _doc_numbers(
    index: Index, docnos: list[str], on_missing: Callable[[int, str], None] | None
) -> NDArray[np.int32]:
    distinct = list(dict.fromkeys(docnos))
    numbers = dict(zip(distinct, np.asarray(index.doc_numbers(distinct)).tolist(), strict=True))
    missing = [docno for docno, number in numbers.items() if number < 0]
    if len(missing) == len(distinct):
        raise InputError(
            f"{index.name} has none of the run's documents",
            value=missing[0],
            accepted="a run on the same collection",
        )
    if missing and on_missing is not None:
        on_missing(len(missing), missing[0])
    return np.array([numbers[docno] for docno in docnos], np.int32)


_VALIDATION_SHARE = 0.2
_TRAINING_PARTS = ("train", "validation")


class ListSource(Protocol):
    """A source of a learner's input from a run: features or texts of the documents."""

    def lists(
        self, run: Run, dataset: Dataset, collection: Collection, progress: Progress = silent
    ) -> RunFeatures:
        """Create the lists of a run's documents; labels are 0 without judgments."""

    def names(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the features."""

    def facts(self, fields: Sequence[str]) -> dict[str, Any]:
        """Return the parameters that recreate the same input, as JSON values."""


@dataclass(frozen=True)
class FeatureSettings:
    """Features: settings of the features of a run's documents; a `ListSource`.

    Attributes
    ----------
    lambda_, mu : float
        Parameters of the tuned query likelihood.
    depth : int
        Number of documents per topic, from the top.
    custom : tuple of str
        Custom features as ``NAME=FILE``; see `lmtune.rerank.custom_features`.
    only : str, optional
        The features to use beside custom ones; see
        `lmtune.rerank.exchange.engine_features.choose_features`.
    """

    lambda_: float = option(0.4, "Lambda of the tuned query likelihood.", flag="--lambda")
    mu: float = option(2500.0, "Mu of the tuned query likelihood.")
    depth: int = option(1000, "Documents scored per topic, from the top of the run.", low=1)
    custom: tuple[str, ...] = custom_features_option()
    only: str | None = option(
        None,
        "Use only these features and those of --feature: bm25,length, or all that solr, vespa, elasticsearch"
        " or opensearch computes.",
        flag="--only-features",
    )

    def lists(
        self, run: Run, dataset: Dataset, collection: Collection, progress: Progress = silent
    ) -> RunFeatures:
        """Compute the features of a run's documents; labels are 0 without judgments.

        Raises
        ------
        InputError
            As `run_data`.
        """
        custom, chosen = self.custom_features(collection.fields), self._chosen(collection.fields)
        index = collection.open_index(dataset, progress=progress)
        with timed(f"{dataset.name}: features of {quantity(len(run), 'topic')}"):
            data = run_data(
                run,
                index,
                dataset.topics,
                dataset.qrels,
                lambda_=self.lambda_,
                mu=self.mu,
                depth=self.depth,
                fields=collection.fields,
                progress=lambda done, total: progress(f"topics of {dataset.name}", done, total),
                on_missing=lambda count, docno: note(
                    f"{count} documents of the run are not in the index, such as {docno}"
                ),
            )
        data = replace(data, features=data.features[:, chosen])
        return RunFeatures(with_custom_features(data, custom), dataset, index, collection.fields)

    def _chosen(self, fields: Sequence[str]) -> list[int]:
        """Return the columns of the features that are used, without custom ones."""
        names = [feature.name for feature in features_of(fields)]
        chosen = names if self.only is None else choose_features(self.only, names, fields)
        return [names.index(name) for name in chosen]

    def custom_features(self, fields: Sequence[str]) -> dict[str, CustomFeature]:
        """Return the custom features by name."""
        return parse_custom_features(self.custom, [feature.name for feature in features_of(fields)])

    def names(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the features."""
        every = features_of(fields)
        return (*(every[number].name for number in self._chosen(fields)), *self.custom_features(fields))

    def facts(self, fields: Sequence[str]) -> dict[str, Any]:
        """Return lambda, mu, depth, fields, chosen features and the kinds of custom ones, as JSON values."""
        facts = {"lambda": self.lambda_, "mu": self.mu, "depth": self.depth, "fields": list(fields)}
        custom = {name: feature.kind for name, feature in self.custom_features(fields).items()}
        if self.only is not None:
            facts["only"] = ",".join(features_of(fields)[number].name for number in self._chosen(fields))
        return facts | ({"custom": custom} if custom else {})


@dataclass(frozen=True)
class TaughtSource:
    """Another `ListSource` with a teacher's scores and topic weights added to its lists.

    Attributes
    ----------
    source : ListSource
    teacher : path, optional
        The teacher's run. Documents that it lacks get its lowest score of the topic.
    weights : mapping of str to float, optional
        Weight of each judged topic, above 0.
    """

    source: ListSource
    teacher: Path | None
    weights: Mapping[str, float] | None

    def lists(
        self, run: Run, dataset: Dataset, collection: Collection, progress: Progress = silent
    ) -> RunFeatures:
        """Create the lists, with a teacher's scores and topic weights.

        Raises
        ------
        InputError
            As the source; and if the teacher's run lacks a topic, or a judged topic has no weight.
        """
        teacher = {} if self.teacher is None else read_run(self.teacher)
        missing = next((topic for topic in run if not teacher.get(topic)), None)
        if self.teacher is not None and missing is not None:
            accepted = "a run with all training topics"
            raise InputError("the teacher lacks a topic", file=self.teacher, value=missing, accepted=accepted)
        judged = [topic for topic in run if topic in dataset.qrels]
        weight_of: dict[str, float] = {}
        if self.weights is not None:
            weight_of = dict(zip(judged, weights_of(judged, self.weights), strict=True))
        made = self.source.lists(run, dataset, collection, progress)
        data = made.data
        if self.teacher is not None:
            scores = np.empty(data.labels.size, np.float32)
            for q, topic in enumerate(data.queries):
                known, rows = teacher[topic], data.rows(q)
                lowest = min(known.values())
                scores[rows] = [known.get(docno, lowest) - lowest for docno in (data.docnos or ())[rows]]
            data = replace(data, teacher=scores)
        if self.weights is not None:
            data = replace(data, weights=np.array([weight_of.get(topic, 1.0) for topic in data.queries]))
        return replace(made, data=data)

    def names(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the features."""
        return self.source.names(fields)

    def facts(self, fields: Sequence[str]) -> dict[str, Any]:
        """Return the source's parameters, the teacher's file name and the weights, as JSON values."""
        teacher: dict[str, Any] = {} if self.teacher is None else {"teacher": self.teacher.name}
        weights = {} if self.weights is None else {"topic_weights": dict(self.weights)}
        return {**self.source.facts(fields), **teacher, **weights}


@dataclass(frozen=True)
class RunFeatures:
    """Lists of a run's documents, with the dataset and the index they come from.

    Attributes
    ----------
    data : RankingData
        Lists with features, or `lmtune.rerank.text.training.TextLists` with texts.
    dataset : Dataset
        Topics and judgments.
    index : ColumnarIndex, LuceneIndex or ShardedIndex
        The documents.
    fields : tuple of str
        Fields with features.
    """

    data: RankingData
    dataset: Dataset
    index: AnyIndex
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainingData:
    """Training data of one fold, with facts that the model stores.

    Attributes
    ----------
    train, validation : RankingData
        Training queries, and queries that select the best epoch.
    test : RankingData or None
        Queries for the report.
    names : tuple of str
        Feature names.
    facts : dict
        Parameters that recreate the features, and the topics of `train` and `validation`.
    source : RunFeatures or None
        The run's features; None for LETOR files.
    fold : str
        Name of the fold; "" without folds.
    """

    train: RankingData
    validation: RankingData
    test: RankingData | None
    names: tuple[str, ...]
    facts: dict[str, Any]
    source: RunFeatures | None = None
    fold: str = ""

    @property
    def split(self) -> RankingSplit:
        """The three parts; without test data, `validation` replaces it."""
        return RankingSplit(self.fold, self.train, self.validation, self.test or self.validation)

    @property
    def label(self) -> str:
        """Prefix of messages: the fold's name, or "" without folds."""
        return f"{self.fold}: " if self.fold else ""


def from_letor(folder: str, validation: str | None, seed: int) -> list[TrainingData]:
    """Read training data from a folder of LETOR files; see `read_letor_folder`."""
    with timed(f"{folder}: read"):
        splits = read_letor_folder(folder, validation=validation, seed=seed)
    return [
        TrainingData(
            split.train,
            split.validation,
            split.test,
            names=tuple(str(number) for number in range(1, split.train.features.shape[1] + 1)),
            facts={"topics": {name: dict.fromkeys(getattr(split, name).queries) for name in _TRAINING_PARTS}},
            fold=split.name if len(splits) > 1 else "",
        )
        for split in splits
    ]


def from_run(
    path: Path,
    collection: Collection,
    source: ListSource,
    *,
    train_topics: str | None = None,
    validation: str | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> TrainingData:
    """Create training data from a run and judgments, without topics that have no relevant document.

    Parameters
    ----------
    path : path
        The run.
    collection : Collection
        Topics, judgments and index.
    source : ListSource
        Source of features or texts.
    train_topics : str, optional
        Training topics, including validation topics; see `lmtune.collections.folds.select_topics`.
        Default: all judged topics.
    validation : str, optional
        Validation topics, or their share of the training topics; default 0.2.
    seed : int
        Seed for drawing the share.
    progress : Progress
        Called during indexing and computing features.

    Raises
    ------
    InputError
        If fewer than two training topics are left.
    """
    run, dataset = read_run(path), collection.load()
    topics = judged_topics(path, run, dataset, train_topics)
    made = source.lists({topic: run[topic] for topic in topics}, dataset, collection, progress)
    learnable = _with_relevant(made.data, topics)
    if len(learnable) < len(topics):
        note(
            f"{len(topics) - len(learnable)} of {len(topics)} topics have no relevant "
            "document in the run and are not used for training"
        )
    held_out = _held_out(learnable, learnable, validation, seed)
    return _training_data(path, made, source, learnable, held_out)


def folds_of_run(
    path: Path,
    collection: Collection,
    source: ListSource,
    *,
    folds: str | None = None,
    validation: str | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> list[TrainingData]:
    """Create training data for cross-validation, with each fold's topics as its test data.

    Parameters
    ----------
    path, collection, source, validation, progress
        As for `from_run`. Validation topics are some of each fold's training topics.
    folds : str, optional
        Folds, see `lmtune.collections.folds.make_folds`; default 5. Topics without a relevant document
        are in no fold, and are test topics of the first.
    seed : int
        Seed of the folds and of drawing the share.

    Raises
    ------
    InputError
        If folds are invalid, or one has fewer than two training topics.
    """
    run, dataset = read_run(path), collection.load()
    judged_topics(path, run, dataset)
    usable = [topic for topic in split_topics(dataset).usable if topic in run]
    split, how = make_folds(usable, list(dataset.topics), folds=folds or "5", seed=seed)
    note(how)
    made = source.lists(run, dataset, collection, progress)
    rest = [topic for topic in made.data.queries if all(topic not in fold.test for fold in split)]
    if rest:
        note(f"{len(rest)} topics are in no fold and not trained on; the first fold's model reranks them")
    parts = []
    for number, fold in enumerate(split, 1):
        learnable = _with_relevant(made.data, fold.train)
        held_out = _held_out(learnable, usable, validation, seed)
        test = made.data.select([*fold.test, *(rest if number == 1 else ())])
        part = _training_data(path, made, source, learnable, held_out)
        parts.append(replace(part, test=test, fold=f"fold{number}"))
    return parts


def _with_relevant(data: RankingData, topics: Sequence[str]) -> list[str]:
    """Return the topics with a relevant document among the ranked ones."""
    is_relevant = np.logical_or.reduceat(data.labels > 0, data.starts[:-1])
    relevant = {query for query, some in zip(data.queries, is_relevant.tolist(), strict=True) if some}
    return [topic for topic in topics if topic in relevant]


def _held_out(topics: Sequence[str], every: Sequence[str], validation: str | None, seed: int) -> set[str]:
    """Return validation topics: a random share of `topics`, or those that are listed among `every`."""
    if len(topics) > 1 and (validation is None or _is_share(validation)):
        return draw_queries(topics, float(validation or _VALIDATION_SHARE), seed)
    return set(topics).intersection(select_topics(validation, every) if validation else ())


def _training_data(
    path: Path, made: RunFeatures, source: ListSource, topics: Sequence[str], held_out: Container[str]
) -> TrainingData:
    parts = {
        "train": [topic for topic in topics if topic not in held_out],
        "validation": [topic for topic in topics if topic in held_out],
    }
    for name, chosen in parts.items():
        if not chosen:
            raise InputError(
                f"no {name} topic has a relevant document in the run",
                file=path,
                value=f"{len(topics)} usable topics",
                accepted="at least two, one of them for validation",
            )
    texts, name = made.dataset.topics, made.dataset.name
    seen = {part: {topic: _text_digest(texts[topic]) for topic in chosen} for part, chosen in parts.items()}
    return TrainingData(
        train=made.data.select(parts["train"]),
        validation=made.data.select(parts["validation"]),
        test=None,
        names=source.names(made.fields),
        facts={**source.facts(made.fields), "collection": name, "topics": seen},
        source=made,
    )


def topics_seen(facts: Mapping[str, Any], dataset: Dataset) -> dict[str, list[str]]:
    """Return the topics of a collection that a model was trained or validated on.

    Topics are matched by text, and by identifier if the collections' names are equal.

    Parameters
    ----------
    facts : mapping
        The facts of the model's `TrainingData`.
    dataset : Dataset
        The collection that the model is applied to.

    Returns
    -------
    dict of str to list of str
        ``"train"`` and ``"validation"``; empty lists if the model has no record of topics.
    """
    topics: dict[str, list[str]] = {"train": [], "validation": []}
    for part, known in facts.get("topics", {}).items():
        is_same = facts.get("collection") == dataset.name
        digests = set(known.values())
        topics[part] = [
            topic
            for topic, text in dataset.topics.items()
            if (is_same and topic in known) or _text_digest(text) in digests
        ]
    return topics


def _text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def judged_topics(path: Path, run: Mapping[str, Any], dataset: Dataset, only: str | None = None) -> list[str]:
    """Return the judged topics of a run, in its order.

    Parameters
    ----------
    path : path
        The run's file, for messages.
    run : mapping
    dataset : Dataset
        Topics and judgments.
    only : str, optional
        A subset of the topics; see `lmtune.collections.folds.select_topics`.

    Raises
    ------
    InputError
        If no topic is left.
    """
    topics = [topic for topic in run if topic in dataset.qrels]
    if not topics:
        raise InputError("no topic of the run is judged", file=path)
    if only is not None:
        selected = set(select_topics(only, list(dataset.topics)))
        topics = [topic for topic in topics if topic in selected]
        if not topics:
            raise InputError("the run has none of the topics", file=path, value=only)
    return topics


def _is_share(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "." in text
