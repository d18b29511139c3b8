"""Messages on standard error, and the exit status of each error."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from dataclasses import dataclass

from lmtune.errors import InputError, LostWorkerError, visible
from lmtune.options import option

_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EBADF)
_INTERRUPTED, _BROKEN_PIPE, _TERMINATED = 130, 141, 143


@dataclass(frozen=True)
class Talk:
    """Messages."""

    quiet: bool = option(False, "Print only errors.")
    verbose: bool = option(False, "Print details, notes, and progress more often.")

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise InputError("both --quiet and --verbose", accepted="one of them")


_talk = [Talk()]


def set_talk(talk: Talk) -> None:
    """Set the verbosity."""
    _talk[:] = [talk]
    logging.getLogger("lmtune").setLevel(logging.DEBUG if talk.verbose else logging.INFO)


def talk() -> Talk:
    """Return the verbosity."""
    return _talk[0]


def note(text: str) -> None:
    """Print a line on standard error, unless --quiet."""
    if not talk().quiet:
        complain(text)


def complain(text: str) -> None:
    """Print a line on standard error."""
    print(visible(" ".join(text.split("\n"))) + "\n", end="", file=sys.stderr, flush=True)


class _Notes(logging.Handler):
    """Prints the library's log records."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


logging.getLogger("lmtune").addHandler(_Notes())
logging.getLogger("lmtune").setLevel(logging.INFO)


def say(text: str) -> None:
    """Write to standard output; escape control characters on a terminal."""
    sys.stdout.write(on_screen(text))


def on_screen(text: str) -> str:
    """Escape control characters where standard output is a terminal."""
    return visible(text) if sys.stdout.isatty() else text


def prepare_process() -> None:
    """Set up signals and standard streams."""
    # SIGTERM and SIGHUP clean up as Ctrl-C does: temporary files are removed, worker processes end.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: sys.exit(_TERMINATED))
    # Replace closed standard streams; otherwise the next opened file would get their descriptor.
    # Writing to the replaced standard output fails, as it should.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, os.fdopen(opened, "w" if number else "r"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a dagger must not raise an error on an ASCII terminal


def status_of(error: BaseException) -> int | None:
    """Print an error in one line and return the exit status; None for an unexpected error."""
    if isinstance(error, InputError):
        complain(f"lmtune: {error}")
        return 2
    if isinstance(error, BrokenPipeError):
        # The reader of the output has ended: end as other filters do.
        _drop_output()
        return _BROKEN_PIPE
    if isinstance(error, OSError):
        name = error.filename
        # Writers in lmtune.io.files name the file; without a name it is standard output.
        if name is None and error.errno in _FULL:
            name = "standard output"
            _drop_output()
        complain(f"lmtune: {name or 'input or output'}: {error.strerror or error}")
        return 1
    if isinstance(error, KeyboardInterrupt):
        complain("lmtune: interrupted; no partial files are left")
        return _INTERRUPTED
    if isinstance(error, LostWorkerError):
        complain(f"lmtune: {error}")
        return 1
    if isinstance(error, MemoryError):
        complain("lmtune: not enough memory" + (f": {error}" if str(error) else ""))
        return 1
    return None


def _drop_output() -> None:
    """Discard what remains to be written to standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
