"""``lmtune rerank crossval``: every topic reranked by a model that never saw it.

There is no --from: a setting that was fitted on all topics has seen those that are held out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lmtune.cli.compare import ComparisonOutput, show
from lmtune.cli.messages import say
from lmtune.cli.rerank import Lessons, Machine, list_source
from lmtune.cli.rerank.train import Learning, facts_of, learn_all
from lmtune.cli.screen import stages
from lmtune.collections.collection import Collection
from lmtune.collections.provenance import NEURAL, check_recorded, write_record
from lmtune.errors import InputError
from lmtune.io.runs import read_run
from lmtune.measures.significance.comparison import compare_runs
from lmtune.options import option, usual
from lmtune.parallel import Workers
from lmtune.progress import Progress
from lmtune.report.recommendation import reranking_answer, trust, weighted_remark
from lmtune.report.table import STYLES
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.settings import Settings
from lmtune.rerank.sources import FeatureSettings, ListSource, TrainingData, folds_of_run, from_letor
from lmtune.rerank.text.options import TextOptions

if TYPE_CHECKING:
    from lmtune.rerank.applying import Scored


@dataclass(frozen=True)
class Crossing:
    """Folds, and their results."""

    output: Path = usual(
        ..., "The new run, of all topics; of LETOR files without docids scores, fold by fold."
    )
    folds: str | None = usual(
        None, "How many folds of the run's topics (default 5), or a JSON file of them.", metavar="N|FILE"
    )
    models: Path | None = option(None, "Keep each fold's model here: DIR/fold1 ...", metavar="DIR")
    run_tag: str | None = option(None, "Default: lmtune-LOSS-NET.")
    style: str = option("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)


def crossval(
    data: Annotated[
        str | None,
        "A folder of LETOR files in Fold1, Fold2 ...; with --run a collection: pydocs, a folder ...",
        "DATA",
    ],
    crossing: Crossing,
    learning: Learning,
    lessons: Lessons,
    collection: Annotated[Collection, "exclude_self"],
    features: FeatureSettings,
    text: TextOptions,
    settings: Settings,
    normalisation: Normalisation,
    machine: Machine,
    workers: Workers,
) -> None:
    """Rerank each topic by a model that never saw it; compare the run with the one before.

    Examples
    --------
    lmtune rerank crossval my-collection --run bm25.run --output better.run
    lmtune rerank crossval MSLR --ranker lambdamart --output scores.txt
    """
    from lmtune.rerank.reranker import learner_of

    learning.check(data)
    learner_of(settings).check(lists=learning.run is not None)
    reads = [*learning.files(data, collection), *(Path(name) for name in [crossing.folds] if name)]
    check_recorded(crossing.output, reads=[path for path in reads if path.is_file()])
    with stages() as progress:
        source = lessons.of(list_source(settings, features, text), [settings.method], learning.run)
        known = _folds(replace(collection, name=data), crossing, learning, source, settings.seed, progress)
    with workers.engaged():
        scored = learn_all(known, crossing.models, learning, settings, normalisation, machine)
    if scored:
        _write(known[0], scored, crossing, learning.run, settings)


def _folds(
    collection: Collection,
    crossing: Crossing,
    learning: Learning,
    source: ListSource,
    seed: int,
    progress: Progress,
) -> list[TrainingData]:
    if learning.run is not None:
        return folds_of_run(
            learning.run,
            collection,
            source,
            folds=crossing.folds,
            validation=learning.validation,
            seed=seed,
            progress=progress,
        )
    if crossing.folds is not None:
        raise InputError("--folds without a run", value=crossing.folds, accepted="the LETOR files' own folds")
    parts = from_letor(str(collection.name), learning.validation, seed)
    if len(parts) < 2:
        raise InputError("no folds", file=collection.name, accepted="Fold1, Fold2 ..., or rerank train")
    return parts


def _write(
    first: TrainingData, scored: list[Scored], crossing: Crossing, run: Path | None, settings: Settings
) -> None:
    """Write the run, or the scores, and print how good it is."""
    from lmtune.rerank.applying import write_reranked, write_scores
    from lmtune.rerank.reranker import report

    tag = crossing.run_tag or f"lmtune-{settings.label}"
    if run is None or first.source is None:
        write_scores(crossing.output, scored, tag=tag)
        for line in report(scored, settings.chosen_by):
            say(f"{line}\n")
    else:
        write_reranked(crossing.output, read_run(run), scored, tag=tag)
        measures = dict.fromkeys(ComparisonOutput.measure)
        if settings.measure != Settings.measure:
            measures = {str(settings.chosen_by): None} | measures
        dataset = first.source.dataset
        compared = compare_runs(dataset.qrels, [run, crossing.output], [*measures])
        show(compared, crossing.style, answer=reranking_answer(compared))
        if crossing.style == "table":
            runs = dict(zip(compared.systems[::-1], [crossing.output, run], strict=True))
            remark = weighted_remark(first.train.weights)
            say(trust(dataset.qrels, runs, compared.measures[0], dataset.qrels_file, remark=remark))
    write_record(crossing.output, NEURAL, **facts_of(first))
