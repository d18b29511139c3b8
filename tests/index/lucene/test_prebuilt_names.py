"""Prebuilt indexes, topics and judgments by the names of pyserini 1 and 2."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import pytest
from made_lucene import require_java

from lmtune.errors import InputError
from lmtune.index.lucene import java, names

# What pyserini 2 asks for on the network when it is imported; pyserini 1 has the list.
_LISTED = ("cacm", "msmarco-v1-passage.unicoil", "msmarco-v2-passage.unicoil-0shot")
_MD5 = "0123456789abcdef" * 2


def test_prebuilt_names_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_java()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSERINI_CACHE", str(tmp_path / "cache"))
    same = {"description": "", "urls": ["https://localhost/x.tar.gz"], "md5": _MD5, "size": 2_000_000}
    listed = [{"name": name, "filename": f"lucene-index.{name}.tar.gz", **same} for name in _LISTED]
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: io.StringIO(json.dumps(listed)))
    assert names.index_folder() == tmp_path / "cache" / "indexes"
    with pytest.raises(InputError, match=r"neither a folder nor a prebuilt index.*robust04"):
        names.find_prebuilt("no-such-name")
    known = pytest.importorskip("pyserini.prebuilt_index_info").TF_INDEX_INFO["cacm"]
    folder = tmp_path / "cache" / "indexes" / f"lucene-index.cacm.{known['md5']}"

    def fail(*_: object, **__: object) -> None:
        raise ValueError("no network")

    monkeypatch.setattr("pyserini.util.download_prebuilt_index", fail)
    with pytest.raises(InputError, match=r"cannot be downloaded: 'lucene:cacm'; accepted: its"):
        names.find_prebuilt("cacm")
    folder.mkdir(parents=True)
    assert names.find_prebuilt("cacm") == folder


def test_without_the_list_the_cache_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_java()

    class Unreachable(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise URLError("no network")

    catalogue = SimpleNamespace(TF_INDEX_INFO=Unreachable())
    monkeypatch.setitem(sys.modules, "pyserini.prebuilt_index_info", catalogue)
    monkeypatch.setenv("PYSERINI_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"list cannot be downloaded: 'lucene:cacm'"):
        names.find_prebuilt("cacm")
    for folder in ("cacm", "cacm.20240803.36f7e3", "cacm.slim"):
        (tmp_path / "indexes" / f"lucene-inverted.{folder}.{_MD5}").mkdir(parents=True)
    (tmp_path / "indexes" / f"lucene-inverted.cacm.{_MD5}").rmdir()
    assert names.find_prebuilt("cacm").name == f"lucene-inverted.cacm.20240803.36f7e3.{_MD5}"


class _Anserini2:
    """The calls of Anserini 2 that find topics and judgments by name."""

    JavaException = type("JavaException", (Exception,), {"classname": "java.lang.IllegalStateException"})

    def __init__(self, cache: Path, *, is_offline: bool = False) -> None:
        self.cache, self.is_offline = cache, is_offline

    def autoclass(self, name: str) -> Any:
        methods: dict[str, dict[str, Any]] = {
            "io.anserini.search.topicreader.Topics": {"get": self.topics},
            "io.anserini.search.topicreader.TopicReader": {"getTopicPath": self.path},
            "io.anserini.eval.Qrels": {"resolveQrelsPath": self.qrels},
            "java.nio.file.Paths": {"get": str},
        }
        return SimpleNamespace(**methods[name])

    def topics(self, name: str) -> Any:
        if self.is_offline and name != "covid":
            raise self.JavaException
        return SimpleNamespace(path="topics.trec-covid.xml") if name == "covid" else None

    def qrels(self, name: str) -> Any:
        if self.is_offline:
            raise self.JavaException
        return self.path("qrels.trec-covid.txt" if name == "covid" else name)

    def path(self, name: str) -> Any:
        if self.is_offline:
            raise self.JavaException
        return SimpleNamespace(toString=lambda: str(self.cache / name))


def test_names_of_anserini_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(java, "is_installed", lambda: True)
    monkeypatch.setattr(java, "start", lambda: _Anserini2(tmp_path))
    files = {"topics": tmp_path / "topics.trec-covid.xml", "qrels": tmp_path / "qrels.trec-covid.txt"}
    for path in files.values():
        path.touch()
    assert {role: names.fetch_file(role, "covid") for role in ("topics", "qrels")} == files
    assert [names.fetch_file(role, "cats") for role in ("topics", "qrels")] == [None, None]
    monkeypatch.setattr(java, "start", lambda: _Anserini2(tmp_path, is_offline=True))
    cache = tmp_path / ".cache" / "pyserini" / "topics"
    with pytest.raises(
        InputError, match=rf"it cannot be downloaded: 'covid'; accepted: .*{cache}/topics.covid"
    ):
        names.fetch_file("topics", "covid")
    with caplog.at_level("INFO", "lmtune"):
        assert [names.fetch_file(role, "cats") for role in ("topics", "qrels")] == [None, None]
    assert [text.partition(" is not ")[0] for text in caplog.messages] == ["cats", "cats"]
    cache.mkdir(parents=True)
    (cache / "topics.cats.txt").write_text("1\tcats")
    assert names.fetch_file("topics", "cats") == cache / "topics.cats.txt"
