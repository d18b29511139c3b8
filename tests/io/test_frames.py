"""Whatever users hold in memory is the same run, judgments, topics and documents."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ir_datasets
import ir_measures
import numpy as np
import pandas as pd
import pytest

from lmtune.errors import InputError
from lmtune.io.frames import as_documents, as_qrels, as_run, as_topics, named_runs, run_frame
from lmtune.io.runs import Ranking, read_run, write_run

RUN = {"1": {"a": 2.0, "b": 1.5}, "2": {"a": -1.0}}
QRELS = {"1": {"a": 1, "c": 0}, "2": {"b": 2}}
TOPICS = {"1": "red fox", "2": "dog"}


def rows(nested: dict[str, dict[str, Any]]) -> list[tuple[str, str, Any]]:
    return [(topic, docno, value) for topic, own in nested.items() for docno, value in own.items()]


class FromRanx:
    """As ranx's Run and Qrels are."""

    name = "bm25"

    def __init__(self, values: Any) -> None:
        self.values = values

    def to_dict(self) -> Any:
        return self.values


TREC_QRELS = "".join(f"{t} 0 {d} {g}\n" for t, d, g in rows(QRELS))
TREC_RUN = "".join(f"{t} Q0 {d} 1 {s} x\n" for t, d, s in rows(RUN))
RUNS: dict[str, Callable[[], Any]] = {
    "PyTerrier": lambda: pd.DataFrame(rows(RUN), columns=["qid", "docno", "score"]).assign(rank=0, query="x"),
    "integers": lambda: pd.DataFrame(rows(RUN), columns=["qid", "docno", "score"]).astype({"qid": int}),
    "ir_measures' frame": lambda: pd.DataFrame(rows(RUN), columns=["query_id", "doc_id", "score"]),
    "generator": lambda: (ir_measures.ScoredDoc(*row) for row in rows(RUN)),
    "ir_measures' reader": lambda: ir_measures.read_trec_run(TREC_RUN),  # type: ignore[no-untyped-call]
    "list of dictionaries": lambda: [
        dict(zip(("qid", "docno", "score"), row, strict=True)) for row in rows(RUN)
    ],
    "dictionary": lambda: {int(t): {d: np.float32(s) for d, s in own.items()} for t, own in RUN.items()},
    "ranx": lambda: FromRanx(RUN),
    "ir_datasets": lambda: SimpleNamespace(
        scoreddocs_iter=lambda: (ir_datasets.formats.GenericScoredDoc(*row) for row in rows(RUN))
    ),
}


@pytest.mark.parametrize("form", RUNS)
def test_runs(form: str) -> None:
    assert as_run(RUNS[form]()) == RUN
    [(name, run)] = named_runs(RUNS[form]())
    assert as_run(run) == RUN
    assert name == ("bm25" if form == "ranx" else "run")


def test_ranks_stand_for_scores() -> None:
    frame = pd.DataFrame([("1", "a", 0), ("1", "b", 1)], columns=["qid", "docno", "rank"])
    assert as_run(frame) == {"1": {"a": 0.0, "b": -1.0}}


def test_several_runs_have_names(tmp_path: Path) -> None:
    frame = RUNS["PyTerrier"]()
    path = tmp_path / "x.run"
    assert [name for name, _ in named_runs([frame, path, FromRanx(RUN)])] == ["run 1", str(path), "bm25"]
    assert [name for name, _ in named_runs({"one": frame, "two": RUN})] == ["one", "two"]
    assert [name for name, _ in named_runs(iter([str(path), str(path)]))] == [str(path), str(path)]
    assert [run for _, run in named_runs({"one": RUN})] == [RUN]
    assert list(named_runs([])) == []


@pytest.mark.parametrize(
    "given",
    [
        pd.DataFrame(rows(QRELS), columns=["qid", "docno", "label"]),
        pd.DataFrame(rows(QRELS), columns=["query_id", "doc_id", "relevance"]).astype({"relevance": float}),
        (ir_measures.Qrel(*row) for row in rows(QRELS)),
        ir_measures.read_trec_qrels(TREC_QRELS),  # type: ignore[no-untyped-call]
        {1: {"a": np.int64(1), "c": 0}, 2: {"b": 2}},
        FromRanx(QRELS),
    ],
    ids=["PyTerrier", "ir_measures' frame", "generator", "reader", "dictionary", "ranx"],
)
def test_judgments(given: Any) -> None:
    assert as_qrels(given) == QRELS


@pytest.mark.parametrize(
    "given",
    [
        pd.DataFrame(TOPICS.items(), columns=["qid", "query"]),
        pd.DataFrame(TOPICS.items(), columns=["query_id", "text"]),
        [ir_datasets.formats.GenericQuery(*row) for row in TOPICS.items()],
        SimpleNamespace(
            queries_iter=lambda: (ir_datasets.formats.GenericQuery(*row) for row in TOPICS.items())
        ),
        TOPICS,
    ],
    ids=["PyTerrier", "ir_datasets' frame", "rows", "ir_datasets", "dictionary"],
)
def test_topics(given: Any) -> None:
    assert as_topics(given) == TOPICS


def test_documents() -> None:
    texts = {"a": "one two", "b": "three"}
    made = [ir_datasets.formats.GenericDoc(*row) for row in texts.items()]
    titled = ir_datasets.datasets.beir.BeirTitleDoc("a", "two", "one")
    collection = SimpleNamespace(docs_iter=lambda: iter(made), dataset_id=lambda: "mine")
    frames = [
        pd.DataFrame(texts.items(), columns=list(names))
        for names in (("docno", "text"), ("id", "contents"), ("docid", "body"))
    ]
    for given in (texts, *frames, iter(made), collection):
        source = as_documents(given)
        for _ in range(2):
            assert [tuple(own) for batch in source.batches() for own in batch.read()] == list(texts.items())
        assert source.digest() == as_documents(texts).digest()
        assert as_documents(source) is source
    assert as_documents(collection).name == "irds:mine"
    [batch] = as_documents([titled]).batches()
    assert [own.text for own in batch.read()] == [titled.default_text()] != ["two"]


def test_paths_are_read(tmp_path: Path) -> None:
    (tmp_path / "run").write_text(TREC_RUN)
    (tmp_path / "qrels").write_text(TREC_QRELS)
    (tmp_path / "topics").write_text("".join(f"{t}\t{text}\n" for t, text in TOPICS.items()))
    assert as_run(tmp_path / "run") == RUN
    assert as_qrels(str(tmp_path / "qrels")) == QRELS
    assert as_topics(tmp_path / "topics") == TOPICS


def test_rankings_keep_their_order_in_frames_and_runs(tmp_path: Path) -> None:
    """Ties stand against trec_eval's order here, so that scores have to give way."""
    rankings = [Ranking("1", ["a", "b", "c"], np.array([-1.0, -1.0, -2.0])), Ranking("2", ["z"], np.zeros(1))]
    write_run(tmp_path / "run", rankings, tag="x")
    written = read_run(tmp_path / "run")
    frame = run_frame(rankings)
    assert list(frame) == ["qid", "docno", "score", "rank"]
    assert frame["rank"].tolist() == [0, 1, 2, 0]
    for found in (as_run(frame), as_run(iter(rankings))):
        assert {topic: list(own) for topic, own in found.items()} == {"1": ["a", "b", "c"], "2": ["z"]}
        for topic, own in found.items():
            assert list(own.values()) == pytest.approx(list(written[topic].values()), rel=1e-8)
        assert found["1"]["a"] > found["1"]["b"] > found["1"]["c"]
    assert list(run_frame([])) == list(frame)
    assert run_frame([]).dtypes["rank"] == frame.dtypes["rank"]


FRAME = RUNS["PyTerrier"]()


@pytest.mark.parametrize(
    ("read", "given", "said"),
    [
        (as_run, FRAME.drop(columns="docno"), r"run: no column docno: \['qid', .*docno or doc_id"),
        (as_run, FRAME.assign(score="x"), "run:1: the score is not a finite number: 'x'"),
        (as_run, FRAME.assign(score=math.nan), "run:1: the score is not a finite number: nan"),
        (as_run, FRAME.assign(docno="a"), "run:2: a document occurs twice for topic 1: 'a'"),
        (as_run, FRAME.assign(qid=1.5), "run:1: a topic or docno is neither text nor an integer: 1.5"),
        (as_run, FRAME[:0], "the run is empty"),
        (as_run, {"1": 2.0}, "topic 1 has no dictionary by docno: 2.0"),
        (as_run, [("1", "a", 2.0)], r"run:1: a row has no qid: \('1', 'a', 2.0\)"),
        (as_run, 3, "cannot be read as run: 'int'; accepted: a path, a dictionary"),
        (as_qrels, FRAME.drop(columns="score"), "no column label.*label or relevance"),
        (as_qrels, FRAME, "this is a run, not judgments; accepted: lines of topic, "),
        (as_run, FRAME.rename(columns={"score": "rel"}), "these are judgments, not a run"),
        (as_qrels, {"1": {"a": 1.5}}, "judgments:1: the gain is not an integer: 1.5"),
        (as_qrels, {"1": {"a": 10**9}}, "the gain is not an integer"),
        (as_topics, FRAME.drop(columns="query"), "no column query"),
        (as_topics, {"1": None}, "topic 1 has no text"),
        (as_topics, FRAME.assign(query=["x", "y", "z"]), "topics:2: topic 1 has a second text: 'y'"),
        (as_topics, [], "the topics are empty"),
        (as_documents, {"a": 3}, "documents:1: a document has no text: 3"),
        (as_documents, "docs.jsonl", "documents cannot be given by a path.*lmtune.load"),
    ],
)
def test_bad_input_is_one_line(read: Callable[[Any], Any], given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read(given)
    assert "\n" not in str(caught.value)
