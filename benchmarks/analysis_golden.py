"""Update Anserini's terms of each text in tests/index/anserini_analysis.jsonl.

To add a text, append a line ``{"text": "..."}`` to the file. The texts include sentences in many scripts,
tokens near the maximum length, and random texts. Needs a Python with pyserini::

    LUCENE_PYTHON benchmarks/analysis_golden.py

The reference is the behaviour of pyserini's embedded Lucene, not its documentation.
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
