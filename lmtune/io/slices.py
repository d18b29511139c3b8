"""Slices of topics: a column of a table with a row a topic."""

from __future__ import annotations

from lmtune.errors import FilePosition, InputError, PathLike, check_choice
from lmtune.io.files import read_lines


def read_slices(path: PathLike, column: str | None = None) -> dict[str, list[str]]:
    """Read the topics of each slice.

    Parameters
    ----------
    path : path-like
        Tab-separated columns, the topics first, with their names in the first line. Empty cells are in no
        slice.
    column : str, optional
        The column with the names of slices; needed if there are several.

    Returns
    -------
    dict of str to list of str
        Topics by name of slice, both in the order of the file.

    Raises
    ------
    InputError
        If the file cannot be read, has another form or no such column, or repeats a topic.
    """
    lines = ((number, line.split("\t")) for number, line in read_lines(path) if line.strip())
    _, header = next(lines, (0, [""]))
    names = header[1:]
    if not names or (column is None and len(names) > 1):
        problem = "no column of slices" if not names else "several columns of slices"
        accepted = (
            f"--slice {' or '.join(names)}" if names else "tab-separated: topic, and a column of slices"
        )
        raise InputError(problem, file=path, line=1, accepted=accepted)
    with FilePosition(path) as position:
        position.line = 1
        check_choice("no such column", column or names[0], names)
        chosen = header.index(column or names[0], 1)
        slices: dict[str, list[str]] = {}
        seen = set[str]()
        for position.line, cells in lines:
            if len(cells) != len(header):
                raise InputError("another number of columns", value=len(cells), accepted=str(len(header)))
            if cells[0] in seen:
                raise InputError("topic given twice", value=cells[0], accepted="one line a topic")
            seen.add(cells[0])
            if cells[chosen]:
                slices.setdefault(cells[chosen], []).append(cells[0])
    return slices
