"""CPU time of a training epoch, relative to the network's forward and backward passes alone.

The data are like MSLR-WEB30K: 2,000 training and 500 validation queries with about 120 documents and 136
features. The network is an MLP 256-128-64 with dropout, with batches of 64 queries, on one thread. An epoch
includes batches, loss and optimiser, and is measured with and without validation.

    python benchmarks/training_epoch.py [LOSS ...]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from lmtune.devices import autocast
from lmtune.losses.table import LOSSES as TABLE
from lmtune.rerank.data import RankingData, batches
from lmtune.rerank.learners.feature_networks import FeatureFeed, fit
from lmtune.rerank.learners.networks import make_network
from lmtune.rerank.loss_names import parse_loss
from lmtune.rerank.settings import Settings

LOSSES = [*TABLE, "song", "k-song"]
NETWORK, DROPOUT, SIZE, ITEMS = "mlp:256-128-64", 0.1, 64, 120


Clock = Callable[[], float]


def settings_of(loss: str) -> Settings:
    return Settings(
        loss=parse_loss(loss), network=NETWORK, dropout=DROPOUT, batch_size=SIZE, list_size=ITEMS, epochs=1
    )


def made(queries: int, seed: int) -> RankingData:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(40, 200, queries)
    features = rng.normal(size=(int(lengths.sum()), 136)).astype(np.float32)
    wanted = features[:, :8].sum(axis=1) + 3 * rng.normal(size=len(features))
    labels = np.digitize(wanted, np.quantile(wanted, [0.5, 0.8, 0.95, 0.98]))
    return RankingData.from_lengths(features, labels, lengths)


def network_alone(
    data: RankingData, settings: Settings, epochs: int, device: str = "cpu", clock: Clock = time.process_time
) -> float:
    """Return the seconds of forward and backward passes on gathered inputs, in the fastest epoch."""
    network = make_network(settings.network, data.features.shape[1], dropout=settings.dropout).train()
    network, feed, spent = network.to(device), FeatureFeed(data, device), [0.0] * epochs
    for epoch in range(epochs):
        for batch in batches(
            data, size=settings.batch_size, seed=0, epoch=epoch, list_size=settings.list_size
        ):
            inputs = feed.inputs(network, batch.rows)
            outer = torch.randn(batch.rows.shape, device=device)
            begin = clock()
            with autocast(device, bf16=settings.amp_bf16):
                scores = network(*inputs)
            scores.backward(outer)
            spent[epoch] += clock() - begin
            network.zero_grad(set_to_none=True)
    return min(spent)


def epoch(
    train: RankingData,
    validation: RankingData | None,
    settings: Settings,
    device: str = "cpu",
    clock: Clock = time.process_time,
) -> float:
    """Return the minimum seconds of three epochs, each from the previous epoch's last step to its own."""
    stamps: list[float] = []
    steps = -(-len(train.queries) // settings.batch_size)

    def watch(done: int, _: int, __: str) -> None:
        if done % steps == 0:
            stamps.append(clock())

    fit(train, validation, replace(settings, epochs=4), progress=watch, device=device)
    return min(after - before for before, after in pairwise(stamps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("losses", nargs="*", default=LOSSES)
    losses = parser.parse_args().losses
    torch.set_num_threads(1)
    train, validation = made(2000, 0), made(500, 1)
    network_alone(train, settings_of("listnet"), 1)
    print("| loss | network alone, CPU s | epoch | with validation |\n|---|---:|---:|---:|")
    for loss in losses:
        settings = settings_of(loss)
        fit(train, validation, settings)  # compiles kernels
        before = network_alone(train, settings, 3)
        own, whole = (epoch(train, part, settings) for part in (None, validation))
        alone = min(before, network_alone(train, settings, 3))
        print(f"| {loss} | {alone:.2f} | {own / alone:.2f} | {whole / alone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
