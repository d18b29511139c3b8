"""Networks on features: training, scoring and storage."""

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

# Rows per forward pass; on the CPU few enough for its caches.
_ROWS, _DEVICE_ROWS = 4096, 1 << 16
_QUERIES, _ITEM_PAIRS = 64, 1 << 24


class FeatureFeed:
    """Network inputs from a data set's features; see `ListFeed`.

    Features are copied to the device at once. If they do not fit into its free memory, each batch is copied
    when it is needed.

    Parameters
    ----------
    data : RankingData
    device : str
        Device of the network.
    """

    def __init__(self, data: RankingData, device: str | torch.device) -> None:
        self.data, self.device = data, torch.device(device)
        self._on_device: Tensor | None = None
        if fits(4 * data.features.size, self.device):
            self._on_device = torch.tensor(np.asarray(data.features), dtype=torch.float32).to(self.device)
        else:
            size = f"{data.features.nbytes / 2**30:.1f} GiB of features"
            note(f"{size} do not fit into the free memory of {device}: copied batch by batch")

    def take(self, rows: NDArray[np.int64]) -> Tensor:
        """Return the features of some rows on the device, shape (rows, features)."""
        if self._on_device is None:
            return to_device(np.asarray(self.data.features[rows], np.float32), self.device)
        return self._on_device.index_select(0, to_device(rows, self.device))

    def chunks(self) -> Iterator[Tensor]:
        """Yield the features of all rows on the device, in chunks."""
        size = _ROWS if self.device.type == "cpu" else _DEVICE_ROWS
        for first in range(0, len(self.data.features), size):
            rows = slice(first, first + size)
            if self._on_device is not None:
                yield self._on_device[rows]
            else:
                yield to_device(np.asarray(self.data.features[rows], np.float32), self.device)

    def inputs(self, network: Pointwise | Attention, rows: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """Return the network's input for padded rows, shape (batch, items); -1 marks padding.

        A `Pointwise` network gets only the items, and their positions in the flattened table.
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
            Left in evaluation mode.

        Returns
        -------
        Tensor of float32, shape (rows,)
        """
        network.eval()
        if isinstance(network, Pointwise):
            return torch.cat([network.items(part) for part in self.chunks()])
        data = self.data
        scores = torch.empty(data.labels.size, device=self.device)
        # Batch lists of similar length, to reduce padding.
        order = np.argsort(data.lengths, kind="stable")
        first = 0
        while first < order.size:
            chosen = order[first : first + _QUERIES]
            while chosen.size > 1 and chosen.size * int(data.lengths[chosen[-1]]) ** 2 > _ITEM_PAIRS:
                chosen = chosen[: chosen.size // 2]
            lists = batch_of(data, chosen, None, None, None)
            positions = to_device(np.flatnonzero(lists.mask), self.device)
            of_items = network(*self.inputs(network, lists.rows)).view(-1).index_select(0, positions)
            scores.index_copy_(0, to_device(lists.rows[lists.mask], self.device), of_items)
            first += chosen.size
        return scores


@dataclass(frozen=True)
class Trained(FeatureScorer, Training):
    """A network trained on features.

    Attributes
    ----------
    features : int
        Number of features.
    normaliser : Normaliser, optional
        Scales features before scoring; None uses them unchanged.
    """

    features: int
    normaliser: Normaliser | None = None
    kind: ClassVar = "network"
    scales: ClassVar = True

    def network(self) -> Pointwise | Attention:
        """Create the network with its weights, in evaluation mode.

        Raises
        ------
        InputError
            If the weights do not match the network of the settings.
        """
        with torch.device("meta"):  # allocates no memory, even if damaged settings name a huge network
            network = make_network(self.settings.network, self.features, dropout=self.settings.dropout)
        weights = {name: tensor.clone() for name, tensor in self.weights.items()}
        try:
            network.load_state_dict(weights, assign=True)
        except RuntimeError:
            raise InputError(
                "the weights do not match the network",
                value=self.settings.network,
                accepted="the network that was trained",
            ) from None
        return network.eval()

    def score(
        self, data: RankingData, *, progress: StepProgress | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.float32]:
        """Score every row, shape (rows,)."""
        del progress
        device = how.get("device", "cpu")
        scaled = data if self.normaliser is None else self.normaliser.transform(data)
        feed = FeatureFeed(scaled, device)
        scores: NDArray[np.float32] = feed.scores(self.network().to(device)).cpu().numpy()
        return scores

    def save(self, folder: Path) -> dict[str, Any]:
        """Write weights, normaliser and history; see `Scorer`."""
        arrays = {} if self.normaliser is None else self.normaliser.to_arrays()
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        content = save(prefixed("network", self.weights) | prefixed("normaliser", tensors))
        folder.joinpath(WEIGHTS).write_bytes(content)
        return self.save_history(folder)

    @classmethod
    def load(cls, folder: Path, files: Mapping[str, bytes], model: Mapping[str, Any]) -> Self:
        """Load the scorer that `save` wrote; see `Scorer`."""
        del folder
        tensors = load(files[WEIGHTS])
        arrays = {name: tensor.numpy() for name, tensor in without_prefix("normaliser", tensors).items()}
        history, weights = cls.load_history(files, model), without_prefix("network", tensors)
        normaliser = Normaliser.from_arrays(arrays)
        trained = cls(weights=weights, features=len(model["features"]), normaliser=normaliser, **history)
        trained.network()  # checks that the weights match
        return trained


class NetworkLearner(Learner):
    """Trains a network on features."""

    scorer = Trained

    def fit(self, train: RankingData, validation: RankingData, **how: Unpack[TrainingOptions]) -> Trained:
        """Scale features and train the network of the settings."""
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
    """Train a network on features.

    The same data, settings and device give bitwise equal weights, also after an interruption. If
    ``torchrun`` started several processes (see `lmtune.rerank.training.distributed`), all return the same
    result. It equals that of one process up to rounding, and up to the draws of dropout.

    Parameters
    ----------
    train : RankingData
        Training queries, with normalised features.
    validation : RankingData, optional
        Queries that select the best epoch. Without, the last epoch's weights are returned.
    settings : Settings
    device : str
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. GPUs compute in float32 too, not TF32. Features are stored
        on the device if they fit into its memory.
    checkpoint : path, optional
        A folder that stores the training's state after each epoch, to resume from.
    checkpoint_every : int, optional
        Also store the state after every this many steps.
    progress : callable or bool, optional
        Called with (steps done, total, status); True draws a bar.
    watch : callable, optional
        Called with the `TrainingRun` after each epoch.

    Returns
    -------
    Trained

    Raises
    ------
    InputError
        If a name is unknown, training and validation data do not match, the checkpoint is of another
        training, or the loss is no longer finite.
    """
    device = how.get("device", "cpu")
    check_device(device)
    for name, data in check_training_data(train, validation).items():
        if not np.isfinite(data.features).all():
            raise InputError(f"the {name} features are not all finite", accepted="finite numbers")
    digest = digest_of(train, validation) if how.get("checkpoint") else ""  # slow for large data
    identity = {"settings": settings.as_record(), "data": digest}

    def make() -> ListTask:
        network = make_network(
            settings.network,
            train.features.shape[1],
            dropout=settings.dropout,
            norm_momentum=settings.norm_momentum,
            seed=settings.seed,
        )
        return ListTask(train, validation, settings, network.to(device), partial(FeatureFeed, device=device))

    run = run_training(make, settings, identity, how, watch)
    return Trained.of(run, features=train.features.shape[1])


def digest_of(train: RankingData, validation: RankingData | None) -> str:
    """Return a digest of training and validation data: features, labels, teacher scores and weights."""
    digest = hashlib.blake2b(digest_size=16)
    for data in (train, validation):
        if data is not None:
            for array in (data.features, data.labels, data.starts, data.teacher, data.weights):
                if array is None:
                    continue
                digest.update(f"{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
