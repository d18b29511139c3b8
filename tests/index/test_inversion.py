"""Runs: sorted, of consecutive documents, and as small as the memory budget asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmtune.index.analysis import Analyzer
from lmtune.index.inversion import Inverter, smallest_type
from lmtune.io.documents import Document

DOCUMENTS = [Document(f"d{at}", f"ox w{at % 3} the ox w{at}") for at in range(200)]


def test_a_run_holds_its_documents_postings(tmp_path: Path) -> None:
    inverter = Inverter("run", {tmp_path: Analyzer()}, 1 << 20)
    inverter.add(DOCUMENTS[:3])
    [[run]] = inverter.finish()
    assert run.strings("docnos") == [b"d0", b"d1", b"d2"]
    assert run.strings("terms") == [b"ox", b"w0", b"w1", b"w2"]
    assert run.read("lengths").tolist() == [4, 4, 4]
    assert run.read("dfs").tolist() == [3, 1, 1, 1]
    assert run.read("cfs").tolist() == [6, 2, 2, 2]
    assert run.read("docs").tolist() == [0, 1, 2, 0, 1, 2]
    assert run.read("tfs").tolist() == [2, 2, 2, 2, 2, 2]
    assert run.read("docs", 2, 4).tolist() == [2, 0]
    assert inverter.finish() == [[]]


@pytest.mark.parametrize("tokens", [1, 50, 300])
def test_runs_keep_to_the_budget(tmp_path: Path, tokens: int) -> None:
    # Three quarters of the budget are for tokens, at 40 bytes each; a docno counts as two.
    inverter = Inverter("run", {tmp_path: Analyzer()}, tokens * 40 * 4 // 3 + 4)
    inverter.add(DOCUMENTS)
    [runs] = inverter.finish()
    docnos = [docno.decode() for run in runs for docno in run.strings("docnos")]
    assert docnos == [document.docno for document in DOCUMENTS]
    weights = [run.sections["lengths"].size * (5 + 2) for run in runs]
    assert all(tokens <= weight < tokens + 7 for weight in weights[:-1])
    assert len(list(tmp_path.iterdir())) == len(runs) == -(-200 // -(-tokens // 7))


def test_smallest_types() -> None:
    kinds = [smallest_type(most) for most in (0, 255, 256, 65535, 65536)]
    assert kinds == ["|u1", "|u1", "<u2", "<u2", "<i4"]
