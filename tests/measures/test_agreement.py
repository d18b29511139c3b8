"""On real collections, the files that we write make trec_eval see what our kernel measured."""

from __future__ import annotations

import os
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from support import at

import lmtune
from lmtune.candidates.ranking import rank
from lmtune.datasets.consistency import split_topics
from lmtune.formats.runs import write_run
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures

POINTS = [
    (0.0, 1e-9),
    (0.0, 1e-3),
    (0.0, 1.0),
    (0.0, 100.0),
    (0.0, 1000.0),
    (0.0, 2500.0),
    (0.0, 1e5),
    (0.0, 1e9),
    (0.1, 0.0),
    (0.7, 0.0),
    (0.999, 0.0),
    (0.05, 25.0),
    (0.2, 10.0),
    (0.4, 2500.0),
    (0.5, 100.0),
    (0.5, 1e9),
    (0.7, 500.0),
    (0.9, 50.0),
    (0.95, 1e5),
    (0.999, 1000.0),
    (1 - 1e-6, 1e-6),
    (1 - 1e-9, 300.0),
    (1 - 1e-12, 10.0),
    (1 - 1e-15, 1e6),
]
NAMES = ["AP", "Bpref", "P@10"]
EACH = int(os.environ.get("LMTUNE_EACH_TOPIC", "10"))  # of pydocs; `make attack` takes every topic


def compare(name: str, tmp_path: Path, *, topics_step: int = 1) -> tuple[int, int, float]:
    """Write a run at every point and measure it with ir_measures.

    Returns
    -------
    topic-points compared, ranked documents compared, largest difference of a value
    """
    data = lmtune.load(name)
    index = lmtune.index_for(data.documents, home=tmp_path / "indexes")
    usable = split_topics(data).usable[::topics_step]
    pool = lmtune.CandidatePool.build(index, {t: data.topics[t] for t in usable}, data.qrels)
    qrels = {topic: data.qrels[topic] for topic in usable}
    lambdas, mus = zip(*POINTS, strict=True)
    ours = measure_settings(pool, at(lambdas, mus), parse_measures(NAMES))
    place = {topic: t for t, topic in enumerate(pool.topics)}
    column = {ir_measures.parse_measure(n): m for m, n in enumerate(NAMES)}
    evaluator = ir_measures.evaluator(list(column), qrels)
    values = documents = 0
    worst = 0.0
    for s, (lambda_, mu) in enumerate(POINTS):
        path = tmp_path / "test.run"
        rankings = list(rank(pool, {"lambda": lambda_, "mu": mu}))
        write_run(path, rankings, tag="test")
        run: dict[str, dict[str, float]] = {}
        for line in path.read_text().splitlines():
            topic, _, docno, _, score, _ = line.split()
            run.setdefault(topic, {})[docno] = float(score)
        for ranking in rankings:
            printed = run.get(ranking.topic, {})
            for precision in (np.float32, np.float64):
                scores = np.array(list(printed.values()), precision).tolist()
                read = sorted(zip(scores, printed, strict=True), reverse=True)
                assert [docno for _, docno in read] == ranking.docnos, (name, ranking.topic, lambda_, mu)
            documents += len(printed)
        seen = set()
        for value in evaluator.iter_calc(run):
            own = ours[place[value.query_id], s, column[value.measure]]
            worst = max(worst, abs(own - value.value))
            seen.add((value.query_id, value.measure))
            values += 1
        for topic, t in place.items():  # topics without any ranked document
            for parsed, m in column.items():
                assert (topic, parsed) in seen or ours[t, s, m] == 0.0
    return values, documents, worst


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) for name in ("cranfield", "npl", "cacm")] + ["med"]
)
def test_classics_agree_with_trec_eval(name: str, shared_data: Path, tmp_path: Path) -> None:
    values, documents, worst = compare(str(shared_data / name), tmp_path)
    print(f"{name}: {values} values, {documents} ranked documents, largest difference {worst:g}")
    assert worst <= 1e-9
    assert values > 0


def test_pydocs_sample_agrees_with_trec_eval(tmp_path: Path) -> None:
    assert compare("pydocs", tmp_path, topics_step=50)[2] <= 1e-9


@pytest.mark.slow
def test_pydocs_agrees_with_trec_eval(tmp_path: Path) -> None:
    values, documents, worst = compare("pydocs", tmp_path, topics_step=EACH)
    print(f"pydocs: {values} values, {documents} ranked documents, largest difference {worst:g}")
    assert worst <= 1e-9
