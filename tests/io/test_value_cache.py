"""Values kept by key: of one owner, whole or missing, from several writers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lmtune.errors import InputError
from lmtune.io.value_cache import ValueCache


def test_values_of_several_writers(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"

    def write(number: int) -> None:
        ValueCache(path, "a").put(f"é {number % 7} \udcff", b"%d" % (number % 7))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(60)))
    kept = ValueCache(path, "a")
    assert [kept.get(f"é {number} \udcff") for number in range(8)] == [b"%d" % n for n in range(7)] + [None]
    assert ValueCache(path, "b").get("é 1 \udcff") is None
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    kept = ValueCache(tmp_path / "none" / "kept.sqlite", "a")
    assert kept.get("x") is None
    with pytest.raises(InputError, match=r"kept\.sqlite: cannot write"):
        kept.put("x", b"1")
