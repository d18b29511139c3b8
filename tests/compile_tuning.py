"""Compile the kernels of ``lmtune tune`` for two-stage smoothing, and cache them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.io.documents import Document, ListDocuments
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.run import run_experiment


def compile_kernels() -> None:
    """Tune on three documents, so that the kernels of two-stage smoothing are compiled and kept."""
    texts = {"a": "zebra", "b": "zebra crossing", "c": "zebra zebra stripes"}
    documents = ListDocuments("zebras", [Document(*pair) for pair in texts.items()])
    with TemporaryDirectory() as folder:
        index = build_index(documents, Path(folder, "index"), Analyzer())
        pool = CandidatePool.build(index, {"1": "zebra crossing"}, {"1": {"a": 0, "b": 1, "c": 0}})
        run_experiment(pool, [Fold(("1",), ("1",))], Plan(grid=(2, 2), final=False))


if __name__ == "__main__":
    compile_kernels()
