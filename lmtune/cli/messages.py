"""Lines on standard error, and the exit status that an error means."""

from __future__ import annotations

import os
import signal
import sys

from lmtune.errors import InputError

_INTERRUPTED, _BROKEN_PIPE, _TERMINATED = 130, 141, 143


def note(text: str) -> None:
    """Print one line."""
    print(" ".join(text.split("\n")), file=sys.stderr, flush=True)


def prepare_process() -> None:
    """Let the process end as its surroundings expect."""
    # A batch system's end is as good as Ctrl-C: temporary files go, worker processes end.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: sys.exit(_TERMINATED))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a dagger must not end a run on a plain screen


def status_of(error: BaseException) -> int | None:
    """Say in one line what went wrong and return the exit status; None for a defect of ours."""
    if isinstance(error, InputError):
        note(f"lmtune: {error}")
        return 2
    if isinstance(error, BrokenPipeError):
        # The reader of our output has gone: end as other filters do.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    if isinstance(error, OSError):
        note(f"lmtune: {error.filename or 'input or output'}: {error.strerror or error}")
        return 1
    if isinstance(error, KeyboardInterrupt):
        note("lmtune: interrupted; nothing half-written is left")
        return _INTERRUPTED
    if isinstance(error, MemoryError):
        note(f"lmtune: not enough memory: {error}")
        return 1
    return None
