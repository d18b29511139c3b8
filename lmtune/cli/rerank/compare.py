"""``lmtune rerank compare``: compare losses over several trainings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from lmtune.cli.messages import say, talk
from lmtune.cli.rerank import Checkpoints, Machine, Targets, check_inputs
from lmtune.cli.screen import show_table, stages
from lmtune.collections.collection import Collection
from lmtune.errors import InputError, name_of
from lmtune.io.folders import check_directory
from lmtune.measures.lists import Empty
from lmtune.options import option, usual
from lmtune.parallel import Workers
from lmtune.progress import note, quantity, timed
from lmtune.report.coverage import judgment_coverage
from lmtune.report.table import STYLES
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.settings import Settings, TextOptions
from lmtune.rerank.sources import FeatureSettings, TrainingData, folds_of_run

_CONVENTIONS: dict[str, tuple[Empty, ...]] = {"both": ("skip", "zero"), "skip": ("skip",), "zero": ("zero",)}


@dataclass(frozen=True)
class _Trials:
    """Losses and data."""

    losses: str = usual(
        "ranknet,lambdarank,approxndcg,song,k-song,lambdamart",
        "Losses and rankers, with options: k-song:gamma=0.5, or values to choose from by validation: "
        "song:margin=1|5|10.",
        metavar="TEXT,...",
    )
    trials: int = usual(10, "Trainings per loss, each with its own seed.", low=1)
    empty: str = option(
        "both", "Queries without relevant documents: skip, zero (count 0) or both.", choices=_CONVENTIONS
    )
    rates: tuple[float, ...] = option(
        (),
        "Learning rate, or several to choose from by validation: 0.001,0.003,0.01.",
        above=0,
        flag="--learning-rate",
    )
    validation: str | None = option(
        None, "Validation queries: a share of the training queries such as 0.2, or a file with one per line."
    )
    also: tuple[Path, ...] = option(
        (),
        "Models to compare too, not trained on the test queries: folders of rerank train, files of LightGBM, "
        "XGBoost, CatBoost or RankLib.",
    )
    run: Path | None = usual(None, "The TREC run to rerank.")
    folds: str | None = option(
        None, "Number of folds of the run's topics (default 5), or a JSON file of folds.", metavar="N|FILE"
    )


@dataclass(frozen=True)
class _LossesOutput:
    """Output."""

    style: str = usual("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)
    output: Path | None = usual(
        None, "Write tables, training histories and the convergence picture to this folder.", metavar="DIR"
    )


def compare(
    folder: Annotated[
        str | None,
        "A folder of LETOR files or of folds; with --run a collection: pydocs, a folder or irds:ID.",
        "LETOR_DIR",
    ],
    trials: _Trials,
    targets: Targets,
    collection: Annotated[Collection, "exclude_self"],
    features: FeatureSettings,
    text: TextOptions,
    settings: Annotated[Settings, "loss", "ranker", "learning_rate"],
    normalisation: Normalisation,
    checkpoints: Checkpoints,
    machine: Machine,
    workers: Workers,
    output: _LossesOutput,
) -> None:
    """Compare losses over several trainings each.

    Examples
    --------
    lmtune rerank compare MSLR --losses ranknet,lambdarank --trials 5
    lmtune rerank compare my-collection --run bm25.run --losses listnet,song
    """
    if folder is None and trials.run is None:
        raise InputError("no training data", accepted="a folder of LETOR files, or --run")
    check_inputs(folder, trials.run, targets.teacher, models=trials.also, is_folder=True)

    from lmtune.report.loss_tables import LOSSES, loss_table, write_losses
    from lmtune.rerank.comparison import compare as compare_losses
    from lmtune.rerank.comparison import empty_queries, measure_models, read_losses
    from lmtune.rerank.letor_folder import read_letor_folder
    from lmtune.rerank.reranker import learner_of

    learner = learner_of(settings)
    learner.check(lists=trials.run is not None)
    losses = read_losses(trials.losses, settings)
    source = targets.of(learner.source(features, text), chain(*losses), trials.run)
    made: list[TrainingData] = []
    data = str(trials.run or folder)
    if output.output is not None:
        reads = [Path(name) for name in (data, trials.validation) if name is not None]
        check_directory(output.output, LOSSES, reads=[*reads, *trials.also, *checkpoints.folders()])
    with timed(f"{data}: read"):
        chosen, seed = trials.validation, settings.seed
        if trials.run is None:
            folds = read_letor_folder(str(folder), validation=chosen, seed=seed)
        else:
            named = replace(collection, name=folder)
            made.extend(
                folds_of_run(trials.run, named, source, folds=trials.folds, validation=chosen, seed=seed)
            )
            folds = [part.split for part in made]
        missing = empty_queries(folds)
        total = sum(len(fold.test.queries) for fold in folds)
        note(f"{total} test queries, {missing} without a relevant document")
    names = made[0].names if made else None
    others = measure_models(trials.also, folds, settings, trials.trials, names)
    labels = [*map(str, chain(*losses)), *(one.label for one in others)]
    if twice := [label for label in labels if labels.count(label) > 1]:
        accepted = "each loss and each model's file name once"
        raise InputError("a name is listed twice", value=twice[0], accepted=accepted)
    conventions = _CONVENTIONS[trials.empty][
        : 2 if missing else 1
    ]  # without such queries both conventions agree
    asked = f"{quantity(len(losses), 'loss', 'losses')}, {quantity(trials.trials, 'trial')} each"
    with workers.engaged(), stages() as progress, timed(asked):
        outcomes = compare_losses(
            folds,
            losses,
            settings,
            rates=trials.rates,
            trials=trials.trials,
            normalisation=normalisation,
            report=progress,
            device=machine.device,
            **checkpoints.options(),
        )
    outcomes += others
    if output.output is not None:
        write_losses(output.output, outcomes, conventions, data=name_of(data))
    show_table(loss_table(outcomes, output.style, empty=conventions))
    if made and made[0].source is not None and output.style == "table":
        dataset = made[0].source.dataset
        runs = {f"{trials.run}, which the losses rerank": trials.run}
        how: Any = {"with_bounds": talk().verbose, "weights": made[0].train.weights}
        say(judgment_coverage(dataset.qrels, runs, settings.validation_measure, **how))
