"""Errors for users, with the file and line, the offending value and the accepted values."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PathLike = str | os.PathLike[str]
"""A path of a file or folder."""

_LONGEST_VALUE = 80
_LONGEST_MESSAGE = 400
# Control characters, and characters that change the writing direction.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class InputError(ValueError):
    """Input that lmtune cannot use.

    Its text is one line, ``FILE:LINE: MESSAGE: VALUE; accepted: ACCEPTED``; unknown parts are left out. The
    command line prints it and exits with status 2.

    Parameters
    ----------
    message : str
        The problem, without the value.
    file : path-like, optional
        The file with the offending input.
    line : int, optional
        The line, counted from 1.
    value : object, optional
        The offending value; its ``repr`` is printed, shortened to 80 characters.
    accepted : str, optional
        The accepted values, or what to do instead.
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
        prefix = "" if self.file is None else f"{self.file}: "
        if self.file is not None and self.line is not None:
            prefix = f"{self.file}:{self.line}: "
        shown = "" if self.value is None else f": {_shorten(repr(self.value))}"
        accepted = "" if self.accepted is None else f"; accepted: {self.accepted}"
        message = self.message
        if len(message) > _LONGEST_MESSAGE:  # it contains a long name
            message = f"{message[: _LONGEST_MESSAGE - 83]}...{message[-80:]}"
        return " ".join(f"{prefix}{message}{shown}{accepted}".split("\n"))

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes pickle their errors; by default pickle drops keyword arguments.
        arguments = (self.message, self.file, self.line, self.value, self.accepted)
        return _rebuild, (type(self), *arguments)


class FilePosition:
    """The current position in a file: adds file and line to an `InputError` raised in the ``with`` block.

    Parameters
    ----------
    file : path-like
        The file.

    Attributes
    ----------
    line : int
        The number of the current line, from 1, which the reader sets; 0 before the first line.
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
    """Raise `InputError` unless a value is one of the accepted names; similar names are listed first."""
    if value not in accepted:
        raise InputError(problem, value=value, accepted=", ".join(nearest_first(value, accepted)))


def nearest_first(value: object, names: Collection[str]) -> list[str]:
    """Return all names, those similar to a value first."""
    return list(dict.fromkeys((*nearest(value, names), *names)))


def nearest(value: object, names: Collection[str]) -> list[str]:
    """Return the names similar to a value, the most similar first."""
    import difflib

    return difflib.get_close_matches(str(value).lower(), names)


def with_closest(value: object, names: Collection[str], accepted: str) -> str:
    """Return the text of the accepted values, with the closest match first if there is a similar name."""
    return "".join(f"{near} (closest match); all: " for near in nearest(value, names)[:1]) + accepted


def check_least(problem: str, value: float, least: int) -> None:
    """Raise `InputError` if a value is below the minimum."""
    if value < least:
        raise InputError(problem, value=value, accepted=f"{least} or more")


def install_command(extra: str) -> str:
    """Return the command that installs an extra; lmtune is not on a package registry."""
    return f"pip install -c constraints.txt '.[{extra}]' in a checkout of lmtune"


class MissingExtraError(InputError):
    """An extra of lmtune is not installed; the message names the command that installs it.

    Parameters
    ----------
    feature : str
        The requested feature.
    extra : str
        The extra of the ``lmtune`` distribution with this feature.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the '{extra}' extra, which is not installed", accepted=install_command(extra)
        )
        self.feature = feature
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.feature, self.extra)


def require_modules(feature: str, extra: str, *modules: str) -> None:
    """Raise `MissingExtraError` unless all modules of an extra are installed."""
    if any(find_spec(name) is None for name in modules):
        raise MissingExtraError(feature, extra)


class LostWorkerError(RuntimeError):
    """A worker process ended unexpectedly; the command line prints one line and exits with status 1."""


def visible(text: str) -> str:
    r"""Replace control characters by escapes, so that names cannot control a terminal or a picture.

    Line ends and tabs are kept.

    Examples
    --------
    >>> print(visible("\x1b]0;title\x07 of a file"))
    \x1b]0;title\x07 of a file
    """
    return _UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


def name_of(path: PathLike) -> str:
    """Return the name of a file or folder as text that UTF-8 can encode.

    Bytes that are not UTF-8 become escapes; Python's own conversion would make characters that cannot be
    written.
    """
    return as_text(Path(path).resolve().name)


def as_text(name: str) -> str:
    """Replace bytes of a name or an argument that are not UTF-8 by escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _rebuild(
    cls: type[InputError], message: str, file: str | None, line: int | None, value: Any, accepted: str | None
) -> InputError:
    return cls(message, file=file, line=line, value=value, accepted=accepted)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
