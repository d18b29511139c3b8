from __future__ import annotations

import gzip
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.io.runs import Ranking, printed_scores, read_run, write_run

LARGEST = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).smallest_subnormal)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=4)
# Scores that collide in float32: equal, a few doubles or float32 steps apart, around zero.
CLOSE = st.builds(
    lambda base, step, scale: base + step * scale,
    st.sampled_from([0.0, -0.0, 1.0, -7.25, 1e-38, 3.0e38, -1e30]),
    st.integers(-4, 4),
    st.sampled_from([0.0, TINY, TINY / 2, 1e-9, 6e-8, 1e-16]),
)
SCORES = st.one_of(CLOSE, st.floats(-1e30, LARGEST), st.floats(-20, 0), st.sampled_from([-1.5, 0.0, 2.5]))


@st.composite
def rankings(draw: st.DrawFn) -> tuple[list[str], list[float]]:
    docnos = draw(st.lists(NAMES, unique=True, max_size=30))
    scores = [draw(SCORES) for _ in docnos]
    if draw(st.booleans()):
        scores.sort(reverse=True)
    return docnos, scores


def one_by_one(docnos: list[str], scores: list[float]) -> list[np.float32]:
    """Print each score at its float32, or as little below its neighbour as the order needs."""
    printed: list[np.float32] = []
    for position, score in enumerate(scores):
        value = np.float32(score)
        if position:
            limit = printed[-1]
            if docnos[position] > docnos[position - 1]:
                limit = np.nextafter(limit, np.float32(-np.inf))
            value = min(value, limit)
        printed.append(value)
    return printed


def order_read(docnos: list[str], texts: list[str], kind: type) -> list[str]:
    """Sort as trec_eval does: score descending, then docno descending in bytes."""
    ranked = sorted(
        zip(texts, docnos, strict=True),
        key=lambda pair: (kind(float(pair[0])), pair[1].encode()),
        reverse=True,
    )
    return [docno for _, docno in ranked]


@given(rankings())
def test_printed_scores_give_our_order_in_both_precisions(ranking: tuple[list[str], list[float]]) -> None:
    docnos, scores = ranking
    printed = printed_scores(docnos, scores)
    assert printed.dtype == np.float32
    texts = [f"{score:.9g}" for score in printed.tolist()]
    assert order_read(docnos, texts, np.float32) == docnos
    assert order_read(docnos, texts, float) == docnos
    assert printed.tolist() == one_by_one(docnos, scores)


@given(st.lists(st.floats(-1e9, 1e9, width=32), unique=True))
def test_distinct_float32_scores_are_printed_as_they_are(scores: list[float]) -> None:
    scores.sort(reverse=True)
    docnos = [f"D{position}" for position in range(len(scores))]
    assert printed_scores(docnos, scores).tolist() == scores


@pytest.mark.parametrize("score", [0.0, TINY, -TINY, 1.0, -12.5, 1e-38])
def test_thousands_of_ties(score: float) -> None:
    docnos = [f"D{position:05}" for position in range(20_000)]
    printed = printed_scores(docnos, np.full(20_000, score))
    assert bool(np.all(printed[1:] < printed[:-1]))
    steps = np.float32(score)
    for value in printed[:50].tolist():
        assert value == steps
        steps = np.nextafter(steps, np.float32(-np.inf))
    backwards = printed_scores(docnos[::-1], np.full(20_000, score))
    assert set(backwards.tolist()) == {float(np.float32(score))}


def test_a_nudge_is_absorbed_by_the_next_gap() -> None:
    printed = printed_scores(["A", "B", "C"], [1.0, 1.0, 0.5])
    assert printed.tolist() == [1.0, float(np.nextafter(np.float32(1), np.float32(0))), 0.5]


def test_zero_is_printed_without_its_sign() -> None:
    assert [f"{score:.9g}" for score in printed_scores(["A", "B"], [-0.0, -1.0])] == ["0", "-1"]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, 1e39, -1e39])
def test_scores_that_cannot_be_written(tmp_path: Path, score: float) -> None:
    with pytest.raises(InputError, match="document B"):
        printed_scores(["A", "B"], [1.0, score])
    rankings = [Ranking("7", ["A", "B"], np.array([1.0, score]))]
    with pytest.raises(InputError, match="topic 7: cannot write the score of document B"):
        write_run(tmp_path / "r.txt", rankings, tag="x")
    assert not list(tmp_path.iterdir())


def test_no_room_below_the_smallest_score() -> None:
    assert printed_scores(["B", "A"], [-LARGEST, -LARGEST]).tolist() == [-LARGEST] * 2
    with pytest.raises(InputError, match="no float32 is left"):
        printed_scores(["A", "B"], [-LARGEST, -LARGEST])


def test_docnos_and_scores_must_match() -> None:
    with pytest.raises(InputError, match="differ in number"):
        printed_scores(["A", "B"], [1.0])


def ranking_of(topic: str, docnos: list[str], scores: NDArray[np.float64]) -> Ranking:
    return Ranking(topic, docnos, scores)


@pytest.mark.parametrize("name", ["run.txt", "run.txt.gz"])
def test_written_columns(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    written = iter(
        [
            ranking_of("301", ["B", "C", "A"], np.array([-1.0, -1.0, -2.5])),
            ranking_of("9", [], np.array([])),
            ranking_of("x1", ["é"], np.array([1 / 3])),
        ]
    )
    write_run(path, written, tag="ql-mu=2500")
    data = path.read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    assert text == (
        "301 Q0 B 1 -1 ql-mu=2500\n"
        "301 Q0 C 2 -1.00000012 ql-mu=2500\n"
        "301 Q0 A 3 -2.5 ql-mu=2500\n"
        "x1 Q0 é 1 0.333333343 ql-mu=2500\n"
    )
    assert read_run(path)["301"] == {"B": -1.0, "C": -1.00000012, "A": -2.5}


@pytest.mark.parametrize(
    ("rankings", "tag", "words"),
    [
        ([], "two words", "bad run tag: 'two words'"),
        ([], "", "bad run tag"),
        ([Ranking("1", ["A"], np.ones(1))] * 2, "x", "topic ranked twice: '1'"),
        ([Ranking("1", ["A", "B", "A"], np.ones(3))], "x", "document ranked twice.*'A'"),
        ([Ranking("1", ["A b", ""], np.ones(2))], "x", "'A b'"),
        ([Ranking("1", ["A", ""], np.ones(2))], "x", "''"),
        ([Ranking("1 2", ["A"], np.ones(1))], "x", "'1 2'"),
    ],
)
def test_refuses_to_write(tmp_path: Path, rankings: list[Ranking], tag: str, words: str) -> None:
    path = tmp_path / "r.txt"
    path.write_text("old")
    with pytest.raises(InputError, match=words):
        write_run(path, rankings, tag=tag)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"", None, "empty"),
        (b"\n\n", None, "empty"),
        (b"1 Q0 A 1 2.0 two words\n", 1, "7 columns"),
        (b"1 Q0 A 1 1_0 x\n", 1, "'1_0'"),
        (b"1 Q0 A 1 2 x\n2 Q0 A 1 2 x\n1 Q0 A 2 1 x\n", 3, "twice for topic 1.*line 1"),
        (b"1 Q0 A 1 2 \xff\n", 1, "invalid UTF-8"),
    ],
)
def test_bad_run(tmp_path: Path, content: bytes, line: int | None, words: str) -> None:
    path = tmp_path / "run"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_run(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)
    assert "\n" not in str(caught.value)


def test_trec_eval_sees_the_order_of_ties(tmp_path: Path) -> None:
    # One relevant document a topic: trec_eval's reciprocal rank is the place where it sees it.
    docnos = ["b", "a", "c", "é", "z", "Z", "10", "9", "😀", "\uffee"]
    scores = np.array([2.0, 2.0, 2.0, 2.0 - 1e-9, 1e-46, 0.0, -0.0, -TINY / 4, -1e-3, -1e-3])
    path = tmp_path / "r.txt"
    write_run(path, [Ranking(docno, docnos, scores) for docno in docnos], tag="x")
    evaluator = pytrec_eval.RelevanceEvaluator({docno: {docno: 1} for docno in docnos}, ["recip_rank"])
    found = evaluator.evaluate(read_run(path))
    for rank, docno in enumerate(docnos, 1):
        assert found[docno]["recip_rank"] == pytest.approx(1 / rank)


def test_real_runs_keep_trec_evals_order(shared_data: Path, tmp_path: Path) -> None:
    files = sorted((shared_data / "robust03" / "runs").glob("*.gz"))
    assert len(files) == 9
    # The run with the heaviest ties, and the one with negative scores.
    for file in (file for file in files if file.stem in ("rutcor03100", "UIUC03Rd1")):
        run = read_run(file)
        with gzip.open(file, "rt") as stream:
            rows = [line.split() for line in itertools.islice(stream, 5000)]
        assert all(run[row[0]][row[2]] == float(row[4]) for row in rows)
        orders = {
            topic: sorted(found, key=lambda d: (np.float32(found[d]), d), reverse=True)
            for topic, found in itertools.islice(run.items(), 20)
        }
        write_run(
            tmp_path / "r.txt",
            (
                Ranking(topic, docnos, np.array([run[topic][docno] for docno in docnos]))
                for topic, docnos in orders.items()
            ),
            tag=file.stem,
        )
        back = read_run(tmp_path / "r.txt")
        for topic, docnos in orders.items():
            assert list(back[topic]) == docnos
            printed = [np.float32(score) for score in back[topic].values()]
            # Their own order needs no nudge.
            assert printed == [np.float32(run[topic][docno]) for docno in docnos]
