"""Applying a saved model: reranking runs, scoring LETOR files, interpolation and feature importance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.collections.collection import Collection
from lmtune.collections.dataset import Dataset
from lmtune.collections.folds import select_topics
from lmtune.collections.provenance import recorded
from lmtune.errors import InputError, check_least
from lmtune.fusion.methods import normalised
from lmtune.fusion.runs import MINIMUM, RunSet
from lmtune.fusion.search import ExactLineSearch, check_measure
from lmtune.io.files import atomic_write
from lmtune.io.runs import Ranking, check_tag, read_run, write_run
from lmtune.measures.lists import Measurer
from lmtune.measures.measure import Measure, parse_measure
from lmtune.measures.significance.comparison import Comparison, compare
from lmtune.progress import Progress, note, quantity, silent, timed
from lmtune.rerank.custom_features import check_same
from lmtune.rerank.data import RankingData
from lmtune.rerank.exchange.foreign import ForeignModel
from lmtune.rerank.learners.learner import ScoringOptions
from lmtune.rerank.reranker import Reranker, load_model
from lmtune.rerank.sources import (
    FeatureSettings,
    ListSource,
    Run,
    RunFeatures,
    judged_topics,
    rank_docnos,
    reranked,
    topics_seen,
)

_Qrels = Mapping[str, Mapping[str, int]]


def parse_interpolation(text: str) -> float | Measure:
    """Parse an interpolation weight in [0, 1], or the measure that selects one."""
    try:
        weight = float(text)
    except ValueError:
        measure = parse_measure(text)
        check_measure(measure)
        return measure
    if not 0.0 <= weight <= 1.0:
        raise InputError("bad --interpolate", value=text, accepted="a number from 0 to 1, or a measure")
    return weight


def interpolated(data: RankingData, run: Run, scores: ArrayLike, weight: float) -> NDArray[np.float64]:
    """Interpolate a model's scores with the run's: weight * model + (1 - weight) * run.

    Both scores are min-max normalised by topic.

    Parameters
    ----------
    data : RankingData
        Lists made from the run.
    run : mapping
        The run.
    scores : array_like of float, shape (rows,)
        The model's scores.
    weight : float
        The model's weight, in [0, 1].
    """
    mixed, normalise = np.array(scores, np.float64), normalised("min-max", MINIMUM)
    for q, (topic, docnos) in enumerate(_lists(data)):
        rows = data.rows(q)
        pair = np.array([[run[topic][docno] for docno in docnos], mixed[rows]])
        mixed[rows] = np.array([1.0 - weight, weight]) @ normalise(pair)
    return mixed


def _best_weight(
    data: RankingData, run: Run, scores: ArrayLike, qrels: _Qrels, measure: Measure
) -> tuple[float, float]:
    """Return the model's weight with the highest mean of a measure, and that mean, by a line search.

    Parameters
    ----------
    data, run, scores
        As for `interpolated`, with topics that the model was not trained on.
    qrels : mapping
        Judgments of these topics.
    measure : Measure
        A measure that `ExactLineSearch` supports.
    """
    values = np.asarray(scores, np.float64)
    both: dict[str, dict[str, dict[str, float]]] = {"run": {}, "model": {}}
    for q, (topic, docnos) in enumerate(_lists(data)):
        both["run"][topic] = {docno: run[topic][docno] for docno in docnos}
        both["model"][topic] = dict(zip(docnos, values[data.rows(q)].tolist(), strict=True))
    pool = RunSet.of(both).pool(normalised("min-max", MINIMUM), qrels)
    search = ExactLineSearch(measure).fit(pool)
    weights = search.best_params_
    return weights["model"] / sum(weights.values()), search.best_value_


def _lists(data: RankingData) -> list[tuple[str, tuple[str, ...]]]:
    docnos = data.docnos or ()
    return [(topic, tuple(docnos[data.rows(q)])) for q, topic in enumerate(data.queries)]


Scored = tuple[RankingData, NDArray[np.floating]]
"""Lists, and the score of each row."""


def rerank_run(
    model: Path,
    run: Path,
    collection: Collection,
    output: Path,
    *,
    only: str | None = None,
    all_topics: bool = False,
    depth: int | None = None,
    custom: tuple[str, ...] = (),
    interpolate: float | Measure | None = None,
    tag: str | None = None,
    text: Mapping[str, Any] | None = None,
    progress: Progress = silent,
    **how: Unpack[ScoringOptions],
) -> tuple[RunFeatures, float]:
    """Rerank a run with a model and write the result.

    Parameters
    ----------
    model : path
        A folder that `lmtune.rerank.reranker.save_model` wrote; or ``text:MODEL`` or
        ``decoder:MODEL``, trained elsewhere.
    run, output : path
        The run, and the file for the reranked run.
    collection : Collection
        The run's topics and index.
    only : str, optional
        The topics to rerank and write, see `lmtune.collections.folds.select_topics`; default all.
    all_topics : bool
        Whether to rerank topics that the model was trained or validated on; else they keep the run's
        order.
    depth : int, optional
        Documents scored per topic, default as in training; the others follow in the run's order.
    custom : tuple of str
        The model's custom features as ``NAME=FILE``, for this run.
    interpolate : float or Measure, optional
        Interpolate the model's scores with the run's, see `interpolated`. Either the model's weight in
        [0, 1], or a measure: the weight is then optimised on the model's validation topics.
    tag : str, optional
        Tag of the reranked run; default ``lmtune-`` and the scorer's label.
    text : mapping, optional
        Changes to the `TextOptions` of training, for a model that reads text.
    progress : Progress
        Called during indexing, computing features and scoring.
    **how
        ``device``, ``bf16`` and ``checkpoint``, as for `Reranker.score`.

    Returns
    -------
    RunFeatures, float
        The features, and the model's weight, 1 without interpolation.

    Raises
    ------
    InputError
        If features differ from the model's, the run lacks a topic, the model has seen all topics, there
        are no judged topics to select the weight on, or a file is invalid.
    """
    loaded = load_model(model, text=text)
    source, collection = source_of(loaded, collection, depth, custom=custom, file=model)
    tag = tag or f"lmtune-{loaded.scorer.label}"
    check_tag(tag)
    whole = ranked = read_run(run)
    if only is not None:
        ranked = {topic: ranked[topic] for topic in select_topics(only, list(ranked))}
    selects_weight = isinstance(interpolate, Measure)
    dataset = collection.load(("documents", "topics", *(["qrels"] if selects_weight else [])))
    skipped = _skipped_topics(loaded, dataset, run, ranked, all_topics)
    validation = _validation_topics(loaded, dataset, run, whole) if selects_weight else []
    needed = {
        topic: whole[topic] for topic in whole if topic in validation or topic in ranked.keys() - skipped
    }
    made = source.lists(needed, dataset, collection, progress)
    data = made.data.select([topic for topic in made.data.queries if topic in ranked.keys() - skipped])
    weight = 1.0 if interpolate is None else interpolate
    with timed(f"{quantity(len(data.queries), 'topic')} reranked"):
        scores = loaded.score(data, progress=partial(progress, "scoring"), **how)
        if isinstance(weight, Measure):
            lists = made.data.select(validation)
            weight = _select_weight(weight, lists, loaded.score(lists, **how), whole, dataset)
        if interpolate is not None:
            scores = interpolated(data, ranked, scores, weight)
        write_reranked(output, ranked, [(data, scores)], tag=tag)
    return made, weight


def source_of(
    model: Reranker,
    collection: Collection,
    depth: int | None = None,
    *,
    custom: tuple[str, ...] = (),
    file: Path | None = None,
) -> tuple[ListSource, Collection]:
    """Return the source of a model's input, with its custom features, and the collection with its fields.

    Raises
    ------
    InputError
        If the features differ from the model's.
    """
    collection = replace(collection, fields=tuple(model.facts.get("fields", ())))
    source = model.scorer.source(model.facts, depth)
    if isinstance(source, FeatureSettings):
        source = replace(source, custom=custom)
        check_same(model.facts.get("custom", {}), source.custom_features(collection.fields))
    elif custom:
        raise InputError("the model reads text", value=custom[0], accepted="no --feature")
    model.check_features(source.names(collection.fields), file=file)
    return source, collection


def _validation_topics(model: Reranker, dataset: Dataset, path: Path, run: Run) -> list[str]:
    """Return the model's validation topics that are in a run and have a relevant document."""
    seen = topics_seen(model.facts, dataset)["validation"]
    usable = [
        topic
        for topic in seen
        if run.get(topic) and max(dataset.qrels.get(topic, {}).values(), default=0) > 0
    ]
    if not usable:
        raise InputError(
            "no judged topic of the run was a validation topic of the model: cannot select a weight",
            file=path,
            accepted="--interpolate with a number from 0 to 1",
        )
    return usable


def _select_weight(
    measure: Measure, data: RankingData, scores: NDArray[np.floating], run: Run, dataset: Dataset
) -> float:
    """Return the model's best weight on validation topics, and print a note with it."""
    weight, value = _best_weight(data, run, scores, dataset.qrels, measure)
    note(
        f"model weight {weight:.4g}, optimal on the {len(data.queries)} validation topics: "
        f"{measure} {value:.4f}"
    )
    return weight


def _skipped_topics(model: Reranker, dataset: Dataset, path: Path, run: Run, all_topics: bool) -> set[str]:
    """Return the topics that keep the run's order, and print a note on topics that the model has seen."""
    seen = {part: run.keys() & topics for part, topics in topics_seen(model.facts, dataset).items()}
    all_seen = set().union(*seen.values())
    if not all_seen:
        return all_seen
    if len(all_seen) == len(run) and not all_topics:
        raise InputError(
            "the model was trained or validated on every topic",
            file=path,
            accepted="other topics, --all-topics, or lmtune rerank crossval",
        )
    counts = f"the model was trained on {len(seen['train'])} of the run's topics and validated on "
    advice = "evaluate it on the others" if all_topics else "they keep the run's order without --all-topics"
    note(f"{counts}{len(seen['validation'])}: {advice}")
    return set() if all_topics else all_seen


def write_reranked(output: Path, run: Run, scored: Sequence[Scored], *, tag: str) -> None:
    """Write a reranked run; topics that were not scored keep their ranking.

    Parameters
    ----------
    output : path
        The file for the reranked run.
    run : mapping
        The run; topics are written in its order.
    scored : sequence of Scored
        Scored parts of the run; see `lmtune.rerank.sources.reranked`.
    tag : str
        Tag of the reranked run.
    """
    new = {ranking.topic: ranking for part in scored for ranking in reranked(run, *part)}

    def ranking(topic: str) -> Ranking:
        if topic in new:
            return new[topic]
        docnos = rank_docnos(run[topic])
        return Ranking(topic, docnos, np.array([run[topic][docno] for docno in docnos]))

    write_run(output, (ranking(topic) for topic in run if run[topic]), tag=tag)


def score_letor(
    model: Path, file: Path, output: Path, *, tag: str | None = None, device: str = "cpu"
) -> None:
    """Score the rows of a LETOR file and write the scores; see `write_scores`.

    Raises
    ------
    InputError
        If the number of features differs from the model's, or a file is invalid.
    """
    loaded = load_model(model)
    if not loaded.names:
        raise InputError(
            "the model reads text, not features", file=model, accepted="--run, with a collection"
        )
    data = read_lists(loaded, file)
    with timed(f"{quantity(len(data.queries), 'query', 'queries')} scored"):
        scores = loaded.score(data, device=device)
    write_scores(output, [(data, scores)], tag=tag or f"lmtune-{loaded.scorer.label}")


def read_rows(model: Reranker, file: Path) -> RankingData:
    """Read a LETOR file, with at least the features of a model of lmtune; print a note if it has fewer.

    Raises
    ------
    InputError
        If the file's record has names of features, and the model has others.
    """
    names = recorded(file, "features")
    if names is not None and model.names and not model.names[0].isdecimal():
        model.check_features(names, file=file)
    data = RankingData.read(file)
    # Files of other programs may count a feature more; see `ForeignModel.score`.
    if isinstance(model.scorer, ForeignModel):
        return data
    if (found := data.features.shape[1]) < (wanted := len(model.names)):
        note(f"{file}: {quantity(found, 'feature')}; the model has {wanted}: the others are 0")
    return data.widened(wanted)


def read_lists(model: Reranker, file: Path) -> RankingData:
    """Read a LETOR file for a model, and print a note if it has identifiers of the training queries."""
    data = read_rows(model, file)
    model.note_seen(data.queries)
    return data


def unseen_lists(
    model: Reranker,
    path: Path,
    collection: Collection,
    all_topics: bool,
    progress: Progress = silent,
    *,
    custom: tuple[str, ...] = (),
) -> RankingData:
    """Compute features and labels of a run's judged topics, without those that the model has seen.

    Raises
    ------
    InputError
        As `rerank_run`, and if no topic is judged.
    """
    source, collection = source_of(model, collection, custom=custom)
    run = read_run(path)
    dataset = collection.load()
    skipped = _skipped_topics(model, dataset, path, run, all_topics)
    unseen = {topic: scores for topic, scores in run.items() if topic not in skipped}
    topics = judged_topics(path, unseen, dataset)
    return source.lists({topic: run[topic] for topic in topics}, dataset, collection, progress).data


def write_scores(output: Path, scored: Sequence[Scored], *, tag: str) -> None:
    """Write the scores of LETOR files: as a run if all have docnos, else one score per line.

    Parameters
    ----------
    output : path
    scored : sequence of Scored
        LETOR files, written one after the other in the order of their rows.
    tag : str
        Tag of a run.

    Raises
    ------
    InputError
        If the run would have a topic twice.
    """
    if all(data.docnos is not None for data, _ in scored):
        rankings = (ranking for data, scores in scored for ranking in reranked(_as_run(data), data, scores))
        write_run(output, rankings, tag=tag)
        return
    with atomic_write(output) as stream:
        for _, scores in scored:
            stream.writelines(f"{score:.9g}\n" for score in scores.tolist())


def _as_run(data: RankingData) -> Run:
    return {query: dict.fromkeys(docnos, 0.0) for query, docnos in _lists(data)}


_ALL_FEATURES = "all features"
"""Name of the baseline in the comparison of features."""


def permutation_importance(
    model: Reranker,
    data: RankingData,
    *,
    measure: str | None = None,
    repeats: int = 5,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress = silent,
) -> Comparison:
    """Compute the permutation importance of each feature, with significance tests.

    Breiman's permutation importance (Machine Learning 45, 2001) for rankings: a feature's values are
    shuffled among the documents of each query. A feature that is constant within every query is
    shuffled among queries.

    Parameters
    ----------
    model : Reranker
    data : RankingData
        Raw features and labels of queries that the model has not seen.
    measure : str, optional
        See `lmtune.measures.measure.parse_list_measure`; default the validation measure.
    repeats : int
        Shuffles per feature; their mean is compared for each query.
    seed : int
        Seed of the shuffles.
    device : str
        Device of scoring.
    progress : Progress
        Called after each feature.

    Returns
    -------
    Comparison
        One system per shuffled feature, compared with the baseline "all features". Topics are the
        queries on which the measure is defined. A negative difference is the loss without the
        feature.

    Raises
    ------
    InputError
        If `repeats` is below 1, features differ from the model's, or fewer than two queries have a
        relevant document.
    """
    check_least("bad number of shuffles", repeats, 1)
    measurer = Measurer(measure or model.scorer.settings.validation_measure, data)
    topics = [query for query, counts in zip(data.queries, measurer.counted.tolist(), strict=True) if counts]
    if len(topics) < 2:
        raise InputError(
            "too few queries with a relevant document", value=len(topics), accepted="at least two"
        )

    def values(features: NDArray[np.float32]) -> NDArray[np.float64]:
        scores = model.score(replace(data, features=features), device=device)
        return measurer.values(scores)[measurer.counted]

    baseline = values(data.features)
    rng, by_feature = np.random.default_rng(seed), {}
    for number, name in enumerate(model.names):
        shuffled = data.features.copy()
        total = np.zeros(len(topics))
        for _ in range(repeats):
            shuffled[:, number] = _shuffled(data, number, rng)
            total += values(shuffled)
        by_feature[name] = total / repeats
        progress("features shuffled", number + 1, len(model.names), name)
    name = str(measurer.measure)
    return compare(baseline, by_feature, baseline=_ALL_FEATURES, measures=[name], topics=topics)


def _shuffled(data: RankingData, number: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Shuffle a feature's values within queries, or among queries if it is constant within each."""
    column, firsts = data.features[:, number], data.features[data.starts[:-1], number]
    if (column == firsts[data.query_of_row]).all():
        among: NDArray[np.float32] = rng.permutation(firsts)[data.query_of_row]
        return among
    within: NDArray[np.float32] = column[np.lexsort((rng.random(column.size), data.query_of_row))]
    return within
