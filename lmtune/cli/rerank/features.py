"""``lmtune rerank features`` and ``importance``: a run as a LETOR file; the worth of a model's features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import say
from lmtune.cli.parameters import Tuned
from lmtune.cli.rerank import Machine, tuned_features
from lmtune.cli.screen import stages, utf8_output
from lmtune.collections.collection import Collection
from lmtune.errors import InputError
from lmtune.io.folders import check_directory, check_file
from lmtune.io.letor import write_letor
from lmtune.io.runs import read_run
from lmtune.options import option, usual
from lmtune.report.table import STYLES
from lmtune.rerank.features import features_of
from lmtune.rerank.sources import FeatureSettings, judged_topics


@dataclass(frozen=True)
class Files:
    """Files."""

    run: Path = usual(..., "A TREC run.")
    output: Path = usual(..., "A LETOR file; .gz compresses.")
    only_topics: str | None = usual(None, "These alone: 51-100, a list or a file.")


def features(
    dataset: Annotated[str | None, "The collection: pydocs, a folder, irds:ID ...", "DATASET"],
    files: Files,
    collection: Annotated[Collection, "exclude_self"],
    settings: FeatureSettings,
    tuned: Annotated[Tuned, "measure", "method"],
) -> None:
    """Write a run's features and labels as a LETOR file; print what the features are.

    Examples
    --------
    lmtune rerank features my-collection --run bm25.run --output features.txt
    lmtune rerank features pydocs --run bm25.run --output features.txt.gz
    """
    settings, named = tuned_features(settings, tuned, replace(collection, name=dataset))
    chosen = [] if files.only_topics is None else [Path(files.only_topics)]
    check_file(files.output, reads=[files.run, *chosen, *named.files()])
    run = read_run(files.run)
    with stages() as progress:
        loaded = named.load()
        topics = judged_topics(files.run, run, loaded, files.only_topics)
        made = settings.lists({topic: run[topic] for topic in topics}, loaded, named, progress)
    write_letor(files.output, made.data)
    for number, feature in enumerate(features_of(made.fields), 1):
        say(f"{number}\t{feature.name}\t{feature.what}\n")


@dataclass(frozen=True)
class Shuffling:
    """Shuffles, tables and pictures."""

    run: Path | None = usual(None, "A TREC run of the collection.")
    measure: str | None = usual(None, "ndcg@5, mrr, ap ...; default: what validation chose by.")
    repeats: int = usual(5, "Shuffles a feature.", low=1)
    seed: int = option(0, "Of the shuffles.", low=0)
    all_topics: bool = option(False, "Take also the topics that trained or validated the model.")
    style: str = usual("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)
    output: Path | None = usual(None, "Keep the tables and the picture here.", metavar="DIR")


def importance(
    model: Annotated[Path, "A folder that lmtune rerank train wrote.", "MODEL"],
    data: Annotated[
        str | None, "A LETOR file; with --run the collection: pydocs, a folder, irds:ID ...", "DATA"
    ],
    shuffling: Shuffling,
    collection: Annotated[Collection, "exclude_self"],
    machine: Machine,
) -> None:
    """Shuffle one feature after the other; print what the measure loses, and LightGBM's own gain.

    Examples
    --------
    lmtune rerank importance model MSLR/Fold1/test.txt
    lmtune rerank importance model my-collection --run bm25.run --output worth
    """
    from lmtune.report.loss_tables import IMPORTANCE, importance_table, write_importance
    from lmtune.rerank.applying import permutation_importance, read_lists, unseen_lists
    from lmtune.rerank.learners.trees import LambdaMart
    from lmtune.rerank.reranker import load_model

    if data is None and shuffling.run is None:
        raise InputError("no --run", accepted="--run PATH, or a LETOR file")
    if shuffling.output is not None:
        reads = [Path(name) for name in (model, shuffling.run or data) if name is not None]
        check_directory(shuffling.output, IMPORTANCE, reads=reads)
    loaded = load_model(model)
    if not loaded.names:
        raise InputError(
            "the model reads text: it has no features", file=model, accepted="a model of features"
        )
    with stages() as progress:
        if shuffling.run is None:
            lists = read_lists(loaded, Path(str(data)))
        else:
            named = replace(collection, name=data)
            lists = unseen_lists(loaded, shuffling.run, named, shuffling.all_topics, progress)
        losses = permutation_importance(
            loaded,
            lists,
            measure=shuffling.measure,
            repeats=shuffling.repeats,
            seed=shuffling.seed,
            device=machine.device,
            progress=progress,
        )
    gains = {}
    if isinstance(loaded.scorer, LambdaMart):
        gains = dict(zip(loaded.names, loaded.scorer.gains, strict=True))
    if shuffling.output is not None:
        write_importance(shuffling.output, losses, gains)
    with utf8_output() as stream:
        stream.write(importance_table(losses, gains, shuffling.style))
