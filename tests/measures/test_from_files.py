from __future__ import annotations

from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pytest

from lmtune.errors import InputError
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.measures.from_files import EvaluationOptions, evaluations, parse_families, topic_values
from lmtune.measures.trec_names import ParameterError, families, split_name

QRELS = "1 0 a 1\n1 0 b 0\n1 0 c 2\n2 0 a 1\n3 0 a 0\n10 0 z 1\n"
RUN = "1 Q0 b 1 3 t\n1 Q0 c 2 2 t\n1 Q0 x 3 1 t\n3 Q0 a 1 1 t\n10 Q0 z 1 9 t\n99 Q0 a 1 1 t\n"
NAMES = (
    "AP P@5 nDCG@10 nDCG RR RR@1 R@2 Bpref Bpref(rel=2) Success@1 AP(rel=2)@100 IPrec@0.1 SetF Judged@2"
).split()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "run").write_text(RUN)
    return tmp_path / "qrels", tmp_path / "run"


def test_topics_missing_unjudged_and_without_relevant(files: tuple[Path, Path]) -> None:
    names = ["num_q", "num_rel", "num_ret", "P.1", "map", "gm_map"]
    (found,) = evaluations(*files, names, settings=EvaluationOptions(complete=True))
    assert found.topics == ("1", "10", "2", "3")
    assert found.missed == ("2",)
    assert found.retrieved == {"1", "3", "10"}
    assert found.unjudged == 1
    assert found.column("num_q").mean == 4
    assert found.column("num_rel").values == (2, 1, 1, 0)
    assert found.column("num_ret").values == (3, 1, 0, 1)
    assert found.column("num_ret").mean == 5
    assert found.column("map").values == (0.25, 1.0, 0.0, 0.0)
    assert found.column("map").mean == 1.25 / 4
    assert found.column("gm_map").mean == pytest.approx((0.25 * 1e-10) ** 0.25)
    (found,) = evaluations(*files, ["map", "num_q"])
    assert (found.topics, found.missed) == (("1", "10", "3"), ("2",))
    assert found.column("map").mean == 1.25 / 3


def test_some_of_the_topics(files: tuple[Path, Path]) -> None:
    names, chosen = ["map", "num_q", "num_rel"], EvaluationOptions(complete=True, topics="1-2")
    (found,) = evaluations(*files, names, settings=chosen)
    assert found.topics == ("1", "2")
    assert found.retrieved == {"1"}
    assert found.unjudged == 0
    qrels, run = (file.with_name(f"{file.name}-1-2") for file in files)
    for whole, part in zip(files, (qrels, run), strict=True):
        lines = whole.read_text().splitlines(keepends=True)
        part.write_text("".join(line for line in lines if line.split()[0] in "12"))
    (alone,) = evaluations(qrels, run, names, settings=EvaluationOptions(complete=True))
    assert found.columns == alone.columns
    with pytest.raises(InputError, match=r"no such topic: '99'"):
        list(evaluations(*files, names, settings=EvaluationOptions(topics="1,99")))
    with pytest.raises(InputError, match=r"run: the run has none of the topics: '2'"):
        list(evaluations(*files, names, settings=EvaluationOptions(topics="2")))


@pytest.mark.parametrize("complete", [True, False])
def test_ir_measures_names_have_its_values(files: tuple[Path, Path], complete: bool) -> None:
    frame = topic_values(*files, NAMES, complete=complete)
    assert list(frame) == NAMES
    topics, values = list(frame.index), frame.to_numpy()
    expected = np.zeros_like(values)
    measures = {ir_measures.parse_measure(name): place for place, name in enumerate(NAMES)}
    qrels = read_qrels(files[0])
    for value in ir_measures.iter_calc(list(measures), qrels, read_run(files[1])):
        if value.query_id in topics:
            place = topics.index(value.query_id)
            expected[place, measures[value.measure]] = value.value
    np.testing.assert_allclose(values, expected, rtol=1e-14)


def test_values_come_in_the_order_of_the_names(files: tuple[Path, Path]) -> None:
    names = ["Judged@2", "nDCG@10", "P.10,5", "map", "AP"]
    singly = [topic_values(*files, name) for name in names]
    pd.testing.assert_frame_equal(topic_values(*files, names), pd.concat(singly, axis=1))


@pytest.mark.slow
def test_a_real_run(shared_data: Path) -> None:
    folder = shared_data / "robust03"
    names = ["AP(rel=2)@100", "nDCG@20", "Bpref(rel=2)", "RR", "R@1000"]
    files = folder / "qrels.txt", folder / "runs/rutcor03100.gz"
    frame = topic_values(*files, names)
    topics, values = list(frame.index), frame.to_numpy()
    measures = {ir_measures.parse_measure(name): place for place, name in enumerate(names)}
    expected = np.zeros_like(values)
    for value in ir_measures.iter_calc(list(measures), read_qrels(files[0]), read_run(files[1])):
        expected[topics.index(value.query_id), measures[value.measure]] = value.value
    np.testing.assert_allclose(values, expected, rtol=1e-14)
    assert len(topics) == 100


def test_depth_and_judged_only(files: tuple[Path, Path]) -> None:
    names = ["num_ret", "recip_rank", "Judged@3"]
    (cut,) = evaluations(*files, names, settings=EvaluationOptions(complete=True, depth=1))
    assert cut.column("num_ret").values == (1, 1, 0, 1)
    assert cut.column("recip_rank").values == (0.0, 1.0, 0.0, 0.0)
    (judged,) = evaluations(*files, names, settings=EvaluationOptions(judged_only=True))
    assert judged.column("num_ret").values == (2, 1, 1)
    assert judged.column("Judged@3").values[0] == 1.0


def test_ir_measures_names_keep_their_own_level(files: tuple[Path, Path]) -> None:
    (found,) = evaluations(*files, ["map", "AP", "AP(rel=2)"], settings=EvaluationOptions(level=2))
    assert [found.column(label).values[0] for label in ("map", "AP", "AP(rel=2)")] == [0.5, 0.25, 0.5]


def test_bad_names_come_together() -> None:
    with pytest.raises(InputError) as caught:
        parse_families(["map", "Foo", "P.0", "nDCG@0", "ndcg.x", "utility.1,1 rbp.p=x"])
    assert caught.value.value == ["Foo", "P.0", "nDCG@0", "ndcg.x", "utility.1,1", "rbp.p=x"]
    with pytest.raises(InputError, match=r"unknown measure: 'P\.0'; accepted: cutoffs of 1 or more"):
        parse_families("P.0")
    with pytest.raises(InputError, match="no parameters"):
        parse_families("map.3")
    with pytest.raises(InputError, match="no measures"):
        parse_families([])


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("map", ("map", "")),
        ("P.5,10", ("P", "5,10")),
        ("P_10", ("P", "10")),
        ("ndcg_cut_10", ("ndcg_cut", "10")),
        ("iprec_at_recall_0.10", ("iprec_at_recall", "0.10")),
        ("11pt_avg..25,.5", ("11pt_avg", ".25,.5")),
        ("set_P", ("set_P", "")),
        ("P@10", None),
        ("AP", None),
        ("P_x", None),
    ],
)
def test_split_name(name: str, split: tuple[str, str] | None) -> None:
    assert split_name(name) == split


def test_parameters_join_and_replace_the_default_ones() -> None:
    def labels(*names: str) -> list[str]:
        return [label for family in parse_families(names) for label in family.labels]

    assert labels("P.10,5", "P_7") == ["P_5", "P_7", "P_10"]
    assert "success_2" in labels("all_trec", "success.2")
    assert "success_1" not in labels("all_trec", "success.2")
    assert labels("nDCG@5", "map", "AP") == ["map", "nDCG@5", "AP"]
    assert labels("nDCG@5 AP(rel=2)@5,map,P_10") == ["map", "P_10", "nDCG@5", "AP(rel=2)@5"]
    assert labels("MRR@10 mrr@10 Mrr@5,11pt_avg") == ["11pt_avg", "RR@10", "RR@5"]
    assert labels("map", "map", "AP", "AP") == ["map", "AP"]
    with pytest.raises(ParameterError):
        families([("map", "5")])


def test_errors(files: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("77 Q0 a 1 1 t\n")
    with pytest.raises(InputError, match=r"no topic of the run has judgments: '77'.*such as 1"):
        list(evaluations(files[0], other))
    with pytest.raises(InputError, match="not a number of each topic: 'runid'"):
        topic_values(*files, ["map", "runid"])
    with pytest.raises(InputError, match="level: -1"):
        list(evaluations(*files, settings=EvaluationOptions(level=-1)))
    with pytest.raises(InputError, match="bad depth: 0"):
        list(evaluations(*files, settings=EvaluationOptions(depth=0)))


def test_runs_stream(files: tuple[Path, Path], tmp_path: Path) -> None:
    found = evaluations(files[0], [files[1], tmp_path / "absent"])
    assert next(found).tag == "t"
    with pytest.raises(InputError, match="absent"):
        next(found)
