"""A trained reranker on disk: weights, normaliser, feature names, settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from lmtune.errors import InputError
from lmtune.formats.files import atomic_directory, read_bytes
from lmtune.reranking.checkpoints import prefixed, without_prefix
from lmtune.reranking.data import RankingData
from lmtune.reranking.lambdamart import Grown, LambdaMart, TreeSettings
from lmtune.reranking.networks import Attention, Pointwise, make_network
from lmtune.reranking.normalisation import Normaliser
from lmtune.reranking.scoring import Feed, predict
from lmtune.reranking.settings import Settings
from lmtune.reranking.training import Trained

RECORD = "made.json"
_WEIGHTS, _TREES = "model.safetensors", "trees.txt"
_MODEL, _HISTORY, _SECONDS = "model.json", "history.csv", "seconds.csv"
CONTENT = frozenset({_WEIGHTS, _TREES, _MODEL, _HISTORY, _SECONDS, RECORD})
"""Everything that a model's folder holds."""

_VERSION = 1


@dataclass(frozen=True)
class Model:
    """A reranker: from features as they come to scores.

    Attributes
    ----------
    settings : Settings
        How it was trained.
    names : tuple of str
        The features, in order.
    normaliser : Normaliser
        Fitted to the training data.
    weights : dict of str to Tensor
        The network's.
    facts : dict
        What else ``model.json`` holds, such as the features' parameters.
    """

    settings: Settings
    names: tuple[str, ...]
    normaliser: Normaliser
    weights: dict[str, Tensor]
    facts: dict[str, Any]

    def score(self, data: RankingData, names: Sequence[str], *, device: str = "cpu") -> NDArray[np.float32]:
        """Score every row.

        Parameters
        ----------
        data : RankingData
            Features as they come, not normalised.
        names : sequence of str
            What they are.
        device : str
            Where to compute.

        Raises
        ------
        InputError
            For other features than the model was trained on.
        """
        check_features(self.names, names)
        scaled = self.normaliser.transform(data)
        return predict(self.network().to(device), scaled, Feed(scaled, device))

    @property
    def label(self) -> str:
        """What to call it in a run."""
        return f"{self.settings.loss.name}-{self.settings.network}"

    def network(self) -> Pointwise | Attention:
        """Make the network with its weights."""
        network = make_network(self.settings.network, len(self.names), dropout=self.settings.dropout, seed=0)
        network.load_state_dict(self.weights)
        return network


@dataclass(frozen=True)
class TreeModel:
    """Boosted trees that rerank; as `Model`.

    Attributes
    ----------
    trees : LambdaMart
        They take features as they come.
    names, facts
        As for `Model`.
    """

    trees: LambdaMart
    names: tuple[str, ...]
    facts: dict[str, Any]

    @property
    def label(self) -> str:
        """What to call it in a run."""
        return "lambdamart"

    def score(self, data: RankingData, names: Sequence[str], *, device: str = "cpu") -> NDArray[np.float64]:
        """Score every row; see `Model.score`."""
        del device
        check_features(self.names, names)
        return self.trees.predict(data)


def check_features(
    trained: Sequence[str], given: Sequence[str], *, file: str | os.PathLike[str] | None = None
) -> None:
    """Raise InputError unless the features are those that a model was trained on."""
    if list(trained) == list(given):
        return
    differing = [name for place, name in enumerate(given) if place >= len(trained) or trained[place] != name]
    raise InputError(
        f"the model was trained on other features ({len(trained)}, here {len(given)})",
        file=file,
        value=(differing or list(trained[len(given) :]))[0],
        accepted="a model trained on the same features",
    )


def save_model(
    path: str | os.PathLike[str],
    trained: Trained,
    normaliser: Normaliser,
    names: Sequence[str],
    record: Mapping[str, Any],
    *,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write a model's folder, whole or not at all.

    It holds ``model.safetensors`` (weights and normaliser), ``model.json`` (settings, features),
    ``history.csv`` (a row an epoch), ``seconds.csv`` (their times, which alone differ between
    equal trainings) and ``made.json``.

    Parameters
    ----------
    path : path-like
        The folder; an older model is replaced.
    trained, normaliser, names
        What to keep.
    record : mapping
        How it was made; goes to ``made.json``.
    facts : mapping, optional
        Goes to ``model.json``, back from `load_model` as `Model.facts`.

    Raises
    ------
    InputError
        Where the path is something else than an older model.
    """
    arrays = {
        name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in normaliser.to_arrays().items()
    }
    model = {
        "kind": "network",
        "settings": trained.settings.as_record(),
        "features": list(names),
        "best_epoch": trained.best_epoch,
        "validation": trained.validation if np.isfinite(trained.validation) else None,
    }
    rows = [asdict(row) for row in trained.history]
    lines = [",".join(rows[0]), *(",".join(map(repr, row.values())) for row in rows)]
    seconds = [f"{number},{spent:.3f}" for number, spent in enumerate(trained.seconds, 1)]
    with atomic_directory(path, marker=RECORD, own=CONTENT) as folder:
        tensors = prefixed("network", trained.weights) | prefixed("normaliser", arrays)
        (folder / _WEIGHTS).write_bytes(save(tensors))
        _write_records(folder, model, record, facts)
        _write(folder / _HISTORY, "\n".join(lines))
        _write(folder / _SECONDS, "\n".join(["epoch,seconds", *seconds]))


def save_trees(
    path: str | os.PathLike[str],
    grown: Grown,
    settings: TreeSettings,
    names: Sequence[str],
    record: Mapping[str, Any],
    *,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write trees as `save_model` writes a network, with ``trees.txt`` instead of weights."""
    model = {
        "kind": "trees",
        "settings": asdict(settings),
        "features": list(names),
        "best_round": grown.best_round,
        "validation": float(grown.validation[grown.best_round - 1]),
    }
    rows = [f"{number},{value!r}" for number, value in enumerate(grown.validation.tolist(), 1)]
    with atomic_directory(path, marker=RECORD, own=CONTENT) as folder:
        grown.model.save(folder / _TREES)
        _write_records(folder, model, record, facts)
        _write(folder / _HISTORY, "\n".join(["round,validation", *rows]))


def _write_records(
    folder: Path, model: Mapping[str, Any], record: Mapping[str, Any], facts: Mapping[str, Any] | None
) -> None:
    whole = {"version": _VERSION, **model, "facts": dict(facts or {})}
    for name, content in ((_MODEL, whole), (RECORD, dict(record))):
        _write(folder / name, json.dumps(content, indent=2))


def _write(path: Path, text: str) -> None:
    path.write_text(f"{text}\n", encoding="utf-8", newline="\n")


def load_model(path: str | os.PathLike[str]) -> Model | TreeModel:
    """Read a model's folder back.

    Raises
    ------
    InputError
        Where it is not one, or damaged.
    """
    home = Path(path)
    if not (home / _MODEL).is_file():
        raise InputError("no model here", file=path, accepted="a folder that lmtune rerank train wrote")
    try:
        kept = json.loads(read_bytes(home / _MODEL))
        if kept["version"] != _VERSION:
            raise InputError(
                "a model of another version",
                file=home / _MODEL,
                value=kept["version"],
                accepted=str(_VERSION),
            )
        if kept["kind"] == "trees":
            trees = LambdaMart.load(home / _TREES)
            return TreeModel(trees, tuple(kept["features"]), kept["facts"])
        tensors = load(read_bytes(home / _WEIGHTS))
        arrays = {name: tensor.numpy() for name, tensor in without_prefix("normaliser", tensors).items()}
        model = Model(
            Settings.from_record(kept["settings"]),
            tuple(kept["features"]),
            Normaliser.from_arrays(arrays),
            without_prefix("network", tensors),
            kept["facts"],
        )
        model.network()
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise InputError(f"damaged model ({error})", file=path) from error
    return model
