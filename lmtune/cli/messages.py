"""Lines on standard error, and the exit status that an error means."""

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
    """Notes on standard error."""

    quiet: bool = option(False, "Say nothing but what is wrong.")
    verbose: bool = option(False, "Say more: what was read and chosen, and more often how far it is.")

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise InputError("both --quiet and --verbose", accepted="one of them")


_talk = [Talk()]


def set_talk(talk: Talk) -> None:
    """Say as much from here on."""
    _talk[:] = [talk]
    logging.getLogger("lmtune").setLevel(logging.DEBUG if talk.verbose else logging.INFO)


def talk() -> Talk:
    """Return how much is said."""
    return _talk[0]


def note(text: str) -> None:
    """Print one line on standard error, unless nothing shall be said."""
    if not talk().quiet:
        complain(text)


def complain(text: str) -> None:
    """Print one line on standard error."""
    print(visible(" ".join(text.split("\n"))) + "\n", end="", file=sys.stderr, flush=True)


class _Notes(logging.Handler):
    """Prints what the library says."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


logging.getLogger("lmtune").addHandler(_Notes())
logging.getLogger("lmtune").setLevel(logging.INFO)


def say(text: str) -> None:
    """Write on standard output; what a file or another program reads stays as it is."""
    sys.stdout.write(on_screen(text))


def on_screen(text: str) -> str:
    """Escape control characters where standard output is a terminal."""
    return visible(text) if sys.stdout.isatty() else text


def prepare_process() -> None:
    """Let the process end as its surroundings expect."""
    # A batch system's end is as good as Ctrl-C: temporary files go, worker processes end.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: sys.exit(_TERMINATED))
    # Streams in place of those that are closed, or files that are opened would take theirs. What is
    # written on standard output then fails, as it should.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, os.fdopen(opened, "w" if number else "r"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a dagger must not end a run on a plain screen


def status_of(error: BaseException) -> int | None:
    """Say in one line what went wrong and return the exit status; None for a defect of ours."""
    if isinstance(error, InputError):
        complain(f"lmtune: {error}")
        return 2
    if isinstance(error, BrokenPipeError):
        # The reader of our output has gone: end as other filters do.
        _drop_output()
        return _BROKEN_PIPE
    if isinstance(error, OSError):
        name = error.filename
        # Where a file is full, what writes it says which: see lmtune.io.files.
        if name is None and error.errno in _FULL:
            name = "standard output"
            _drop_output()
        complain(f"lmtune: {name or 'input or output'}: {error.strerror or error}")
        return 1
    if isinstance(error, KeyboardInterrupt):
        complain("lmtune: interrupted; nothing half-written is left")
        return _INTERRUPTED
    if isinstance(error, LostWorkerError):
        complain(f"lmtune: {error}")
        return 1
    if isinstance(error, MemoryError):
        complain("lmtune: not enough memory" + (f": {error}" if str(error) else ""))
        return 1
    return None


def _drop_output() -> None:
    """Let what is left to write on standard output go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
