"""``lmtune rerank compare``: losses held against each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmtune.cli import rerank_options
from lmtune.cli.screen import stages, utf8_output
from lmtune.errors import InputError, MissingExtraError
from lmtune.progress import note, timed
from lmtune.reporting.table import FILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lmtune.measures.lists import Empty
    from lmtune.reranking.comparison import Outcome

_LOSSES = "ranknet,lambdarank,approxndcg,song,k-song,lambdamart"
_RECORD = "made.json"
_PICTURES = ("convergence.svg", "convergence.png")
_CONTENT = frozenset({*FILES, *_PICTURES, _RECORD, "history.csv"})


def compare(
    folder: Annotated[str, typer.Argument(help="LETOR files, or folds of them.", metavar="LETOR_DIR")],
    losses: Annotated[
        str, typer.Option(help="With options, if any: k-song:theoretical=true:gamma=0.5,song ...")
    ] = _LOSSES,
    trials: Annotated[int, typer.Option(help="Seeds a loss.")] = 10,
    empty: Annotated[
        str, typer.Option(help="Queries without relevant documents: skip, zero or both.")
    ] = "both",
    validation: rerank_options.Validation = None,
    net: rerank_options.Net = "b256",
    dropout: rerank_options.Dropout = 0.0,
    optimizer: rerank_options.Optimizer = "adam",
    evaluations_per_step: rerank_options.EvaluationsPerStep = 4,
    perturbation: rerank_options.Perturbation = 0.01,
    learning_rate: Annotated[
        str, typer.Option(help="One, or several to choose from by validation: 0.001,0.003,0.01.")
    ] = "0.001",
    weight_decay: rerank_options.WeightDecay = 0.0,
    schedule: rerank_options.Schedule = "constant",
    epochs: rerank_options.Epochs = 30,
    batch_size: rerank_options.BatchSize = 64,
    list_size: rerank_options.ListSize = None,
    clip: rerank_options.Clip = None,
    patience: rerank_options.Patience = None,
    warm_up: rerank_options.WarmUp = 0,
    warm_up_loss: rerank_options.WarmUpLoss = "listnet",
    normalise: rerank_options.Normalise = "z-score",
    log1p: rerank_options.Log1p = True,
    seed: rerank_options.Seed = 0,
    device: rerank_options.Device = "cpu",
    bf16: rerank_options.Bf16 = False,
    threads: rerank_options.Threads = None,
    style: Annotated[str, typer.Option("--format", help="table, markdown, latex, csv or json.")] = "table",
    output: Annotated[
        Path | None, typer.Option(help="Keep tables, history and the convergence picture here.")
    ] = None,
) -> None:
    """Train losses several times each; print test nDCG with 95% intervals over trials."""
    rerank_options.need_neural("rerank")
    from lmtune.formats.files import check_directory
    from lmtune.options import check
    from lmtune.reporting.loss_tables import loss_table
    from lmtune.reporting.table import STYLES
    from lmtune.reranking import comparison
    from lmtune.reranking.letor_folder import read_letor_folder
    from lmtune.reranking.loss_names import parse_loss
    from lmtune.reranking.normalisation import Normalisation
    from lmtune.reranking.settings import Settings

    if style not in STYLES:
        raise InputError("unknown --format", value=style, accepted=", ".join(STYLES))
    if trials < 1:
        raise InputError("bad --trials", value=trials, accepted="1 or more")
    conventions = _conventions(empty)
    contenders = [parse_loss(text) for text in losses.split(",")]
    if len(set(map(str, contenders))) < len(contenders):
        raise InputError("a loss is named twice", value=losses, accepted="each once")
    rates = _rates(learning_rate)
    settings = Settings(
        network=net,
        dropout=dropout,
        optimizer=optimizer,
        learning_rate=rates[0],
        weight_decay=weight_decay,
        schedule=schedule,
        epochs=epochs,
        batch_size=batch_size,
        list_size=list_size,
        clip=clip,
        patience=patience,
        warm_up=warm_up,
        warm_up_loss=parse_loss(warm_up_loss),
        amp_bf16=bf16,
        seed=seed,
        evaluations_per_step=evaluations_per_step,
        perturbation=perturbation,
    )
    for own in contenders:
        if own.family == "trees":
            from importlib.util import find_spec

            if find_spec("lightgbm") is None:
                raise MissingExtraError("lambdamart", "neural")
        else:
            own.check_optimizer(settings.optimizer)
    rerank_options.check_names(settings)
    rerank_options.use_threads(threads)
    normalisation = Normalisation(normalise, log1p)  # type: ignore[arg-type]
    check(normalisation)
    if output is not None:
        check_directory(output, marker=_RECORD, own=_CONTENT)
    with timed(f"{folder}: read"):
        folds = read_letor_folder(folder, validation=validation, seed=seed)
    missing = comparison.empty_queries(folds)
    total = sum(len(fold.test.queries) for fold in folds)
    note(f"{total} test queries, {missing} of them without a relevant document")
    if not missing:
        conventions = conventions[:1]  # both are one
    with stages() as report, timed(f"{len(contenders)} losses, {trials} trials each"):
        outcomes = comparison.compare(
            folds,
            contenders,
            settings,
            rates=rates,
            trials=trials,
            device=device,
            report=report,
            normalisation=normalisation,
        )
    if output is not None:
        _write(output, outcomes, conventions, folder)
    with utf8_output() as stream:
        stream.write(loss_table(outcomes, style, empty=conventions))


def _conventions(empty: str) -> tuple[Empty, ...]:
    known: dict[str, tuple[Empty, ...]] = {"both": ("skip", "zero"), "skip": ("skip",), "zero": ("zero",)}
    if empty not in known:
        raise InputError("unknown --empty", value=empty, accepted=", ".join(known))
    return known[empty]


def _rates(text: str) -> list[float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = [0.0]
    if min(rates) <= 0:
        raise InputError("bad --learning-rate", value=text, accepted="positive, such as 0.001,0.01")
    return rates


def _write(output: Path, outcomes: Sequence[Outcome], empty: Sequence[Empty], folder: str) -> None:
    import csv

    import numpy as np

    from lmtune.formats.files import atomic_directory
    from lmtune.reporting.figures import Course, save, training_courses
    from lmtune.reporting.loss_tables import loss_table
    from lmtune.reporting.provenance import command, versions
    from lmtune.reranking.comparison import history_rows

    made = {"command": command(), "versions": versions(), "data": Path(folder).resolve().name}
    with atomic_directory(output, marker=_RECORD, own=_CONTENT) as target:
        for name, style in FILES.items():
            text = loss_table(outcomes, style, empty=empty)
            (target / name).write_text(text, encoding="utf-8", newline="\n")
        rows = history_rows(outcomes)
        if rows:
            with (target / "history.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
            courses = [
                Course(
                    outcome.label,
                    [
                        np.array([e.objective if e.epoch > t.settings.warm_up else np.nan for e in t.history])
                        for t in outcome.trained
                    ],
                    [np.array([e.validation for e in t.history]) for t in outcome.trained],
                )
                for outcome in outcomes
                if outcome.trials
            ]
            [measure, *_] = [one.settings.measure for own in outcomes for one in own.trained]
            figure = training_courses(courses, measure=f"nDCG@{measure}")
            for name in _PICTURES:
                save(figure, target / name)
        (target / _RECORD).write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
