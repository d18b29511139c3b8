"""Cells that are refused in one clear line: shapes, jobs and the line, each a regular expression."""

REFUSED: tuple[tuple[str, str, str], ...] = (
    ("(?!two-fields).*", "search-bm25f", "no document has this field, or a word in it: 'title'"),
    (
        "one-topic",
        "tune.*|(?!fuse-certify|fuse-engine-certify)fuse.*|python-fuse|python-choose",
        "cross-validation needs two topics",
    ),
    ("(?!one-topic).*", "deploy-fused-weaviate", "k = 59 fixed for RRF"),
    ("one-topic", "compare.*|python-evaluate", "a comparison needs two topics or more"),
    (
        "one-topic",
        "rerank-(train|train-custom|train-only|crossval.*|compare.*|trees|yetirank)",
        "no validation topic|needs two topics",
    ),
    ("(two|three)-(topics|documents)", "rerank-(crossval|compare).*", "no validation topic has a relevant"),
    ("one-document-runs", "rerank-(crossval|compare).*", "no validation topic has a relevant"),
    ("one-document-runs", "rerank-(trees|train-only)", "too few training rows for a split"),
    ("one-document-runs", "rerank-yetirank", "All train targets are equal"),
    ("odd-ids", "rerank-features", "cannot write a query: 'q#2'"),
    ("all-judged", "judge", "all documents that count are judged"),
)
