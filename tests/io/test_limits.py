"""What never ends is given up, in bounded memory; what is within the limits is read."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from lmtune.errors import InputError
from lmtune.io import files
from lmtune.io.columns import read_run_columns
from lmtune.io.file_documents import FileDocuments
from lmtune.io.letor import read_letor
from lmtune.io.qrels import read_qrels
from lmtune.io.topics import read_topics

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


def read_uncached(path: str) -> object:
    return read_letor(path, cache=False)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero here")
@pytest.mark.parametrize(
    "read", [read_qrels, read_run_columns, read_topics, lambda p: read_letor(p, cache=False)]
)
def test_a_device_without_lines(read: Callable[[str], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE_BYTES", 4 << 20)
    with pytest.raises(InputError, match=r"/dev/zero.*a line of more than 4 MiB"):
        read("/dev/zero")


@pytest.mark.parametrize(
    "suffix", [pytest.param(suffix, marks=[pytest.mark.slow] * (suffix == "bz2")) for suffix in COMPRESS]
)
def test_a_bomb(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"qrels.txt.{suffix}"
    line = b"#" * 1023 + b"\n"
    path.write_bytes(COMPRESS[suffix](b"1 0 d 1\n" + line * (70 << 10)))
    with pytest.raises(InputError, match=r"more than 200 times larger"):
        read_qrels(path)
    monkeypatch.setattr(files, "EXPANSION", 1_000_000)
    assert read_qrels(path) == {"1": {"d": 1}}


def test_small_files_may_grow_as_they_like(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt.gz").write_bytes(gzip.compress(b"1 0 d 1\n" + b"#" * (1 << 24)))
    assert read_qrels(tmp_path / "qrels.txt.gz") == {"1": {"d": 1}}


@pytest.mark.parametrize("start", [b'{"id": "a", "contents": "', b"<DOC>\n<DOCNO>a</DOCNO>\n"])
def test_documents_without_an_end(start: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE_BYTES", 2 << 20)
    (tmp_path / "docs").write_bytes(start + b"word " * (1 << 20))
    [batch] = FileDocuments("x", [tmp_path / "docs"]).batches()
    with pytest.raises(InputError, match="a line of more than 2 MiB"):
        list(batch.read())
