"""Lists of texts with something to learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lmtune.rerank.settings import TextOptions
from lmtune.rerank.text.training import TextLists

LICENSE = Path(__file__).resolve().parents[1] / "LICENSE"


def made_texts(seed: int, *, queries: int = 8, options: TextOptions | None = None) -> TextLists:
    """Make lists of 2 to 6 documents of words of the licence; those with one word are relevant."""
    rng = np.random.default_rng(seed)
    words = np.array(sorted({word for word in LICENSE.read_text(encoding="utf-8").split() if word.isalpha()}))
    topics: dict[str, str] = {}
    texts: dict[str, str] = {}
    run: dict[str, dict[str, float]] = {}
    for q in range(queries):
        topics[f"{seed}-{q}"] = f"what is {rng.choice(words)}"
        run[f"{seed}-{q}"] = labels = {}
        for d in range(rng.integers(2, 7)):
            own = rng.choice(words, rng.integers(3, 30)).tolist()
            labels[f"{seed}-{q}-{d}"] = float(d == 0)
            texts[f"{seed}-{q}-{d}"] = " ".join(["reranking", *own] if d == 0 else own)
    return TextLists.of(topics, run, texts, options)
