"""``lmtune rerank apply``: rerank a run, or score a LETOR file, by a trained model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from lmtune.cli.rerank import Machine
from lmtune.cli.screen import stages
from lmtune.collections.collection import Collection
from lmtune.collections.provenance import NEURAL, check_recorded, describe, write_record
from lmtune.errors import InputError
from lmtune.options import option, usual
from lmtune.rerank.text.options import TextOptions


@dataclass(frozen=True)
class Reranking:
    """Runs and scores."""

    output: Path = usual(
        ..., "The new run; of a LETOR file without docids the scores, one a line; .gz compresses."
    )
    run: Path | None = usual(None, "A TREC run of the collection.")
    only_topics: str | None = option(None, "These alone: 51-100, a list or a file.")
    all_topics: bool = option(False, "Rerank also the topics that trained or validated the model.")
    depth: int | None = usual(
        None,
        "Documents of a topic that are scored; the others keep their order below; default: as in training.",
    )
    interpolate: str | None = usual(
        None,
        "Add the run's own scores, both min-max: the model's weight, 0 to 1; or a measure, for which "
        "the best weight is found on the topics that validated the model.",
        metavar="WEIGHT|MEASURE",
    )
    run_tag: str | None = option(None, "Default: lmtune-LOSS-NET.")
    bf16: bool = option(False, "Of a model that reads text: compute in bfloat16.")
    checkpoint: Path | None = option(
        None, "Of a model that reads text: keep scores in this folder, and go on from them.", metavar="DIR"
    )


def apply(
    model: Annotated[
        Path, "A folder that lmtune rerank train wrote; or text:MODEL or decoder:MODEL of others.", "MODEL"
    ],
    data: Annotated[
        str | None, "With --run the collection: pydocs, a folder, irds:ID ...; else a LETOR file.", "DATA"
    ],
    reranking: Reranking,
    collection: Annotated[Collection, "fields", "exclude_self"],
    text: Annotated[dict[str, Any], TextOptions],
    machine: Machine,
) -> None:
    """Rerank a run, or score a LETOR file, by a trained model.

    Examples
    --------
    lmtune rerank apply model my-collection --run bm25.run --output better.run
    lmtune rerank apply model MSLR/Fold1/test.txt --output scores.txt
    """
    from lmtune.measures.measure import Measure
    from lmtune.rerank.applying import parse_interpolation, rerank_run, score_letor
    from lmtune.rerank.reranker import read_record

    if data is None and reranking.run is None:
        raise InputError("no --run", accepted="--run PATH, or a LETOR file")
    weight = None if reranking.interpolate is None else parse_interpolation(reranking.interpolate)
    if weight is not None and reranking.run is None:
        raise InputError("nothing to interpolate with", accepted="--run PATH beside --interpolate")
    if collection.qrels is not None and not isinstance(weight, Measure):
        raise InputError("--qrels has no use", accepted="--interpolate with a measure, such as nDCG@10")
    named = replace(collection, name=data)
    names = (reranking.run or data, reranking.only_topics)
    reads = [model, *(Path(name) for name in names if name is not None), *named.files()]
    check_recorded(reranking.output, reads=reads)
    learnt = read_record(model)
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
    write_record(reranking.output, NEURAL, **facts, model=learnt)
