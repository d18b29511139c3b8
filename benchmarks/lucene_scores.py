"""Score queries by Lucene's LMDirichletSimilarity, through a plain IndexSearcher.

Reads JSON from standard input: ``documents`` and ``queries`` (texts by name), ``mus`` and
``hits``. Writes JSON: for each mu, for each query, pairs of document and score as Lucene has them.
Text goes through Anserini's default analysis; a query term that is repeated is boosted by its
count, as Anserini does. The index is in memory, in segments of a few hundred documents.

    LUCENE_PYTHON benchmarks/lucene_scores.py < request.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

from lmtune.lucene.java import start

SEGMENT = 300


def main() -> None:
    """Index, search, print."""
    request = json.load(sys.stdin)
    java = start().autoclass
    analyzer = java("io.anserini.analysis.DefaultEnglishAnalyzer").newStemmingInstance("porter")
    reader, names = _index(java, analyzer, request["documents"])
    searcher = java("org.apache.lucene.search.IndexSearcher")(reader.getContext())
    similarity = java("org.apache.lucene.search.similarities.LMDirichletSimilarity")
    generator = java("io.anserini.search.query.BagOfWordsQueryGenerator")()
    queries = {
        name: generator.buildQuery("contents", analyzer, text)
        for name, text in request["queries"].items()
    }
    found: list[dict[str, list[tuple[str, float]]]] = []
    for mu in request["mus"]:
        searcher.setSimilarity(similarity(mu))
        found.append({})
        for name, query in queries.items():
            hits = searcher.search(query, request["hits"]).scoreDocs
            found[-1][name] = [(names[hit.doc], hit.score) for hit in hits]
    json.dump(found, sys.stdout)


def _index(java: Any, analyzer: Any, documents: dict[str, str]) -> tuple[Any, list[str]]:
    """Return a reader of the documents, and their names by Lucene's numbers."""
    directory = java("org.apache.lucene.store.ByteBuffersDirectory")()
    config = java("org.apache.lucene.index.IndexWriterConfig")(analyzer)
    config.setMergePolicy(java("org.apache.lucene.index.NoMergePolicy").INSTANCE)
    writer = java("org.apache.lucene.index.IndexWriter")(directory, config)
    new_document = java("org.apache.lucene.document.Document")
    text_field = java("org.apache.lucene.document.TextField")
    store = java("org.apache.lucene.document.Field$Store")
    for number, text in enumerate(documents.values(), 1):
        document = new_document()
        document.add(text_field("contents", text, store.NO))
        writer.addDocument(document)
        if number % SEGMENT == 0:
            writer.commit()
    writer.close()
    # Without merges, numbers follow the order of addition.
    return java("org.apache.lucene.index.DirectoryReader").open(directory), list(documents)


if __name__ == "__main__":
    main()
