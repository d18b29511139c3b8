"""Measures of ir_measures, ERR and diversity, against ir_measures itself, pyndeval and their formulas."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
import zstandard
from numpy.random import Generator

import lmtune
from lmtune.errors import InputError
from lmtune.measures import parse_measure, topic_values
from lmtune.measures.from_files import evaluations
from lmtune.tuning.experiment.plan import Plan

Gains = dict[str, dict[str, int]]
Scores = dict[str, dict[str, float]]
TOPICS = range(1, 6)
DOCNOS = [f"d{number}" for number in range(12)]
TOY = [("a", "d1"), ("a", "d2"), ("b", "d3"), ("c", "d4")]
"""Relevant (subtopic, docno) pairs of the table's toy: three subtopics."""
DIVERSE = "alpha_nDCG@5 alpha_DCG@20 ERR_IA@10 nERR_IA@5 StRecall@5 P_IA@10 AP_IA NRBP nNRBP".split()


def drawn(rng: Generator, low: int = -1) -> tuple[Gains, Scores]:
    """Draw judgments up to 4 and a run without ties that has all of their topics."""
    qrels = {
        str(topic): {docno: int(rng.integers(low, 5)) for docno in DOCNOS if rng.random() < 0.6} | {"d0": 1}
        for topic in TOPICS
    }
    scores = {topic: dict(zip(DOCNOS, rng.permutation(12).astype(float), strict=True)) for topic in qrels}
    return qrels, scores


def theirs(name: str, qrels: Any, run: Scores) -> dict[str, float]:
    """Return ir_measures' values by topic."""
    measure = ir_measures.parse_measure(name)
    return {value.query_id: value.value for value in ir_measures.iter_calc([measure], qrels, run)}


def ours(name: str, qrels: Any, run: Any) -> dict[str, float]:
    """Return lmtune's values by topic."""
    return {str(topic): value for topic, value in topic_values(qrels, run, [name])[name].items()}


@pytest.mark.parametrize(
    "name", ["Compat", "Compat(p=0.8)", "SetP", "SetF(beta=2.0)", "IPrec@0.5", "Rprec(rel=2)"]
)
def test_values_are_those_of_ir_measures(name: str) -> None:
    qrels, run = drawn(np.random.default_rng(0))
    qrels["1"]["unretrieved"] = 4
    assert ours(name, qrels, run) == pytest.approx(theirs(name, qrels, run), abs=1e-12)


@pytest.mark.parametrize("name", ["NumQ", "NumRel", "NumRet", "NumRet(rel=1)", "NumRelRet"])
def test_counts_are_summed(name: str) -> None:
    qrels, run = drawn(np.random.default_rng(1))
    measure = ir_measures.parse_measure(name)
    [evaluated] = evaluations(qrels, run, [name])
    assert evaluated.columns[0].mean == ir_measures.calc_aggregate([measure], qrels, run)[measure]
    assert isinstance(evaluated.columns[0].mean, int)


@pytest.mark.parametrize("name", ["SetP", "IPrec@0.1", "P(judged_only=True)@5", "Rprec(rel=2)"])
def test_topics_with_negative_gains_alone_count_0(name: str) -> None:
    qrels = {"1": {"a": 1, "b": -2}, "2": {"x": -2}}
    run = {"1": {"a": 2.0, "b": 1.0}, "2": {"x": 1.0}}
    unlike = {"1": {"a": 1, "b": -1}, "2": {"x": -1}}  # pytrec_eval takes these
    assert ours(name, qrels, run) == pytest.approx(theirs(name, unlike, run))


def test_a_gain_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(InputError, match="gain is too large for SetP: 900000000"):
        ours("SetP", {"1": {"a": 900_000_000}}, {"1": {"a": 1.0}})


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval is a perl program")
@pytest.mark.parametrize("cutoff", [1, 5, 20])
def test_err_is_that_of_gdeval(cutoff: int) -> None:
    qrels, run = drawn(np.random.default_rng(cutoff))
    name = f"ERR@{cutoff}"
    assert ours(name, qrels, run) == pytest.approx(theirs(name, qrels, run), abs=5.1e-6)  # five digits


def test_err_is_its_formula_for_any_topic_id_and_gain() -> None:
    rng = np.random.default_rng(2)
    qrels, run = drawn(rng)
    qrels = {f"PLAIN-{topic}": judged for topic, judged in qrels.items()}
    run = {f"PLAIN-{topic}": scores for topic, scores in run.items()}
    qrels["PLAIN-1"]["d3"] = 7
    found = ours("ERR@5", qrels, run)
    for topic, judged in qrels.items():
        ranked = sorted(run[topic], key=run[topic].__getitem__, reverse=True)[:5]
        chances = [(2 ** max(judged.get(docno, 0), 0) - 1) / 2**7 for docno in ranked]
        # All ways in which a user is satisfied at one rank, and at none before.
        value = sum(
            chance * np.prod([1 - before for before in chances[:rank]]) / (rank + 1)
            for rank, chance in enumerate(chances)
        )
        assert found[topic] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("name", ["ERR(rel=2)@5", "ERR(dcg='exp-log2')@5"])
def test_err_has_no_settings(name: str) -> None:
    with pytest.raises(InputError):
        parse_measure(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("INST", r"needs max_rel: 'INST'; accepted: such as INST\(max_rel=3\)"),
        ("SDCG@5", r"needs max_rel: 'SDCG@5'; accepted: such as SDCG\(max_rel=3\)@5"),
        ("BPM", r"needs cutoff and max_rel"),
        ("alpha_nDCG", r"needs cutoff: 'alpha_nDCG'; accepted: such as alpha_nDCG@10"),
        ("AP(foo=2)", r"parameters: cutoff, rel, judged_only"),
        ("NumRel(rel=2)", "does not compute the measure with these parameters"),
    ],
)
def test_missing_parameters_are_named(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_measure(name)


@pytest.mark.parametrize(
    ("provider", "name", "message"),
    [
        ("pyndeval", "alpha_nDCG@5", r"pip install -c constraints\.txt '\.\[diversity\]'"),
        ("cwl_eval", "INST(max_rel=2)", "needs cwl-eval, which is not installed"),
    ],
)
def test_missing_packages(provider: str, name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ir_measures.providers.registry[provider], "_is_available", False)
    with pytest.raises(InputError, match=message):
        lmtune.evaluate({"1": {"a": 1}}, {"1": {"a": 1.0}}, [name])


def write_toy(folder: Path) -> tuple[Path, Path]:
    """Write judgments of three subtopics, one document under two of them, and a run."""
    qrels, run = folder / "qrels", folder / "run"
    pairs = [*TOY, ("b", "d1")]
    qrels.write_text("".join(f"1 {subtopic} {docno} 1\n" for subtopic, docno in pairs) + "1 a d9 0\n")
    ranked = ["d1", "d2", "d9", "d3", "d4"]
    run.write_text("".join(f"1 Q0 {docno} {rank} {9 - rank} r\n" for rank, docno in enumerate(ranked, 1)))
    return qrels, run


@pytest.fixture
def pyndeval() -> None:
    """Skip where pyndeval is not installed."""
    pytest.importorskip("pyndeval", reason="pyndeval is not installed")


@pytest.mark.usefixtures("pyndeval")
def test_diversity_measures_are_their_formulas(tmp_path: Path) -> None:
    qrels, run = write_toy(tmp_path)
    log = np.log2
    # d1 brings a and b, d2 a again (half), d3 b again, d4 c; best: d1, d4, then halves.
    gained = 2 + 0.5 / log(3) + 0.5 / log(5) + 1 / log(6)
    best = 2 + 1 / log(3) + 0.5 / log(4) + 0.5 / log(5)
    assert ours("alpha_nDCG@5", qrels, run)["1"] == pytest.approx(gained / best, abs=1e-6)
    assert ours("StRecall@2", qrels, run)["1"] == pytest.approx(2 / 3, abs=1e-6)
    assert ours("P_IA@5", qrels, run)["1"] == pytest.approx(5 / 15, abs=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("pyndeval")
@pytest.mark.parametrize("name", DIVERSE)
def test_diversity_of_trec_web_2014_is_that_of_pyndeval(name: str, shared_data: Path) -> None:
    packed = shared_data / "web_diversity" / "qrels.web.251-300.ndeval.txt.zst"
    text = zstandard.ZstdDecompressor().stream_reader(packed.open("rb")).read().decode()
    rows = [ir_measures.Qrel(t, d, int(g), s) for t, s, d, g in map(str.split, text.splitlines())]
    rng = np.random.default_rng(0)
    run: Scores = {}
    for row in rows:
        if rng.random() < 0.3 + 0.3 * (row.relevance > 0):
            run.setdefault(row.query_id, {})[row.doc_id] = float(rng.integers(1, 10**9)) + row.relevance
    found = ours(name, packed, run)
    expected = theirs(name, rows, run)
    assert len(expected) == 50
    assert found == pytest.approx(expected, abs=1e-12)
    assert 0 < np.mean(list(expected.values())) < 20


@pytest.mark.usefixtures("pyndeval")
def test_diversity_measures_need_subtopics(tmp_path: Path) -> None:
    _, run = write_toy(tmp_path)
    plain = tmp_path / "plain"
    plain.write_text("1 0 d1 1\n1 0 d2 0\n")
    for qrels in (plain, {"1": {"d1": 1}}):
        with pytest.raises(InputError, match="no subtopics for alpha_nDCG@5"):
            ours("alpha_nDCG@5", qrels, run)
    with pytest.raises(InputError, match="alpha_nDCG@5"):
        Plan(measures=(parse_measure("alpha_nDCG@5"),))


@pytest.mark.usefixtures("pyndeval")
def test_diversity_measures_stand_by_themselves(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="alpha_nDCG@5 reads judgments of subtopics, AP does not"):
        lmtune.evaluate(*write_toy(tmp_path), ["AP", "alpha_nDCG@5"])


@pytest.mark.usefixtures("pyndeval")
def test_runs_are_compared_by_diversity(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    qrels, runs = tmp_path / "qrels", [tmp_path / "one", tmp_path / "two"]
    pairs = [*TOY, ("b", "d1")]
    qrels.write_text("".join(f"{t} {subtopic} {docno} 1\n" for t in range(4) for subtopic, docno in pairs))
    for path in runs:
        lines = [f"{t} Q0 d{n} 1 {rng.random()} {path.name}\n" for t in range(4) for n in range(1, 10)]
        path.write_text("".join(lines))
    [contrast] = lmtune.compare_runs(qrels, runs, ["alpha_nDCG@5"]).contrasts
    one, two = (ours("alpha_nDCG@5", qrels, path) for path in runs)
    assert contrast.difference == pytest.approx(np.mean([two[t] - one[t] for t in one]), abs=1e-12)
    assert contrast.difference != 0


def test_judgments_of_subtopics_are_refused_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"judged twice.*read subtopics from column 2"):
        lmtune.evaluate(*write_toy(tmp_path), ["AP"])


_PARAMETERS = {
    "cutoff": 3, "rel": 2, "judged_only": True, "T": 2.0, "min_rel": 0, "max_rel": 4, "p": 0.7,
    "normalize": False, "alpha": 0.3, "beta": 0.5, "recall": 0.3, "dcg": "exp-log2", "relative": True,
}  # fmt: skip


def _forms(name: str) -> list[Any]:
    """Return a measure of the registry with its required parameters, and with each other parameter too."""
    measure = ir_measures.measures.registry[name]
    known = [key for key in measure.SUPPORTED_PARAMS if key in _PARAMETERS and key not in measure.params]
    needed = {key: _PARAMETERS[key] for key in known if measure.SUPPORTED_PARAMS[key].required}
    first = measure(**needed) if needed else measure
    return [first, *(first(**{key: _PARAMETERS[key]}) for key in known if key not in needed)]


@pytest.mark.parametrize("name", sorted(ir_measures.measures.registry))
def test_every_measure_of_the_registry_is_computed_or_refused(name: str) -> None:
    qrels, run = drawn(np.random.default_rng(3), low=0)
    pipeline: Any = ir_measures.DefaultPipeline
    for measure in _forms(name):
        written = (
            str(measure).replace(measure.NAME, name, 1)
            if name not in ("SetRelP", "NumRelRet")
            else str(measure)
        )
        valid = measure.NAME != "SDCG" or "dcg" not in measure.params  # SDCG has a list of other values
        supported = valid and pipeline.supports(measure)
        try:
            [evaluation] = evaluations(qrels, run, [written])
        except InputError as error:
            reasons = (
                "subtopics",
                "needs cutoff",
                "needs cwl-eval",
                "needs the 'diversity' extra",
                "parameters",
            )
            assert any(reason in str(error) for reason in reasons), error
            assert not supported or "subtopics" in str(error) or "needs cutoff" in str(error)
            continue
        if supported:
            [column] = evaluation.columns
            expected = {value.query_id: value.value for value in ir_measures.iter_calc([measure], qrels, run)}
            values = [expected.get(topic, 0.0) for topic in evaluation.topics]
            rounding = 5e-6 if measure.NAME == "ERR" else 1e-12  # gdeval prints five digits
            assert list(column.values) == pytest.approx(values, abs=rounding)
