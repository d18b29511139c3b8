"""Networks trained on features: their lists, scores and validation measure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

from lmtune.devices import check_device, fits, to_device
from lmtune.errors import InputError
from lmtune.progress import note
from lmtune.rerank.data import RankingData, batch_of, check_training_data
from lmtune.rerank.learners.learner import FeatureScorer, Learner, ScoringOptions
from lmtune.rerank.learners.networks import Attention, Pointwise, make_network
from lmtune.rerank.normalisation import Normaliser
from lmtune.rerank.settings import Settings
from lmtune.rerank.training.checkpoints import prefixed, without_prefix
from lmtune.rerank.training.loop import (
    ListTask,
    StepProgress,
    Training,
    TrainingOptions,
    TrainingRun,
    run_training,
)

WEIGHTS = "model.safetensors"
"""The file of a network's weights."""

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
            lists = batch_of(data, chosen, None, None, None)
            places = to_device(np.flatnonzero(lists.mask), self.device)
            padded = network(*self.inputs(network, lists.rows)).view(-1).index_select(0, places)
            scores.index_copy_(0, to_device(lists.rows[lists.mask], self.device), padded)
            first += chosen.size
        return scores


@dataclass(frozen=True)
class Trained(FeatureScorer, Training):
    """A network trained on features.

    Attributes
    ----------
    features : int
        Features that the network takes.
    normaliser : Normaliser, optional
        Scales features first; None takes them as they are.
    """

    features: int
    normaliser: Normaliser | None = None
    kind: ClassVar = "network"
    scales: ClassVar = True

    def network(self) -> Pointwise | Attention:
        """Make the network with its weights, ready to score.

        Raises
        ------
        InputError
            Where the weights are of another network; one that is far larger takes no memory.
        """
        with torch.device("meta"):
            network = make_network(self.settings.network, self.features, dropout=self.settings.dropout)
        weights = {name: tensor.clone() for name, tensor in self.weights.items()}
        try:
            network.load_state_dict(weights, assign=True)
        except RuntimeError:
            raise InputError(
                "the weights are of another network",
                value=self.settings.network,
                accepted="the network that was trained",
            ) from None
        return network.eval()

    def score(
        self, data: RankingData, *, progress: StepProgress | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.float32]:
        """Score every row of data, shape (rows,)."""
        del progress
        device = how.get("device", "cpu")
        scaled = data if self.normaliser is None else self.normaliser.transform(data)
        scores: NDArray[np.float32] = Feed(scaled, device).scores(self.network().to(device)).cpu().numpy()
        return scores

    def save(self, folder: Path) -> dict[str, Any]:
        """Write weights, normaliser and course; see `Scorer`."""
        arrays = {} if self.normaliser is None else self.normaliser.to_arrays()
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        content = save(prefixed("network", self.weights) | prefixed("normaliser", tensors))
        folder.joinpath(WEIGHTS).write_bytes(content)
        return self.save_history(folder)

    @classmethod
    def load(cls, home: Path, files: Mapping[str, bytes], kept: Mapping[str, Any]) -> Self:
        """Make it of what `save` wrote."""
        del home
        tensors = load(files[WEIGHTS])
        arrays = {name: tensor.numpy() for name, tensor in without_prefix("normaliser", tensors).items()}
        course, weights = cls.load_history(files, kept), without_prefix("network", tensors)
        normaliser = Normaliser.from_arrays(arrays)
        trained = cls(weights=weights, features=len(kept["features"]), normaliser=normaliser, **course)
        trained.network()  # to see that it can be made
        return trained


class NetworkLearner(Learner):
    """Trains a network on features."""

    scorer = Trained

    def fit(self, train: RankingData, validation: RankingData, **how: Unpack[TrainingOptions]) -> Trained:
        """Scale features, and train."""
        if self.normalisation is None:
            return fit(train, validation, self.settings, **how)
        normaliser = self.normalisation.fit(train)
        parts = normaliser.transform(train), normaliser.transform(validation)
        return replace(fit(*parts, self.settings, **how), normaliser=normaliser)


def fit(
    train: RankingData,
    validation: RankingData | None,
    settings: Settings,
    *,
    watch: Callable[[TrainingRun], None] | None = None,
    **how: Unpack[TrainingOptions],
) -> Trained:
    """Train a network.

    The same data, settings, device and number of torch threads give the same weights, bit for bit,
    whether the training is interrupted or not. Where ``torchrun`` started several processes (see
    `lmtune.rerank.training.distributed`) all get the same result, that of one process up to rounding;
    with dropout, up to what is dropped.

    Parameters
    ----------
    train : RankingData
        What to learn from, normalised.
    validation : RankingData, optional
        What chooses the epoch; without, the last one is kept.
    settings : Settings
        Everything else.
    device : str
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. On a GPU, too, float32 is float32, not TF32; labels and
        features live there as far as they fit.
    checkpoint : path, optional
        A folder to keep the training's state in after each epoch, and to resume from.
    checkpoint_every : int, optional
        Keep it after so many steps as well.
    progress : callable or bool, optional
        Called with (steps done, steps in all, a few words); True draws a bar.
    watch : callable, optional
        Called after each epoch with the training in progress, to look at its network.

    Returns
    -------
    Trained

    Raises
    ------
    InputError
        For unknown names, data that do not fit, a checkpoint of another training, or a loss that
        is no longer finite.
    """
    device = how.get("device", "cpu")
    check_device(device)
    for name, data in check_training_data(train, validation).items():
        if not np.isfinite(data.features).all():
            raise InputError(f"the {name} features are not all finite", accepted="finite numbers")
    digest = digest_of(train, validation) if how.get("checkpoint") else ""  # which takes a while
    identity = {"settings": settings.as_record(), "data": digest}

    def make() -> ListTask:
        network = make_network(
            settings.network,
            train.features.shape[1],
            dropout=settings.dropout,
            norm_momentum=settings.norm_momentum,
            seed=settings.seed,
        )
        return ListTask(train, validation, settings, network.to(device), partial(Feed, device=device))

    run = run_training(make, settings, identity, how, watch)
    return Trained.of(run, features=train.features.shape[1])


def digest_of(train: RankingData, validation: RankingData | None) -> str:
    """Return what tells features and labels to learn from, and to choose by, from others."""
    digest = hashlib.blake2b(digest_size=16)
    for data in (train, validation):
        if data is not None:
            for array in (data.features, data.labels, data.starts, data.teacher, data.weights):
                if array is None:
                    continue
                digest.update(f"{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
