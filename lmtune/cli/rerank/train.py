"""``lmtune rerank train`` and ``crossval``: train rerankers, save them, evaluate them on held-out topics.

``crossval`` has no --from: a setting tuned on all topics was tuned on the held-out topics too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lmtune.cli.compare import MEASURES, show
from lmtune.cli.messages import say, talk
from lmtune.cli.parameters import Tuned
from lmtune.cli.rerank import Checkpoints, Machine, Targets, check_inputs, tuned_features
from lmtune.cli.screen import stages
from lmtune.collections.collection import Collection
from lmtune.collections.provenance import NEURAL, check_recorded, describe, record, write_record
from lmtune.errors import InputError
from lmtune.io.folders import check_apart
from lmtune.io.runs import read_run
from lmtune.measures.significance.comparison import compare_runs
from lmtune.options import option, usual
from lmtune.parallel import Workers
from lmtune.progress import Progress, note
from lmtune.report.coverage import judgment_coverage
from lmtune.report.recommendation import reranking_answer
from lmtune.report.table import STYLES
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.settings import Settings, TextOptions
from lmtune.rerank.sources import (
    FeatureSettings,
    ListSource,
    TrainingData,
    folds_of_run,
    from_letor,
    from_run,
)

if TYPE_CHECKING:
    from lmtune.rerank.applying import Scored


@dataclass(frozen=True)
class _Learning(Checkpoints):
    """Training data."""

    run: Path | None = usual(None, "The TREC run to rerank.")
    validation: str | None = usual(
        None,
        "Choose the epoch on these: a share such as 0.2 of the training topics, or a list of them; for LETOR "
        "files a share of the queries, or a file with one per line.",
    )

    def files(self, data: str | None, collection: Collection) -> list[Path]:
        """Return the files and folders that are read or, besides the output, written."""
        names = (self.run or data, self.validation, self.checkpoint)
        files = [] if self.run is None else [*replace(collection, name=data).files(), collection.indexes]
        return [*(Path(name) for name in names if name is not None), *files]

    def check(self, data: str | None, targets: Targets) -> None:
        """Raise `InputError` if there are no training data, or a file is missing."""
        if data is None and self.run is None:
            raise InputError("no training data", accepted="a folder of LETOR files, or --run")
        check_inputs(data, self.run, targets.teacher, is_folder=True)


@dataclass(frozen=True)
class _Training:
    """Output and training topics."""

    output: Path = usual(
        ..., "Write the model to this folder; for LETOR folds, one model per fold.", metavar="DIR"
    )
    train_topics: str | None = option(None, "Train only on these topics: 51-100, a list 51,52 or a file.")


def train(
    data: Annotated[
        str | None,
        "A folder of LETOR files; with --run a collection: pydocs, a folder or irds:ID.",
        "LETOR_DIR",
    ],
    training: _Training,
    learning: _Learning,
    targets: Targets,
    collection: Annotated[Collection, "exclude_self"],
    features: FeatureSettings,
    tuned: Annotated[Tuned, "measure", "method"],
    text: TextOptions,
    settings: Settings,
    normalisation: Normalisation,
    machine: Machine,
) -> None:
    """Train a reranker on LETOR files or on a run.

    Examples
    --------
    lmtune rerank train MSLR/Fold1 --loss lambdarank --output model
    lmtune rerank train my-collection --run bm25.run --output model
    """
    learning.check(data, targets)

    from lmtune.rerank.reranker import check_folder, learner_of, report

    if learning.run is None and tuned.results is not None:
        raise InputError("--from without --run", accepted="both, or neither")
    features, named = tuned_features(features, tuned, replace(collection, name=data))
    learner = learner_of(settings)
    learner.check(lists=learning.run is not None)
    learner.check_used(text, lists=learning.run is not None)
    source = targets.of(learner.source(features, text), [settings.method], learning.run)
    reads = [*learning.files(data, collection), *(Path(name) for name in [training.train_topics] if name)]
    check_apart(training.output, reads, whole=True)
    if learning.run is not None:
        check_folder(training.output)
    with stages() as progress:
        if learning.run is None:
            known = from_letor(str(data), learning.validation, settings.seed)
        else:
            part = from_run(
                learning.run,
                named,
                source,
                train_topics=training.train_topics,
                validation=learning.validation,
                seed=settings.seed,
                progress=progress,
            )
            known = [part]
    how: Any = {"show_line": lambda line: say(f"{line}\n")}
    scored = _train_all(known, training.output, learning, settings, normalisation, machine, **how)
    for line in report(scored, settings.validation_measure) if scored else ():
        say(f"{line}\n")


def _train_all(
    parts: Sequence[TrainingData],
    folder: Path | None,
    learning: _Learning,
    settings: Settings,
    normalisation: Normalisation,
    machine: Machine,
    *,
    show_line: Callable[[str], None],
) -> list[Scored]:
    """Train a model per fold, save it if there is a folder, and score its test lists; show its validation."""
    from lmtune.devices import parse_devices
    from lmtune.rerank.reranker import check_folder, learn_folds, save_model
    from lmtune.rerank.training import distributed

    homes = {} if folder is None else {part.fold: folder / part.fold for part in parts}
    for home in homes.values():
        check_folder(home)
    scored = []
    with distributed.process_group(machine.device) as device, stages() as progress:
        how = {"device": device, "progress": progress, **learning.options()}
        for part, reranker in learn_folds(parts, settings, normalisation, **how):
            if distributed.process_number() > 0:
                continue
            if homes:
                save_model(homes[part.fold], reranker, record(NEURAL, **_facts_of(part)))
            show_line(f"{part.label}{reranker.scorer.summary}")
            if part.test is not None:
                scored.append((part.test, reranker.score(part.test, device=parse_devices(device)[0])))
    return scored


def _facts_of(part: TrainingData) -> dict[str, object]:
    """Describe a model's training data."""
    if part.source is not None:
        return describe(part.source.dataset, part.source.index)
    parts = {"train": part.train, "validation": part.validation, "test": part.test}
    sizes = {
        name: {"queries": len(lists.queries), "rows": int(lists.labels.size)}
        for name, lists in parts.items()
        if lists is not None
    }
    return {"data": sizes}


@dataclass(frozen=True)
class _Crossing:
    """Folds and output."""

    output: Path = usual(
        ..., "Write the reranked run of all topics; for LETOR files without docids the scores, fold by fold."
    )
    folds: str | None = usual(
        None, "Number of folds of the run's topics (default 5), or a JSON file of folds.", metavar="N|FILE"
    )
    models: Path | None = option(None, "Save each fold's model in this folder: DIR/fold1 ...", metavar="DIR")
    run_tag: str | None = option(None, "Tag of the run; default: lmtune-LOSS-NET.")
    style: str = option("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)


def crossval(
    data: Annotated[
        str | None,
        "A folder of LETOR folds, Fold1, Fold2 ...; with --run a collection: pydocs, a folder or irds:ID.",
        "DATA",
    ],
    crossing: _Crossing,
    learning: _Learning,
    targets: Targets,
    collection: Annotated[Collection, "exclude_self"],
    features: FeatureSettings,
    text: TextOptions,
    settings: Settings,
    normalisation: Normalisation,
    machine: Machine,
    workers: Workers,
) -> None:
    """Rerank a run by cross-validation and compare both.

    Examples
    --------
    lmtune rerank crossval my-collection --run bm25.run --output better.run
    lmtune rerank crossval MSLR --ranker lambdamart --output scores.txt
    """
    learning.check(data, targets)

    from lmtune.rerank.reranker import learner_of

    learner = learner_of(settings)
    learner.check(lists=learning.run is not None)
    learner.check_used(text, lists=learning.run is not None)
    reads = [*learning.files(data, collection), *(Path(name) for name in [crossing.folds] if name)]
    check_recorded(crossing.output, reads=[path for path in reads if path.is_file()])
    with stages() as progress:
        source = targets.of(learner.source(features, text), [settings.method], learning.run)
        known = _folds(replace(collection, name=data), crossing, learning, source, settings.seed, progress)
    with workers.engaged():
        models = crossing.models
        scored = _train_all(known, models, learning, settings, normalisation, machine, show_line=note)
    if scored:
        _write(known[0], scored, crossing, learning.run, settings)


def _folds(
    collection: Collection,
    crossing: _Crossing,
    learning: _Learning,
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
    first: TrainingData, scored: list[Scored], crossing: _Crossing, run: Path | None, settings: Settings
) -> None:
    """Write the run or the scores; print a comparison or the mean measures."""
    from lmtune.rerank.applying import write_reranked, write_scores
    from lmtune.rerank.reranker import report

    tag = crossing.run_tag or f"lmtune-{settings.label}"
    if run is None or first.source is None:
        write_scores(crossing.output, scored, tag=tag)
        for line in report(scored, settings.validation_measure):
            say(f"{line}\n")
    else:
        write_reranked(crossing.output, read_run(run), scored, tag=tag)
        measures = dict.fromkeys(MEASURES)
        if settings.measure != Settings.measure:
            measures = {str(settings.validation_measure): None} | measures
        dataset = first.source.dataset
        compared = compare_runs(dataset.qrels, [run, crossing.output], [*measures])
        show(compared, crossing.style, answer=reranking_answer)
        if crossing.style == "table":
            runs = dict(zip(compared.systems[::-1], [crossing.output, run], strict=True))
            how: Any = {"with_bounds": talk().verbose, "weights": first.train.weights}
            say(judgment_coverage(dataset.qrels, runs, compared.measures[0], **how))
    write_record(crossing.output, NEURAL, **_facts_of(first))
