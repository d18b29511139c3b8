"""Losses in training: of a network's scores of a batch, with what they remember from step to step."""

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
    """A batch, or one process's part of it, as losses see it besides the scores.

    Attributes
    ----------
    seed : int
        Of whatever the loss draws for the whole batch.
    labels, mask : Tensor, shape (batch, items)
        Grades and, True, where there is an item.
    queries : Tensor of int64, shape (batch,)
        Numbers of the queries.
    rows : Tensor of int64, shape (batch, items)
        Rows of the items in the training data, -1 on padding.
    first : int
        How many of the batch's queries other processes have that stand before these.
    share : float
        Of the queries that the batch's mean is over, those that are here, in [0, 1].
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
        """Bring a batch, or a part of its queries, to a device."""
        arrays = (batch.labels, batch.mask, batch.queries, batch.rows)
        labels, mask, queries, rows = (to_device(array[part], device) for array in arrays)
        return cls(seed, labels, mask, queries, rows, part.start, share)


class Objective:
    """A loss in training, of scores alone and with no memory unless a subclass says so."""

    def weigh(self, weights: Tensor) -> None:
        """Let the training data's queries count by weights, shape (queries,), of mean 1."""
        raise NotImplementedError

    def __call__(self, batch: BatchLabels, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scalar whose backward is the gradient, and the objective's estimate."""
        raise NotImplementedError

    def counted(self, labels: NDArray[np.floating], mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which queries of padded lists the mean is over: those with a relevant item; shape (batch,)."""
        counts: NDArray[np.bool_] = np.any((labels > 0) & mask, axis=1)
        return counts

    def exchange(self, queries: NDArray[np.int64], part: slice) -> None:
        """Tell the other processes what is remembered of one's own part of a batch's queries."""

    def check(self) -> None:
        """Raise InputError for what was wrong with a batch and could not be said without a wait."""

    def state(self) -> dict[str, Tensor]:
        """Return what the loss remembers."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state` returned."""


def make_objective(
    loss: Loss,
    pairs: Callable[[], RelevantPairs],
    device: str,
    teacher: NDArray[np.float32] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> Objective:
    """Make a loss ready for training.

    Parameters
    ----------
    loss : Loss
        Of a network.
    pairs : callable
        Gives the training data's relevant pairs, for each of which some losses keep a number.
    device : str
        Where their state lives.
    teacher : numpy.ndarray of float32, shape (rows,), optional
        A teacher's scores of the training data, 0 or more.
    weights : numpy.ndarray of float64, shape (queries,), optional
        What the training data's queries count, above 0; only their ratios matter.

    Raises
    ------
    InputError
        For a loss that no network can be trained by, one on a teacher's scores without these, and one that
        takes no weights with them.
    """
    if loss.family == TAUGHT:
        check_teacher(loss, teacher is not None)
        beside = parse_loss(loss.options.get("beside", TeacherOptions.beside))
        if beside.family not in (FUNCTION, LAMBDAS):
            raise InputError(
                f"{loss.name}: beside it goes no such loss", value=beside, accepted=f"{', '.join(LOSSES)}"
            )
        objective: Objective = _Taught(
            loss, make_objective(beside, pairs, device), torch.as_tensor(teacher, device=device)
        )
    elif loss.family in _OBJECTIVES:
        objective = _OBJECTIVES[loss.family](loss, pairs, device)
    else:
        accepted = ", ".join(loss_names())
        raise InputError("no loss that networks can be trained with", value=loss.name, accepted=accepted)
    if weights is not None:
        check_weighted(loss)
        objective.weigh(torch.as_tensor(weights / weights.mean(), device=device))
    return objective


def check_teacher(loss: Loss | Ranker, there: bool) -> None:
    """Raise InputError where a loss on a teacher's scores has none."""
    if isinstance(loss, Loss) and loss.family == TAUGHT and not there:
        raise InputError(
            "a loss on a teacher's scores, and no teacher",
            value=loss.name,
            accepted="--teacher RUN, of train, crossval and compare",
        )


def check_weighted(loss: Loss | Ranker) -> None:
    """Raise InputError where a loss cannot let queries count by weights: where it gives none for each."""
    if isinstance(loss, Ranker):
        return
    function = loss.function or LOSSES.get(loss.name.removesuffix(TEACHER))
    each = function is not None and "reduce" in inspect.signature(function).parameters
    if not each and loss.family != LAMBDAS:
        accepted = f"{', '.join(LOSSES)}; these by LOSS{TEACHER}; lambdas:FILE"
        raise InputError("a loss that takes no weights of topics", value=loss.name, accepted=accepted)


class _OfScores(Objective):
    """A function of scores and labels, `lmtune.losses`' or a user's lambdas."""

    def __init__(
        self, loss: Callable[..., Tensor], options: Mapping[str, Any], device: str, draws: int = 1
    ) -> None:
        self.loss, self.options, self.draws = loss, options, draws
        generates = "generator" in inspect.signature(loss).parameters
        self.generator = torch.Generator(device) if generates else None
        self.weights: Tensor | None = None

    @classmethod
    def named(cls, loss: Loss, device: str) -> Self:
        """Take one of `LOSSES`, of stochastic scores where its options say so."""
        function, options = LOSSES[loss.name.removesuffix(TEACHER)], dict(loss.options)
        for other in ("weight", "beside"):
            options.pop(other, None)
        draws = options.pop("gumbel", 0)
        return cls(stochastic(function, draws) if draws else function, options, device, max(draws, 1))

    def weigh(self, weights: Tensor) -> None:
        self.weights = weights

    def __call__(self, batch: BatchLabels, scores: Tensor) -> tuple[Tensor, Tensor]:
        drawn = {}
        if self.generator is not None:
            # Drawn from the step's own seed: there is no state to keep.
            drawn["generator"] = self.generator.manual_seed(batch.seed)
            # What other processes draw: on the CPU the parts are then those of one process.
            before = batch.first * self.draws * batch.labels.shape[1]
            torch.rand(before, generator=self.generator, device=self.generator.device, dtype=torch.float64)
        each = {} if self.weights is None else {"reduce": "none"}
        value = self.loss(scores, batch.labels, mask=batch.mask, **each, **drawn, **self.options)
        if self.weights is not None:
            # Not over the weights' sum: a batch of light queries is to make a small step.
            counted = ((batch.labels > 0) & batch.mask).any(dim=1).sum().clamp(min=1)
            value = (value * self.weights[batch.queries].to(value.dtype)).sum() / counted
        if value.ndim:
            raise InputError(
                "a loss gave no scalar", value=tuple(value.shape), accepted="a tensor of shape ()"
            )
        return value, value.detach()


class _Taught(Objective):
    """A function of scores and a teacher's scores, with a weight beside another loss."""

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


class _Remembering(Objective):
    """SONG and its relatives, which keep running estimates."""

    def __init__(self, module: Song | ListwiseCrossEntropy, pairs: RelevantPairs) -> None:
        self.module, self.pairs = module, pairs

    def __call__(self, batch: BatchLabels, scores: Tensor) -> tuple[Tensor, Tensor]:
        value = self.module(scores, batch.labels, mask=batch.mask, queries=batch.queries, items=batch.rows)
        return value, self.module.objective

    def exchange(self, queries: NDArray[np.int64], part: slice) -> None:
        position = np.searchsorted(self.pairs.queries, queries)
        here_rows = np.zeros(queries.size, np.bool_)
        here_rows[part] = True
        counts = self.pairs.counts[position]
        before = np.repeat(self.pairs.starts[position] - np.cumsum(counts) + counts, counts)
        of_pairs = before + np.arange(before.size), np.repeat(here_rows, counts)
        remembered = [(self.module.state.estimate, *of_pairs)]
        if isinstance(self.module, KSong):
            remembered += [(kept, position, here_rows) for kept in self.module.query_state()]
        for kept, index, here in remembered:
            slots = to_device(index, kept.device)
            values = torch.where(to_device(here, kept.device), kept[slots], 0.0)
            kept[slots] = sum_over_processes(values)

    def check(self) -> None:
        self.module.state.check()

    def state(self) -> dict[str, Tensor]:
        return prefixed("estimates", self.module.state_dict())

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.module.load_state_dict(without_prefix("estimates", state))


def _of_song(loss: Loss, pairs: Callable[[], RelevantPairs], device: str) -> Objective:
    known = pairs()
    return _Remembering(SONGS[loss.name](known, **loss.options).to(device), known)


_OBJECTIVES: dict[str, Callable[[Loss, Callable[[], RelevantPairs], str], Objective]] = {
    FUNCTION: lambda loss, _, device: (
        _OfScores(loss.function, loss.options, device) if loss.function else _OfScores.named(loss, device)
    ),
    LAMBDAS: lambda loss, _, device: _OfScores(loss_from_options(loss.options), {}, device),
    SONG: _of_song,
}
