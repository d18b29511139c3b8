"""Collections as users name them: analysis, index, several of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lmtune.collections.building import Building, build
from lmtune.collections.collection import Collection, named_collections
from lmtune.errors import InputError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "c"
    folder.mkdir()
    lines = (json.dumps({"id": f"d{i}", "contents": f"running alpha{i}"}) + "\n" for i in range(3))
    (folder / "docs.jsonl").write_text("".join(lines))
    (folder / "topics.tsv").write_text("1\talpha1\n")
    (folder / "qrels.txt").write_text("1 0 d1 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_its_index_is_built_once_and_opened_then(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lmtune")
    collection = Collection("c")
    stages = []
    index = collection.open_index(collection.load(), progress=lambda stage, *_: stages.append(stage))
    assert index.num_docs == 3
    assert set(stages) == {"indexing c"}
    assert "indexing to indexes/c.porter.lucene." in caplog.text
    caplog.clear()
    assert collection.open_index(collection.load()).num_docs == 3
    assert caplog.text == ""
    [path] = (home / "indexes").iterdir()
    assert re.fullmatch(r"c\.porter\.lucene\.[0-9a-f]{8}", path.name)


def test_a_named_index_stands_for_the_documents() -> None:
    path = build(Collection("c", stemmer="none"), Building(output=Path("built")))
    assert path == Path("built")
    collection = Collection("c", index="built")
    loaded = collection.load()
    assert loaded.documents is None
    assert loaded.topics == {"1": "alpha1"}
    assert collection.open_index(loaded).analyze("running") == ["running"]
    assert build(Collection("c"), Building()).name.startswith("c.porter.lucene.")


@pytest.mark.parametrize(
    ("collection", "message"),
    [
        (Collection("c", index="built", stemmer="none"), "--stemmer with --index"),
        (Collection("c", index="built", stopwords="none"), "--stopwords with --index"),
        (Collection("c", stemmer="lovins"), "lovins"),
        (Collection("c", lengths="lucene"), "--lengths without a Lucene index"),
        (Collection("c", index="absent"), "absent"),
        (Collection(topics="c/topics.tsv", qrels="c/qrels.txt", index="absent"), "absent"),
    ],
)
def test_what_does_not_fit_is_refused(collection: Collection, message: str) -> None:
    Path("built").mkdir()
    with pytest.raises(InputError, match=message):
        collection.open_index(collection.load())


def test_a_mistyped_index_is_told_before_anything_is_read() -> None:
    Path("c/topics.tsv").write_text("no topics")
    for name in ("absent", "lucene:no/such"):
        with pytest.raises(InputError, match=r"there is no index here.*lucene:NAME"):
            Collection("c", index=name).load()


def test_a_stale_index_is_refused() -> None:
    build(Collection("c"), Building(output=Path("built")))
    with Path("c/docs.jsonl").open("a") as file:
        file.write('{"id": "new", "contents": "alpha"}\n')
    collection = Collection("c", index="built")
    with pytest.raises(InputError, match="stale index"):
        collection.open_index(collection.load())


def test_several_collections_share_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    Path("b").mkdir()
    given = Collection(stemmer="none")
    assert named_collections(["a", "b"], given) == [
        Collection("a", stemmer="none"),
        Collection("b", stemmer="none"),
    ]
    assert named_collections([], Collection(topics="t")) == [Collection(topics="t")]
    with pytest.raises(InputError, match="--topics with several collections"):
        named_collections(["a", "b"], Collection(topics="t"))
    with pytest.raises(InputError, match="no collection"):
        named_collections([], given)


def test_lucene_needs_a_folder() -> None:
    with pytest.raises(InputError, match="--engine lucene needs --output"):
        Building(engine="lucene")


@pytest.mark.parametrize(
    ("stemmer", "stopwords", "words"),
    [
        (None, None, []),
        ("german", None, ["--stemmer", "german"]),
        ("german", "none", ["--stemmer", "german"]),
        ("german", "lucene", ["--stemmer", "german", "--stopwords", "lucene"]),
        (None, "none", ["--stopwords", "none"]),
        ("none", "lucene", ["--stemmer", "none"]),
    ],
)
def test_words_name_the_analysis_again(stemmer: str | None, stopwords: str | None, words: list[str]) -> None:
    given = Collection("c", stemmer=stemmer, stopwords=stopwords)
    assert given.words() == ["c", *words]
    kept = Collection("c", analysis=given.analyzer().settings)
    assert kept.words() == ["c", *words]
    again = dict(zip((word.removeprefix("--") for word in words[::2]), words[1::2], strict=True))
    assert Collection("c", **again).analyzer() == given.analyzer()  # type: ignore[arg-type]
