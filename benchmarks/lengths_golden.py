"""Write tests/index/lucene_lengths.json: what Lucene makes of document lengths.

Of all lengths from 0 to 100,000 it holds those at which the kept length changes, as (length, kept
length), and in the same form the powers of two with their neighbours.

    LUCENE_PYTHON benchmarks/lengths_golden.py
"""

from __future__ import annotations

import json
from pathlib import Path

from lmtune.index.lucene.java import start

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "index" / "lucene_lengths.json"
EVERY = 100_000


def main() -> None:
    """Ask Lucene for every length."""
    small_float = start().autoclass("org.apache.lucene.util.SmallFloat")

    def kept(length: int) -> int:
        return int(small_float.byte4ToInt(small_float.intToByte4(length)))

    steps: list[tuple[int, int]] = []
    for length in range(EVERY + 1):
        value = kept(length)
        if not steps or steps[-1][1] != value:
            steps.append((length, value))
    near = {2**i + d for i in range(32) for d in (-1, 0, 1)}
    powers = [(length, kept(length)) for length in sorted(near) if 0 <= length < 2**31]
    golden = {"every length up to": EVERY, "steps": steps, "powers of two": powers}
    GOLDEN.write_text(json.dumps(golden) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
