"""``lmtune rerank features``: a run as a LETOR file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import say
from lmtune.cli.parameters import Tuned
from lmtune.cli.rerank import tuned_features
from lmtune.cli.screen import stages
from lmtune.datasets.collection import Collection
from lmtune.formats.letor import write_letor
from lmtune.formats.runs import read_run
from lmtune.options import option
from lmtune.reranking.features import features_of
from lmtune.reranking.sources import FeatureSettings, judged_topics
from lmtune.storage.outputs import check_file


@dataclass(frozen=True)
class Files:
    """Input and output."""

    run: Path = option(..., "A TREC run.")
    output: Path = option(..., "A LETOR file; .gz compresses.")
    only_topics: str | None = option(None, "These alone: 51-100, a list or a file.")


def features(
    dataset: Annotated[str | None, "The collection: pydocs, a folder, irds:ID ...", "DATASET"],
    files: Files,
    collection: Collection,
    settings: FeatureSettings,
    tuned: Annotated[Tuned, "measure", "method"],
) -> None:
    """Write a run's features and labels as a LETOR file; print what the features are."""
    settings, own = tuned_features(settings, tuned, replace(collection, name=dataset))
    given = [] if files.only_topics is None else [Path(files.only_topics)]
    check_file(files.output, reads=[files.run, *given, *own.files()])
    run = read_run(files.run)
    with stages() as progress:
        loaded = own.load(progress=progress)
        topics = judged_topics(files.run, run, loaded, files.only_topics)
        made = settings.lists({topic: run[topic] for topic in topics}, loaded, own, progress)
    write_letor(files.output, made.data)
    for number, feature in enumerate(features_of(made.fields), 1):
        say(f"{number}\t{feature.name}\t{feature.what}\n")
