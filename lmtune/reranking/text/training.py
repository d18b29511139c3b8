"""Training a reranker of texts by lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lmtune.reranking.data import check_training_data
from lmtune.reranking.devices import check_device
from lmtune.reranking.loop import TrainingRun
from lmtune.reranking.settings import Settings
from lmtune.reranking.text.cross_encoder import CrossEncoder
from lmtune.reranking.text.lists import TextLists, check_texts
from lmtune.reranking.text.models import load_language_model
from lmtune.reranking.training import ListTask, Training, TrainingOptions, digest_of, run_through


@dataclass(frozen=True)
class TextTrained(Training):
    """A reranker of texts that was trained.

    Attributes
    ----------
    network : CrossEncoder
        With the weights of the best epoch.
    """

    network: CrossEncoder

    def score(self, data: TextLists, *, device: str = "cpu") -> NDArray[np.float32]:
        """Score every row of lists with texts, shape (rows,).

        Raises
        ------
        InputError
            For a document without text.
        """
        return TextFeed(check_texts(data), device).scores(self.network.to(device)).numpy()


class TextFeed:
    """Lists' texts, read as a network takes them.

    Parameters
    ----------
    lists : TextLists
    device : str
        Where the network is.
    """

    def __init__(self, lists: TextLists, device: str) -> None:
        self.lists, self.device = lists, device

    def inputs(self, network: CrossEncoder, rows: NDArray[np.int64]) -> tuple[Any, ...]:
        """Give what a network takes for a padded table of rows, (batch, items), -1 on padding."""
        valid = rows >= 0
        pieces = network.encode(*self.lists.pairs(rows[valid]))
        return pieces, torch.from_numpy(valid).to(self.device)

    @torch.no_grad()
    def scores(self, network: CrossEncoder) -> Tensor:
        """Score every row, nothing dropped out, shape (rows,)."""
        network.eval()
        found = np.empty(self.lists.labels.size, np.float32)
        for rows in self.lists.blocks():
            found[rows] = network.of_pairs(network.encode(*self.lists.pairs(rows))).cpu().numpy()
        return torch.from_numpy(found)


def make_text_network(settings: Settings, lists: TextLists) -> CrossEncoder:
    """Make the network that settings name.

    Raises
    ------
    InputError
        As `lmtune.reranking.text.models.load_language_model`.
    """
    given = load_language_model(settings.network, seed=settings.seed)
    return CrossEncoder(given, lists.options, dropout=settings.dropout)


def fit(
    train: TextLists,
    validation: TextLists | None,
    settings: Settings,
    *,
    watch: Callable[[TrainingRun], None] | None = None,
    **how: Unpack[TrainingOptions],
) -> TextTrained:
    """Train a network on texts, as `lmtune.reranking.training.fit` does on features.

    Parameters
    ----------
    train, validation : TextLists
        What to learn from and to choose the epoch by.
    settings : Settings
        Its network is ``text:MODEL``, see `lmtune.reranking.text.models.find_model`.
    watch, **how
        As for `lmtune.reranking.training.fit`.

    Raises
    ------
    InputError
        As there, and for a model that cannot be had, or a document without text.
    """
    device = how.get("device", "cpu")
    check_device(device)
    check_training_data(train, validation)
    lists = [check_texts(data) for data in (train, validation) if data is not None]
    texts = [data.text_digest() for data in lists]  # reads every text, so that none is missing later
    identity = {
        "settings": settings.as_record(),
        "options": asdict(train.options),
        "data": digest_of(train, validation),
        "texts": texts,
    }

    def make() -> ListTask:
        network = make_text_network(settings, train).to(device)
        return ListTask(train, validation, settings, network, partial(TextFeed, device=device))

    run = run_through(make, settings, identity, how, watch)
    network: Any = run.network
    network.load_state_dict(run.best)
    run.best = network.state_dict()
    return TextTrained.of(run, network=network.eval())
