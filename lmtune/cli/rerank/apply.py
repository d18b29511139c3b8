"""``lmtune rerank apply``, ``features`` and ``importance``: apply a model, write and rate features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from lmtune.cli.messages import say
from lmtune.cli.parameters import Tuned
from lmtune.cli.rerank import Machine, check_inputs, check_without_run, tuned_features
from lmtune.cli.screen import show_table, stages
from lmtune.collections.collection import Collection
from lmtune.collections.provenance import NEURAL, check_recorded, describe, write_record
from lmtune.errors import InputError
from lmtune.io.folders import check_directory
from lmtune.io.letor import write_letor
from lmtune.io.runs import read_run
from lmtune.options import option, options_of, usual
from lmtune.report.table import STYLES
from lmtune.rerank.custom_features import custom_features_option
from lmtune.rerank.features import features_of
from lmtune.rerank.settings import TextOptions
from lmtune.rerank.sources import FeatureSettings, judged_topics


@dataclass(frozen=True)
class _Reranking:
    """Input and output."""

    output: Path = usual(
        ..., "Write the reranked run; for a LETOR file without docids, one score per line; .gz compresses."
    )
    run: Path | None = usual(None, "The TREC run to rerank.")
    only_topics: str | None = option(None, "Only these topics: 51-100, a list or a file.")
    all_topics: bool = option(False, "Rerank the training and validation topics too.")
    depth: int | None = usual(
        None,
        "Rerank the first N documents; the others keep their order below. Default: as in training.",
        low=1,
    )
    custom: tuple[str, ...] = custom_features_option()
    interpolate: str | None = usual(
        None,
        "Interpolate with the run's scores, both min-max normalised: the model's weight from 0 to 1, or a "
        "measure to choose it by on the validation topics.",
        metavar="WEIGHT|MEASURE",
    )
    run_tag: str | None = option(
        None, "Tag of the run; default: lmtune-LOSS-NET, or lmtune-NET of a model trained elsewhere."
    )
    bf16: bool = option(False, "Compute in bfloat16; for models of text.")
    checkpoint: Path | None = option(
        None, "Save scores in this folder, and resume from them; for models of text.", metavar="DIR"
    )


def apply(
    model: Annotated[
        Path,
        "A folder written by lmtune rerank train; a file of LightGBM, XGBoost, CatBoost or RankLib; or "
        "text:MODEL or decoder:MODEL.",
        "MODEL",
    ],
    data: Annotated[
        str | None, "With --run a collection: pydocs, a folder or irds:ID; otherwise a LETOR file.", "DATA"
    ],
    reranking: _Reranking,
    collection: Annotated[Collection, "fields", "exclude_self"],
    text: Annotated[dict[str, Any], TextOptions],
    machine: Machine,
) -> None:
    """Rerank a run, or score a LETOR file, with a trained model.

    Examples
    --------
    lmtune rerank apply model my-collection --run bm25.run --output better.run
    lmtune rerank apply model MSLR/Fold1/test.txt --output scores.txt
    """
    if data is None and reranking.run is None:
        raise InputError("nothing to rerank", accepted="--run PATH, or a LETOR file")
    check_inputs(data, reranking.run, models=[model], is_folder=False)

    from lmtune.measures.measure import Measure
    from lmtune.rerank.applying import parse_interpolation, rerank_run, score_letor
    from lmtune.rerank.reranker import read_record

    weight = None if reranking.interpolate is None else parse_interpolation(reranking.interpolate)
    if reranking.run is None:
        own = {field.name for field in options_of(reranking)} - {"output", "run_tag"}
        check_without_run(reranking, own)
        check_without_run(TextOptions(**text))
    if collection.qrels is not None and not isinstance(weight, Measure):
        raise InputError("--qrels has no effect", accepted="--interpolate with a measure, such as nDCG@10")
    named = replace(collection, name=data)
    names = (reranking.run or data, reranking.only_topics)
    reads = [model, *(Path(name) for name in names if name is not None), *named.files()]
    check_recorded(reranking.output, reads=reads)
    model_record = read_record(model)
    facts = {}
    with stages() as progress:
        if reranking.run is None:
            score_letor(
                model, Path(str(data)), reranking.output, tag=reranking.run_tag, device=machine.device
            )
        else:
            made, weight = rerank_run(
                model,
                reranking.run,
                named,
                reranking.output,
                only=reranking.only_topics,
                all_topics=reranking.all_topics,
                depth=reranking.depth,
                custom=reranking.custom,
                interpolate=weight,
                tag=reranking.run_tag,
                text=text,
                bf16=reranking.bf16,
                checkpoint=reranking.checkpoint,
                device=machine.device,
                progress=progress,
            )
            facts = describe(made.dataset, made.index)
            facts |= {} if reranking.interpolate is None else {"model_weight": weight}
    write_record(reranking.output, NEURAL, **facts, model=model_record)


@dataclass(frozen=True)
class _Files:
    """Input and output."""

    run: Path = usual(..., "The TREC run whose features are computed.")
    output: Path = usual(..., "Write this LETOR file; .gz compresses.")
    only_topics: str | None = usual(None, "Only these topics: 51-100, a list or a file.")


def features(
    dataset: Annotated[str | None, "The collection: pydocs, a folder or irds:ID.", "DATASET"],
    files: _Files,
    collection: Annotated[Collection, "exclude_self"],
    settings: FeatureSettings,
    tuned: Annotated[Tuned, "measure", "method"],
) -> None:
    """Write a run's features and labels as a LETOR file.

    Examples
    --------
    lmtune rerank features my-collection --run bm25.run --output features.txt
    lmtune rerank features pydocs --run bm25.run --output features.txt.gz
    """
    settings, named = tuned_features(settings, tuned, replace(collection, name=dataset))
    chosen = [] if files.only_topics is None else [Path(files.only_topics)]
    check_recorded(files.output, reads=[files.run, *chosen, *named.files()])
    run = read_run(files.run)
    with stages() as progress:
        loaded = named.load()
        topics = judged_topics(files.run, run, loaded, files.only_topics)
        made = settings.lists({topic: run[topic] for topic in topics}, loaded, named, progress)
    write_letor(files.output, made.data)
    known = {feature.name: feature.description for feature in features_of(made.fields)}
    known |= {name: f"of {own.file}" for name, own in settings.custom_features(made.fields).items()}
    names = settings.names(made.fields)
    write_record(files.output, **describe(made.dataset, made.index), features=names)
    for number, name in enumerate(names, 1):
        say(f"{number}\t{name}\t{known[name]}\n")


@dataclass(frozen=True)
class _Shuffling:
    """Permutation and output."""

    run: Path | None = usual(None, "The TREC run to rerank.")
    measure: str | None = usual(None, "Measure, such as ndcg@5, mrr, ap; default: that of validation.")
    repeats: int = usual(5, "Permutations of each feature.", low=1)
    seed: int = option(0, "Seed of the permutations.", low=0)
    all_topics: bool = option(False, "Use the training and validation topics too.")
    custom: tuple[str, ...] = custom_features_option()
    style: str = usual("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)
    output: Path | None = usual(None, "Write tables and the picture to this folder.", metavar="DIR")


def importance(
    model: Annotated[Path, "A folder written by lmtune rerank train.", "MODEL"],
    data: Annotated[
        str | None, "A LETOR file; with --run a collection: pydocs, a folder or irds:ID.", "DATA"
    ],
    shuffling: _Shuffling,
    collection: Annotated[Collection, "exclude_self"],
    machine: Machine,
) -> None:
    """Measure the importance of features by permutation.

    Examples
    --------
    lmtune rerank importance model MSLR/Fold1/test.txt
    lmtune rerank importance model my-collection --run bm25.run --output worth
    """
    if data is None and shuffling.run is None:
        raise InputError("nothing to rerank", accepted="--run PATH, or a LETOR file")
    check_inputs(data, shuffling.run, models=[model], is_folder=False)

    from lmtune.report.loss_tables import IMPORTANCE, importance_table, write_importance
    from lmtune.rerank.applying import permutation_importance, read_lists, unseen_lists
    from lmtune.rerank.learners.trees import LambdaMart
    from lmtune.rerank.reranker import load_model

    if shuffling.run is None:
        check_without_run(shuffling, ("custom", "all_topics"))
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
            lists = unseen_lists(
                loaded, shuffling.run, named, shuffling.all_topics, progress, custom=shuffling.custom
            )
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
    show_table(importance_table(losses, gains, shuffling.style))
