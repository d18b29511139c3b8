"""Networks, batches and epochs for rerankers on features, by validation on training data.

    python -m experiments.rerank.defaults SET.txt ... --output defaults.csv

Each argument is a file of training data in LETOR format. The protocol is docs/protocols/reranker-defaults.md.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np
import torch

from lmtune.measures.lists import mean_over_lists, ndcg
from lmtune.rerank.data import RankingData
from lmtune.rerank.learners.feature_networks import fit
from lmtune.rerank.loss_names import parse_loss
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.settings import Settings

RECIPES: dict[str, tuple[str, int, int]] = {
    "old": ("b256", 64, 30),
    "small-30": ("mlp:64-32", 16, 30),
    "small-60": ("mlp:64-32", 16, 60),
    "small-100": ("mlp:64-32", 16, 100),
    "wide-60": ("mlp:128-64", 16, 60),
    "linear-60": ("linear", 16, 60),
}
"""Network, batch size and epochs by name."""

LOSSES = ("lambdarank", "ranknet", "listnet", "song")
_MOST = 200


def parts_of(data: RankingData, seed: int) -> list[RankingData]:
    """Split up to 200 queries with a relevant document at random: 60%, 20% and 20%."""
    useful = [q for q in range(len(data.queries)) if data.labels[data.rows(q)].max(initial=0) > 0]
    drawn = np.random.default_rng(seed).permutation(useful)[:_MOST]
    cuts = [round(0.6 * len(drawn)), round(0.8 * len(drawn))]
    train, *others = (data.take(np.sort(part)) for part in np.split(drawn, cuts))
    normaliser = Normalisation().fit(train)
    return [normaliser.transform(part) for part in (train, *others)]


def main() -> None:
    """Train each recipe with each loss on each set, and write nDCG@10 and CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with options.output.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["set", "split", "loss", "recipe", "ndcg@10", "cpu_s"])
        for path in options.sets:
            data = RankingData.read(path, cache=False, repeated="last")
            for split in range(options.splits):
                train, validation, held_out = parts_of(data, split)
                for loss in LOSSES:
                    for name, (network, batch, epochs) in RECIPES.items():
                        settings = Settings(
                            loss=parse_loss(loss),
                            network=network,
                            batch_size=batch,
                            epochs=epochs,
                            seed=split,
                        )
                        started = time.process_time()
                        scores = fit(train, validation, settings).score(held_out)
                        spent = time.process_time() - started
                        value = mean_over_lists(ndcg(scores, held_out, [10]))[0]
                        rows.writerow([path.stem, split, loss, name, f"{value:.4f}", f"{spent:.1f}"])
                        file.flush()


if __name__ == "__main__":
    main()
