"""A collection in which stemming helps, so that a choice has something to find."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

FORMS = ("", "s", "ing")


def write_collection(folder: Path, *, documents: int = 60, topics: int = 12, seed: int = 3) -> Path:
    """Write documents about a topic's stems in other forms than its query's, among others."""
    rng = np.random.default_rng(seed)
    stems = [f"bord{chr(97 + i)}n" for i in range(topics)]
    lines, judged = [], []
    for number in range(documents):
        about = number % topics
        words = [f"{stems[about]}{rng.choice(FORMS)}" for _ in range(rng.integers(1, 4))]
        others = [f"{stems[other]}{rng.choice(FORMS)}" for other in rng.integers(0, topics, 2)]
        fill = [f"filler{word}" for word in rng.integers(0, 30, rng.integers(5, 40))]
        lines.append(json.dumps({"id": f"d{number}", "contents": " ".join([*words, *others, *fill, "the"])}))
        judged += [
            f"{topic + 1} 0 d{number} {int(topic == about)}" for topic in {about, (about + 1) % topics}
        ]
    folder.mkdir(parents=True)
    (folder / "docs.jsonl").write_text("\n".join(lines) + "\n")
    queries = [f"{number}\tthe {stem}s filler{number}\n" for number, stem in enumerate(stems, 1)]
    (folder / "topics.tsv").write_text("".join(queries))
    (folder / "qrels.txt").write_text("\n".join(judged) + "\n")
    return folder
