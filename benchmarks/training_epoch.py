"""CPU time of a training epoch over that of the network's own forward and backward passes.

Data in the shape of MSLR-WEB30K: 2,000 training and 500 validation queries of about 120 documents
and 136 features; MLP 256-128-64 with dropout, batches of 64 queries, one thread. An epoch includes
the batches, the loss, the optimiser and the validation.

    python benchmarks/training_epoch.py [LOSS ...]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
import torch

from lmtune.reranking.batches import batches
from lmtune.reranking.data import RankingData
from lmtune.reranking.loss_names import parse_loss
from lmtune.reranking.networks import make_network
from lmtune.reranking.scoring import Feed
from lmtune.reranking.settings import Settings
from lmtune.reranking.training import fit

LOSSES = ["listnet", "ranknet", "lambdarank", "approxndcg", "listmle", "song", "k-song"]
NETWORK, DROPOUT, SIZE, ITEMS = "mlp:256-128-64", 0.1, 64, 120


def made(queries: int, seed: int) -> RankingData:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(40, 200, queries)
    features = rng.normal(size=(int(lengths.sum()), 136)).astype(np.float32)
    wanted = features[:, :8].sum(axis=1) + 3 * rng.normal(size=len(features))
    labels = np.digitize(wanted, np.quantile(wanted, [0.5, 0.8, 0.95, 0.98]))
    return RankingData.from_lengths(features, labels, lengths)


def network_alone(data: RankingData, epochs: int) -> float:
    """Return the CPU seconds an epoch of forward and backward passes on gathered inputs."""
    network = make_network(NETWORK, data.features.shape[1], dropout=DROPOUT).train()
    feed, spent = Feed(data, "cpu"), 0.0
    for epoch in range(epochs):
        for batch in batches(data, size=SIZE, seed=0, epoch=epoch, list_size=ITEMS):
            inputs = feed.inputs(network, batch.rows)
            outer = torch.randn(batch.rows.shape)
            begin = time.process_time()
            network(*inputs).backward(outer)
            spent += time.process_time() - begin
            network.zero_grad(set_to_none=True)
    return spent / epochs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("losses", nargs="*", default=LOSSES)
    losses = parser.parse_args().losses
    torch.set_num_threads(1)
    train, validation = made(2000, 0), made(500, 1)
    network_alone(train, 1)
    print("| loss | epoch, CPU s | network alone | ratio |\n|---|---:|---:|---:|")
    for loss in losses:
        settings = Settings(
            loss=parse_loss(loss),
            network=NETWORK,
            dropout=DROPOUT,
            batch_size=SIZE,
            list_size=ITEMS,
            epochs=1,
        )
        fit(train, validation, settings)  # compiles what is compiled
        alone = network_alone(train, 2)
        stamps: list[float] = []
        steps = -(-2000 // SIZE)

        def watch(done: int, _: int, __: str) -> None:
            if done % steps == 0:  # noqa: B023
                stamps.append(time.process_time())  # noqa: B023

        fit(train, validation, replace(settings, epochs=3), progress=watch)
        # From the end of one epoch's last step to the next one's: validation is in it.
        epoch = (stamps[-1] - stamps[0]) / (len(stamps) - 1)
        print(f"| {loss} | {epoch:.2f} | {alone:.2f} | {epoch / alone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
