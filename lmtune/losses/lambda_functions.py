"""User-defined lambda functions: load one from a file, call it, and validate its results.

A lambda function takes the scores and labels of one query, arrays of shape (documents,), and returns
lambdas of the same shape. lambda_i > 0 pushes document i up. The lambdas play the role of -dC/ds_i for
a cost C, which need not exist (equations 2 and 3 of Burges, Ranking as Learning Structured Outputs, 2005).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.io.files import read_bytes

LambdaFunction = Callable[[NDArray[np.float64], NDArray[np.float64]], ArrayLike]
"""(scores, labels) -> lambdas, each of shape (documents,)."""

LAMBDAS_LOSS = "lambdas"
"""Name of the training loss that takes a lambda function."""

_ACCEPTED = "FILE.py:NAME, a function (scores, labels) -> lambdas"


@dataclass(frozen=True)
class CheckedFunction:
    """A lambda function with validation of every result.

    Attributes
    ----------
    function : callable
        The user's function. It gets copies of the arrays and may modify them.
    name : str
        Its name in error messages.
    file : str, optional
        The file it was loaded from.
    line : int, optional
        The line of its definition.
    digest : str, optional
        Digest of the file's content.
    """

    function: LambdaFunction
    name: str
    file: str | None = None
    line: int | None = None
    digest: str | None = None

    def __call__(self, scores: NDArray[np.float64], labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the lambdas of one query.

        Parameters
        ----------
        scores, labels : numpy.ndarray of float64, shape (documents,)

        Returns
        -------
        numpy.ndarray of float64, shape (documents,)

        Raises
        ------
        InputError
            If the function raises, or does not return one finite number per document.
        """
        try:
            lambdas = np.asarray(self.function(scores.copy(), labels.copy()))
        except Exception as error:
            raise self._raised(error) from error
        if lambdas.shape != scores.shape or lambdas.dtype.kind not in "fiub":
            raise InputError(
                f"{self.name} did not return one lambda per document",
                file=self.file,
                line=self.line,
                value=f"{lambdas.dtype} of shape {lambdas.shape}",
                accepted=f"numbers of shape {scores.shape}",
            )
        values = lambdas.astype(np.float64)
        if not np.isfinite(values).all():
            wrong = int(np.argmin(np.isfinite(values)))
            raise InputError(
                f"{self.name} returned a lambda that is not finite for document {wrong + 1} of "
                f"{scores.size} (scores {_numbers(scores)}, labels {_numbers(labels)})",
                file=self.file,
                line=self.line,
                value=float(values[wrong]),
                accepted="finite numbers",
            )
        return values

    def _raised(self, error: Exception) -> InputError:
        frames = traceback.extract_tb(error.__traceback__)[1:]
        in_file = [frame for frame in frames if frame.filename == self.file] or list(frames)
        file, line = (in_file[-1].filename, in_file[-1].lineno) if in_file else (self.file, self.line)
        text = " ".join(str(error).split())
        return InputError(
            f"{self.name} raised {type(error).__name__}: {text}".rstrip(": "), file=file, line=line
        )


def checked_function(function: LambdaFunction, name: str | None = None) -> CheckedFunction:
    """Wrap a lambda function in a `CheckedFunction`, unless it is one already."""
    if isinstance(function, CheckedFunction):
        return function
    return CheckedFunction(function, name or str(getattr(function, "__name__", "the function")))


def load_function(text: str) -> CheckedFunction:
    """Load a lambda function from a Python file.

    Parameters
    ----------
    text : str
        ``path/to/file.py:name``. The file is executed, as by ``import``.

    Returns
    -------
    CheckedFunction

    Raises
    ------
    InputError
        If the file or the name does not exist, the name is not a function, or executing the file raises.
        The error has the line number if there is one.

    Examples
    --------
    >>> load_function("nowhere.py:f")
    Traceback (most recent call last):
    ...
    lmtune.errors.InputError: nowhere.py: no such file; accepted: FILE.py:NAME, a function ...
    """
    path, name = _split_name(text)
    content = read_bytes(path)
    module = _run(path, name)
    function = getattr(module, name, None)
    if not callable(function):
        named = [
            key
            for key, value in vars(module).items()
            if not key.startswith("_") and getattr(value, "__module__", None) == module.__name__
        ]
        raise InputError(
            "no such function" if function is None else "not a function",
            file=path,
            value=name,
            accepted=", ".join(named) or "a file that defines functions",
        )
    line = getattr(getattr(function, "__code__", None), "co_firstlineno", None)
    return CheckedFunction(function, name, str(path), line, _digest(content))


def _split_name(text: str) -> tuple[Path, str]:
    """Split ``FILE.py:NAME``.

    Raises
    ------
    InputError
        If a part is missing or the file does not exist.
    """
    path, colon, name = text.rpartition(":")
    if not (colon and path and name.isidentifier()):
        raise InputError("cannot parse the lambda function's name", value=text, accepted=_ACCEPTED)
    if not Path(path).is_file():
        raise InputError("no such file", file=path, accepted=_ACCEPTED)
    return Path(path), name


def file_digest(text: str) -> str:
    """Return the digest of a lambda function's file, as in `load_function`, without executing the file."""
    return _digest(read_bytes(_split_name(text)[0]))


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _run(path: Path, name: str) -> Any:
    # The module name contains a hash of the path: files with the same name become different modules.
    key = f"_lmtune_lambdas_{hashlib.blake2b(os.fsencode(path.resolve())).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(key, path)
    if spec is None or spec.loader is None:
        raise InputError("not a Python file", file=path, accepted=_ACCEPTED)
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    try:
        with _no_bytecode():
            spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"not valid Python: {error.msg}", file=path, line=error.lineno) from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        text = " ".join(str(error).split())
        raise InputError(
            f"running the file for {name} raised {type(error).__name__}: {text}".rstrip(": "),
            file=path,
            line=lines[-1] if lines else None,
        ) from error
    return module


@contextlib.contextmanager
def _no_bytecode() -> Any:
    # Bytecode is cached by modification time: a file that changes twice within the clock's resolution
    # would be run from an outdated cache.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _numbers(values: NDArray[np.float64]) -> str:
    return "[" + ", ".join(f"{value:.6g}" for value in values) + "]"


def complete_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Complete the options of the loss ``lambdas`` with the digest of the function's file.

    The digest identifies the function in checkpoints and models.

    Parameters
    ----------
    options : mapping
        ``function``, as in `load_function`, and optionally ``digest``; a missing digest is computed.

    Raises
    ------
    InputError
        If there is no function or an unknown option, or the file cannot be read.
    """
    for option in options:
        if option not in ("function", "digest"):
            raise InputError(f"{LAMBDAS_LOSS} has no such option", value=option, accepted="function")
    if "function" not in options:
        raise InputError(f"the loss {LAMBDAS_LOSS} needs a function", accepted=f"{LAMBDAS_LOSS}:FILE.py:NAME")
    named = str(options["function"])
    return {"function": named, "digest": str(options.get("digest") or file_digest(named))}
