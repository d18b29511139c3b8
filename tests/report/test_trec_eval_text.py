"""Our text against trec_eval's, byte for byte: on files made here, and on trec_eval's own tests.

Of those not covered, because the options that make them are not offered: ``out.test.aqZ`` (z
scores, -Z), ``out.test.prefs`` and ``out.test.qrels_prefs`` (preference judgments, -R prefs and
-R qrels_prefs), ``out.test.qrels_jg`` (several judgment groups, -R qrels_jg).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_trec_eval import COMMANDS, HOME, OF_10, commands

from lmtune.cli.main import run
from lmtune.measures.from_files import EvaluationOptions, evaluations
from lmtune.measures.trec_names import VERSIONS
from lmtune.report.run_tables import trec_eval_text

NAMED = (
    "iprec_at_recall..10,.20,.25,.75,.50 P.5,7,3 recall.20,2000 Rprec_mult.5.0,0.2,0.35 utility.2,-1,0,0 "
    "11pt_avg..25,.5,.75 ndcg.1=3,2=9,4=4.5 ndcg_cut.10,20,23.4 success.2,5,20"
).split()
PLAIN, COMPLETE = EvaluationOptions(), EvaluationOptions(complete=True)
COVERED: dict[str, tuple[str, str, list[str], bool, EvaluationOptions]] = {
    # expected: (judgments, run, measures, -q, settings)
    "out.test": ("qrels.test", "results.test", ["official"], False, PLAIN),
    "out.test.a": ("qrels.test", "results.test", ["all_trec"], False, PLAIN),
    "out.test.aq": ("qrels.test", "results.test", ["all_trec"], True, PLAIN),
    "out.test.aqc": ("qrels.test", "results.trunc", ["all_trec"], True, COMPLETE),
    "out.test.aqcM": ("qrels.test", "results.trunc", ["all_trec"], True, replace(COMPLETE, depth=100)),
    "out.test.aql": (
        "qrels.rel_level",
        "results.test",
        ["all_trec", "relstring.20"],
        True,
        EvaluationOptions(level=2),
    ),
    "out.test.meas_params": ("qrels.test", "results.test", NAMED, True, PLAIN),
}
NOT_COVERED = {"out.test.aqZ", "out.test.prefs", "out.test.qrels_prefs", "out.test.qrels_jg"}
ROBUST03 = (
    "InexpC2 NLPR03vb10 UAmsT03RDesc UIUC03Rd1 aplrob03a fub03IeOLKe3 rutcor03100 uic0301 uwmtCR0"
).split()


@pytest.mark.parametrize(("version", "output", "arguments"), commands(), ids=lambda value: str(value)[:40])
def test_made_files(
    version: str,
    output: str,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(HOME)
    assert run(["evaluate", "--trec-eval", version, *arguments]) == 0
    assert capsys.readouterr().out.encode() == (HOME / output).read_bytes()


def test_every_made_output_is_compared() -> None:
    assert {path.name for path in HOME.glob("*.txt")} == {output for _, output, _ in commands()}
    assert {output.split(".")[0] for _, output, _ in commands()} == {*COMMANDS, *OF_10}


def text(folder: Path, name: str, version: str) -> str:
    qrels, run, measures, per_topic, settings = COVERED[name]
    settings = replace(settings, version=version)
    (found,) = evaluations(folder / qrels, [folder / run], measures, settings=settings)
    return trec_eval_text(found, per_topic=per_topic)


def test_every_expected_output_is_accounted_for(shared_data: Path) -> None:
    for version, more in (("9.0.8", set()), ("10.0", {"out.comment.test"})):
        present = {path.name for path in (shared_data / f"trec_eval/v{version}").glob("out.*")}
        assert present == COVERED.keys() | NOT_COVERED | more
    outputs = {path.name for path in (shared_data / "robust03/trec_eval_9.0.8").iterdir()}
    assert outputs == {
        *(f"{name}.all_trec.txt" for name in ROBUST03),
        *(f"{name}.official_ndcg.q.txt" for name in ("NLPR03vb10", "uic0301")),
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", COVERED)
def test_trec_evals_own_tests(name: str, version: str, shared_data: Path) -> None:
    folder = shared_data / f"trec_eval/v{version}"
    assert text(folder, name, version).encode() == (folder / name).read_bytes()


@pytest.mark.first_case
@pytest.mark.parametrize("name", ROBUST03)
def test_robust03(name: str, shared_data: Path) -> None:
    folder = shared_data / "robust03"
    (found,) = evaluations(folder / "qrels.txt", folder / f"runs/{name}.gz", "all_trec")
    expected = (folder / f"trec_eval_9.0.8/{name}.all_trec.txt").read_bytes()
    assert trec_eval_text(found).encode() == expected


@pytest.mark.parametrize("name", ["NLPR03vb10", "uic0301"])
def test_robust03_by_topic(name: str, shared_data: Path) -> None:
    folder = shared_data / "robust03"
    measures = ["ndcg_cut", "official", "ndcg"]
    (found,) = evaluations(folder / "qrels.txt", folder / f"runs/{name}.gz", measures)
    expected = (folder / f"trec_eval_9.0.8/{name}.official_ndcg.q.txt").read_bytes()
    assert trec_eval_text(found, per_topic=True).encode() == expected


def test_docnos_with_number_signs(shared_data: Path) -> None:
    folder = shared_data / "trec_eval/v10.0"
    files = folder / "qrels.comment.test", folder / "results.comment.test"
    (found,) = evaluations(*files, settings=EvaluationOptions(version="10.0"))
    assert trec_eval_text(found).encode() == (folder / "out.comment.test").read_bytes()


def test_judgments_with_comments(shared_data: Path) -> None:
    folder = shared_data / "trec_eval/v10.0"
    plain, commented = (
        list(evaluations(folder / name, folder / "results.test", "all_trec"))
        for name in ("qrels.test", "qrels.test.with-comments")
    )
    assert plain == commented


def test_no_summary(shared_data: Path) -> None:
    folder = shared_data / "trec_eval/v9.0.8"
    (found,) = evaluations(folder / "qrels.test", folder / "results.test", ["all_trec"])
    whole = trec_eval_text(found, per_topic=True)
    assert trec_eval_text(found, summary=False) == ""
    topics = trec_eval_text(found, per_topic=True, summary=False)
    assert topics == "".join(line for line in whole.splitlines(True) if "\tall\t" not in line)
