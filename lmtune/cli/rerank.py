"""``lmtune rerank``: train a reranker, apply it to runs, compare losses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from lmtune.cli import options, rerank_options, values
from lmtune.cli.groups import Member, of_module
from lmtune.cli.prepare import Names
from lmtune.cli.rerank_data import RunSource, from_letor, from_run, run_features
from lmtune.cli.screen import stages
from lmtune.errors import InputError
from lmtune.progress import timed


def members() -> Iterator[Member]:
    """Yield the group's commands."""
    for name in ("train", "apply"):
        yield of_module("lmtune.cli.rerank", name)
    yield of_module("lmtune.cli.rerank_compare", "compare")
    yield of_module("lmtune.cli.rerank_features", "features")


def train(
    data: Annotated[
        str | None,
        typer.Argument(
            help="A folder of LETOR files; with --run a collection: pydocs, a folder, irds:ID ...",
            metavar="LETOR_DIR",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="The model's folder.")] = None,
    run: rerank_options.Run = None,
    documents: options.Documents = None,
    index: options.Index = None,
    topics: options.Topics = None,
    qrels: options.Qrels = None,
    topic_fields: options.TopicFields = "title",
    train_topics: Annotated[
        str | None, typer.Option(help="Train on these: 51-100, a list 51,52 or a file.")
    ] = None,
    validation: rerank_options.Validation = None,
    lambda_: Annotated[float, typer.Option("--lambda", help="Of the tuned feature.")] = 0.4,
    mu: Annotated[float, typer.Option(help="Of the tuned feature.")] = 2500.0,
    depth: rerank_options.Depth = 1000,
    loss: Annotated[
        str,
        typer.Option(
            help="lambdarank, song, k-song:theoretical=true ...; lambdas:FILE.py:NAME, a function"
            " of yours; by spsa also a measure: ndcg@10, mrr ...; lambdamart grows trees instead."
        ),
    ] = "lambdarank",
    net: rerank_options.Net = "b256",
    dropout: rerank_options.Dropout = 0.0,
    optimizer: rerank_options.Optimizer = "adam",
    evaluations_per_step: rerank_options.EvaluationsPerStep = 4,
    perturbation: rerank_options.Perturbation = 0.01,
    learning_rate: Annotated[float, typer.Option(help="The first step's.")] = 0.001,
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
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep the training's state in this folder, and go on from it.")
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Keep it after so many steps, not only after epochs.")
    ] = None,
    stemmer: options.Stemmer = None,
    stopwords: options.Stopwords = None,
    lengths: options.Lengths = None,
    indexes: options.Indexes = Path("indexes"),
) -> None:
    """Train a network on LETOR files, or on a run with judgements."""
    rerank_options.need_neural("rerank")
    from lmtune.formats.files import check_directory
    from lmtune.options import check
    from lmtune.reporting.provenance import command, versions
    from lmtune.reranking import distributed, model_folder
    from lmtune.reranking.loss_names import parse_loss
    from lmtune.reranking.normalisation import Normalisation
    from lmtune.reranking.reranker import learn
    from lmtune.reranking.settings import Settings

    if output is None:
        raise InputError("no --output", accepted="--output DIR, the model's folder")
    if data is None and run is None:
        raise InputError("nothing to learn from", accepted="a folder of LETOR files, or --run")
    settings = Settings(
        loss=parse_loss(loss),
        network=net,
        dropout=dropout,
        optimizer=optimizer,
        learning_rate=learning_rate,
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
    rerank_options.check_names(settings)
    rerank_options.use_threads(threads)
    normalisation = Normalisation(normalise, log1p)  # type: ignore[arg-type]
    check(normalisation)
    check_directory(output, marker=model_folder.RECORD, own=model_folder.CONTENT)
    if run is not None:
        names = Names(
            data, documents, index, topics, qrels, values.fields(topic_fields), stemmer, stopwords, lengths
        )
        source = RunSource(run, names, indexes, lambda_, mu, depth)
        known = from_run(source, train_topics, validation, seed)
    else:
        known = from_letor(str(data), validation, seed)
    made = {"command": command(), "versions": versions() | libraries(), **known.record}
    with distributed.process_group(device) as place, stages() as report:
        with timed(f"{len(known.train.queries)} queries learnt from"):
            reranker = learn(
                known.train,
                known.validation,
                settings,
                normalisation=normalisation,
                names=known.names,
                facts=known.facts,
                device=place,
                checkpoint=checkpoint,
                checkpoint_every=checkpoint_every,
                progress=lambda done, total, words: report("training", done, total, words),
            )
        if distributed.rank() > 0:
            return
        model_folder.save_model(output, reranker, made)
        print(reranker.scorer.summary)
        for line in reranker.report(known.test) if known.test is not None else ():
            print(line)


def apply(
    model: Annotated[Path, typer.Argument(help="A folder that lmtune rerank train wrote.")],
    dataset: Annotated[
        str | None, typer.Argument(help="The collection: pydocs, a folder, irds:ID ...")
    ] = None,
    run: rerank_options.Run = None,
    output: Annotated[Path | None, typer.Option(help="The new run; .gz compresses.")] = None,
    documents: options.Documents = None,
    index: options.Index = None,
    topics: options.Topics = None,
    topic_fields: options.TopicFields = "title",
    only: rerank_options.Only = None,
    depth: Annotated[
        int | None,
        typer.Option(
            help="Documents of a topic that are scored; the others keep their order beneath.",
            show_default="as in training",
        ),
    ] = None,
    run_tag: Annotated[str | None, typer.Option(help="Default: lmtune-LOSS-NET.")] = None,
    device: rerank_options.Device = "cpu",
    threads: rerank_options.Threads = None,
    stemmer: options.Stemmer = None,
    stopwords: options.Stopwords = None,
    lengths: options.Lengths = None,
    indexes: options.Indexes = Path("indexes"),
) -> None:
    """Rerank a run by a trained network."""
    rerank_options.need_neural("rerank")
    from lmtune.datasets.selection import select_topics
    from lmtune.formats.files import atomic_write, check_file
    from lmtune.formats.runs import check_tag, read_run, write_run
    from lmtune.reporting.provenance import command, versions
    from lmtune.reranking.features import FEATURES
    from lmtune.reranking.model_folder import load_model
    from lmtune.reranking.runs import reranked

    if run is None or output is None:
        missing = "--run" if run is None else "--output"
        raise InputError(f"no {missing}", accepted="--run RUN --output RUN2")
    check_file(output)
    loaded = load_model(model)
    feature_names = tuple(feature.name for feature in FEATURES)
    loaded.check_features(feature_names, file=model)
    tag = run_tag or f"lmtune-{loaded.scorer.label}"
    check_tag(tag)
    rerank_options.use_threads(threads)
    names = Names(
        dataset, documents, index, topics, None, values.fields(topic_fields), stemmer, stopwords, lengths
    )
    facts = loaded.facts
    scored = facts["depth"] if depth is None else depth
    source = RunSource(run, names, indexes, facts["lambda"], facts["mu"], scored)
    ranked = read_run(run)
    if only is not None:
        ranked = {topic: ranked[topic] for topic in select_topics(only, list(ranked))}
    data, record = run_features(source, ranked, judged=False)
    with timed(f"{len(data.queries)} topics reranked"):
        scores = loaded.score(data, device=device)
        write_run(output, reranked(ranked, data, scores), tag=tag)
    made = {
        "command": command(),
        "versions": versions() | libraries(),
        **record,
        "model": json.loads((model / "made.json").read_text(encoding="utf-8")),
    }
    with atomic_write(f"{output}.made.json") as file:
        file.write(json.dumps(made, indent=2) + "\n")


def libraries() -> dict[str, str]:
    """Return the versions of what reranking needs besides."""
    from importlib.metadata import version

    return {name: version(name) for name in ("torch", "safetensors")}
