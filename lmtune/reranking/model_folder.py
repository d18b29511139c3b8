"""A reranker on disk: weights, normaliser, features' names, settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from lmtune.errors import InputError, PathLike
from lmtune.formats.csv_files import csv_text
from lmtune.reranking.learners.feature_networks import Trained
from lmtune.reranking.learners.trees import LambdaMart, TreeSettings
from lmtune.reranking.normalisation import Normaliser
from lmtune.reranking.reranker import Reranker
from lmtune.reranking.settings import TEXT, Settings
from lmtune.reranking.training.checkpoints import prefixed, without_prefix
from lmtune.reranking.training.loop import Epoch, Training
from lmtune.storage.digests import digest, parse_json, read_json, read_whole, sealed, unsealed
from lmtune.storage.files import read_bytes
from lmtune.storage.folders import FolderKind, atomic_directory, check_directory, is_folder

RECORD = "made.json"
_WEIGHTS, _TREES = "model.safetensors", "trees.txt"
_MODEL, _HISTORY, _SECONDS = "model.json", "history.csv", "seconds.csv"
_OF_TEXT = (
    "config.json",
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
    "*.jinja",
    "model-*.safetensors",
    "model.safetensors.index.json",
)
KIND = FolderKind(RECORD, (_WEIGHTS, _TREES, _MODEL, _HISTORY, _SECONDS, RECORD, *_OF_TEXT))
"""A model's folder."""

_VERSION = 3
_KINDS = {"kind": str, "settings": dict, "features": list[str], "facts": dict, "digests": dict[str, int]}


def check_folder(path: PathLike) -> None:
    """Raise InputError at once where `save_model` would in the end."""
    check_directory(path, KIND)


def save_model(path: PathLike, reranker: Reranker, record: Mapping[str, Any]) -> None:
    """Write a reranker's folder, whole or not at all.

    It holds ``model.safetensors`` (weights and normaliser) or ``trees.txt``, ``model.json``
    (settings, features), ``history.csv`` (a row an epoch or a tree), for a network ``seconds.csv``
    (the epochs' times, which alone differ between equal trainings), and ``made.json``. A network that
    reads text is kept as transformers and sentence-transformers' CrossEncoder load it.

    Parameters
    ----------
    path : path-like
        The folder; an older model is replaced.
    reranker : Reranker
        What to keep.
    record : mapping
        How it was made; goes to ``made.json``.

    Raises
    ------
    InputError
        Where the path is something else than an older model.
    """
    scorer = reranker.scorer
    files: dict[str, bytes]
    if isinstance(scorer, LambdaMart):
        kind, settings, best = "trees", asdict(scorer.settings), ("best_round", scorer.best_round)
        files = {
            _TREES: scorer.text.encode(),
            _HISTORY: csv_text(["round", "validation"], enumerate(scorer.history, 1)).encode(),
        }
    else:
        kind = "network" if isinstance(scorer, Trained) else "text"
        settings, best = scorer.settings.as_record(), ("best_epoch", scorer.best_epoch)
        files = _course(scorer)
        if isinstance(scorer, Trained):
            files[_WEIGHTS] = _weights(scorer, reranker.normaliser)
    model = {
        "version": _VERSION,
        "kind": kind,
        "settings": settings,
        "features": reranker.names,
        best[0]: best[1],
        "validation": scorer.validation if np.isfinite(scorer.validation) else None,
        "facts": dict(reranker.facts),
    }
    files[RECORD] = f"{json.dumps(dict(record), indent=2)}\n".encode()
    with atomic_directory(path, KIND) as folder:
        if not isinstance(scorer, LambdaMart | Trained):
            scorer.network.save(folder)
        for name, written in files.items():
            folder.joinpath(name).write_bytes(written)
        model["digests"] = {file.name: digest(file.read_bytes()) for file in sorted(folder.iterdir())}
        folder.joinpath(_MODEL).write_text(f"{json.dumps(sealed(model), indent=2)}\n", encoding="utf-8")


def _weights(trained: Trained, normaliser: Normaliser | None) -> bytes:
    arrays = {} if normaliser is None else normaliser.to_arrays()
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    return save(prefixed("network", trained.weights) | prefixed("normaliser", tensors))


def _course(trained: Training) -> dict[str, bytes]:
    """Return the files that say how a training went."""
    rows = [asdict(row) for row in trained.history]
    seconds = ((epoch, f"{spent:.3f}") for epoch, spent in enumerate(trained.seconds, 1))
    return {
        _HISTORY: csv_text(rows[0], ([*row.values()] for row in rows)).encode(),
        _SECONDS: csv_text(["epoch", "seconds"], seconds).encode(),
    }


def read_record(path: PathLike) -> Any:
    """Return what a model's folder says of how it was made.

    Raises
    ------
    InputError
        Where there is no model, or nothing that can be read.
    """
    return read_json(_model_home(path) / RECORD)


def _model_home(path: PathLike) -> Path:
    home = Path(path)
    if not is_folder(home) or not (home / _MODEL).is_file():
        raise InputError("no model here", file=path, accepted="a folder that lmtune rerank train wrote")
    return home


def load_model(path: PathLike) -> Reranker:
    """Read a reranker's folder back.

    Raises
    ------
    InputError
        Where it is not one, or damaged.
    """
    home = _model_home(path)
    try:
        kept = parse_json(read_bytes(home / _MODEL))
        if kept["version"] != _VERSION:
            raise InputError(
                "a model of another version",
                file=home / _MODEL,
                value=kept["version"],
                accepted=str(_VERSION),
            )
        kept = unsealed(kept, kinds=_KINDS)
        files = {name: read_whole(home / name, expected) for name, expected in kept["digests"].items()}
        if kept["kind"] == "text":
            return _read_text(home, files, kept)
        return (_read_trees if kept["kind"] == "trees" else _read_network)(files, kept)
    except InputError as error:
        error.file = error.file or os.fspath(path)
        raise
    except (ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise InputError(f"damaged model ({error})", file=path) from error


def _read_trees(files: Mapping[str, bytes], kept: Mapping[str, Any]) -> Reranker:
    history = tuple(float(value) for _, value in _rows(files[_HISTORY]))
    text = files[_TREES].decode(errors="replace")
    trees = LambdaMart(TreeSettings(**kept["settings"]), text, kept["best_round"], history)
    trees.trees  # noqa: B018 - to see that it can be read
    return Reranker(trees, None, tuple(kept["features"]), kept["facts"])


def _read_network(files: Mapping[str, bytes], kept: Mapping[str, Any]) -> Reranker:
    tensors = load(files[_WEIGHTS])
    arrays = {name: tensor.numpy() for name, tensor in without_prefix("normaliser", tensors).items()}
    weights, how = without_prefix("network", tensors), _read_course(files, kept)
    trained = Trained(weights=weights, features=len(kept["features"]), **how)
    trained.network()  # to see that it can be made
    return Reranker(trained, Normaliser.from_arrays(arrays), tuple(kept["features"]), kept["facts"])


def _read_course(files: Mapping[str, bytes], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a `Training` has besides its weights."""
    return {
        "settings": Settings.from_record(kept["settings"]),
        "history": tuple(Epoch(int(epoch), *map(float, rest)) for epoch, *rest in _rows(files[_HISTORY])),
        "seconds": tuple(float(spent) for _, spent in _rows(files[_SECONDS])),
        "best_epoch": kept["best_epoch"],
    }


def _read_text(home: Path, files: Mapping[str, bytes], kept: Mapping[str, Any]) -> Reranker:
    from lmtune.reranking.text.cross_encoder import load_network
    from lmtune.reranking.text.options import TextOptions
    from lmtune.reranking.text.training import TextTrained

    network = load_network(f"{TEXT}{home}", TextOptions(**kept["facts"]["text"]))
    trained = TextTrained(weights=network.state_dict(), network=network, **_read_course(files, kept))
    return Reranker(trained, None, (), kept["facts"])


def _rows(content: bytes) -> list[list[str]]:
    return [line.split(",") for line in content.decode().splitlines()[1:]]
