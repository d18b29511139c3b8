"""A collection as a folder of files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path


def write_folder(
    folder: Path,
    documents: Mapping[str, str],
    topics: Mapping[int, str] | Mapping[str, str],
    gains: Iterable[tuple[int | str, str, int]],
) -> Path:
    """Write documents' texts, topics' texts, and judgments as (topic, docno, gain); return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"id": docno, "contents": text}) for docno, text in documents.items())
    (folder / "docs.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "topics.tsv").write_text("".join(f"{topic}\t{text}\n" for topic, text in topics.items()))
    (folder / "qrels.txt").write_text("".join(f"{topic} 0 {docno} {gain}\n" for topic, docno, gain in gains))
    return folder
