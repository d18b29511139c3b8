"""Options of ``lmtune rerank``, and what they mean together."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmtune.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from lmtune.reranking.settings import Settings

Run = Annotated[Path | None, typer.Option(help="A TREC run.")]
Only = Annotated[str | None, typer.Option("--only-topics", help="These alone: 51-100, a list or a file.")]
Depth = Annotated[int, typer.Option(help="Documents of a topic that are scored.")]
Net = Annotated[
    str, typer.Option(help="linear, two-layer, b64 ... b1024, b:256-64, mlp:256-64, attention[:128-2-2].")
]
Dropout = Annotated[float, typer.Option(help="After each hidden layer.")]
Optimizer = Annotated[str, typer.Option(help="adam, adamw, sgd; spsa or fdsa, which need no gradient.")]
EvaluationsPerStep = Annotated[
    int, typer.Option(help="Of spsa: the loss's evaluations a step, an even number.")
]
Perturbation = Annotated[float, typer.Option(help="Of spsa and fdsa: how far weights are moved to look.")]
WeightDecay = Annotated[float, typer.Option(help="The optimizer's.")]
Schedule = Annotated[
    str, typer.Option(help="constant, step, step:20,25 (a tenth after these epochs) or cosine.")
]
Epochs = Annotated[int, typer.Option(help="Passes over the training queries.")]
BatchSize = Annotated[int, typer.Option(help="Queries a step.")]
ListSize = Annotated[
    int | None,
    typer.Option(help="Documents of a query in a step, drawn anew each epoch.", show_default="all"),
]
Clip = Annotated[float | None, typer.Option(help="The gradient's largest norm.")]
Patience = Annotated[
    int | None, typer.Option(help="Stop after so many epochs without a better validation value.")
]
WarmUp = Annotated[int, typer.Option(help="First so many epochs with --warm-up-loss, then a new last layer.")]
WarmUpLoss = Annotated[str, typer.Option(help="listnet, cross-entropy (SONG's) or another loss.")]
Normalise = Annotated[
    str, typer.Option(help="z-score, query-z-score, query-min-max or none; of training features.")
]
Log1p = Annotated[bool, typer.Option(help="Take sign(x) log(1 + |x|) of features first.")]
Seed = Annotated[int, typer.Option(help="Of weights, batches, dropout and draws.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Bf16 = Annotated[bool, typer.Option("--bf16", help="Let the network compute in bfloat16.")]
Threads = Annotated[int | None, typer.Option(help="Of torch; another number may round differently.")]
Validation = Annotated[
    str | None,
    typer.Option(
        help="A file with one training query a line, or a share such as 0.2 of them, to choose the epoch by."
    ),
]


def need_neural(feature: str) -> None:
    """Raise MissingExtraError unless what networks need is installed."""
    if any(find_spec(name) is None for name in ("torch", "safetensors")):
        raise MissingExtraError(feature, "neural")


def use_threads(count: int | None) -> None:
    """Tell torch how many threads to take."""
    if count is None:
        return
    if count < 1:
        raise InputError("bad --threads", value=count, accepted="1 or more")
    import torch

    torch.set_num_threads(count)


def check_names(settings: Settings) -> None:
    """Raise InputError for a network that there is not, before data are read."""
    from lmtune.reranking.networks import parse_network

    parse_network(settings.network)
