"""NDCG of scores where they are: nothing but the mean leaves the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lmtune.measures.lists import LabelledLists, Measurer, NdcgParts


class ScoreMeasurer:
    """A measure made ready for some lists, of scores on any device.

    On another device than the CPU, NDCG is computed there, as `lmtune.measures.lists.Measurer` does:
    items of equal score share the mean of their places' discounts. Other measures copy the scores.

    Parameters
    ----------
    measure : str
        As `lmtune.measures.measure.parse_list_measure` takes.
    lists : LabelledLists
        Labels and lists.

    Raises
    ------
    InputError
        For an unknown measure.
    """

    def __init__(self, measure: str, lists: LabelledLists) -> None:
        self.measurer = Measurer(measure, lists)
        self._there: ResidentNdcg | None = None

    def mean(self, scores: Tensor) -> float:
        """Return the mean over the lists that count; NaN without one.

        Parameters
        ----------
        scores : Tensor, shape (rows,)
            Higher is better; not NaN.
        """
        parts = self.measurer.ndcg_parts
        if scores.device.type == "cpu" or parts is None:
            return self.measurer.mean(scores.cpu().numpy())
        if self._there is None:
            self._there = ResidentNdcg(parts, scores.device)
        return float(self._there.mean(scores))


class ResidentNdcg:
    """NDCG of lists whose gains are on a device; a step of it waits for nothing."""

    def __init__(self, parts: NdcgParts, device: torch.device) -> None:
        until = np.append(0.0, np.cumsum(parts.discount))
        list_of = np.repeat(np.arange(parts.best.size), np.diff(parts.starts))
        arrays = (parts.gains, parts.best, parts.starts, until, list_of)
        self.gains, self.best, self.starts, self.until, self.list = (
            torch.from_numpy(array).to(device) for array in arrays
        )
        self.place = torch.arange(parts.gains.size, device=device)

    def mean(self, scores: Tensor) -> Tensor:
        """Return the mean over the lists that count, on the device; see `ScoreMeasurer.mean`."""
        # One sort by score, a stable one by list: minus zero is the same score as zero.
        order = (scores + 0.0).argsort(descending=True, stable=True)
        order = order[self.list[order].argsort(stable=True)]
        falling = scores[order]
        new = torch.ones_like(falling, dtype=torch.bool)
        new[1:] = (falling[1:] != falling[:-1]) | (self.list[1:] != self.list[:-1])
        first = torch.where(new, self.place, 0).cummax(0).values
        last = torch.where(new.roll(-1), self.place, len(new)).flip(0).cummin(0).values.flip(0)
        above, count = first - self.starts[self.list], last - first + 1
        deepest = len(self.until) - 1
        shares = self.until[(above + count).clamp(max=deepest)] - self.until[above.clamp(max=deepest)]
        terms = self.gains[order] * shares / count
        values = torch.segment_reduce(terms, "sum", offsets=self.starts, unsafe=True) / self.best
        return values.nanmean()
