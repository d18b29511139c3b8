"""Write tests/index/lucene_lengths.json: the lengths that Lucene stores for document lengths.

The file has pairs (length, stored length): for all lengths from 0 to 100,000 at which the stored length
changes, and for the powers of two and their neighbours.

    LUCENE_PYTHON benchmarks/lengths_golden.py
"""

from __future__ import annotations

import json
from pathlib import Path

from lmtune.index.lucene.java import start

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "index" / "lucene_lengths.json"
EVERY = 100_000


def main() -> None:
    """Encode and decode every length with Lucene."""
    small_float = start().autoclass("org.apache.lucene.util.SmallFloat")

    def stored(length: int) -> int:
        return int(small_float.byte4ToInt(small_float.intToByte4(length)))

    steps: list[tuple[int, int]] = []
    for length in range(EVERY + 1):
        value = stored(length)
        if not steps or steps[-1][1] != value:
            steps.append((length, value))
    near = {2**i + d for i in range(32) for d in (-1, 0, 1)}
    powers = [(length, stored(length)) for length in sorted(near) if 0 <= length < 2**31]
    golden = {"every length up to": EVERY, "steps": steps, "powers of two": powers}
    GOLDEN.write_text(json.dumps(golden) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
