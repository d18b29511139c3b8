"""On real collections, the files that we write make trec_eval see what our kernel measured."""

from __future__ import annotations

import os
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from numpy.typing import NDArray
from support import at

import lmtune
from lmtune.candidates.ranking import rank
from lmtune.collections.dataset import split_topics
from lmtune.io.runs import Ranking, write_run
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
Scores = dict[str, dict[str, float]]
# Of a collection's topics each one so many, where `make attack` takes every topic.
EACH = {"pydocs": 50, "cranfield": 5, "npl": 6, "cacm": 2, "med": 1}


def compare(name: str, tmp_path: Path, *, topics_step: int) -> tuple[int, int, float]:
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
        run = read_as_trec_eval(path, rankings, (name, lambda_, mu))
        documents += sum(map(len, run.values()))
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


def read_as_trec_eval(path: Path, rankings: list[Ranking], where: tuple[object, ...]) -> Scores:
    """Read a run whose documents trec_eval must order as they were ranked, in either precision."""
    fields = path.read_text().split()
    topics, docnos, scores = fields[::6], fields[2::6], [float(field) for field in fields[4::6]]
    assert set(fields[5::6]) <= {"test"}
    run: Scores = {}
    end = 0
    for topic, ranked, _ in rankings:
        rows = slice(end, end + len(ranked))
        end = rows.stop
        assert topics[rows] == [topic] * len(ranked), (topic, *where)
        assert docnos[rows] == ranked, (topic, *where)
        if ranked:
            run[topic] = dict(zip(ranked, scores[rows], strict=True))
        for precision in (np.float32, np.float64):
            read: NDArray[np.floating] = np.array(scores[rows], precision)
            assert (read[:-1] >= read[1:]).all(), (topic, *where)
            for place in np.flatnonzero(read[:-1] == read[1:]).tolist():
                assert ranked[place] > ranked[place + 1], (topic, *where)
    assert end == len(docnos)
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "npl")) for name in EACH]
)
def test_trec_eval_of_the_files(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = name if name == "pydocs" else str(request.getfixturevalue("shared_data") / name)
    step = int(os.environ.get("LMTUNE_EACH_TOPIC", EACH[name]))
    values, documents, worst = compare(path, tmp_path, topics_step=step)
    print(f"{name}: {values} values, {documents} ranked documents, largest difference {worst:g}")
    assert worst <= 1e-9
    assert values > 0
