"""Local copies of files and folders in object storage, which fsspec reads."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from lmtune.errors import InputError, PathLike, require_modules

# Paths have one slash: pathlib removes the other. Drives of Windows have one letter.
_URL = re.compile(r"([a-z][a-z0-9]+):/{1,2}([^/].*)")


def is_remote(path: PathLike) -> bool:
    """Return whether a path is a URL, such as ``s3://bucket/run.txt``, and not a local file."""
    return _URL.fullmatch(os.fspath(path)) is not None and not Path(path).exists()


def local_copy(path: PathLike) -> PathLike:
    """Return the path of a local copy of a file or folder at a URL; other paths are returned unchanged.

    Copies are stored in ``~/.cache/lmtune/remote``. A file or folder that has changed is copied again.

    Raises
    ------
    InputError
        If the URL cannot be read, or the package for its kind of storage is not installed.
    """
    if not is_remote(path):
        return path
    require_modules(os.fspath(path), "cloud", "fsspec")
    import hashlib
    import tempfile

    from fsspec.core import url_to_fs

    url = _URL.sub(r"\1://\2", os.fspath(path))
    try:
        storage, root = url_to_fs(url)
        files = storage.find(root, detail=True)
        if not files:
            raise FileNotFoundError("there is nothing here")
        state = [url, *(f"{name} {sorted(facts.items(), key=str)}" for name, facts in sorted(files.items()))]
        key = hashlib.sha256("\n".join(state).encode()).hexdigest()[:32]
        cache = Path.home() / ".cache" / "lmtune" / "remote"
        target = cache / key / Path(root).name
        if not target.exists():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                made = Path(folder, "made")
                storage.get(root, str(made / target.name), recursive=root not in files)
                with contextlib.suppress(OSError):  # another process has copied it
                    made.replace(cache / key)
    except Exception as error:  # each kind of storage has its own
        raise InputError(f"cannot read: {error}", file=url, accepted="a URL that fsspec reads") from error
    return target
