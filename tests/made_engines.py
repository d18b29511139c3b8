"""A small collection with an empty document, twins, repeated words, and terms with marks inside."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

TEXT = "the runner's 3.5 U.S.A. running stones stone relational of café it's wolves don't node_7 Geology"


def write_collection(folder: Path) -> Path:
    """Write it, with judgments of eight topics of ten, the last without a known word; return the folder."""
    random = np.random.default_rng(5)
    words = [*TEXT.split(), *(f"word{number}" for number in range(30))]
    folder.mkdir()
    texts = [" ".join(random.choice(words, random.integers(3, 90))) for _ in range(120)]
    documents = {f"d{number}": text for number, text in enumerate(texts)}
    documents |= {"empty": "", "twin1": texts[0], "twin2": texts[0]}
    lines = [json.dumps({"id": docno, "contents": text}) for docno, text in documents.items()]
    (folder / "docs.jsonl").write_text("\n".join(lines) + "\n")
    with (folder / "topics.tsv").open("w") as file, (folder / "qrels.txt").open("w") as qrels:
        for topic in range(1, 9):
            file.write(f"{topic}\t{' '.join(random.choice(words, 4))} unknownword\n")
            qrels.writelines(
                f"{topic} 0 d{n} {random.integers(0, 2)}\n" for n in random.permutation(120)[:30]
            )
        file.write("9\trunning stones\n10\tthe unknownword\n")
    return folder
