"""A model that was kept: runs and LETOR files reranked by it, interpolated; its features' importance."""

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
from lmtune.rerank.data import RankingData
from lmtune.rerank.learners.learner import ScoringOptions
from lmtune.rerank.reranker import Reranker, load_model
from lmtune.rerank.sources import ListSource, Run, RunFeatures, in_order, judged_topics, reranked, topics_seen

_Qrels = Mapping[str, Mapping[str, int]]


def parse_interpolation(text: str) -> float | Measure:
    """Read a weight from 0 to 1, or the measure by which to choose one."""
    try:
        weight = float(text)
    except ValueError:
        measure = parse_measure(text)
        check_measure(measure)
        return measure
    if not 0.0 <= weight <= 1.0:
        raise InputError("bad --interpolate", value=text, accepted="from 0 to 1, or a measure")
    return weight


def interpolated(data: RankingData, run: Run, scores: ArrayLike, weight: float) -> NDArray[np.float64]:
    """Add each topic's min-max scores of a model and of the run: weight times the one, the rest the other.

    Parameters
    ----------
    data : RankingData
        Made from the run.
    run : mapping
        The run.
    scores : array_like of float, shape (rows,)
        The model's.
    weight : float
        Of the model, from 0 to 1.
    """
    mixed, columns = np.array(scores, np.float64), normalised("min-max", MINIMUM)
    for q, (topic, docnos) in enumerate(_lists(data)):
        rows = data.rows(q)
        pair = np.array([[run[topic][docno] for docno in docnos], mixed[rows]])
        mixed[rows] = np.array([1.0 - weight, weight]) @ columns(pair)
    return mixed


def _best_weight(
    data: RankingData, run: Run, scores: ArrayLike, qrels: _Qrels, measure: Measure
) -> tuple[float, float]:
    """Return the model's weight with the highest mean on data's topics, and that mean, by a line search.

    Parameters
    ----------
    data, run, scores
        As of `interpolated`; topics that did not train the model.
    qrels : mapping
        Judgments of all these topics.
    measure : Measure
        One that `ExactLineSearch` takes.
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
"""Lists, and a score of each row."""


def rerank_run(
    model: Path,
    run: Path,
    collection: Collection,
    output: Path,
    *,
    only: str | None = None,
    all_topics: bool = False,
    depth: int | None = None,
    interpolate: float | Measure | None = None,
    tag: str | None = None,
    text: Mapping[str, Any] | None = None,
    progress: Progress = silent,
    **how: Unpack[ScoringOptions],
) -> tuple[RunFeatures, float]:
    """Write a run in the order of a model's scores.

    Parameters
    ----------
    model : path
        A folder that `lmtune.rerank.reranker.save_model` wrote; its features are made of the run,
        or texts read. Or ``text:MODEL`` or ``decoder:MODEL``, trained elsewhere.
    run, output : path
        The run, and the new one.
    collection : Collection
        The run's topics and index.
    only : str, optional
        The topics to take, as `lmtune.collections.folds.select_topics` reads them.
    all_topics : bool
        Rerank the topics that the model was trained or validated on, too; else they keep the run's
        order.
    depth : int, optional
        Documents of a topic that are scored, as many as in training by default; the others keep
        their order below.
    interpolate : float or Measure, optional
        Add the run's own scores, both min-max: the model's weight, from 0 to 1; or the measure for
        which it is best on the topics that validated the model, which has not learnt from them.
    tag : str, optional
        The new run's; by default made of the loss and the network.
    text : mapping, optional
        Of a model that reads text, the `TextOptions` that are to be other than in training.
    progress : Progress
        Called while documents are indexed, features made and texts read.
    **how
        ``device``, ``bf16`` and ``checkpoint``, as for `Reranker.score`.

    Returns
    -------
    RunFeatures, float
        The features, and the model's weight: 1 without interpolation.

    Raises
    ------
    InputError
        For a model of other features, topics that the run lacks, no topic that the model did not
        see, a weight to be chosen without judged topics, and whatever cannot be read.
    """
    loaded = load_model(model, text=text)
    source, collection = source_of(loaded, collection, depth, file=model)
    tag = tag or f"lmtune-{loaded.scorer.label}"
    check_tag(tag)
    every = ranked = read_run(run)
    if only is not None:
        ranked = {topic: ranked[topic] for topic in select_topics(only, list(ranked))}
    chooses = isinstance(interpolate, Measure)
    dataset = collection.load(("documents", "topics", *(["qrels"] if chooses else [])))
    kept = _left(loaded, dataset, run, ranked, all_topics)
    held = _validation(loaded, dataset, run, every) if chooses else []
    new = {topic: every[topic] for topic in every if topic in held or topic in ranked.keys() - kept}
    made = source.lists(new, dataset, collection, progress)
    data = made.data.select([topic for topic in made.data.queries if topic in ranked.keys() - kept])
    weight = 1.0 if interpolate is None else interpolate
    with timed(f"{quantity(len(data.queries), 'topic')} reranked"):
        scores = loaded.score(data, progress=partial(progress, "scoring"), **how)
        if isinstance(weight, Measure):
            chosen_by = made.data.select(held)
            weight = _chosen(weight, chosen_by, loaded.score(chosen_by, **how), every, dataset)
        if interpolate is not None:
            scores = interpolated(data, ranked, scores, weight)
        write_reranked(output, ranked, [(data, scores)], tag=tag)
    return made, weight


def source_of(
    model: Reranker, collection: Collection, depth: int | None = None, *, file: Path | None = None
) -> tuple[ListSource, Collection]:
    """Return what makes of a run what a model was trained on, of a collection with the same fields.

    Raises
    ------
    InputError
        For a model of other features.
    """
    collection = replace(collection, fields=tuple(model.facts.get("fields", ())))
    source = model.scorer.source(model.facts, depth)
    model.check_features(source.names(collection.fields), file=file)
    return source, collection


def _validation(model: Reranker, dataset: Dataset, path: Path, run: Run) -> list[str]:
    """Return the topics on which a weight can be chosen: the model has not learnt from them."""
    seen = topics_seen(model.facts, dataset)["validation"]
    usable = [
        topic
        for topic in seen
        if run.get(topic) and max(dataset.qrels.get(topic, {}).values(), default=0) > 0
    ]
    if not usable:
        raise InputError(
            "no topic of the run validated the model and is judged: none to choose the weight on",
            file=path,
            accepted="--interpolate with a number from 0 to 1",
        )
    return usable


def _chosen(
    measure: Measure, data: RankingData, scores: NDArray[np.floating], run: Run, dataset: Dataset
) -> float:
    """Choose the model's weight on topics, and say so."""
    weight, value = _best_weight(data, run, scores, dataset.qrels, measure)
    note(
        f"the model's weight is {weight:.4g}, the best of all on the {len(data.queries)} topics that "
        f"validated it: {measure} {value:.4f}"
    )
    return weight


def _left(model: Reranker, dataset: Dataset, path: Path, run: Run, all_topics: bool) -> set[str]:
    """Return the topics that are to stay as they are, and say how many the model has seen."""
    seen = {part: run.keys() & topics for part, topics in topics_seen(model.facts, dataset).items()}
    every = set().union(*seen.values())
    if not every:
        return every
    if len(every) == len(run) and not all_topics:
        raise InputError(
            "the model was trained or validated on every topic",
            file=path,
            accepted="other topics, --all-topics, or lmtune rerank crossval",
        )
    what = f"the model was trained on {len(seen['train'])} of the run's topics, validated on "
    consequence = "measure it on the others" if all_topics else "these are left alone without --all-topics"
    note(f"{what}{len(seen['validation'])}: {consequence}")
    return set() if all_topics else every


def write_reranked(output: Path, run: Run, scored: Sequence[Scored], *, tag: str) -> None:
    """Write a run, its topics in their order; those that were not scored as they were.

    Parameters
    ----------
    output : path
        The new run.
    run : mapping
        The run.
    scored : sequence of Scored
        Parts of the run, as `lmtune.rerank.sources.reranked` takes.
    tag : str
        The new run's.
    """
    new = {ranking.topic: ranking for part in scored for ranking in reranked(run, *part)}

    def ranking(topic: str) -> Ranking:
        if topic in new:
            return new[topic]
        docnos = in_order(run[topic])
        return Ranking(topic, docnos, np.array([run[topic][docno] for docno in docnos]))

    write_run(output, (ranking(topic) for topic in run if run[topic]), tag=tag)


def score_letor(
    model: Path, file: Path, output: Path, *, tag: str | None = None, device: str = "cpu"
) -> None:
    """Write scores of the rows of a LETOR file; see `write_scores`.

    Raises
    ------
    InputError
        For another number of features than the model's, and whatever cannot be read.
    """
    loaded = load_model(model)
    data = read_lists(loaded, file)
    with timed(f"{quantity(len(data.queries), 'query', 'queries')} scored"):
        scores = loaded.score(data, device=device)
    write_scores(output, [(data, scores)], tag=tag or f"lmtune-{loaded.scorer.label}")


def read_lists(model: Reranker, file: Path) -> RankingData:
    """Read a LETOR file for a model, and say how many of its queries have names that the model knows."""
    data = RankingData.read(file).widened(len(model.names))
    learnt = {query for part in model.facts.get("topics", {}).values() for query in part}
    if common := learnt.intersection(data.queries):
        note(f"{len(common)} of {len(data.queries)} queries have names of those that the model learnt from")
    return data


def unseen_lists(
    model: Reranker, path: Path, collection: Collection, all_topics: bool, progress: Progress = silent
) -> RankingData:
    """Make features and labels of a run's judged topics, without those that the model has seen.

    Raises
    ------
    InputError
        As `rerank_run`; where no topic is judged.
    """
    source, collection = source_of(model, collection)
    run = read_run(path)
    dataset = collection.load()
    left = _left(model, dataset, path, run, all_topics)
    unseen = {topic: scores for topic, scores in run.items() if topic not in left}
    topics = judged_topics(path, unseen, dataset)
    return source.lists({topic: run[topic] for topic in topics}, dataset, collection, progress).data


def write_scores(output: Path, scored: Sequence[Scored], *, tag: str) -> None:
    """Write a run where documents are named, else a score a line, in the order of the rows.

    Parameters
    ----------
    output : path
        The file.
    scored : sequence of Scored
        LETOR files, one after the other.
    tag : str
        Of a run.

    Raises
    ------
    InputError
        For a run that would have a topic twice.
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


_WHOLE = "all features"
"""The name of what the others are compared with."""


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
    """Measure lists again with the values of one feature shuffled, feature by feature.

    Breiman's permutation importance (Machine Learning 45, 2001) for rankings: values are shuffled
    among the documents of each query. Those of a feature that every query's documents share are
    shuffled among queries.

    Parameters
    ----------
    model : Reranker
        What scores.
    data : RankingData
        Features as they come, and labels; of queries that the model has not seen.
    measure : str, optional
        As `lmtune.measures.measure.parse_list_measure` reads; the one that validation chose by.
    repeats : int
        Shuffles a feature; each query's mean over them is compared.
    seed : int
        Of the shuffles.
    device : str
        Where to compute.
    progress : Progress
        Called after each feature.

    Returns
    -------
    Comparison
        A system a feature, by name, against `_WHOLE`; topics are the queries that count. A
        difference below 0 is what the feature is worth.

    Raises
    ------
    InputError
        For fewer repeats than one, other features than the model's, or fewer than two queries
        with a relevant document.
    """
    check_least("bad number of shuffles", repeats, 1)
    measurer = Measurer(measure or model.scorer.settings.validation_measure, data)
    topics = [query for query, counts in zip(data.queries, measurer.counted.tolist(), strict=True) if counts]
    if len(topics) < 2:
        raise InputError(
            "too few queries with a relevant document", value=len(topics), accepted="two or more"
        )

    def values(features: NDArray[np.float32]) -> NDArray[np.float64]:
        scores = model.score(replace(data, features=features), device=device)
        return measurer.values(scores)[measurer.counted]

    whole = values(data.features)
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
    return compare(whole, by_feature, baseline=_WHOLE, measures=[name], topics=topics)


def _shuffled(data: RankingData, number: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Shuffle one feature's values within queries, or among queries where they differ only there."""
    column, firsts = data.features[:, number], data.features[data.starts[:-1], number]
    if (column == firsts[data.query_of_row]).all():
        among: NDArray[np.float32] = rng.permutation(firsts)[data.query_of_row]
        return among
    within: NDArray[np.float32] = column[np.lexsort((rng.random(column.size), data.query_of_row))]
    return within
