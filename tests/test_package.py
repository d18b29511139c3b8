"""The package's surface: light to import, complete, documented."""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules
from typing import Any

import pytest
from scripts import run_python

import lmtune
from lmtune.errors import InputError, MissingExtraError


def test_import_and_help_are_light() -> None:
    code = (
        "import contextlib, io, sys, lmtune, lmtune.cli.main\n"
        "sys.argv = ['lmtune', '--help']\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    lmtune.cli.main.run()\n"
        "print(*sorted({'torch', 'pyserini', 'matplotlib', 'numpy', 'scipy', 'pandas', 'numba', 'rich'}"
        " & set(sys.modules)))"
    )
    assert run_python("-c", code).out.strip() == ""


PUBLIC = (
    "lmtune lmtune.fusion lmtune.measures lmtune.report lmtune.report.figures lmtune.rerank lmtune.losses "
    "lmtune.rerank.sentence_transformers"
).split()


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names_are_there_and_documented(package: str) -> None:
    module = import_module(package)
    names = set(vars(module)["__all__"])
    assert len(names) > 5
    assert names <= set(dir(module))
    for name in names - {"__version__"}:
        assert inspect.getdoc(getattr(module, name)), name


@pytest.mark.parametrize("package", [*PUBLIC, "lmtune.measures.judges"])
def test_what_users_give_has_a_type(package: str) -> None:
    module = import_module(package)
    for name in vars(module)["__all__"]:
        function = getattr(module, name)
        for parameter in inspect.signature(function).parameters.values() if callable(function) else ():
            if parameter.name in ("qrels", "runs", "run", "measures", "measure", "topics"):
                assert parameter.annotation not in (Any, "Any", object, "object"), (name, parameter)


@pytest.mark.parametrize("package", PUBLIC)
def test_no_module_hides_a_public_name(package: str) -> None:
    module = import_module(package)
    modules = {name for _, name, _ in iter_modules(getattr(module, "__path__", []))}
    assert not modules & set(vars(module)["__all__"])


@pytest.mark.parametrize("package", PUBLIC)
def test_unknown_names_are_refused(package: str) -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(import_module(package), "nonsense")  # noqa: B009


def test_the_version_is_the_installed_one() -> None:
    assert lmtune.__version__ == version("lmtune")


def test_errors_are_one_line() -> None:
    error = InputError("bad\ngain", file="q.txt", line=3, value="x" * 200, accepted="an integer")
    assert str(error).startswith("q.txt:3: bad gain: 'xxx")
    assert str(error).endswith("...; accepted: an integer")
    assert len(str(error).splitlines()) == 1


def test_a_missing_extra_names_the_command() -> None:
    assert "pip install -c constraints.txt '.[lucene]'" in str(MissingExtraError("--index lucene:", "lucene"))
