"""Rerank a run by a model that was kept."""

from __future__ import annotations

from pathlib import Path

from lmtune.datasets.collection import Collection
from lmtune.datasets.selection import select_topics
from lmtune.formats.runs import check_tag, read_run, write_run
from lmtune.progress import Progress, silent, timed
from lmtune.reranking.features import FEATURES
from lmtune.reranking.model_folder import load_model
from lmtune.reranking.runs import reranked
from lmtune.reranking.sources import FeatureSettings, RunFeatures, run_features


def rerank_run(
    model: Path,
    run: Path,
    collection: Collection,
    output: Path,
    *,
    only: str | None = None,
    depth: int | None = None,
    tag: str | None = None,
    device: str = "cpu",
    progress: Progress = silent,
) -> RunFeatures:
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
    depth : int, optional
        Documents of a topic that are scored, as many as in training by default; the others keep
        their order beneath.
    tag : str, optional
        The new run's; by default made of the loss and the network.
    device : str
        Where to compute.
    progress : Progress
        Called while documents are indexed and features made.

    Raises
    ------
    InputError
        For a model of other features, topics that the run lacks, and whatever cannot be read.
    """
    loaded = load_model(model)
    names = tuple(feature.name for feature in FEATURES)
    loaded.check_features(names, file=model)
    tag = tag or f"lmtune-{loaded.scorer.label}"
    check_tag(tag)
    facts = loaded.facts
    settings = FeatureSettings(facts["lambda"], facts["mu"], facts["depth"] if depth is None else depth)
    ranked = read_run(run)
    if only is not None:
        ranked = {topic: ranked[topic] for topic in select_topics(only, list(ranked))}
    made = run_features(run, ranked, collection, settings, judged=False, progress=progress)
    with timed(f"{len(made.data.queries)} topics reranked"):
        scores = loaded.score(made.data, device=device)
        write_run(output, reranked(ranked, made.data, scores), tag=tag)
    return made
