"""A small collection with an empty document, twins, repeated words, and terms with marks inside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from made_folder import write_folder

TEXT = "the runner's 3.5 U.S.A. running stones stone relational of café it's wolves don't node_7 Geology"


def write_collection(folder: Path) -> Path:
    """Write it, with judgments of eight topics of ten, the last without a known word; return the folder."""
    random = np.random.default_rng(5)
    words = [*TEXT.split(), *(f"word{number}" for number in range(30))]
    texts = [" ".join(random.choice(words, random.integers(3, 90))) for _ in range(120)]
    documents = {f"d{number}": text for number, text in enumerate(texts)}
    documents |= {"empty": "", "twin1": texts[0], "twin2": texts[0]}
    topics, gains = {}, []
    for topic in range(1, 9):
        topics[topic] = f"{' '.join(random.choice(words, 4))} unknownword"
        gains += [(topic, f"d{n}", int(random.integers(0, 2))) for n in random.permutation(120)[:30]]
    write_folder(folder, documents, topics | {9: "running stones", 10: "the unknownword"}, gains)
    return folder
