"""Training objectives: losses of a batch's scores, with state for those that keep running estimates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lmtune.devices import to_device
from lmtune.errors import InputError
from lmtune.losses.derived import loss_from_options, stochastic
from lmtune.losses.songs import KSong, ListwiseCrossEntropy, RelevantPairs, Song
from lmtune.losses.table import LOSSES, SONGS
from lmtune.rerank.data import Batch
from lmtune.rerank.loss_names import (
    FUNCTION,
    LAMBDAS,
    SONG,
    TAUGHT,
    TEACHER,
    Loss,
    TeacherOptions,
    loss_names,
    parse_loss,
)
from lmtune.rerank.rankers import Ranker
from lmtune.rerank.training.checkpoints import prefixed, without_prefix
from lmtune.rerank.training.distributed import sum_over_processes


@dataclass(frozen=True)
class BatchLabels:
    """The arguments of a loss besides the scores, for a batch or one process's part of it.

    Attributes
    ----------
    seed : int
        Seed of the loss's random draws for the whole batch.
    labels, mask : Tensor, shape (batch, items)
        Relevance grades; the mask is False on padding.
    queries : Tensor of int64, shape (batch,)
        Query numbers in the training data.
    rows : Tensor of int64, shape (batch, items)
        Rows of the items in the training data; -1 on padding.
    first : int
        Number of the batch's queries before this part, on other processes.
    share : float
        This part's share of the queries in the batch's mean, in [0, 1].
    """

    seed: int
    labels: Tensor
    mask: Tensor
    queries: Tensor
    rows: Tensor
    first: int = 0
    share: float = 1.0

    @classmethod
    def of(
        cls,
        batch: Batch,
        seed: int,
        device: str | torch.device,
        part: slice = slice(0, None),
        share: float = 1.0,
    ) -> BatchLabels:
        """Copy a batch, or a part of its queries, to a device."""
        arrays = (batch.labels, batch.mask, batch.queries, batch.rows)
        labels, mask, queries, rows = (to_device(array[part], device) for array in arrays)
        return cls(seed, labels, mask, queries, rows, part.start, share)


class Objective:
    """Base class of training objectives; without state unless a subclass overrides `state`."""

    def weigh(self, weights: Tensor) -> None:
        """Set weights of the training data's queries, shape (queries,), with mean 1."""
        raise NotImplementedError

    def __call__(self, batch: BatchLabels, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scalar to differentiate, and the estimated objective."""
        raise NotImplementedError

    def counted(self, labels: NDArray[np.floating], mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask of the queries in the mean, those with a relevant item, shape (batch,)."""
        counts: NDArray[np.bool_] = np.any((labels > 0) & mask, axis=1)
        return counts

    def exchange(self, queries: NDArray[np.int64], part: slice) -> None:
        """Synchronise the estimates of a batch's queries with the other processes."""

    def check(self) -> None:
        """Raise InputError for errors in earlier batches, which are not checked at once on a GPU."""

    def state(self) -> dict[str, Tensor]:
        """Return the state for checkpoints."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state that `state` returned."""


def make_objective(
    loss: Loss,
    pairs: Callable[[], RelevantPairs],
    device: str,
    teacher: NDArray[np.float32] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> Objective:
    """Create the training objective of a loss.

    Parameters
    ----------
    loss : Loss
        A loss that can train networks.
    pairs : callable
        Returns the training data's relevant pairs; SONG's losses keep an estimate for each.
    device : str
        Device of the objective's state.
    teacher : numpy.ndarray of float32, shape (rows,), optional
        A teacher's scores of the training data, 0 or more.
    weights : numpy.ndarray of float64, shape (queries,), optional
        Weights of the training data's queries, above 0; only their ratios matter.

    Raises
    ------
    InputError
        If the loss cannot train networks, needs a teacher and has none, or does not support weights.
    """
    if loss.family == TAUGHT:
        check_teacher(loss, teacher is not None)
        beside = parse_loss(loss.options.get("beside", TeacherOptions.beside))
        if beside.family not in (FUNCTION, LAMBDAS):
            raise InputError(
                f"bad option beside of {loss.name}", value=beside, accepted=f"{', '.join(LOSSES)}"
            )
        objective: Objective = _Taught(
            loss, make_objective(beside, pairs, device), torch.as_tensor(teacher, device=device)
        )
    elif loss.family in _OBJECTIVES:
        objective = _OBJECTIVES[loss.family](loss, pairs, device)
    else:
        accepted = ", ".join(loss_names())
        raise InputError("the loss cannot train networks", value=loss.name, accepted=accepted)
    if weights is not None:
        check_weighted(loss)
        objective.weigh(torch.as_tensor(weights / weights.mean(), device=device))
    return objective


def check_teacher(loss: Loss | Ranker, has_teacher: bool) -> None:
    """Raise InputError if a loss needs a teacher's scores and there is no teacher."""
    if isinstance(loss, Loss) and loss.family == TAUGHT and not has_teacher:
        raise InputError(
            "the loss needs a teacher's scores",
            value=loss.name,
            accepted="--teacher RUN with train, crossval or compare",
        )


def check_weighted(loss: Loss | Ranker) -> None:
    """Raise InputError if a loss does not support query weights, as it has no value per query."""
    if isinstance(loss, Ranker):
        return
    function = loss.function or LOSSES.get(loss.name.removesuffix(TEACHER))
    each = function is not None and "reduce" in inspect.signature(function).parameters
    if not each and loss.family != LAMBDAS:
        accepted = f"{', '.join(LOSSES)}, also as LOSS{TEACHER}; lambdas:FILE"
        raise InputError("the loss does not support topic weights", value=loss.name, accepted=accepted)


class _OfScores(Objective):
    """A stateless function of scores and labels: a loss of `lmtune.losses`, or custom."""

    def __init__(
        self, loss: Callable[..., Tensor], options: Mapping[str, Any], device: str, draws: int = 1
    ) -> None:
        self.loss, self.options, self.draws = loss, options, draws
        is_random = "generator" in inspect.signature(loss).parameters
        self.generator = torch.Generator(device) if is_random else None
        self.weights: Tensor | None = None

    @classmethod
    def named(cls, loss: Loss, device: str) -> Self:
        """Create one of `LOSSES`, with Gumbel noise on the scores if the option ``gumbel`` is set."""
        function, options = LOSSES[loss.name.removesuffix(TEACHER)], dict(loss.options)
        for other in ("weight", "beside"):
            options.pop(other, None)
        draws = options.pop("gumbel", 0)
        return cls(stochastic(function, draws) if draws else function, options, device, max(draws, 1))

    def weigh(self, weights: Tensor) -> None:
        self.weights = weights

    def __call__(self, batch: BatchLabels, scores: Tensor) -> tuple[Tensor, Tensor]:
        random = {}
        if self.generator is not None:
            # Seeded in each step, so checkpoints need no generator state.
            random["generator"] = self.generator.manual_seed(batch.seed)
            # Skip the draws of other processes. On the CPU, the draws then equal those of one process.
            before = batch.first * self.draws * batch.labels.shape[1]
            torch.rand(before, generator=self.generator, device=self.generator.device, dtype=torch.float64)
        reduction = {} if self.weights is None else {"reduce": "none"}
        value = self.loss(scores, batch.labels, mask=batch.mask, **reduction, **random, **self.options)
        if self.weights is not None:
            # Divide by the number of queries, not by their weights: small weights make a small step.
            counted = ((batch.labels > 0) & batch.mask).any(dim=1).sum().clamp(min=1)
            value = (value * self.weights[batch.queries].to(value.dtype)).sum() / counted
        if value.ndim:
            raise InputError(
                "a loss returned no scalar", value=tuple(value.shape), accepted="a tensor of shape ()"
            )
        return value, value.detach()


class _Taught(Objective):
    """A loss on a teacher's scores, combined with a loss on labels by a weight."""

    def __init__(self, loss: Loss, beside: Objective, teacher: Tensor) -> None:
        self.taught = _OfScores.named(loss, str(teacher.device))
        self.weight = float(loss.options.get("weight", 1.0))
        self.beside, self.teacher = beside, teacher

    def weigh(self, weights: Tensor) -> None:
        self.taught.weigh(weights)
        self.beside.weigh(weights)

    def __call__(self, batch: BatchLabels, scores: Tensor) -> tuple[Tensor, Tensor]:
        labels = self.teacher[batch.rows.clamp(min=0)].masked_fill(~batch.mask, 0)
        taught, _ = self.taught(replace(batch, labels=labels), scores)
        if self.weight == 1.0:
            return taught, taught.detach()
        other, _ = self.beside(batch, scores)
        value = self.weight * taught + (1.0 - self.weight) * other
        return value, value.detach()


class _Stateful(Objective):
    """SONG and other losses that keep running estimates."""

    def __init__(self, module: Song | ListwiseCrossEntropy, pairs: RelevantPairs) -> None:
        self.module, self.pairs = module, pairs

    def __call__(self, batch: BatchLabels, scores: Tensor) -> tuple[Tensor, Tensor]:
        value = self.module(scores, batch.labels, mask=batch.mask, queries=batch.queries, items=batch.rows)
        return value, self.module.objective

    def exchange(self, queries: NDArray[np.int64], part: slice) -> None:
        position = np.searchsorted(self.pairs.queries, queries)
        is_local = np.zeros(queries.size, np.bool_)
        is_local[part] = True
        counts = self.pairs.counts[position]
        before = np.repeat(self.pairs.starts[position] - np.cumsum(counts) + counts, counts)
        of_pairs = before + np.arange(before.size), np.repeat(is_local, counts)
        estimates = [(self.module.state.estimate, *of_pairs)]
        if isinstance(self.module, KSong):
            estimates += [(estimate, position, is_local) for estimate in self.module.query_state()]
        for estimate, index, local in estimates:
            slots = to_device(index, estimate.device)
            values = torch.where(to_device(local, estimate.device), estimate[slots], 0.0)
            estimate[slots] = sum_over_processes(values)

    def check(self) -> None:
        self.module.state.check()

    def state(self) -> dict[str, Tensor]:
        return prefixed("estimates", self.module.state_dict())

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.module.load_state_dict(without_prefix("estimates", state))


def _of_song(loss: Loss, pairs: Callable[[], RelevantPairs], device: str) -> Objective:
    known = pairs()
    return _Stateful(SONGS[loss.name](known, **loss.options).to(device), known)


_OBJECTIVES: dict[str, Callable[[Loss, Callable[[], RelevantPairs], str], Objective]] = {
    FUNCTION: lambda loss, _, device: (
        _OfScores(loss.function, loss.options, device) if loss.function else _OfScores.named(loss, device)
    ),
    LAMBDAS: lambda loss, _, device: _OfScores(loss_from_options(loss.options), {}, device),
    SONG: _of_song,
}
