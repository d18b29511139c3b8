"""Pairs to judge next: against all subsets, and against bounds before and after."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripts import refusal, run_command

from lmtune.errors import InputError
from lmtune.measures.from_files import EvaluationOptions
from lmtune.measures.judges import pairs_to_judge
from lmtune.measures.residual_bounds import difference_bounds

Qrels = dict[str, dict[str, int]]


def made(seed: int) -> tuple[Qrels, dict[str, dict[str, dict[str, float]]]]:
    rng = np.random.default_rng(seed)
    names = [f"d{n}" for n in range(7)]
    runs = {
        run: {t: {str(d): float(rng.random()) for d in rng.choice(names, 5, replace=False)} for t in "12"}
        for run in "ab"
    }
    return {t: {str(d): int(rng.random() < 0.5) for d in rng.choice(names, 2)} for t in "12"}, runs


def width(qrels: Qrels, runs: Any, measure: str) -> float:
    bounds = difference_bounds(qrels, runs, [("b", "a")], measure, EvaluationOptions(complete=True))
    return float(np.diff(bounds["b", "a"][0])[0])


@pytest.mark.first_case
@pytest.mark.parametrize("measure", ["P@3", "RBP", "RBP(p=0.5)@4"])
@pytest.mark.parametrize("seed", range(8))
def test_no_other_pairs_narrow_the_difference_more(measure: str, seed: int) -> None:
    qrels, runs = made(seed)
    found = pairs_to_judge(qrels, runs, measure, number=3)
    before = width(qrels, runs, measure)
    every = pairs_to_judge(qrels, runs, measure, number=1000).pairs
    assert before == pytest.approx(sum(pair.weight for pair in every) / len(qrels), abs=1e-12)

    def after(pairs: Any, gain: int) -> float:
        judged = {topic: dict(own) for topic, own in qrels.items()}
        for pair in pairs:
            judged[pair.topic][pair.docno] = gain
        return width(judged, runs, measure)

    left = after(found.pairs, 1)
    assert left == pytest.approx(after(found.pairs, 0), abs=1e-12)
    assert left == pytest.approx(before * (1.0 - found.share), abs=1e-12)
    assert left <= min(after(some, 0) for some in combinations(every, len(found.pairs))) + 1e-12
    assert found.pooled <= found.share + 1e-12


def test_of_one_run_what_stands_high_weighs_most() -> None:
    found = pairs_to_judge({"1": {"b": 1}}, {"a": {"1": {"a": 3.0, "b": 2.0, "c": 1.0}}}, "nDCG@10")
    assert [(pair.docno, pair.ranks) for pair in found.pairs] == [("a", (1,)), ("c", (3,))]
    assert [pair.weight for pair in found.pairs] == pytest.approx([1.0, 0.5])
    assert "To judge next" in found._repr_html_() and "of the uncertainty of nDCG@10 due to" in repr(found)
    assert found.to_frame()["docno"].tolist() == ["a", "c"]


def test_topics_without_any_judgment_are_in_no_mean() -> None:
    qrels, runs = made(3)
    found = pairs_to_judge({"2": qrels["2"]}, runs, "P@3", number=1000)
    assert {pair.topic for pair in found.pairs} == {"2"}
    assert sum(pair.weight for pair in found.pairs) == pytest.approx(width({"2": qrels["2"]}, runs, "P@3"))
    with pytest.raises(InputError, match="all documents that count are judged"):
        pairs_to_judge({"9": {"a": 1}}, runs, "P@3")


def test_a_file_to_fill_in(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 0 a 1\n2 0 a 0\n")
    for name, order in (("one", "abc"), ("two", "cab")):
        lines = [f"{t} Q0 {d} 1 {9 - n} {name}\n" for t in (1, 2) for n, d in enumerate(order)]
        (tmp_path / name).write_text("".join(lines))
    output = tmp_path / "fill-in"
    out = run_command("judge qrels one two -m P@1 --output fill-in", cwd=tmp_path).out
    assert output.read_text() == "1 0 c ?\n2 0 c ?\n"
    assert out.startswith(
        "2 pairs of 2 topics cause 100% of the uncertainty of P@1 due to 2 unjudged pairs between"
    )
    before = output.read_text()
    for words in ("-m AP", "-n 0", "--output qrels"):
        refusal("judge qrels one two --output fill-in", words, cwd=tmp_path)
    assert output.read_text() == before
    output.write_text("1 0 c 1\n2 0 c ?\n")
    error = refusal("judge qrels one two -m P@1 --output fill-in", cwd=tmp_path)
    assert "the file has labels for 1 of 2 pairs" in error
    assert output.read_text() == "1 0 c 1\n2 0 c ?\n"
    with pytest.raises(InputError, match="all documents that count are judged"):
        pairs_to_judge({"1": {"a": 1}}, {"x": {"1": {"a": 1.0, "b": 0.5}}}, "P@1")
