"""What the compiled losses need: arrays, sorted items, threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lmtune.reranking.losses.given_gradients import LossAndGradient
from lmtune.reranking.losses.padded_lists import PaddedLists
from lmtune.surrogates.packing_kernels import ByLabel
from lmtune.threads import cores, over_slices

# Pairs of items below which a second thread costs more than it brings.
_MANY_PAIRS = 1 << 20


@dataclass(frozen=True, slots=True)
class Arrays:
    """Lists as arrays, which can be sorted.

    Parameters
    ----------
    scores, labels : arrays of shape (queries, items)
        Of one floating-point type.
    mask : bool array of shape (queries, items)
    """

    scores: NDArray[Any]
    labels: NDArray[Any]
    mask: NDArray[np.bool_]

    @classmethod
    def of(cls, lists: PaddedLists, *, double: bool = False) -> Arrays:
        """Take the arrays of lists on the CPU, in double precision if wanted."""
        scores, labels, mask = (tensor.numpy() for tensor in (lists.scores, lists.labels, lists.mask))
        if double:
            scores, labels = scores.astype(np.float64), labels.astype(np.float64)
        return cls(scores, labels, mask)

    @property
    def real(self) -> NDArray[np.int64]:
        """Count the items that are not padding, of shape (queries,)."""
        counts: NDArray[np.int64] = self.mask.sum(axis=1)
        return counts

    def by_label(self) -> ByLabel:
        """Sort each query's items by falling label."""
        return ByLabel(self.scores, self.labels, self._falling(self.labels), self.real)

    def by_score(self) -> NDArray[np.int64]:
        """Return each query's items by falling score, padding last."""
        return self._falling(self.scores)

    def _falling(self, values: NDArray[Any]) -> NDArray[np.int64]:
        return np.argsort(np.where(self.mask, -values, values.dtype.type(np.inf)), axis=1)

    def number(self, value: float) -> Any:
        """Return a number of the scores' type."""
        return self.scores.dtype.type(value)


def run(
    arrays: Arrays, kernel: Callable[..., None], *inputs: Any, like: Tensor | None = None
) -> LossAndGradient:
    """Run a kernel over the queries, in as many threads as torch would take.

    Parameters
    ----------
    arrays : Arrays
    kernel : callable
        Takes the first query, the one after the last, `inputs`, and arrays for the losses and the
        gradients of all queries, to write to.
    like : Tensor, optional
        Has the type that the results are to have; by default they have the arrays'.
    """
    queries, items = arrays.scores.shape
    out = np.empty(queries, arrays.scores.dtype), np.zeros_like(arrays.scores)
    many = queries * items**2 >= _MANY_PAIRS
    over_slices(
        lambda part: kernel(part.start, part.stop, *inputs, *out),
        queries,
        threads=min(cores(), torch.get_num_threads()) if many else 1,
    )
    dtype = out[0].dtype if like is None else like.numpy().dtype
    losses, gradients = (torch.from_numpy(array.astype(dtype, copy=False)) for array in out)
    return losses, gradients
