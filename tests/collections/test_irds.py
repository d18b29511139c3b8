"""Collections of ir_datasets: made here, registered here, without any network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from lmtune.collections.collection import Collection
from lmtune.collections.dataset import Dataset
from lmtune.collections.loading import load
from lmtune.collections.texts import open_texts
from lmtune.errors import InputError
from lmtune.io.documents import DocumentSource

DOCS = "d1\twing flutter\nd2\theat transfer in slabs\n"
QUERIES = "7\tflutter of wings\n8\theat\n"
QRELS = "7 0 d1 2\n7 0 d2 0\n8 0 d2 1\n"


class Register(Protocol):
    def __call__(self, name: str, *, fielded: bool = False, **texts: str) -> dict[str, str]: ...


class FieldedQuery(NamedTuple):
    query_id: str
    title: str
    description: str
    narrative: str

    def default_text(self) -> str:
        return self.title


@pytest.fixture(scope="module")
def ir_datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IR_DATASETS_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("IR_DATASETS_TMP", str(tmp_path_factory.mktemp("temporary")))
        import ir_datasets

        yield ir_datasets


@pytest.fixture
def register(ir_datasets: Any, tmp_path: Path) -> Iterator[Register]:
    names: list[str] = []

    def register(name: str, *, fielded: bool = False, **texts: str) -> dict[str, str]:
        files = {}
        for role, text in texts.items():
            path = tmp_path / f"{role}.{'txt' if role == 'qrels_trec' else 'tsv'}"
            path.write_text(text)
            files[role] = str(path)
        dataset = ir_datasets.create_dataset(**files)
        if fielded:
            queries = [FieldedQuery("7", "flutter", "Flutter of wings", "Not of tails.")]
            handler = type(
                "Queries",
                (ir_datasets.formats.BaseQueries,),
                {
                    "queries_iter": lambda _: iter(queries),
                    "queries_cls": lambda _: FieldedQuery,
                    "queries_namespace": lambda _: None,
                    "queries_lang": lambda _: "en",
                },
            )()
            dataset = ir_datasets.Dataset(dataset, handler)
        ir_datasets.registry.register(name, dataset)
        names.append(name)
        return files

    yield register
    for name in names:
        ir_datasets.registry._registered.pop(name)


def source(dataset: Dataset) -> DocumentSource:
    assert dataset.documents is not None
    return dataset.documents


def documents(dataset: Dataset) -> list[tuple[str, ...]]:
    return [tuple(document) for batch in source(dataset).batches() for document in batch.read()]


def test_a_registered_collection(register: Register) -> None:
    register("lmtune-test/all", docs_tsv=DOCS, queries_tsv=QUERIES, qrels_trec=QRELS)
    dataset = load("irds:lmtune-test/all")
    assert dataset.name == "irds:lmtune-test/all"
    assert documents(dataset) == [("d1", "wing flutter"), ("d2", "heat transfer in slabs")]
    assert documents(dataset) == documents(dataset)
    assert dataset.topics == {"7": "flutter of wings", "8": "heat"}
    assert dataset.qrels == {"7": {"d1": 2, "d2": 0}, "8": {"d2": 1}}
    assert source(dataset).locate("d2") == [("irds:lmtune-test/all", 2)]
    assert "ir_datasets" in dataset.versions


def test_its_documents_text_by_docno(register: Register, tmp_path: Path) -> None:
    register("made/texts", docs_tsv=DOCS, queries_tsv=QUERIES, qrels_trec=QRELS)
    collection = Collection("irds:made/texts", indexes=tmp_path / "indexes")
    dataset = collection.load()
    found = open_texts(collection, dataset, "{text}; {contents}").of(["d2", "d1"])
    assert found == ["heat transfer in slabs; heat transfer in slabs", "wing flutter; wing flutter"]
    with pytest.raises(InputError, match="no such field: 'title'; accepted: text"):
        open_texts(collection, dataset, "{title}")


def test_the_digest_follows_the_documents(register: Register) -> None:
    files = register("lmtune-test/digest", docs_tsv=DOCS, queries_tsv=QUERIES, qrels_trec=QRELS)
    before = source(load("irds:lmtune-test/digest")).digest()
    Path(files["docs_tsv"]).write_text(DOCS.replace("slabs", "slab"))
    assert source(load("irds:lmtune-test/digest")).digest() != before


def test_topic_fields(register: Register) -> None:
    register("lmtune-test/fields", docs_tsv=DOCS, qrels_trec=QRELS, fielded=True)
    name = "irds:lmtune-test/fields"
    assert load(name).topics == {"7": "flutter"}
    both = load(name, topic_fields=("title", "desc")).topics
    assert both == {"7": "flutter Flutter of wings"}
    assert load(name, topic_fields=("narr",)).topics == {"7": "Not of tails."}


def test_a_field_that_the_topics_lack(register: Register) -> None:
    register("lmtune-test/lack", docs_tsv=DOCS, queries_tsv=QUERIES, qrels_trec=QRELS)
    with pytest.raises(InputError, match="do not have this field: 'desc'; accepted: title"):
        load("irds:lmtune-test/lack", topic_fields=("desc",))


def test_a_collection_without_judgments(register: Register) -> None:
    register("lmtune-test/docs", docs_tsv=DOCS)
    with pytest.raises(InputError, match="no topics and no qrels: 'irds:lmtune-test/docs'"):
        load("irds:lmtune-test/docs")


def test_contradicting_judgments(register: Register) -> None:
    register("lmtune-test/twice", docs_tsv=DOCS, queries_tsv=QUERIES, qrels_trec=QRELS + "7 0 d1 1\n")
    with pytest.raises(InputError, match="judgment 4 of topic 7 gives a document a second gain"):
        load("irds:lmtune-test/twice")


@pytest.mark.parametrize("role", ["docs_tsv", "queries_tsv", "qrels_trec"])
def test_files_that_are_gone(register: Register, role: Any) -> None:
    files = register("lmtune-test/gone", docs_tsv=DOCS, queries_tsv=QUERIES, qrels_trec=QRELS)
    Path(files[role]).unlink()
    with pytest.raises(InputError) as caught:
        documents(load("irds:lmtune-test/gone"))
    assert "ir_datasets cannot read this collection (FileNotFoundError" in str(caught.value)
    assert "'irds:lmtune-test/gone'; accepted: " in str(caught.value)


def test_documents_are_not_read_before_they_are_asked_for(register: Register) -> None:
    files = register("lmtune-test/lazy", docs_tsv=DOCS, queries_tsv=QUERIES, qrels_trec=QRELS)
    Path(files["docs_tsv"]).unlink()
    assert load("irds:lmtune-test/lazy").qrels["8"] == {"d2": 1}


@pytest.mark.usefixtures("ir_datasets")
def test_an_unknown_identifier() -> None:
    with pytest.raises(InputError, match="ir_datasets has no such collection: 'irds:no/such'"):
        load("irds:no/such")


@pytest.mark.slow
def test_without_network_there_is_one_line_and_nothing_outside_the_home(tmp_path: Path) -> None:
    code = (
        "import socket\n"
        "def refuse(*_, **__): raise OSError('no network here')\n"
        "socket.getaddrinfo = socket.create_connection = refuse\n"
        "from lmtune.collections.loading import load\n"
        "from lmtune.errors import InputError\n"
        "try: load('irds:vaswani')\n"
        "except InputError as error: print(error)\n"
    )
    folders = {name: tmp_path / name for name in ("home", "temporary", "irds")}
    for folder in folders.values():
        folder.mkdir()
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={key: value for key, value in os.environ.items() if key != "IR_DATASETS_TMP"}
        | {
            "IR_DATASETS_HOME": str(folders["irds"]),
            "HOME": str(folders["home"]),
            "TMPDIR": str(folders["temporary"]),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == ""
    assert len(result.stdout.splitlines()) == 1
    assert "irds:vaswani" in result.stdout
    assert list(folders["home"].iterdir()) == list(folders["temporary"].iterdir()) == []
