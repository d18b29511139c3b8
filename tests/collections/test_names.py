from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmtune.collections.names import Role, find_named, named_files
from lmtune.errors import InputError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    names = """topics/README.md topics/topics.robust04.txt topics/topics.wt10g.v2.tsv.gz topics/topics.txt
        topics/topics.twice.txt topics/topics.twice.jsonl topics/.topics.robust04.1.new.txt
        qrels/qrels.robust04.txt robust04 mine.txt"""
    for name in names.split():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_names_and_their_files(home: Path) -> None:
    assert list(named_files("topics", home)) == ["robust04", "twice", "wt10g.v2"]
    assert named_files("qrels") == {"robust04": [Path("qrels/qrels.robust04.txt")]}
    assert named_files("qrels", home / "topics") == {}


def test_a_name_wins_over_a_path(home: Path) -> None:
    assert find_named("topics", "robust04", home) == home / "topics/topics.robust04.txt"
    assert find_named("topics", "wt10g.v2", home) == home / "topics/topics.wt10g.v2.tsv.gz"
    assert find_named("topics", "mine.txt").name == "mine.txt"


@pytest.mark.parametrize(
    ("role", "name", "message"),
    [
        ("topics", "nope", "topics: no such name or file: 'nope'; accepted: a name (robust04, twice"),
        ("topics", "topics", "topics: is a folder"),
        ("topics", "twice", "several topics files have this name: 'twice'; accepted: the path of one"),
    ],
)
@pytest.mark.usefixtures("home")
def test_errors_say_what_there_is(role: Any, name: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        find_named(role, name)
    assert message in str(caught.value)


def test_without_named_files_the_error_says_where_they_go(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"qrels/qrels\.NAME\.txt"):
        find_named("qrels", "nope", tmp_path)


def test_names_and_aliases_of_castorinis_lists_are_found(tmp_path: Path) -> None:
    lists: dict[Role, Any] = {
        "topics": {"adhoc.401-450": {"path": "topics.401.txt", "reader_class": "TrecTopicReader"}},
        "qrels": {"adhoc.401-450": "qrels.401.trec", "gone": "qrels.gone.txt"},
    }
    for role, files in lists.items():
        (tmp_path / role).mkdir()
        (tmp_path / f"{role}.json").write_text(json.dumps(files))
        (tmp_path / f"{role}-aliases.json").write_text(json.dumps({"adhoc.401-450": ["trec8-adhoc"]}))
    (tmp_path / "topics/topics.401.txt").touch()
    (tmp_path / "qrels/qrels.401.trec").touch()
    for name in ("adhoc.401-450", "trec8-adhoc"):
        assert find_named("topics", name, tmp_path) == tmp_path / "topics/topics.401.txt"
        assert find_named("qrels", name, tmp_path) == tmp_path / "qrels/qrels.401.trec"
    for content in ("{}", "[]", '{"x": 1}', "no JSON"):
        for name in ("gone", "x"):
            with pytest.raises(InputError, match="no such name or file"):
                find_named("qrels", name, tmp_path)
        (tmp_path / "qrels.json").write_text(content)
