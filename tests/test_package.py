"""The package's surface: light to import, complete, documented."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import lmtune
from lmtune.errors import InputError, MissingExtraError


def test_import_is_light() -> None:
    code = (
        "import sys, lmtune, lmtune.cli.main; "
        "print(*sorted({'torch', 'pyserini', 'matplotlib', 'scipy.stats', 'pandas', 'numba'}"
        " & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == ""


@pytest.mark.parametrize("name", lmtune.__all__)
def test_public_names_are_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(lmtune, name))
    assert name in dir(lmtune)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        lmtune.nonsense  # noqa: B018


def test_errors_are_one_line() -> None:
    error = InputError("bad\ngain", file="q.txt", line=3, value="x" * 200, accepted="an integer")
    assert str(error).startswith("q.txt:3: bad gain: 'xxx")
    assert str(error).endswith("...; accepted: an integer")
    assert len(str(error).splitlines()) == 1


def test_a_missing_extra_names_the_command() -> None:
    assert "pip install 'lmtune[lucene]'" in str(MissingExtraError("--index lucene:", "lucene"))
