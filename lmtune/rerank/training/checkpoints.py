"""Training's state on disk: a killed training, resumed, ends as one that was never killed.

A folder holds ``checkpoint.json`` (position, history, and what the training is of) and the
``state-*.safetensors`` that it names. Both are written beside and renamed, the JSON last, so that
there is a whole checkpoint whenever the process dies.
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
from lmtune.io.digests import parse_json, sealed_text, unsealed
from lmtune.io.files import atomic_write, read_bytes

_FILE = "checkpoint.json"
_VERSION = 4


def save_checkpoint(
    folder: PathLike, identity: Mapping[str, Any], tensors: Mapping[str, Tensor], record: Mapping[str, Any]
) -> None:
    """Keep a training's state; the one kept before is then removed.

    Parameters
    ----------
    folder : path-like
        Made where it is missing.
    identity : mapping
        What the training is of, as JSON holds it: only the same can be resumed from it.
    tensors : mapping of str to Tensor
        The state.
    record : mapping
        What else to keep, as JSON holds it.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    home, name = Path(folder), f"state-{digest}.safetensors"
    kept = {"version": _VERSION, "state": name, "identity": identity, "record": record}
    for file, data in ((name, content), (_FILE, sealed_text(kept).encode())):
        with atomic_write(home / file, mode="binary") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    # Older states, and what processes that were killed while writing have left.
    for old in (*home.glob("state-*.safetensors"), *home.glob(".*.tmp")):
        if old.name != name and old.name.startswith(("state-", ".state-", f".{_FILE}.")):
            old.unlink(missing_ok=True)


def load_checkpoint(
    folder: PathLike, identity: Mapping[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read a training's state back.

    Parameters
    ----------
    folder : path-like
        The checkpoint's folder.
    identity : mapping
        What the training to be resumed is of.

    Returns
    -------
    tuple of dict and dict, or None
        Tensors (on the CPU) and record; None where there is no checkpoint.

    Raises
    ------
    InputError
        If the checkpoint is of something else, or damaged.
    """
    path = Path(folder) / _FILE
    if not path.is_file():
        return None
    new = "the same settings and data, or another folder"
    try:
        content = parse_json(read_bytes(path))
        if content["version"] != _VERSION:
            raise InputError(
                "checkpoint of another version", file=path, value=content["version"], accepted=new
            )
        kept = unsealed(content, kinds={"state": str, "identity": dict, "record": dict})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("damaged checkpoint", file=path, accepted="another folder") from error
    theirs, record = kept["identity"], kept["record"]
    ours = json.loads(json.dumps(identity))
    for key in sorted({*theirs, *ours}):
        if theirs.get(key) != ours.get(key):
            raise InputError(
                f"checkpoint of another {key} ({_short(theirs.get(key))})",
                file=path,
                value=ours.get(key),
                accepted=new,
            )
    state = Path(folder) / Path(str(kept["state"])).name
    tensors = read_bytes(state)
    if f"state-{hashlib.blake2b(tensors, digest_size=16).hexdigest()}.safetensors" != state.name:
        raise InputError("damaged checkpoint", file=state, accepted="another folder")
    try:
        return load(tensors), record
    except SafetensorError as error:
        raise InputError("damaged checkpoint", file=state, accepted="another folder") from error


def pack_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return an optimizer's state as named tensors."""
    return {
        f"{number}.{key}": value
        for number, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }


def unpack_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `pack_optimizer` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put a prefix and a colon before names."""
    return {f"{prefix}:{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names have the prefix, without it."""
    start = f"{prefix}:"
    return {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
