"""Checkpoints of training; a resumed training gives the same result as an uninterrupted one.

A folder contains ``checkpoint.json`` (position, history, and the training's identity) and the
``state-*.safetensors`` that it names. Writes are atomic, and the JSON file is written last, so the
folder always has a complete checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from lmtune.errors import InputError, PathLike
from lmtune.io.digests import sealed_text, unsealed
from lmtune.io.files import atomic_write, read_bytes
from lmtune.strict_json import parse_json

_FILE = "checkpoint.json"
_VERSION = 4


def save_checkpoint(
    folder: PathLike, identity: Mapping[str, Any], tensors: Mapping[str, Tensor], record: Mapping[str, Any]
) -> None:
    """Write a training's state, then remove the previous checkpoint.

    Parameters
    ----------
    folder : path-like
        Created if missing.
    identity : mapping
        Settings and digests of the data, as JSON values. Only a training with the same identity can
        resume from the checkpoint.
    tensors : mapping of str to Tensor
        The state.
    record : mapping
        The rest of the state, as JSON values.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    home, name = Path(folder), f"state-{digest}.safetensors"
    index = {"version": _VERSION, "state": name, "identity": identity, "record": record}
    for file, data in ((name, content), (_FILE, sealed_text(index).encode())):
        with atomic_write(home / file, mode="binary") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    # Remove older states, and temporary files of processes that were killed while writing.
    for old in (*home.glob("state-*.safetensors"), *home.glob(".*.tmp")):
        if old.name != name and old.name.startswith(("state-", ".state-", f".{_FILE}.")):
            old.unlink(missing_ok=True)


def load_checkpoint(
    folder: PathLike, identity: Mapping[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read a training's state.

    Parameters
    ----------
    folder : path-like
        The checkpoint's folder.
    identity : mapping
        Identity of the training to resume.

    Returns
    -------
    tuple of dict and dict, or None
        Tensors (on the CPU) and record; None if there is no checkpoint.

    Raises
    ------
    InputError
        If the checkpoint is damaged, or the training has another identity.
    """
    path = Path(folder) / _FILE
    if not path.is_file():
        return None
    accepted = "the same settings and data, or another folder"
    try:
        content = parse_json(read_bytes(path))
        if content["version"] != _VERSION:
            raise InputError(
                "checkpoint of another version", file=path, value=content["version"], accepted=accepted
            )
        content = unsealed(content, kinds={"state": str, "identity": dict, "record": dict})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("damaged checkpoint", file=path, accepted="another folder") from error
    stored, record = content["identity"], content["record"]
    current = parse_json(json.dumps(identity), infinite=True)
    for key in sorted({*stored, *current}):
        if stored.get(key) != current.get(key):
            raise InputError(
                f"checkpoint of another {key} ({_shortened(stored.get(key))})",
                file=path,
                value=current.get(key),
                accepted=accepted,
            )
    state = Path(folder) / Path(str(content["state"])).name
    tensors = read_bytes(state)
    if f"state-{hashlib.blake2b(tensors, digest_size=16).hexdigest()}.safetensors" != state.name:
        raise InputError("damaged checkpoint", file=state, accepted="another folder")
    try:
        return load(tensors), record
    except SafetensorError as error:
        raise InputError("damaged checkpoint", file=state, accepted="another folder") from error


def pack_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return an optimizer's state as tensors named ``NUMBER.KEY``."""
    return {
        f"{number}.{key}": value
        for number, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }


def unpack_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the tensors of `pack_optimizer` into an optimizer."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add a prefix and a colon to the names of tensors."""
    return {f"{prefix}:{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names have a prefix, with the prefix removed."""
    start = f"{prefix}:"
    return {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}


def _shortened(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
