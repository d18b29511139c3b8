"""Runs and judgments in tables' files are what the same data in TREC's formats is."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lmtune.cli.main import run as lmtune_command
from lmtune.errors import InputError
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.io.topics import read_topics

RUN = [("007", "a", 2.5), ("007", "b", -1.0), ("x y", "a", 3e-7)]
QRELS = [("007", "a", 2), ("007", "c", 0), ("x y", "a", -1)]
NAMES = [
    ("qid", "docno", "score", "label"),
    ("query_id", "doc_id", "score", "relevance"),
    ("query", "docid", "score", "rel"),
    ("q_id", "doc_id", "score", "score"),
    ("query-id", "corpus-id", "score", "grade"),
    ("qid", "docno", "score", "gain"),
]


def frame(rows: list[Any], names: tuple[str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(names))


def nested(rows: list[Any]) -> dict[str, dict[str, Any]]:
    by_topic: dict[str, dict[str, Any]] = {}
    for topic, docno, value in rows:
        by_topic.setdefault(topic, {})[docno] = value
    return by_topic


WRITERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    ".csv": lambda own, path: own.to_csv(path, index=False),
    ".csv.gz": lambda own, path: own.to_csv(path, index=False),
    ".json": lambda own, path: own.to_json(path, orient="records"),
    ".parquet": lambda own, path: pytest.importorskip("pyarrow") and own.to_parquet(path),
    ".JSON": lambda own, path: path.write_text(
        json.dumps(nested([tuple(row) for row in own.astype(object).to_numpy().tolist()]))
    ),
}


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("names", NAMES, ids=lambda names: "-".join(names))
def test_tables_are_their_rows(suffix: str, names: tuple[str, str, str, str], tmp_path: Path) -> None:
    topic, docno, score, label = names
    path = tmp_path / f"mine{suffix}"
    is_text = topic == "query" and suffix != ".JSON"  # topics named by their texts get one word as identifier

    def expected(rows: list[Any]) -> dict[str, dict[str, Any]]:
        return nested([(own.replace(" ", "_") if is_text else own, *rest) for own, *rest in rows])

    WRITERS[suffix](frame(RUN, (topic, docno, score)), path)
    assert read_run(path) == expected(RUN)
    for kind in (int, float):
        WRITERS[suffix](frame(QRELS, (topic, docno, label)).astype({label: kind}), path)
        assert read_qrels(path) == expected(QRELS)


@pytest.mark.parametrize("suffix", WRITERS)
def test_the_command_prints_the_same(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ranked = [("1", f"d{number}", 1 / (number + 1)) for number in range(5)]
    judged = [("1", f"d{number}", number % 2) for number in range(0, 9, 3)]
    Path("qrels.txt").write_text("".join(f"{topic} 0 {docno} {gain}\n" for topic, docno, gain in judged))
    Path("run.txt").write_text(
        "".join(f"{topic} Q0 {docno} 1 {value} mine\n" for topic, docno, value in ranked)
    )
    WRITERS[suffix](frame(judged, ("qid", "docno", "rel")), Path(f"qrels{suffix}"))
    WRITERS[suffix](frame(ranked, ("qid", "docno", "score")), Path(f"mine{suffix}"))
    assert lmtune_command(["evaluate", "qrels.txt", "run.txt"]) == 0
    wanted = capsys.readouterr().out
    assert "mine" in wanted
    assert lmtune_command(["evaluate", f"qrels{suffix}", f"mine{suffix}"]) == 0
    assert capsys.readouterr().out == wanted


def test_whole_gains_are_taken_with_a_point(tmp_path: Path) -> None:
    for text in ("1 0 a 1.0\n1 0 b 2.\n1 0 c -1.00\n", "# a comment\n1 0 a 1.0\n1 0 b +2\n1 0 c -1\n"):
        (tmp_path / "q").write_text(text)
        assert read_qrels(tmp_path / "q") == {"1": {"a": 1, "b": 2, "c": -1}}
    (tmp_path / "q").write_text("1 0 a 1.5\n")
    with pytest.raises(InputError, match=r"q:1: the gain is not an integer: '1\.5'"):
        read_qrels(tmp_path / "q")


SWAPPED = "this is a run, not judgments; accepted: lines of topic, iteration, docno, gain; as arguments"


@pytest.mark.parametrize(
    ("read", "name", "text", "said"),
    [
        (read_qrels, "a.run", "1 Q0 a 1 2.5 x\n", SWAPPED),
        (read_qrels, "a.csv", "qid,docno,rank,score\n1,a,1,2\n", SWAPPED),
        (
            read_run,
            "q",
            "1 0 a 1\n",
            "these are judgments, not a run; accepted: lines of topic, Q0, docno, rank, score, tag;",
        ),
        (read_run, "q.csv", "qid,docno,rel\n1,a,1\n", "these are judgments, not a run"),
        (read_run, "a.csv", "qid,score\n1,2\n", "no column docno.*docno or doc_id"),
        (read_run, "a.csv", "qid,docno,score\n1,a,x\n", "a.csv:2: the score is not a finite number: 'x'"),
        (read_run, "a.csv", "qid,docno,score\n1,a,1_0\n", "not a finite number: '1_0'"),
        (read_run, "a.csv", "qid,qid,score\n1,a,1\n", "a.csv:1: repeated column name: 'qid'"),
        (read_run, "a.csv", "", "a.csv: the run is empty"),
        (read_qrels, "q.csv", "qid,docno,rel\n1,a,1.5\n", "q.csv:2: the gain is not an integer: 1.5"),
        (read_qrels, "q.csv", "qid,docno,rel\n", "q.csv: no judgments"),
        (read_qrels, "q.json", '{"1": {"a": 2.5}}', "integer: 2.5.*if this is a run: judgments come first"),
        (read_run, "a.json", '{"1": {"a": 1, "a": 2}}', "a.json: not JSON: 'a' comes twice"),
        (read_run, "a.json", '{"1": {"\\ud800": 1}}', "a.json: a topic or docno is not valid text"),
        (read_run, "a.json", "[1", "a.json: not JSON"),
        (read_run, "a.json", "3", "a.json: cannot be read as run: 'int'"),
        (read_run, "../absent.json", None, "absent.json: cannot read: No such file"),
        (read_run, "../absent.parquet", None, "absent.parquet: (cannot read: No such file|Parquet needs)"),
        (read_run, "a.parquet", "1 Q0 a 1 2.5 x\n", "a.parquet: (not Parquet|Parquet needs)"),
    ],
)
def test_what_is_wrong_is_one_line(
    read: Callable[[Path], Any], name: str, text: str | None, said: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"Parquet needs pyarrow.*pip install pyarrow"):
        read_run(tmp_path / "a.parquet")


def test_a_frames_index_is_columns_in_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame(RUN, ("qid", "docno", "score")).set_index(["qid", "docno"]).to_parquet(tmp_path / "a.parquet")
    assert read_run(tmp_path / "a.parquet") == nested(RUN)


@pytest.mark.parametrize("suffix", WRITERS)
def test_damaged_tables_are_refused_in_one_line(suffix: str, tmp_path: Path) -> None:
    path, random = tmp_path / f"a{suffix}", np.random.default_rng(5)
    WRITERS[suffix](frame(QRELS, ("qid", "docno", "label")), path)
    whole = path.read_bytes()
    refused = 0
    for _ in range(200):
        damaged = bytearray(whole)
        for place in random.integers(len(whole), size=3):
            damaged[place] = random.integers(256)
        path.write_bytes(damaged)
        try:
            read_qrels(path)
        except InputError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 50


def test_exports_of_quepid_are_judgments_and_topics(tmp_path: Path) -> None:
    basic, detail = tmp_path / "basic.csv", tmp_path / "detail.csv"
    basic.write_text('query,docid,rating\n"star wars",11,3\n"star  wars",12,0\n"rambo, 2",5,1\n')
    detail.write_text(
        "Team Name,Case Name,Case ID,Query Text,Doc ID,Doc Position,Title,Rating,Field1\n"
        'T,C,1,star wars,11,1,Star,3,x\nT,C,1,star wars,12,2,Wars,0,x\nT,C,1,"rambo, 2",5,1,Rambo,1,x\n'
    )
    expected = {"star_wars": {"11": 3, "12": 0}, "rambo,_2": {"5": 1}}
    assert read_qrels(basic) == read_qrels(detail) == expected
    assert read_topics(basic) == read_topics(detail) == {"star_wars": "star wars", "rambo,_2": "rambo, 2"}
    snapshot = tmp_path / "snapshot.csv"  # a run has the same names
    snapshot.write_text("Snapshot Name,Query Text,Doc ID,rank\nS,star wars,12,1\nS,star wars,11,2\n")
    assert read_run(snapshot) == {"star_wars": {"12": -1.0, "11": -2.0}}
    notes = tmp_path / "needs.csv"
    notes.write_text('query,information_need\nstar wars,"films,\nnot books"\nrambo,the film\n')
    assert read_topics(notes) == {"star_wars": "star wars", "rambo": "rambo"}


_RATINGS = [
    {
        "query": "red dress",
        "ratings": [{"docId": "B1", "rating": "3.000"}, {"docId": "B2", "rating": "0.000"}],
    },
    {"query": "jeans", "ratings": [{"docId": "B2", "rating": 1}]},
]


def _answer(**source: object) -> dict[str, object]:
    """Return an answer of OpenSearch with one document."""
    hit = {"_index": "search-relevance", "_id": "1", "_score": 1, "_source": {"id": "1", **source}}
    shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
    return {"took": 3, "timed_out": False, "_shards": shards, "hits": {"max_score": 1, "hits": [hit]}}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("made", [dict, _answer])
def test_judgment_lists_of_the_workbench(tmp_path: Path, made: Any, indent: int | None) -> None:
    path = tmp_path / "list.json"
    path.write_text(
        json.dumps(made(name="mine", type="IMPORT_JUDGMENT", judgmentRatings=_RATINGS), indent=indent)
    )
    assert read_qrels(path) == {"red_dress": {"B1": 3, "B2": 0}, "jeans": {"B2": 1}}
    assert read_topics(path) == {"red_dress": "red dress", "jeans": "jeans"}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("made", [dict, _answer])
def test_query_sets_of_the_workbench(tmp_path: Path, made: Any, indent: int | None) -> None:
    path, lines = tmp_path / "set.json", tmp_path / "set.txt"
    queries = [{"queryText": "red dress"}, {"queryText": "jeans", "referenceAnswer": "blue"}]
    path.write_text(json.dumps(made(name="mine", querySetQueries=queries), indent=indent))
    lines.write_text("".join(f"{json.dumps(query)}\n" for query in queries))
    assert read_topics(path) == read_topics(lines) == {"red_dress": "red dress", "jeans": "jeans"}


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ([{"query": "a", "ratings": [{"docId": "B1", "rating": "0.25"}]}], "the gain is not an integer"),
        ([{"query": "a", "ratings": [{"docId": "B1"}]}], "not a list of ratings"),
        ([{"query": "a"}], "not a list of ratings"),
        ([{"ratings": [{"docId": "B1", "rating": 1}]}], "not a list of ratings"),
        ([7], "not a list of ratings"),
    ],
)
def test_bad_judgment_lists_are_refused(tmp_path: Path, ratings: Any, message: str) -> None:
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"judgmentRatings": ratings}))
    with pytest.raises(InputError) as error:
        read_qrels(path)
    assert str(error.value).startswith(f"{path}:")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.csv", "query,docid,rating\na b,1,1\na_b,2,1\n", "q.csv:3: two queries have the same name: 'a_b'"),
        ("q.csv", "query,docid,rating\n,1,1\n", "q.csv:2: a query has no text"),
        ("q.csv", 'query,docid\n"a,1\n', "q.csv:2: not CSV"),
        ("q.csv", "query,docid\na\n", "q.csv:2: 1 columns"),
        ("q.json", '{"querySetQueries": [{"text": "a"}]}', "q.json:1: a query has no text"),
        ("q.json", '{"querySetQueries": [3]}', "q.json:1: a query has no text"),
        ("q.json", '{"queryText": "a"}\n{"queryText"', "q.json:2: not JSON"),
    ],
)
def test_bad_query_texts_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        read_topics(tmp_path / name)
    assert message in str(error.value)
