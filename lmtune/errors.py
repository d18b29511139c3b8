"""Errors that a user can act on: where, what was found, what is accepted."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

PathLike = str | os.PathLike[str]
"""What names a file or folder."""

_LONGEST_VALUE = 80
_LONGEST_MESSAGE = 400
# Control characters, and those that turn the direction of writing.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class InputError(ValueError):
    """Input that lmtune cannot use.

    Its text is one line, ``FILE:LINE: MESSAGE: VALUE; accepted: ACCEPTED``, with the parts that
    are known. The command line prints it and exits with status 2.

    Parameters
    ----------
    message : str
        What is wrong, without the value itself.
    file : path-like, optional
        The file that holds the offending input.
    line : int, optional
        Its line, counted from 1.
    value : object, optional
        The offending value; shown with ``repr``, shortened to 80 characters.
    accepted : str, optional
        What would have been accepted, or what to do instead.
    """

    def __init__(
        self,
        message: str,
        *,
        file: PathLike | None = None,
        line: int | None = None,
        value: Any = None,
        accepted: str | None = None,
    ) -> None:
        self.message = message
        self.file = None if file is None else os.fspath(file)
        self.line = line
        self.value = value
        self.accepted = accepted
        super().__init__(str(self))

    def __str__(self) -> str:
        place = "" if self.file is None else f"{self.file}: "
        if self.file is not None and self.line is not None:
            place = f"{self.file}:{self.line}: "
        shown = "" if self.value is None else f": {_shorten(repr(self.value))}"
        accepted = "" if self.accepted is None else f"; accepted: {self.accepted}"
        message = self.message
        if len(message) > _LONGEST_MESSAGE:  # of a name that it holds
            message = f"{message[: _LONGEST_MESSAGE - 83]}...{message[-80:]}"
        return " ".join(f"{place}{message}{shown}{accepted}".split("\n"))

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes send their errors to the parent by pickle, which would drop the keywords.
        arguments = (self.message, self.file, self.line, self.value, self.accepted)
        return _rebuild, (type(self), *arguments)


class FilePosition:
    """A file that is being read: an `InputError` raised inside ``with`` gets its name, and the line's number.

    Parameters
    ----------
    file : path-like
        The file.

    Attributes
    ----------
    line : int
        The number of the line that is being read, from 1, to be set before each; 0 before the first.
    """

    def __init__(self, file: PathLike) -> None:
        self.file = file
        self.line = 0

    def __enter__(self) -> FilePosition:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, InputError) and error.file is None:
            error.file = os.fspath(self.file)
            error.line = error.line or self.line or None


def check_choice(problem: str, value: object, accepted: Collection[str]) -> None:
    """Raise `InputError` unless a value is among those that are accepted."""
    if value not in accepted:
        raise InputError(problem, value=value, accepted=", ".join(nearest_first(value, accepted)))


def nearest_first(value: object, names: Collection[str]) -> list[str]:
    """Return names in their order, but for those that a value may be a slip of, which come first."""
    return list(dict.fromkeys((*nearest(value, names), *names)))


def nearest(value: object, names: Collection[str]) -> list[str]:
    """Return the names that a value may be a slip of, the nearest first."""
    import difflib

    return difflib.get_close_matches(str(value).lower(), names)


def perhaps(value: object, names: Collection[str], accepted: str) -> str:
    """Return a text of what is accepted, after the name that a value may be a slip of."""
    return "".join(f"{near}, perhaps, of " for near in nearest(value, names)[:1]) + accepted


def check_least(problem: str, value: float, least: int) -> None:
    """Raise `InputError` for a value below the least that is accepted."""
    if value < least:
        raise InputError(problem, value=value, accepted=f"{least} or more")


def install_command(extra: str) -> str:
    """Return the command that installs an optional part; lmtune is on no package registry."""
    return f"pip install -c constraints.txt '.[{extra}]' in a checkout of lmtune"


class MissingExtraError(InputError):
    """An optional part of lmtune is not installed; the text names the command that installs it.

    Parameters
    ----------
    feature : str
        What the user asked for.
    extra : str
        The extra of the ``lmtune`` distribution that brings it.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the '{extra}' extra, which is not installed", accepted=install_command(extra)
        )
        self.feature = feature
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.feature, self.extra)


class LostWorkerError(RuntimeError):
    """A process that worked for this one has ended; the command line prints its one line and exits with 1."""


def visible(text: str) -> str:
    r"""Write control characters as escapes, so that no terminal or picture obeys a name.

    Line ends and tabs stay.

    Examples
    --------
    >>> print(visible("\x1b]0;title\x07 of a file"))
    \x1b]0;title\x07 of a file
    """
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)


def name_of(path: PathLike) -> str:
    """Return the name of a file or folder as text that any file can hold.

    Bytes that are not UTF-8 stand as escapes, where Python's own would have characters that cannot
    be written.
    """
    return as_text(Path(path).resolve().name)


def as_text(given: str) -> str:
    """Write bytes of a name or an argument that are not UTF-8 as escapes."""
    return os.fsencode(given).decode("utf-8", "backslashreplace")


def _rebuild(
    cls: type[InputError], message: str, file: str | None, line: int | None, value: Any, accepted: str | None
) -> InputError:
    return cls(message, file=file, line=line, value=value, accepted=accepted)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
