"""Records of how results were made: the command, versions of libraries, and digests of test collections.

Records have no time stamps or other values that change between identical runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmtune.errors import InputError, PathLike, as_text
from lmtune.io.files import atomic_write, read_bytes
from lmtune.io.folders import check_file
from lmtune.strict_json import parse_json

if TYPE_CHECKING:
    from lmtune.collections.collection import AnyIndex
    from lmtune.collections.dataset import Dataset

_ENDING = ".made.json"
_WITHOUT_INFLUENCE = ("--output", "--workers", "--cluster")
NEURAL = ("torch", "safetensors")
"""Additional packages on which results of reranking depend."""

_LIBRARIES = ("lmtune", "numpy", "scipy", "numba", "pandas", "PyStemmer")


def library_versions() -> dict[str, str]:
    """Return the versions of Python, lmtune and the libraries on which results depend."""
    return {"python": platform.python_version(), **installed(*_LIBRARIES)}


def installed(*names: str) -> dict[str, str]:
    """Return the versions of the installed ones of optional libraries."""
    known = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            known[name] = version(name)
    return known


def describe(dataset: Dataset, index: AnyIndex) -> dict[str, Any]:
    """Identify a test collection by content: counts, digests and the index's fingerprint."""
    return {
        "name": dataset.name,
        "documents": index.num_docs,
        "tokens": index.total_terms,
        "index_fingerprint": index.fingerprint,
        "analysis": index.analysis,
        **_engine(index),
        "topics": len(dataset.topics),
        "topics_digest": _digest(dataset.topics),
        "qrels_topics": len(dataset.qrels),
        "qrels_digest": _digest(dataset.qrels),
        "exclude_self": dataset.exclude_self,
        **({"versions": dataset.versions} if dataset.versions else {}),
    }


def _engine(index: AnyIndex) -> dict[str, Any]:
    from lmtune.index.lucene.index import LuceneIndex

    if not isinstance(index, LuceneIndex):
        return {}
    pyserini = installed("pyserini").get("pyserini")  # not needed if all values were cached
    return {"lucene": {"lengths": index.lengths_kind, **index.origin, "pyserini": pyserini}}


def command_line() -> str:
    """Return the command line without options that do not influence the result."""
    arguments = iter(sys.argv[1:])
    kept = []
    for argument in arguments:
        if argument in _WITHOUT_INFLUENCE:
            next(arguments, None)
        elif argument.partition("=")[0] not in (*_WITHOUT_INFLUENCE, "--overwrite"):
            kept.append(argument)
    return shlex.join(["lmtune", *map(as_text, kept)])


def record(libraries: Sequence[str] = (), **facts: Any) -> dict[str, Any]:
    """Return a record: the command, the versions of libraries, and additional facts."""
    return {"command": command_line(), "versions": library_versions() | installed(*libraries), **facts}


def check_recorded(path: Path, *, reads: Sequence[Path]) -> None:
    """Check that a file and its record can be written; see `lmtune.io.folders.check_file`."""
    check_file(path, reads=reads)
    record_path = _record_path(path)
    if record_path is not None:
        check_file(record_path, reads=reads)


def _record_path(path: Path) -> Path | None:
    """Return the path of a file's record; None for a pipe or a device."""
    return None if path.exists() and not path.is_file() else Path(f"{path}{_ENDING}")


def write_record(path: Path, libraries: Sequence[str] = (), **facts: Any) -> None:
    """Write the record of a file next to it; see `record`."""
    record_path = _record_path(path)
    if record_path is None:
        return
    with atomic_write(record_path) as file:
        file.write(json.dumps(record(libraries, **facts), indent=2) + "\n")


def recorded(path: PathLike, name: str) -> Any:
    """Return a fact of a file's record; None if there is no record, or no such fact.

    Raises
    ------
    InputError
        If the record is damaged.
    """
    file = Path(f"{os.fspath(path)}{_ENDING}")
    if not file.is_file():
        return None
    try:
        return parse_json(read_bytes(file)).get(name)
    except (ValueError, AttributeError) as error:
        raise InputError(
            "damaged record", file=file, accepted="the file that lmtune wrote, or none"
        ) from error


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
