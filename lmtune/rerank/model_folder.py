"""The folders of saved models; imports no torch, so that a missing model is reported at once."""

from __future__ import annotations

from pathlib import Path

from lmtune.errors import InputError, PathLike
from lmtune.io.folders import is_folder
from lmtune.rerank.settings import reads_text

MODEL = "model.json"
"""The file that every model's folder contains."""


def find_model_folder(path: PathLike) -> Path:
    """Return the folder of a saved model.

    Raises
    ------
    InputError
        If the path is not such a folder.
    """
    folder = Path(path)
    if not is_folder(folder) or not (folder / MODEL).is_file():
        accepted = "a folder that lmtune rerank train wrote, or a file of another program"
        raise InputError("no model here", file=path, accepted=accepted)
    return folder


def check_model(path: PathLike) -> None:
    """Raise InputError unless a path is a file, a model's folder, or the name of a model of text."""
    if not (reads_text(str(path)) or Path(path).is_file()):
        find_model_folder(path)
