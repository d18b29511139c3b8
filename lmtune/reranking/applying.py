"""Rerank a run, or the lists of a LETOR file, by a model that was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lmtune.datasets.collection import Collection
from lmtune.datasets.dataset import Dataset
from lmtune.datasets.selection import select_topics
from lmtune.errors import InputError
from lmtune.formats.files import atomic_write
from lmtune.formats.runs import Ranking, check_tag, read_run, write_run
from lmtune.measures.measure import Measure
from lmtune.progress import Progress, note, silent, timed
from lmtune.reranking.data import RankingData
from lmtune.reranking.features import features_of
from lmtune.reranking.interpolating import best_weight, interpolated
from lmtune.reranking.model_folder import load_model
from lmtune.reranking.reranker import Reranker
from lmtune.reranking.runs import in_order, reranked
from lmtune.reranking.sources import FeatureSettings, RunFeatures, judged_topics, run_features, topics_seen

Run = Mapping[str, Mapping[str, float]]
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
    device: str = "cpu",
    progress: Progress = silent,
) -> tuple[RunFeatures, float]:
    """Write a run in the order of a model's scores.

    Parameters
    ----------
    model : path
        A folder that `lmtune.reranking.model_folder.save_model` wrote; its features are made of the run.
    run, output : path
        The run, and the new one.
    collection : Collection
        The run's topics and index.
    only : str, optional
        The topics to take, as `lmtune.datasets.selection.select_topics` reads them.
    all_topics : bool
        Rerank the topics that the model was trained or validated on, too; else they keep the run's
        order.
    depth : int, optional
        Documents of a topic that are scored, as many as in training by default; the others keep
        their order beneath.
    interpolate : float or Measure, optional
        Add the run's own scores, both min-max: the model's weight, from 0 to 1; or the measure for
        which it is best on the topics that validated the model, which has not learnt from them.
    tag : str, optional
        The new run's; by default made of the loss and the network.
    device : str
        Where to compute.
    progress : Progress
        Called while documents are indexed and features made.

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
    loaded = load_model(model)
    collection = replace(collection, fields=tuple(loaded.facts.get("fields", ())))
    names = tuple(feature.name for feature in features_of(collection.fields))
    loaded.check_features(names, file=model)
    tag = tag or f"lmtune-{loaded.scorer.label}"
    check_tag(tag)
    facts = loaded.facts
    settings = FeatureSettings(facts["lambda"], facts["mu"], facts["depth"] if depth is None else depth)
    every = ranked = read_run(run)
    if only is not None:
        ranked = {topic: ranked[topic] for topic in select_topics(only, list(ranked))}
    chooses = isinstance(interpolate, Measure)
    dataset = collection.load(("documents", "topics", *(["qrels"] if chooses else [])), progress=progress)
    kept = _left(loaded, dataset, run, ranked, all_topics)
    held = _validation(loaded, dataset, run, every) if chooses else []
    new = {topic: every[topic] for topic in every if topic in held or topic in ranked.keys() - kept}
    made = run_features(new, dataset, collection, settings, progress)
    data = made.data.select([topic for topic in made.data.queries if topic in ranked.keys() - kept])
    weight = 1.0 if interpolate is None else interpolate
    with timed(f"{len(data.queries)} topics reranked"):
        scores = loaded.score(data, device=device)
        if isinstance(weight, Measure):
            weight = _chosen(weight, loaded, made.data.select(held), every, dataset, device)
        if interpolate is not None:
            scores = interpolated(data, ranked, scores, weight)
        write_reranked(output, ranked, [(data, scores)], tag=tag)
    return made, weight


def _validation(model: Reranker, dataset: Dataset, path: Path, run: Run) -> list[str]:
    """Return the topics on which a weight can be chosen: the model has not learnt from them."""
    seen = topics_seen(model.facts, dataset)["validation"]
    found = [
        topic
        for topic in seen
        if run.get(topic) and max(dataset.qrels.get(topic, {}).values(), default=0) > 0
    ]
    if not found:
        raise InputError(
            "no topic of the run validated the model and is judged: none to choose the weight on",
            file=path,
            accepted="--interpolate with a number from 0 to 1",
        )
    return found


def _chosen(
    measure: Measure, model: Reranker, data: RankingData, run: Run, dataset: Dataset, device: str
) -> float:
    """Choose the model's weight on topics, and say so."""
    weight, value = best_weight(data, run, model.score(data, device=device), dataset.qrels, measure)
    note(
        f"the model's weight is {weight:.4g}, the best of all on the {len(data.queries)} topics that "
        f"validated it: {measure} {value:.4f}"
    )
    return weight


def _left(model: Reranker, dataset: Dataset, path: Path, run: Run, all_topics: bool) -> set[str]:
    """Return the topics that are to stay as they are, and say how many the model has seen."""
    seen = {part: run.keys() & own for part, own in topics_seen(model.facts, dataset).items()}
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
        Parts of the run, as `lmtune.reranking.runs.reranked` takes.
    tag : str
        The new run's.
    """
    new = {ranking.topic: ranking for own in scored for ranking in reranked(run, *own)}

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
    with timed(f"{len(data.queries)} queries scored"):
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
    collection = replace(collection, fields=tuple(model.facts.get("fields", ())))
    model.check_features([feature.name for feature in features_of(collection.fields)])
    run, facts = read_run(path), model.facts
    dataset = collection.load(progress=progress)
    left = _left(model, dataset, path, run, all_topics)
    topics = judged_topics(path, {topic: own for topic, own in run.items() if topic not in left}, dataset)
    settings = FeatureSettings(facts["lambda"], facts["mu"], facts["depth"])
    return run_features({t: run[t] for t in topics}, dataset, collection, settings, progress).data


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
    docnos = data.docnos or ()
    every = enumerate(data.queries)
    return {query: dict.fromkeys(docnos[data.rows(q)], 0.0) for q, query in every}
