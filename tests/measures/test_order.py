"""One order everywhere: trec_eval's, of scores that differ in 64 bits and are equal in 32."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from scripts import run_command
from support import TinyIndex

from lmtune.io.runs import Ranking, read_run, write_run
from lmtune.measures.from_files import topic_values
from lmtune.measures.judged_ranking import trec_eval_order
from lmtune.measures.lists import Measurer, ndcg
from lmtune.rerank.data import RankingData
from lmtune.rerank.sources import reranked, run_data

# In 32 bits a and b are equal, so that b, the relevant one, is ahead.
SCORES = {"a": 0.5 + 1e-9, "b": 0.5, "c": 0.25}
QRELS = {"1": {"a": 0, "b": 1}, "2": {"a": 0, "b": 1}}
ORDER = ["b", "a", "c"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    qrels, run = tmp_path / "qrels.txt", tmp_path / "close.run"
    qrels.write_text("".join(f"{t} 0 {d} {g}\n" for t, own in QRELS.items() for d, g in own.items()))
    run.write_text("".join(f"{t} Q0 {d} 1 {s!r} tag\n" for t in QRELS for d, s in SCORES.items()))
    return qrels, run


def test_evaluate_and_compare(files: tuple[Path, Path]) -> None:
    assert topic_values(*files, ["recip_rank", "nDCG@1"]).to_numpy().tolist() == [[1.0, 1.0], [1.0, 1.0]]
    # Rprec comes from ir_measures.
    assert topic_values(*files, ["Rprec", "NumRet(rel=1)"]).to_numpy().tolist() == [[1.0, 1.0], [1.0, 1.0]]
    again = shutil.copy(files[1], files[1].with_name("again.run"))
    header, line = run_command("compare", *files, Path(again), "-m P@1 --format csv").out.splitlines()
    assert dict(zip(header.split(","), line.split(","), strict=True))["mean"] == "1.0"


def test_reranking(files: tuple[Path, Path], tmp_path: Path) -> None:
    index = TinyIndex({"a": "x y", "b": "x z", "c": "y y"})
    run = read_run(files[1])
    data = run_data(run, index, dict.fromkeys(QRELS, "x"), QRELS)
    assert data.docnos == tuple(ORDER * 2)
    assert data.labels.tolist() == [1, 0, 0] * 2
    shallow = run_data(run, index, dict.fromkeys(QRELS, "x"), QRELS, depth=1)
    assert shallow.docnos == ("b", "b")
    assert reranked(run, shallow, np.zeros(2))[0].docnos == ORDER  # the others beneath
    # What a model finds equal stays in the run's order; what is close is ranked as it will be read.
    assert reranked(run, data, np.zeros(6))[0].docnos == ORDER
    write_run(tmp_path / "better.run", reranked(run, data, np.zeros(6)), tag="better")
    assert topic_values(files[0], tmp_path / "better.run", ["RR"]).to_numpy().tolist() == [[1.0], [1.0]]


def test_lists() -> None:
    labels, scores = [QRELS["1"].get(docno, 0) for docno in SCORES], list(SCORES.values())
    data = RankingData.from_lengths(np.zeros((3, 1)), labels, [3], docnos=list(SCORES))
    assert ndcg(scores, data, [1], ties="docnos").tolist() == [[1.0]]
    assert Measurer("wta", data).values(scores, ties="docnos").tolist() == [0.0]
    assert Measurer("wta", data).values(scores).tolist() == [1.0]  # 64 bits


def test_runs_that_are_written_keep_their_order(tmp_path: Path) -> None:
    for docnos in (["a", "b", "c"], ["b", "a", "c"]):
        write_run(tmp_path / "a.run", [Ranking("1", docnos, np.array([0.5 + 1e-9, 0.5, 0.25]))], tag="t")
        (scores,) = read_run(tmp_path / "a.run").values()
        assert trec_eval_order(list(scores), list(scores.values())) == docnos


@given(
    st.dictionaries(
        st.text("abé𝔸", min_size=1, max_size=3), st.sampled_from([0.0, 0.5, 0.5 + 1e-9, 1e39, 2e39])
    )
)
def test_text_and_bytes_are_in_one_order_which_is_trec_evals(scores: dict[str, float]) -> None:
    ranked = trec_eval_order(list(scores), list(scores.values()))
    encoded = trec_eval_order([docno.encode() for docno in scores], list(scores.values()))
    assert [docno.decode() for docno in encoded] == ranked
    for place, docno in enumerate(ranked, 1):
        evaluator = pytrec_eval.RelevanceEvaluator({"q": {docno: 1}}, {"recip_rank"})
        assert evaluator.evaluate({"q": scores})["q"]["recip_rank"] == pytest.approx(1 / place)
