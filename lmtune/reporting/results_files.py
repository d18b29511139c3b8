"""The files of a results folder: names and columns, for whoever writes and reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lmtune.errors import InputError, PathLike, name_of
from lmtune.formats.csv_files import csv_text, read_csv
from lmtune.storage.digests import digest, sealed
from lmtune.storage.files import atomic_write
from lmtune.storage.folders import FolderKind, recorded

if TYPE_CHECKING:
    import pandas as pd

RECORD = "made.json"
"""The file that says how the results were made, and marks a folder as ours to replace."""

PAGE = "report.html"
"""The page that ``lmtune report`` puts in the folder."""

PICTURES = "pictures"
"""The folder that ``lmtune plot`` puts there."""

FOLDS, TABLE, PARAMETER_TABLE, RUNS = "folds.json", "table.json", "parameters.txt", "runs"

ACCEPTED = "a folder that lmtune tune --output wrote"
UNCHANGED = f"{ACCEPTED}, unchanged"

SETTING = "SETTING"
"""Stands in `CsvFile.columns` for a column a parameter, called by its name."""


class CsvFile(NamedTuple):
    """A CSV file of a results folder.

    Attributes
    ----------
    place : str
        Where it is; ``{}`` for the collection's name, and another for the table's.
    columns : mapping of str to type
        Its columns and what they hold, as `lmtune.formats.csv_files.read_csv` takes them.
    more : tuple of str
        Numbers behind them; cells may be empty, and older folders lack the columns.
    """

    place: str
    columns: Mapping[str, type]
    more: tuple[str, ...] = ()

    def path(self, folder: PathLike, *names: str) -> Path:
        """Return where the file is."""
        return Path(folder) / self.place.format(*map(file_name, names))

    def text(self, parameters: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
        """Write rows whose settings have these parameters."""
        columns = [[*parameters] if name == SETTING else [name] for name in (*self.columns, *self.more)]
        return csv_text(chain.from_iterable(columns), rows)

    def read(
        self, folder: PathLike, *names: str, parameters: Iterable[str] = ()
    ) -> tuple[list[int], dict[str, list[Any]]]:
        """Read each row's line, and the columns by name, those of some parameters among them.

        Raises
        ------
        InputError
            As `lmtune.formats.csv_files.read_csv`.
        """
        columns: dict[str, type] = dict.fromkeys(parameters, float)
        columns |= {name: kind for name, kind in self.columns.items() if name != SETTING}
        return read_csv(self.path(folder, *names), columns, accepted=UNCHANGED)

    def frame(self, folder: PathLike, *names: str, parameters: Iterable[str] = ()) -> pd.DataFrame | None:
        """Read the columns as `read` does; None where there is no such file."""
        import pandas as pd

        if not self.path(folder, *names).is_file():
            return None
        return pd.DataFrame(self.read(folder, *names, parameters=parameters)[1])


_ROW = {"collection": str, "measure": str, "method": str}
_MEANS = {"train": float, "test": float}

TOPICS = CsvFile("topics.csv", {**_ROW, "topic": str, "value": float})
CHOSEN = CsvFile(
    "parameters.csv",
    {**_ROW, "fold": int, SETTING: float, **_MEANS, "evaluations": int, "at_edge": str},
    more=("bound",),
)

FINAL = CsvFile(
    "final.csv",
    {**_ROW, SETTING: float, "train": float, "estimate": float, "evaluations": int, "at_edge": str},
)

RECALL = CsvFile("recall.csv", {**_ROW, "recall": float, "precision": float})
SURFACE = CsvFile("surfaces/{}/{}.csv", {SETTING: float, **_MEANS})
SMOOTH = CsvFile("surfaces/{}/smooth-{}.csv", {SETTING: float, "measure": float, "smooth": float})
PROFILES = CsvFile(
    "lines/{}/{}.csv", {"line": str, "position": float, SETTING: float, "cost": float, **_MEANS}
)
TRACE = CsvFile("traces/{}/{}.csv", {})

KIND = FolderKind(RECORD, (PAGE,), (RECORD, f"{PICTURES}/{RECORD}"))
"""A results folder; `write_results` replaces none that holds more than was recorded, or other content."""


def record_pictures(results: Path, files: Sequence[Path]) -> None:
    """Note in a results folder which pictures are lmtune's, so that they are replaced with it."""
    home = results / PICTURES
    known = recorded(home, FolderKind(RECORD, records=(RECORD,)))
    known.pop(RECORD, None)
    known |= {file.name: digest(file.read_bytes()) for file in files}
    with atomic_write(home / RECORD) as stream:
        stream.write(json.dumps(sealed({"files": known}), indent=2) + "\n")


def file_name(text: str) -> str:
    """Make a file name of any text, keeping letters, digits and ``.@()=-_``."""
    return re.sub(r"[^\w.@()=-]+", "_", text)


def check_names(names: Sequence[str | None]) -> None:
    """Raise InputError for collections whose files would have one name."""
    kept = [file_name(name if name and ":" in name else name_of(name or "")) for name in names]
    if len(set(kept)) < len(kept):
        raise InputError("two collections have one name", value=list(names), accepted="different names")
