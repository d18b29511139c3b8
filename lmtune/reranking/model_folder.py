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

from lmtune.errors import InputError
from lmtune.formats.csv_files import csv_text
from lmtune.formats.digests import digest, parse_json, read_json, read_whole, sealed, unsealed
from lmtune.formats.files import read_bytes
from lmtune.formats.folders import FolderKind, atomic_directory, check_directory, is_folder
from lmtune.reranking.checkpoints import prefixed, without_prefix
from lmtune.reranking.lambdamart import LambdaMart, TreeSettings
from lmtune.reranking.loop import Epoch
from lmtune.reranking.normalisation import Normaliser
from lmtune.reranking.reranker import Reranker
from lmtune.reranking.settings import Settings
from lmtune.reranking.training import Trained

RECORD = "made.json"
_WEIGHTS, _TREES = "model.safetensors", "trees.txt"
_MODEL, _HISTORY, _SECONDS = "model.json", "history.csv", "seconds.csv"
KIND = FolderKind(RECORD, (_WEIGHTS, _TREES, _MODEL, _HISTORY, _SECONDS, RECORD))
"""A model's folder."""

_VERSION = 3
_KINDS = {"kind": str, "settings": dict, "features": list[str], "facts": dict, "digests": dict[str, int]}


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise InputError at once where `save_model` would in the end."""
    check_directory(path, KIND)


def save_model(path: str | os.PathLike[str], reranker: Reranker, record: Mapping[str, Any]) -> None:
    """Write a reranker's folder, whole or not at all.

    It holds ``model.safetensors`` (weights and normaliser) or ``trees.txt``, ``model.json``
    (settings, features), ``history.csv`` (a row an epoch or a tree), for a network ``seconds.csv``
    (the epochs' times, which alone differ between equal trainings), and ``made.json``.

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
    if isinstance(scorer, LambdaMart):
        kind, settings, best = "trees", asdict(scorer.settings), ("best_round", scorer.best_round)
        files = {
            _TREES: scorer.text.encode(),
            _HISTORY: csv_text(["round", "validation"], enumerate(scorer.history, 1)).encode(),
        }
    else:
        kind, settings, best = "network", scorer.settings.as_record(), ("best_epoch", scorer.best_epoch)
        files = _network_files(scorer, reranker.normaliser)
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
    model["digests"] = {name: digest(content) for name, content in files.items()}
    files[_MODEL] = f"{json.dumps(sealed(model), indent=2)}\n".encode()
    with atomic_directory(path, KIND) as folder:
        for name, written in files.items():
            folder.joinpath(name).write_bytes(written)


def _network_files(trained: Trained, normaliser: Normaliser | None) -> dict[str, bytes]:
    arrays = {} if normaliser is None else normaliser.to_arrays()
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    rows = [asdict(row) for row in trained.history]
    seconds = ((epoch, f"{spent:.3f}") for epoch, spent in enumerate(trained.seconds, 1))
    return {
        _WEIGHTS: save(prefixed("network", trained.weights) | prefixed("normaliser", tensors)),
        _HISTORY: csv_text(rows[0], ([*row.values()] for row in rows)).encode(),
        _SECONDS: csv_text(["epoch", "seconds"], seconds).encode(),
    }


def read_record(path: str | os.PathLike[str]) -> Any:
    """Return what a model's folder says of how it was made.

    Raises
    ------
    InputError
        Where there is no model, or nothing that can be read.
    """
    return read_json(_model_home(path) / RECORD)


def _model_home(path: str | os.PathLike[str]) -> Path:
    home = Path(path)
    if not is_folder(home) or not (home / _MODEL).is_file():
        raise InputError("no model here", file=path, accepted="a folder that lmtune rerank train wrote")
    return home


def load_model(path: str | os.PathLike[str]) -> Reranker:
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
    trained = Trained(
        Settings.from_record(kept["settings"]),
        without_prefix("network", tensors),
        tuple(Epoch(int(epoch), *map(float, rest)) for epoch, *rest in _rows(files[_HISTORY])),
        tuple(float(spent) for _, spent in _rows(files[_SECONDS])),
        kept["best_epoch"],
        len(kept["features"]),
    )
    trained.network()  # to see that it can be made
    return Reranker(trained, Normaliser.from_arrays(arrays), tuple(kept["features"]), kept["facts"])


def _rows(content: bytes) -> list[list[str]]:
    return [line.split(",") for line in content.decode().splitlines()[1:]]
