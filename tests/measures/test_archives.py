"""Archives of real runs: their lines are those that trec_eval printed for the archives' makers."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import ir_measures
import pytest
import zstandard
from support import COLLECTIONS

from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.measures.evaluate import LEVELS
from lmtune.measures.from_files import evaluate, evaluations
from lmtune.report.run_tables import trec_eval_text

EVERY = 12 if COLLECTIONS <= 100 else 1
"""`make attack` takes all."""


def text(path: Path) -> str:
    with path.open("rb") as stream:
        return zstandard.ZstdDecompressor().stream_reader(stream).read().decode()


def differently_rounded(relevant: int) -> set[str]:
    """Return the levels of recall at which a fused multiply-add asks for another number of documents.

    trec_eval takes the integer part of ``level * relevant + 0.9``. Compiled to one instruction, as on other
    processors than x86-64, this is rounded once, not twice; the archive's lines were made so.
    """
    return {
        f"iprec_at_recall_{level:.2f}"
        for level in LEVELS.tolist()
        if int(level * relevant + 0.9) != int(float(Fraction(level) * relevant + Fraction(0.9)))
    }


def test_every_line_of_dl_2021_is_trec_evals(shared_data: Path) -> None:
    home = shared_data / "trec_dl21_runs"
    qrels = read_qrels(home / "qrels.nist.txt.zst")
    relevant = {topic: sum(gain > 0 for gain in own.values()) for topic, own in qrels.items()}
    excused = {(name, topic) for topic, count in relevant.items() for name in differently_rounded(count)}
    excused |= {(name, "all") for name, _ in excused}
    assert len(excused) == 5  # of three topics and the means of two levels
    files = sorted((home / "treceval").iterdir())[::EVERY]
    assert len(files) >= 6
    compared = 0
    for file in files:
        run = home / "runs" / file.name.replace(".treceval.", ".run.")
        [evaluation] = evaluations(home / "qrels.nist.txt.zst", [run], ["official"])
        own = [tuple(line.split()) for line in trec_eval_text(evaluation, per_topic=True).splitlines()]
        theirs = [tuple(line.split()) for line in text(file).splitlines()]
        assert [line[:2] for line in own] == [line[:2] for line in theirs]
        assert {line[:2] for line in set(own) ^ set(theirs)} <= excused, run.name
        compared += len(own)
    assert compared > 8000


@pytest.mark.slow
@pytest.mark.parametrize("archive", ["robust04_runs", "trec_covid_round1"])
def test_runs_of_an_archive_are_measured_as_ir_measures_does(shared_data: Path, archive: str) -> None:
    home = shared_data / archive
    files = sorted((home / "runs").iterdir())[:: 3 * EVERY]
    table = evaluate(home / "qrels.txt.zst", files, "AP nDCG@10")
    qrels = read_qrels(home / "qrels.txt.zst")
    for (_, own), file in zip(table.iterrows(), files, strict=True):
        found = ir_measures.calc_aggregate([ir_measures.AP, ir_measures.nDCG @ 10], qrels, read_run(file))
        for measure, mean in found.items():
            assert own[str(measure)] == pytest.approx(mean, abs=1e-9)
