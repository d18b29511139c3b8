"""Ratings of items by users, as MovieLens and the Netflix Prize distribute them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.storage.files import SUFFIXES, open_bytes, read_whole_lines

_BLOCK_BYTES = 1 << 22
_NUMBER, _DATE = rb"[0-9]{1,18}", rb"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_HEADER = re.compile(rb"(?i)user\w*,(?:movie|item)\w*,rating\w*,time\w*\r?\n?")
_ITEM = re.compile(rb"(?m)^([0-9]{1,18}):\r?\n")
_NAMES = ("ratings.csv", "ratings.dat", "ratings.tsv", "u.data", "mv_*.txt", "combined_data_*.txt")


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings, users and items numbered from 0 in ascending order of their ids.

    Attributes
    ----------
    users, items : int32 (n,)
        Numbers.
    values : float32 (n,)
        Ratings, above 0.
    times : int64 (n,)
        When: seconds since 1970, or whatever the file counts.
    user_ids, item_ids : int64 (U,), (I,)
        The ids in the file.
    """

    users: NDArray[np.integer]
    items: NDArray[np.integer]
    values: NDArray[np.floating]
    times: NDArray[np.int64]
    user_ids: NDArray[np.int64]
    item_ids: NDArray[np.int64]


class _Form(NamedTuple):
    """How the lines of a file are written."""

    separator: bytes
    accepted: str
    by_item: bool = False

    @property
    def line(self) -> bytes:
        """The regular expression of a line without its end."""
        value = rb"(?!0+(?:\.0*)?%b)[0-9]{1,9}(?:\.[0-9]{0,9})?" % self.separator
        if self.by_item:
            return rb"(?:%b:|%b)" % (_NUMBER, self.separator.join([_NUMBER, value, _DATE]))
        return self.separator.join([_NUMBER, _NUMBER, value, _NUMBER])


_RATING = "whole numbers but for the rating, which is above 0"
_DAT = _Form(b"::", f"user::item::rating::time, {_RATING}")
_TSV = _Form(b"\t", f"user TAB item TAB rating TAB time, {_RATING}")
_CSV = _Form(b",", f"user,item,rating,time, {_RATING}")
_NETFLIX = _Form(b",", "item: alone, or user,rating,YYYY-MM-DD, the rating above 0", by_item=True)


def read_ratings(path: PathLike) -> Ratings:
    """Read ratings as they are distributed.

    Parameters
    ----------
    path : path-like
        A file, compressed or not, of lines ``user TAB item TAB rating TAB time`` (MovieLens 100K),
        ``user::item::rating::time`` (1M, 10M), ``user,item,rating,time``, with a header or without
        (20M, 25M, 32M), or of lines ``item:``, each before its ``user,rating,YYYY-MM-DD`` (Netflix
        Prize). Or a folder that holds such files by the names that they have there.

    Returns
    -------
    Ratings

    Raises
    ------
    InputError
        For lines of another form, ratings that are not above 0, and an item rated twice by one
        user.
    """
    blocks = [block for file in rating_files(path) for block in _blocks(file)]
    if not blocks:
        raise InputError("no ratings", file=path, accepted=_TSV.accepted)
    return _numbered(path, blocks)


def rating_files(path: PathLike) -> list[Path]:
    """Return the files to read: the one that is named, or a folder's.

    Raises
    ------
    InputError
        For a folder without any.
    """
    folder = Path(path)
    if not folder.is_dir():
        return [folder]
    for name in _NAMES:
        files = [file for suffix in ("", *SUFFIXES) for file in folder.glob(f"{name}{suffix}")]
        if files:
            return sorted(files)
    raise InputError("no ratings in the folder", file=path, accepted=", ".join(_NAMES))


def _numbered(path: PathLike, blocks: list[list[NDArray[Any]]]) -> Ratings:
    import pandas as pd

    def numbered(column: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        codes, ids = pd.factorize(np.concatenate([block[column] for block in blocks]), sort=True)
        return codes.astype(np.int32), ids

    (users, user_ids), (items, item_ids) = numbered(0), numbered(1)
    keys = users.astype(np.int64) * len(item_ids) + items
    keys.sort()
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if twice.size:
        first, second = divmod(int(keys[twice[0]]), len(item_ids))
        pair = int(user_ids[first]), int(item_ids[second])
        raise InputError("an item rated twice by one user", file=path, value=pair)
    values, times = (np.concatenate([block[column] for block in blocks]) for column in (2, 3))
    return Ratings(users, items, values, times, user_ids, item_ids)


def _blocks(path: Path) -> Iterator[list[NDArray[Any]]]:
    """Yield users, items, values and times of some lines at a time."""
    form: _Form | None = None
    item = b""
    lines = 0
    with open_bytes(path) as stream:
        for number, block in enumerate(read_whole_lines(stream, path, _BLOCK_BYTES)):
            header = _HEADER.match(block) if number == 0 else None
            block = block[header.end() :] if header else block
            lines += header is not None
            form = form or (_CSV if header else _form_of(block))
            if not re.fullmatch(rb"(?:(?:%b)?\r?\n)*+" % form.line, block):
                raise _bad_line(path, lines, block, form)
            lines += block.count(b"\n")
            text = re.sub(rb"(?m)^\r?\n", b"", block)
            if form.by_item:
                before, *rest = _ITEM.split(text)
                items, bodies = [item, *rest[0::2]], [before, *rest[1::2]]
                item, text = items[-1], b"".join(bodies)
            if not text:
                continue
            columns = _columns(text, form)
            if form.by_item:
                counts = [body.count(b"\n") for body in bodies]
                columns.insert(1, np.repeat([int(name or 0) for name in items], counts))
            yield columns


def _form_of(block: bytes) -> _Form:
    """Tell by the first line that is not blank."""
    first = block.lstrip(b"\r\n").partition(b"\n")[0]
    if first.rstrip(b"\r").endswith(b":"):
        return _NETFLIX
    return next((form for form in (_DAT, _CSV) if form.separator in first), _TSV)


def _bad_line(path: Path, lines: int, block: bytes, form: _Form) -> InputError:
    wrong = re.compile(rb"(?:%b)?\r?" % form.line)
    number, line = next(
        (number, line) for number, line in enumerate(block.split(b"\n"), 1) if not wrong.fullmatch(line)
    )
    shown = line.decode(errors="replace")
    return InputError("not a rating", file=path, line=lines + number, value=shown, accepted=form.accepted)


def _columns(text: bytes, form: _Form) -> list[NDArray[Any]]:
    """Parse lines that are known to be of a form."""
    import pandas as pd

    plain = text.replace(form.separator, b"\t")
    kinds: Sequence[type[Any]] = (np.int64, np.int64, np.float32, np.int64)
    if form.by_item:
        plain, kinds = plain.replace(b"-", b"\t"), (np.int64, np.float32, np.int64, np.int64, np.int64)
    frame = pd.read_csv(io.BytesIO(plain), sep="\t", header=None, dtype=dict(enumerate(kinds)))
    columns = [frame[name].to_numpy() for name in frame]
    if not form.by_item:
        return columns
    user, value, year, month, day = columns
    months = (year - 1970).astype("M8[Y]").astype("M8[M]") + (month - 1)
    days = months.astype("M8[D]") + (day - 1)
    return [user, value, days.astype("M8[s]").astype(np.int64)]
