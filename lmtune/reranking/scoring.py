"""Scores of a trained network, for whole lists."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lmtune.reranking.data import RankingData
from lmtune.reranking.networks import Attention, Pointwise

_ROWS = 4096
_QUERIES, _ITEM_PAIRS = 64, 1 << 24


class Feed:
    """A data set's features in memory, gathered row by row for a network.

    Parameters
    ----------
    data : RankingData
        Its features are copied.
    device : str
        Where to.
    """

    def __init__(self, data: RankingData, device: str | torch.device) -> None:
        self.data, self.device = data, torch.device(device)
        self.features = torch.tensor(np.asarray(data.features), dtype=torch.float32).to(self.device)

    def to_device(self, array: NDArray[np.generic]) -> Tensor:
        """Copy an array to the device."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def inputs(self, network: Pointwise | Attention, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Give what a network takes for a padded table of rows, (batch, items), -1 on padding.

        Networks that score each item by itself get the items without the padding.
        """
        valid = rows >= 0
        mask = self.to_device(valid)
        if isinstance(network, Pointwise):
            return self.features.index_select(0, self.to_device(rows[valid])), mask
        places = self.to_device(np.maximum(rows, 0)).view(-1)
        return self.features.index_select(0, places).view(*rows.shape, -1), mask

    @torch.no_grad()
    def scores(self, network: Pointwise | Attention) -> NDArray[np.float32]:
        """Score every row.

        Parameters
        ----------
        network : Pointwise or Attention
            Set to evaluate, and left so.

        Returns
        -------
        numpy.ndarray of float32, shape (rows,)
        """
        network.eval()
        if isinstance(network, Pointwise):
            chunks = [network.items(part) for part in torch.split(self.features, _ROWS)]
            pointwise: NDArray[np.float32] = torch.cat(chunks).cpu().numpy()
            return pointwise
        data = self.data
        scores = np.empty(data.labels.size, np.float32)
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
            found = network(*self.inputs(network, rows)).cpu().numpy()
            scores[rows[rows >= 0]] = found[rows >= 0]
            first += chosen.size
        return scores
