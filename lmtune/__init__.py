"""Tune query-likelihood smoothing on TREC-style collections, and measure it as trec_eval does.

The public names below are imported when first used, so that ``import lmtune`` is immediate.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmtune.candidates.pool import CandidatePool
    from lmtune.candidates.regions import Regions
    from lmtune.candidates.skyband import skyband
    from lmtune.candidates.storage import stored_pool
    from lmtune.datasets.dataset import Dataset
    from lmtune.datasets.loading import load
    from lmtune.errors import InputError, MissingExtraError
    from lmtune.formats.runs import read_run, write_run
    from lmtune.indexing.analysis import Analyzer
    from lmtune.indexing.builder import build_index
    from lmtune.indexing.cache import index_for
    from lmtune.indexing.columnar import ColumnarIndex
    from lmtune.indexing.lucene.index import LuceneIndex, build_lucene_index
    from lmtune.measures.evaluate import measure
    from lmtune.measures.from_files import evaluate, topic_values
    from lmtune.measures.significance.comparison import compare
    from lmtune.models.ranking import rank
    from lmtune.models.two_stage import score, score_and_gradient
    from lmtune.tuning.certificate.optimum import CertifiedOptimum
    from lmtune.tuning.coordinate_ascent import CoordinateAscent
    from lmtune.tuning.experiment import run_experiment
    from lmtune.tuning.folds import cross_validation
    from lmtune.tuning.grid import GridSearch
    from lmtune.tuning.plan import Plan
    from lmtune.tuning.ranknet import RankNetTuner
    from lmtune.tuning.space import ParameterSpace
    from lmtune.tuning.spsa import FDSA, SPSA

_HOMES = {
    "CertifiedOptimum": "tuning.certificate.optimum",
    "write_run": "formats.runs",
    "read_run": "formats.runs",
    "cross_validation": "tuning.folds",
    "run_experiment": "tuning.experiment",
    "Plan": "tuning.plan",
    "Analyzer": "indexing.analysis",
    "CandidatePool": "candidates.pool",
    "ColumnarIndex": "indexing.columnar",
    "CoordinateAscent": "tuning.coordinate_ascent",
    "Dataset": "datasets.dataset",
    "FDSA": "tuning.spsa",
    "GridSearch": "tuning.grid",
    "InputError": "errors",
    "LuceneIndex": "indexing.lucene.index",
    "MissingExtraError": "errors",
    "ParameterSpace": "tuning.space",
    "SPSA": "tuning.spsa",
    "RankNetTuner": "tuning.ranknet",
    "Regions": "candidates.regions",
    "build_index": "indexing.builder",
    "build_lucene_index": "indexing.lucene.index",
    "evaluate": "measures.from_files",
    "compare": "measures.significance.comparison",
    "index_for": "indexing.cache",
    "load": "datasets.loading",
    "measure": "measures.evaluate",
    "rank": "models.ranking",
    "score": "models.two_stage",
    "score_and_gradient": "models.two_stage",
    "skyband": "candidates.skyband",
    "stored_pool": "candidates.storage",
    "topic_values": "measures.from_files",
}

__all__ = [
    "FDSA",
    "SPSA",
    "Analyzer",
    "CandidatePool",
    "CertifiedOptimum",
    "ColumnarIndex",
    "CoordinateAscent",
    "Dataset",
    "GridSearch",
    "InputError",
    "LuceneIndex",
    "MissingExtraError",
    "ParameterSpace",
    "Plan",
    "RankNetTuner",
    "Regions",
    "build_index",
    "build_lucene_index",
    "compare",
    "cross_validation",
    "evaluate",
    "index_for",
    "load",
    "measure",
    "rank",
    "read_run",
    "run_experiment",
    "score",
    "score_and_gradient",
    "skyband",
    "stored_pool",
    "topic_values",
    "write_run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lmtune' has no attribute {name!r}")
    return getattr(importlib.import_module(f"lmtune.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
