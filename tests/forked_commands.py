"""lmtune's commands, each in a process forked from one that has imported them, and killed if asked.

The process that forks is itself one of its own, so that no threads of the tests come along. What it has
done itself, as `Commands.prepare` asks, those forked from it do faster: its kernels are loaded.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import lmtune.cli

# Before the module of the same name takes its place.
_command = lmtune.cli.main

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_HEAVY = ("jnius", "torch")
_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink")


class Ended(NamedTuple):
    """How a command ended.

    Its status (negative for a signal), what it said, changes to files, seconds, and which of `_HEAVY` it
    had imported; the last is empty where it was killed.
    """

    status: int
    said: str
    changes: int
    seconds: float
    imported: list[str]


class Commands:
    """Runs commands one after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        sent: int = 0,
        after: float | None = None,
        at: int | None = None,
        closed: Sequence[int] = (),
        stdout: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a command.

        Parameters
        ----------
        arguments : sequence of str
            Of ``lmtune``.
        cwd : path
            The folder to run it in.
        sent : int
            A signal to send,
        after : float, optional
            after so many seconds, or
        at : int, optional
            before its so-many-th change to files.
        closed : sequence of int
            Streams to close before.
        stdout : str
            A file that standard output goes to.
        environment : mapping, optional
            Variables that differ.
        """
        order = locals() | {"self": None, "cwd": os.fspath(cwd)}
        return Ended(*self._ask(order))

    def prepare(self, arguments: Sequence[str], *, cwd: Path) -> None:
        """Run a command, which must end well, in the process that forks."""
        assert self._ask({"prepare": arguments, "cwd": os.fspath(cwd)}) == 0, arguments

    def _ask(self, order: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def forked_commands(*modules: str) -> Iterator[Commands]:
    """Start the process that forks, with modules imported besides lmtune's command line."""
    code = "import sys, forked_commands; forked_commands.serve(sys.argv[1:])"
    path = os.pathsep.join(filter(None, [*sys.path]))
    process = subprocess.Popen(
        [sys.executable, "-c", code, *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
    )
    try:
        yield Commands(process)
    finally:
        process.communicate()


def serve(modules: Sequence[str]) -> None:
    """Be the process that forks."""
    import importlib

    for name in ("lmtune.cli.main", *modules):
        importlib.import_module(name)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(_prepare(order) if "prepare" in order else _serve_one(order)), flush=True)
    os._exit(0)  # taking down what is loaded costs seconds


def _prepare(order: dict[str, Any]) -> int:
    os.chdir(order["cwd"])
    sys.argv = ["lmtune", *order["prepare"]]
    with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        try:
            _command()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 1
    return 0


def _serve_one(order: dict[str, Any]) -> Ended:
    said, said_in = os.pipe()
    counted, counted_in = os.pipe()
    begun = time.perf_counter()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the command begins
    child = os.fork()
    if child == 0:
        os.close(said)
        os.close(counted)
        _be_command(order, said_in, counted_in)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.close(said_in)
    os.close(counted_in)
    timer = threading.Timer(order["after"] or 0.0, os.kill, (child, order["sent"]))
    if order["sent"] and order["after"] is not None:
        timer.start()
    with os.fdopen(said, "rb") as stream:
        text = stream.read().decode(errors="surrogateescape")
    with os.fdopen(counted, "rb") as stream:
        changes, imported = json.loads(stream.read() or b"[-1, []]")
    # Left as it is until the timer cannot meet another process of its number.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    timer.cancel()
    if timer.ident is not None:
        timer.join()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(status, text, changes, time.perf_counter() - begun, imported)


def _be_command(order: dict[str, Any], said: int, counted: int) -> None:
    status = 70
    seen = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
        if event in _CHANGES or writes:
            seen += 1
            if seen == order["at"]:
                os.kill(os.getpid(), order["sent"])

    try:
        os.chdir(order["cwd"])
        os.environ.update(order["environment"] or {})
        out = os.open(order["stdout"], os.O_WRONLY | os.O_CREAT) if order["stdout"] else said
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(said, 2)
        sys.stdin, sys.stdout, sys.stderr = (
            None if number in order["closed"] else open(number, mode, closefd=False)  # noqa: SIM115
            for number, mode in enumerate("rww")
        )
        for number in order["closed"]:
            os.close(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["lmtune", *order["arguments"]]
        sys.addaudithook(watch)
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        except KeyboardInterrupt:
            sys.exit(130)
        status = 130  # unless how it ends is known before an interruption
        _command()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 1
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                status = status or 120  # as the interpreter's own end
        os.write(counted, json.dumps([seen, [name for name in _HEAVY if name in sys.modules]]).encode())
        os._exit(status)
