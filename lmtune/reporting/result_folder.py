"""Folders that keep results: tables, figures, and a record of how they were made.

The record holds versions, inputs and settings, and nothing that changes by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lmtune.errors import InputError, PathLike, as_text
from lmtune.formats.csv_files import csv_text, read_csv
from lmtune.storage.digests import digest, read_whole, sealed_text, unsealed
from lmtune.storage.files import atomic_write, read_bytes
from lmtune.storage.folders import FolderKind, atomic_directory, is_folder
from lmtune.storage.outputs import check_file

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from lmtune.datasets.collection import AnyIndex
    from lmtune.datasets.dataset import Dataset


RECORD = "made.json"
"""The file that says how the results were made, and marks a folder as ours to replace."""

FIGURE_FORMATS = ("png", "svg")

SETTING = "SETTING"
"""Stands in `CsvFile.columns` for a column a parameter, called by its name."""


class CsvFile(NamedTuple):
    """A CSV file of a folder.

    Attributes
    ----------
    name : str
        Its path in the folder; ``{}`` for the collection's name, and another for the table's.
    columns : mapping of str to type
        Its columns and what they hold, as `lmtune.formats.csv_files.read_csv` takes them.
    more : tuple of str
        Numbers behind them; cells may be empty.
    texts : tuple of str
        Texts behind these. Older files may lack both.
    """

    name: str
    columns: Mapping[str, type]
    more: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def behind(self) -> tuple[str, ...]:
        """The columns behind those that have to be there."""
        return (*self.more, *self.texts)

    def path(self, folder: PathLike, *names: str) -> Path:
        """Return where the file is."""
        return Path(folder) / self.name.format(*map(file_name, names))

    def text(self, parameters: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
        """Write rows whose settings have these parameters."""
        columns = [[*parameters] if name == SETTING else [name] for name in (*self.columns, *self.behind)]
        return csv_text(chain.from_iterable(columns), rows)

    def read(self, folder: PathLike, *names: str, parameters: Iterable[str] = ()) -> dict[str, list[Any]]:
        """Read the columns by name, those of some parameters among them.

        Raises
        ------
        InputError
            As `lmtune.formats.csv_files.read_csv`.
        """
        columns: dict[str, type] = dict.fromkeys(parameters, float)
        columns |= {name: kind for name, kind in self.columns.items() if name != SETTING}
        how: dict[str, Any] = {"texts": self.texts, "accepted": "the file as lmtune wrote it"}
        return read_csv(self.path(folder, *names), columns, **how)[1]

    def rows(self, folder: PathLike) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
        """Read each row's columns, and its setting: the columns that are not declared."""
        table = self.read(folder)
        for cells in zip(*table.values(), strict=True):
            row = dict(zip(table, cells, strict=True))
            declared = (*self.columns, *self.behind)
            yield row, {name: float(value) for name, value in row.items() if name not in declared}

    def frame(self, folder: PathLike, *names: str, parameters: Iterable[str] = ()) -> pd.DataFrame | None:
        """Read the columns as `read` does; None where there is no such file."""
        import pandas as pd

        if not self.path(folder, *names).is_file():
            return None
        return pd.DataFrame(self.read(folder, *names, parameters=parameters))


@dataclass(frozen=True)
class ResultFolder:
    """The content of a folder.

    Attributes
    ----------
    tables : mapping of str to str
        Texts by their paths in the folder.
    record : mapping
        How they were made, as JSON holds it.
    figures : mapping of str to matplotlib.figure.Figure
        By their names, without a suffix; each is kept in `FIGURE_FORMATS`.
    """

    tables: Mapping[str, str]
    record: Mapping[str, Any]
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the path and the content of every file but the record."""
        for name, text in self.tables.items():
            yield name, text.encode()
        for name, figure in self.figures.items():
            from lmtune.reporting.figures import render

            for format_ in FIGURE_FORMATS:
                yield f"{name}.{format_}", render(figure, format_)

    def write(
        self, path: PathLike, kind: FolderKind, write_more: Callable[[Path], object] | None = None
    ) -> None:
        """Write the folder, whole or not at all; equal content gives equal bytes.

        Parameters
        ----------
        path : path-like
            The folder; an older one of its kind is replaced.
        kind : FolderKind
            Where it has records, `RECORD` lists the digests of all files.
        write_more : callable, optional
            Given the folder, writes further files into it.

        Raises
        ------
        InputError
            For a folder that holds something else.
        """
        with atomic_directory(path, kind) as folder:
            for name, content in self.files():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            if write_more is not None:
                write_more(folder)
            written = [file for file in sorted(folder.rglob("*")) if file.is_file()]
            files = {file.relative_to(folder).as_posix(): digest(file.read_bytes()) for file in written}
            text = json.dumps(dict(self.record), indent=2) + "\n"
            if kind.records:
                text = sealed_text({**self.record, "files": files}, indent=2)
            (folder / RECORD).write_text(text, encoding="utf-8", newline="\n")


def read_record(
    path: PathLike, kinds: Mapping[str, Any], needed: Iterable[str], accepted: str
) -> tuple[dict[str, Any], Callable[[], object]]:
    """Read a folder's record, and check its tables against the digests there.

    Parameters
    ----------
    path : path-like
        The folder.
    kinds : mapping of str to type
        What the record holds, as for `lmtune.storage.digests.checked`.
    needed : iterable of str
        Tables that have to be there.
    accepted : str
        What the folder should be, for messages.

    Returns
    -------
    dict
        The record.
    callable
        To be called once the tables have been read; raises InputError where another folder has
        taken this one's place meanwhile.

    Raises
    ------
    InputError
        Where a table is missing, or any file is damaged.
    """
    folder = Path(path)
    if not is_folder(folder):
        problem = "not a folder" if folder.exists() else "no such folder"
        raise InputError(problem, file=path, accepted=accepted)
    for name in (RECORD, *needed):
        if not (folder / name).is_file():
            raise InputError(f"not a results folder: {name} is missing", file=path, accepted=accepted)
    content = read_bytes(folder / RECORD)
    try:
        record = unsealed(content, kinds={**kinds, "files": dict[str, int]})
    except ValueError as error:
        raise InputError(
            f"damaged: {error}", file=folder / RECORD, accepted=f"{accepted}, unchanged"
        ) from None
    for name, expected in record["files"].items():
        # Runs are not read.
        if name.endswith((".csv", ".json")) and (folder / name).is_file():
            read_whole(folder / name, expected)
    return record, lambda: read_whole(folder / RECORD, digest(content))


def file_name(text: str) -> str:
    """Make a file name of any text, keeping letters, digits and ``.@()=-_``."""
    return re.sub(r"[^\w.@()=-]+", "_", text)


_WITHOUT_INFLUENCE = ("--output", "--workers", "--cluster")
NEURAL = ("torch", "safetensors")
"""Packages that the numbers of reranking depend on besides."""

_LIBRARIES = ("lmtune", "numpy", "scipy", "numba", "pandas", "PyStemmer")


def versions() -> dict[str, str]:
    """Return the versions of Python, lmtune and the libraries that its numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}}


def installed(*names: str) -> dict[str, str]:
    """Return the versions of those libraries, out of optional ones, that are installed."""
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
    from lmtune.indexing.lucene.index import LuceneIndex

    if not isinstance(index, LuceneIndex):
        return {}
    pyserini = installed("pyserini").get("pyserini")  # none where all was read from the store
    return {"lucene": {"lengths": index.lengths_kind, **index.origin, "pyserini": pyserini}}


def command() -> str:
    """Return the command line without what does not influence the result."""
    arguments = iter(sys.argv[1:])
    kept = []
    for argument in arguments:
        if argument in _WITHOUT_INFLUENCE:
            next(arguments, None)
        elif argument.partition("=")[0] not in (*_WITHOUT_INFLUENCE, "--overwrite"):
            kept.append(argument)
    return shlex.join(["lmtune", *map(as_text, kept)])


def record(libraries: Sequence[str] = (), **facts: Any) -> dict[str, Any]:
    """Return how something was made: the command, the versions, and further facts."""
    return {"command": command(), "versions": versions() | installed(*libraries), **facts}


def check_recorded(path: Path, *, reads: Sequence[Path]) -> None:
    """Raise at once what writing a file and its record would; see `lmtune.storage.outputs.check_file`."""
    check_file(path, reads=reads)
    record_path = _record_path(path)
    if record_path is not None:
        check_file(record_path, reads=reads)


def _record_path(path: Path) -> Path | None:
    """Return where a file's record goes; None for a pipe or a device."""
    return None if path.exists() and not path.is_file() else Path(f"{path}.made.json")


def write_record(path: Path, libraries: Sequence[str] = (), **facts: Any) -> None:
    """Write beside a file how it was made; see `record`."""
    record_path = _record_path(path)
    if record_path is None:
        return
    with atomic_write(record_path) as file:
        file.write(json.dumps(record(libraries, **facts), indent=2) + "\n")


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
