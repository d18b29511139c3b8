"""Scores of a trained network, for whole lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lmtune.progress import note
from lmtune.reranking.data import RankingData
from lmtune.reranking.devices import fits, to_device
from lmtune.reranking.networks import Attention, Pointwise


class ScoringOptions(TypedDict, total=False):
    """Where scores are computed; of texts, which take long, how precisely, and where they are kept."""

    device: str
    bf16: bool
    checkpoint: Path | None


# Rows scored at a time: on the CPU what stays in its caches.
_ROWS, _DEVICE_ROWS = 4096, 1 << 16
_QUERIES, _ITEM_PAIRS = 64, 1 << 24


class Feed:
    """A data set's features, gathered row by row for a network.

    They live on the device; those that would take more than its free memory allows stay where they
    are, and batches of them are copied as they are asked for.

    Parameters
    ----------
    data : RankingData
        Its features are copied.
    device : str
        Where to.
    """

    def __init__(self, data: RankingData, device: str | torch.device) -> None:
        self.data, self.device = data, torch.device(device)
        self._here: Tensor | None = None
        if fits(4 * data.features.size, self.device):
            self._here = torch.tensor(np.asarray(data.features), dtype=torch.float32).to(self.device)
        else:
            size = f"{data.features.nbytes / 2**30:.1f} GiB of features"
            note(f"{size} are copied to {device} batch by batch: they do not fit its free memory")

    def take(self, rows: NDArray[np.int64]) -> Tensor:
        """Return the features of some rows, (rows, features), on the device."""
        if self._here is None:
            return to_device(np.asarray(self.data.features[rows], np.float32), self.device)
        return self._here.index_select(0, to_device(rows, self.device))

    def chunks(self) -> Iterator[Tensor]:
        """Yield the features of all rows, some at a time."""
        size = _ROWS if self.device.type == "cpu" else _DEVICE_ROWS
        for first in range(0, len(self.data.features), size):
            rows = slice(first, first + size)
            if self._here is not None:
                yield self._here[rows]
            else:
                yield to_device(np.asarray(self.data.features[rows], np.float32), self.device)

    def inputs(self, network: Pointwise | Attention, rows: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """Give what a network takes for a padded table of rows, (batch, items), -1 on padding.

        Networks that score each item by itself get the items without the padding, and their places.
        """
        valid = rows >= 0
        mask = to_device(valid, self.device)
        if isinstance(network, Pointwise):
            return self.take(rows[valid]), mask, to_device(np.flatnonzero(valid), self.device)
        return self.take(np.maximum(rows, 0).ravel()).view(*rows.shape, -1), mask

    @torch.no_grad()
    def scores(self, network: Pointwise | Attention) -> Tensor:
        """Score every row, on the device.

        Parameters
        ----------
        network : Pointwise or Attention
            Set to evaluate, and left so.

        Returns
        -------
        Tensor of float32, shape (rows,)
        """
        network.eval()
        if isinstance(network, Pointwise):
            return torch.cat([network.items(part) for part in self.chunks()])
        data = self.data
        scores = torch.empty(data.labels.size, device=self.device)
        # Lists of like length together, so that little is padding.
        order = np.argsort(data.lengths, kind="stable")
        first = 0
        while first < order.size:
            chosen = order[first : first + _QUERIES]
            while chosen.size > 1 and chosen.size * int(data.lengths[chosen[-1]]) ** 2 > _ITEM_PAIRS:
                chosen = chosen[: chosen.size // 2]
            width = int(data.lengths[chosen[-1]])
            rows = np.arange(width) + data.starts[chosen][:, None]
            rows[rows >= data.starts[chosen + 1][:, None]] = -1
            valid = rows >= 0
            places = to_device(np.flatnonzero(valid), self.device)
            found = network(*self.inputs(network, rows)).view(-1).index_select(0, places)
            scores.index_copy_(0, to_device(rows[valid], self.device), found)
            first += chosen.size
        return scores
