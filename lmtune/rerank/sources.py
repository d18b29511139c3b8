"""Where training data come from: LETOR files, or a run with its collection."""

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
from lmtune.rerank.data import RankingData, RankingSplit
from lmtune.rerank.features import compute_features, features_of, look_up_documents
from lmtune.rerank.letor_folder import draw_queries, read_letor_folder


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
    """Make the features of a run's documents.

    Only the run's own documents are looked up, so that no candidate pool is needed. Documents that
    hold no query term keep their place, with frequencies of 0; those that the index lacks are
    taken for empty.

    Parameters
    ----------
    run : mapping of str to mapping of str to float, or others
        Scores by topic and docno; or a frame, rows, a file, as `lmtune.io.frames` has it.
    index : Index
        The collection; ``pool.index`` for a candidate pool.
    topics : mapping of str to str, or others
        Query text by topic, likewise; topics that the run lacks are left out.
    qrels : mapping of str to mapping of str to int, or others, optional
        Judgments, likewise. A label is the document's gain, 0 where that is negative or absent.
    lambda_, mu : float
        The tuned parameters for the first feature.
    depth : int
        Documents a topic at most, the best by score; ties by docno, descending, as trec_eval.
    fields : sequence of str
        Fields of the documents that the index has: each adds features of its own.
    progress : callable, optional
        Called with (topics done, topics in all).
    on_missing : callable, optional
        Called in the end with the number of documents that the index lacks, if any, and one of
        them.

    Returns
    -------
    RankingData
        A column each of `lmtune.rerank.features.features_of` the fields; topics in the run's
        order, rows in rank order, with docnos.

    Raises
    ------
    InputError
        If no topic of the run has a text, the index has none of the documents, a score is not
        finite, or parameters are outside their domain.
    """
    check_parameters(lambda_, mu)
    check_least("bad depth", depth, 1)
    texts, gains = as_topics(topics), {} if qrels is None else as_qrels(qrels)
    ranked = of_known_topics(as_run(run), texts)
    orders = {topic: in_order(scores)[:depth] for topic, scores in ranked.items()}
    names = [docno for docnos in orders.values() for docno in docnos]
    scores = np.array([ranked[topic][docno] for topic, docnos in orders.items() for docno in docnos])
    starts = np.cumsum([0, *map(len, orders.values())])
    docs = _numbers(index, names, on_missing)
    features = np.empty((len(names), len(features_of(fields))), np.float32)
    labels = np.zeros(len(names), np.float32)
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
            labels[rows] = [max(0, judged.get(docno, 0)) for docno in names[rows]]
        if progress is not None:
            progress(done, len(orders))
    return RankingData(features, labels, starts.astype(np.int64), tuple(orders), tuple(names))


def of_known_topics(run: Run, texts: Container[str]) -> Run:
    """Return a run's topics that have a text, and note those that have none.

    Raises
    ------
    InputError
        For a run without documents, or without a topic that has a text.
    """
    ranked = {topic: scores for topic, scores in run.items() if scores}
    if not ranked:
        raise InputError("the run is empty", accepted="at least one topic")
    unknown = [topic for topic in ranked if topic not in texts]
    if len(unknown) == len(ranked):
        raise InputError(
            "the collection has no topic of the run", value=unknown[0], accepted="its own topics"
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
        The run, as `run_data` takes it.
    data : RankingData
        What was scored of it, as `run_data` gives it.
    scores : array_like of float, shape (rows,)
        Finite scores, higher is better; ties keep the order of the data's rows.

    Returns
    -------
    list of Ranking
        Documents that were not scored stand below the others in the run's order, with 1, 2, ...
        less than the lowest score.

    Raises
    ------
    InputError
        Where the data has no docnos, or scores do not fit or are not finite.
    """
    whole, values = as_run(run), np.asarray(scores, np.float64)
    if data.docnos is None:
        raise InputError("the data has no docnos", accepted="data made from a run")
    if values.shape != data.labels.shape or not np.isfinite(values).all():
        raise InputError("bad scores", value=values.shape, accepted=f"{data.labels.size} finite numbers")
    ranked = []
    for q, topic in enumerate(data.queries):
        rows = data.rows(q)
        order = np.argsort(-values[rows], kind="stable")
        docnos = [data.docnos[rows.start + int(number)] for number in order]
        above = set(docnos)
        rest = [docno for docno in in_order(whole[topic]) if docno not in above]
        below = values[rows].min() - np.arange(1, len(rest) + 1)
        ranked.append(Ranking(topic, docnos + rest, np.concatenate((values[rows][order], below))))
    return ranked


def in_order(scores: Mapping[str, float]) -> list[str]:
    """Return one topic's docnos as trec_eval ranks them."""
    return trec_eval_order(list(scores), list(scores.values()))


def _numbers(
    index: Index, names: list[str], on_missing: Callable[[int, str], None] | None
) -> NDArray[np.int32]:
    distinct = list(dict.fromkeys(names))
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
    return np.array([numbers[docno] for docno in names], np.int32)


Run = Mapping[str, Mapping[str, float]]

_SHARE = 0.2
_LEARNT = ("train", "validation")


class ListSource(Protocol):
    """The side of a run's documents that networks see: their features, or their texts."""

    def lists(
        self, run: Run, dataset: Dataset, collection: Collection, progress: Progress = silent
    ) -> RunFeatures:
        """Make lists of a run's documents, with labels where the dataset has judgments."""

    def names(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return the features' names."""

    def facts(self, fields: Sequence[str]) -> dict[str, Any]:
        """Return what a model must remember to make the same again, as JSON holds it."""


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

    def lists(
        self, run: Run, dataset: Dataset, collection: Collection, progress: Progress = silent
    ) -> RunFeatures:
        """Make features, and labels where the dataset has judgments.

        Raises
        ------
        InputError
            As `run_data`.
        """
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
        return RunFeatures(data, dataset, index, collection.fields)

    def names(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return the features' names."""
        return tuple(feature.name for feature in features_of(fields))

    def facts(self, fields: Sequence[str]) -> dict[str, Any]:
        """Return what a model must remember."""
        return {"lambda": self.lambda_, "mu": self.mu, "depth": self.depth, "fields": list(fields)}


@dataclass(frozen=True)
class Taught:
    """Another `ListSource`'s lists, with a teacher's scores and what topics count in training.

    Attributes
    ----------
    source : ListSource
    teacher : path, optional
        The teacher's run. What it lacks of a topic's documents has its lowest score there.
    weights : mapping of str to float, optional
        Of each judged topic, above 0.
    """

    source: ListSource
    teacher: Path | None
    weights: Mapping[str, float] | None

    def lists(
        self, run: Run, dataset: Dataset, collection: Collection, progress: Progress = silent
    ) -> RunFeatures:
        """Make the lists.

        Raises
        ------
        InputError
            As the other source, for a topic that the teacher's run lacks, and a judged one without a weight.
        """
        teacher = {} if self.teacher is None else read_run(self.teacher)
        lacking = next((topic for topic in run if not teacher.get(topic)), None)
        if self.teacher is not None and lacking is not None:
            accepted = "a run of all topics that are learnt from"
            raise InputError("the teacher lacks a topic", file=self.teacher, value=lacking, accepted=accepted)
        judged = [topic for topic in run if topic in dataset.qrels]
        counts: dict[str, float] = {}
        if self.weights is not None:
            counts = dict(zip(judged, weights_of(judged, self.weights), strict=True))
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
            data = replace(data, weights=np.array([counts.get(topic, 1.0) for topic in data.queries]))
        return replace(made, data=data)

    def names(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return the features' names."""
        return self.source.names(fields)

    def facts(self, fields: Sequence[str]) -> dict[str, Any]:
        """Return what a model must remember."""
        more: dict[str, Any] = {} if self.teacher is None else {"teacher": self.teacher.name}
        weights = {} if self.weights is None else {"topic_weights": dict(self.weights)}
        return {**self.source.facts(fields), **more, **weights}


@dataclass(frozen=True)
class RunFeatures:
    """A run's documents as networks see them, and where it comes from.

    Attributes
    ----------
    data : RankingData
        Features, or with `lmtune.rerank.text.training.TextLists` texts; labels where judgments were
        asked for.
    dataset : Dataset
        Topics and judgments.
    index : ColumnarIndex, LuceneIndex or ShardedIndex
        The documents.
    fields : tuple of str
        The fields of documents that have features too.
    """

    data: RankingData
    dataset: Dataset
    index: AnyIndex
    fields: tuple[str, ...] = ()


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
        What making the same features again takes, and the topics of `train` and `validation`.
    source : RunFeatures or None
        The run's features, unless the data are of LETOR files.
    fold : str
        Which fold it is, "" where there is one only.
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
        """The three parts, where there is a test."""
        return RankingSplit(self.fold, self.train, self.validation, self.test or self.validation)

    @property
    def label(self) -> str:
        """The beginning of messages where there are several folds."""
        return f"{self.fold}: " if self.fold else ""


def from_letor(folder: str, validation: str | None, seed: int) -> list[TrainingData]:
    """Read a folder of LETOR files, or the folds in it; see `read_letor_folder`."""
    with timed(f"{folder}: read"):
        splits = read_letor_folder(folder, validation=validation, seed=seed)
    return [
        TrainingData(
            split.train,
            split.validation,
            split.test,
            names=tuple(str(number) for number in range(1, split.train.features.shape[1] + 1)),
            facts={"topics": {name: dict.fromkeys(getattr(split, name).queries) for name in _LEARNT}},
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
    """Make training data of a run and judgments; topics without a relevant document are left out.

    Parameters
    ----------
    path : path
        The run.
    collection : Collection
        Its topics, judgments and index.
    source : ListSource
        What is to be seen of its documents.
    train_topics : str, optional
        The topics to learn from, as `lmtune.collections.folds.select_topics` reads them.
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
    run, dataset = read_run(path), collection.load()
    topics = judged_topics(path, run, dataset, train_topics)
    made = source.lists({topic: run[topic] for topic in topics}, dataset, collection, progress)
    learnable = _with_relevant(made.data, topics)
    if len(learnable) < len(topics):
        note(
            f"{len(topics) - len(learnable)} of {len(topics)} topics have no relevant "
            "document in the run: nothing can be learnt from them"
        )
    held = _held_out(learnable, learnable, validation, seed)
    return _training_data(path, made, source, learnable, held)


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
    """Make training data of a run and judgments, fold by fold, with each fold's topics as the test.

    Parameters
    ----------
    path, collection, source, validation, progress
        As for `from_run`; the validation topics are taken of each fold's training topics.
    folds : str, optional
        As `lmtune.collections.folds.make_folds` takes; 5 by default. Topics are split as there; those
        that are in no fold, since they have no relevant document, are tested with the first.
    seed : int
        Of the folds and the share.

    Raises
    ------
    InputError
        For folds that cannot be made, or fewer than two topics to learn from in one.
    """
    run, dataset = read_run(path), collection.load()
    judged_topics(path, run, dataset)
    usable = [topic for topic in split_topics(dataset).usable if topic in run]
    split, how = make_folds(usable, list(dataset.topics), folds=folds or "5", seed=seed)
    note(how)
    made = source.lists(run, dataset, collection, progress)
    rest = [topic for topic in made.data.queries if all(topic not in fold.test for fold in split)]
    if rest:
        note(f"{len(rest)} topics in no fold are reranked with the first, which learns nothing from them")
    parts = []
    for number, fold in enumerate(split, 1):
        learnable = _with_relevant(made.data, fold.train)
        held = _held_out(learnable, usable, validation, seed)
        test = made.data.select([*fold.test, *(rest if number == 1 else ())])
        part = _training_data(path, made, source, learnable, held)
        parts.append(replace(part, test=test, fold=f"fold{number}"))
    return parts


def _with_relevant(data: RankingData, topics: Sequence[str]) -> list[str]:
    """Keep the topics whose ranked documents hold a relevant one."""
    relevant = np.logical_or.reduceat(data.labels > 0, data.starts[:-1])
    known = {query for query, some in zip(data.queries, relevant.tolist(), strict=True) if some}
    return [topic for topic in topics if topic in known]


def _held_out(topics: Sequence[str], every: Sequence[str], validation: str | None, seed: int) -> set[str]:
    """Choose validation topics among those to learn from."""
    if len(topics) > 1 and (validation is None or _is_share(validation)):
        return draw_queries(topics, float(validation or _SHARE), seed)
    return set(topics).intersection(select_topics(validation, every) if validation else ())


def _training_data(
    path: Path, made: RunFeatures, source: ListSource, topics: Sequence[str], held: Container[str]
) -> TrainingData:
    parts = {
        "train": [topic for topic in topics if topic not in held],
        "validation": [topic for topic in topics if topic in held],
    }
    for name, chosen in parts.items():
        if not chosen:
            raise InputError(
                f"no {name} topic whose ranked documents hold a relevant one",
                file=path,
                value=len(topics),
                accepted="two topics or more, one at least for validation",
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
    """Return the topics of a collection that a model was trained and validated on.

    A topic is known by its text, or by its identifier in a collection of the same name.

    Parameters
    ----------
    facts : mapping
        Of the model's `TrainingData`.
    dataset : Dataset
        The collection that the model is applied to.

    Returns
    -------
    dict of str to list of str
        ``"train"`` and ``"validation"``; empty lists for a model that does not say.
    """
    topics: dict[str, list[str]] = {"train": [], "validation": []}
    for part, known in facts.get("topics", {}).items():
        same = facts.get("collection") == dataset.name
        digests = set(known.values())
        topics[part] = [
            topic
            for topic, text in dataset.topics.items()
            if (same and topic in known) or _text_digest(text) in digests
        ]
    return topics


def _text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def judged_topics(path: Path, run: Mapping[str, Any], dataset: Dataset, only: str | None = None) -> list[str]:
    """Return a run's topics that are judged, in its order.

    Parameters
    ----------
    path : path
        The run's file, for messages.
    run : mapping
        The run.
    dataset : Dataset
        Its topics and judgments.
    only : str, optional
        The topics to take, as `lmtune.collections.folds.select_topics` reads them.

    Raises
    ------
    InputError
        If no topic is left.
    """
    topics = [topic for topic in run if topic in dataset.qrels]
    if not topics:
        raise InputError("no topic of the run is judged", file=path)
    if only is not None:
        chosen = set(select_topics(only, list(dataset.topics)))
        topics = [topic for topic in topics if topic in chosen]
        if not topics:
            raise InputError("the run has none of the topics", file=path, value=only)
    return topics


def _is_share(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "." in text
