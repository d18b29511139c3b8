"""Write Anserini's terms of each text in tests/index/anserini_analysis.jsonl.

The file lists the texts; add a line ``{"text": "..."}`` for another one. Texts include sentences of many
scripts, tokens near the longest length, and random ones. Needs a Python with pyserini::

    LUCENE_PYTHON benchmarks/analysis_golden.py

Its embedded Lucene decides what is right, not its documentation.
"""

from __future__ import annotations

import json
from pathlib import Path

from lucene_oracle import anserini

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "index" / "anserini_analysis.jsonl"


def main() -> None:
    analyzers = {name: anserini(name) for name in ("porter", "krovetz", "none")}
    lines = []
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        text = json.loads(line)["text"]
        record: dict[str, str | list[str]] = {"text": text}
        found = {name: analyze(text) for name, analyze in analyzers.items()}
        record["none"] = found["none"]
        record.update({name: terms for name, terms in found.items() if terms != found["none"]})
        lines.append(json.dumps(record) + "\n")
    GOLDEN.write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} texts, {GOLDEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
