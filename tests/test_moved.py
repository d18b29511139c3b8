"""Import paths of earlier versions."""

from __future__ import annotations

import importlib
import sys

import pytest
from scripts import run_python

from lmtune._moved import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_is_the_new_module(old: str) -> None:
    importlib.import_module(MOVED[old])
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {MOVED[old]}$"):
        module = importlib.import_module(old)
    assert module is sys.modules[MOVED[old]]
    assert module.__spec__ is not None and module.__spec__.name == MOVED[old]


def test_a_module_below_an_old_path_is_loaded_once() -> None:
    program = (
        "import lmtune.formats.runs, lmtune.io.runs; from lmtune import datasets\n"
        "from lmtune.judging import cohen_kappa; from lmtune.datasets.folds import cross_validation\n"
        "assert lmtune.formats.runs is lmtune.io.runs and datasets.__name__ == 'lmtune.collections'"
    )
    err = run_python("-W", "default", "-c", program).err
    assert "<string>:1: DeprecationWarning: lmtune.formats.runs is now lmtune.io.runs" in err


def test_an_unknown_module_is_still_unknown() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("lmtune.nothing")
