"""Train a NeuMF scorer on every user's ranking of all items: cost by samples, not items.

Sources: Qiu et al. 2022, section 7.2 (the task); He, Liao, Zhang, Nie, Hu and Chua, Neural
Collaborative Filtering, WWW 2017 (the network).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lmtune.errors import InputError
from lmtune.reranking.batches import Batch
from lmtune.reranking.loop import Epoch, TrainingRun
from lmtune.reranking.loss_names import Loss
from lmtune.reranking.ratings import Ratings, RatingSplit, held_out_ndcg
from lmtune.reranking.settings import Settings
from lmtune.reranking.song import ListSampler, RelevantPairs, reinitialise_last_layer
from lmtune.reranking.training import own_randomness

LONG_LISTS = Settings(
    loss=Loss("song", family="song"),
    warm_up_loss=Loss("cross-entropy", family="song"),
    epochs=30,
    warm_up=10,
    batch_size=64,
    list_size=40,
    list_relevant=10,
    learning_rate=0.003,
    weight_decay=1e-7,
)
"""What long lists are trained with by default."""


class NeuMF(nn.Module):
    """Generalised matrix factorisation and a multilayer perceptron, joined by a linear layer.

    Parameters
    ----------
    users, items : int
        How many of each.
    width : int
        Of each of the four embeddings.
    layers : sequence of int
        Widths of the perceptron's layers.
    dropout : float
        Behind each of them.
    """

    def __init__(
        self,
        users: int,
        items: int,
        *,
        width: int = 32,
        layers: Sequence[int] = (32, 16),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.user_factors = nn.Embedding(users, width)
        self.item_factors = nn.Embedding(items, width)
        self.user_inputs = nn.Embedding(users, width)
        self.item_inputs = nn.Embedding(items, width)
        # The first layer on (user, item) is a sum of one on each: users enter once a list.
        self.of_user = nn.Linear(width, layers[0])
        self.of_item = nn.Linear(width, layers[0], bias=False)
        rest: list[nn.Module] = [nn.ReLU(), nn.Dropout(dropout)]
        for before, after in pairwise(layers):
            rest += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
        self.perceptron = nn.Sequential(*rest)
        self.last = nn.Linear(width + layers[-1], 1)
        for embedding in self.children():
            if isinstance(embedding, nn.Embedding):
                nn.init.normal_(embedding.weight, std=0.01)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Score items (B, n), -1 on padding, for users (B,); returns (B, n)."""
        items = items.clamp(min=0)
        factors = self.user_factors(users).unsqueeze(1) * self.item_factors(items)
        hidden = self.of_user(self.user_inputs(users)).unsqueeze(1)
        hidden = self.perceptron(hidden + self.of_item(self.item_inputs(items)))
        scores: Tensor = self.last(torch.cat([factors, hidden], dim=-1)).squeeze(-1)
        return scores


@dataclass(frozen=True, eq=False)
class RatingsFit:
    """A network trained on ratings.

    Attributes
    ----------
    network : NeuMF
        With the weights of the best epoch.
    history : tuple of Epoch
        One row an epoch; losses are means over steps.
    best_epoch : int
        The first, after the warm-up, with the highest NDCG at the first cutoff.
    ndcg : numpy.ndarray of float64, shape (epochs, cutoffs)
        On the validation items.
    """

    network: NeuMF
    history: tuple[Epoch, ...]
    best_epoch: int
    ndcg: NDArray[np.float64]


class RatingsTask:
    """Every user's ranking of all items, as `lmtune.reranking.loop.TrainingRun` learns from it.

    Parameters
    ----------
    As of `fit`.
    """

    def __init__(
        self,
        ratings: Ratings,
        split: RatingSplit,
        settings: Settings,
        *,
        visits: int,
        graded: bool,
        cutoffs: Sequence[int],
    ) -> None:
        self.ratings, self.split, self.settings = ratings, split, settings
        self.visits, self.graded, self.cutoffs = visits, graded, cutoffs
        self.lists = training_pairs(ratings, split, graded=graded)
        relevant = settings.relevant_of_sample or 1
        self.sampler = ListSampler(
            self.lists,
            len(ratings.item_ids),
            relevant=relevant,
            others=(settings.list_size or relevant + 1) - relevant,
            seed=settings.seed,
        )
        torch.manual_seed(settings.seed)
        self.network = NeuMF(len(ratings.user_ids), len(ratings.item_ids))
        self.steps = math.ceil(len(self.lists.queries) * visits / settings.batch_size)
        self.measured: list[NDArray[np.float64]] = []

    def pairs(self) -> RelevantPairs:
        """Return the training ratings."""
        return self.lists

    def batches(self, epoch: int, start: int) -> Iterator[Batch]:
        """Yield an epoch's batches from a step on: each user is visited several times."""
        random = np.random.default_rng((self.settings.seed, epoch))
        count, size = len(self.lists.queries), self.settings.batch_size
        order = np.concatenate([random.permutation(count) for _ in range(self.visits)])
        for step in range(start, self.steps):
            positions = order[step * size : (step + 1) * size]
            if self.settings.list_size is None:
                sample = self.sampler.all_items(positions)
            else:
                sample = self.sampler.draw(positions, epoch=epoch, step=step)
            mask, queries = sample.items >= 0, self.lists.queries[positions]
            yield Batch(sample.labels, mask, sample.items, queries)

    def inputs(self, batch: Batch, part: slice) -> tuple[Tensor, ...]:
        """Return users and items."""
        return torch.from_numpy(batch.queries[part]), torch.from_numpy(batch.rows[part])

    def weight(self, batch: Batch) -> int:
        """Return 1: epochs' losses are means over steps."""
        del batch
        return 1

    def renew_last_layer(self) -> None:
        """Draw the weights of the network's last layer anew."""
        reinitialise_last_layer(self.network, seed=self.settings.seed, layer=self.network.last)

    def measure(self) -> float:
        """Return the mean NDCG on the validation items at the first cutoff; keep all."""
        scores, split = score_all(self.network), self.split
        values = held_out_ndcg(
            scores, self.ratings, split.validation, split.train, self.cutoffs, graded=self.graded
        )
        self.measured.append(values.mean(0))
        return float(self.measured[-1][0])


def fit(
    ratings: Ratings,
    split: RatingSplit,
    settings: Settings = LONG_LISTS,
    *,
    visits: int = 4,
    graded: bool = False,
    cutoffs: Sequence[int] = (10, 20, 50),
    watch: Callable[[TrainingRun], None] | None = None,
) -> RatingsFit:
    """Train on ``split.train``; keep the epoch, after the warm-up, with the best NDCG.

    Parameters
    ----------
    ratings, split
        From `read_ratings` and `leave_out`.
    settings : Settings
        All but the network and the measure. `list_size` items are sampled for each user and step,
        `list_relevant` of them relevant; without, a step takes every item of a list.
    visits : int
        How often an epoch visits each user.
    graded : bool
        Whether labels are the ratings; otherwise 1.
    cutoffs : sequence of int
        Of the NDCG on the validation items, ranked among all that are not in training; the first
        one chooses the epoch.
    watch : callable, optional
        Called after each epoch with the training in progress.

    Raises
    ------
    InputError
        For numbers out of range, or a loss that is no longer finite.
    """
    if visits < 1:
        raise InputError("visits is too small", value=visits, accepted="1 or more")
    relevant = settings.relevant_of_sample
    if settings.list_size is not None and not 0 < (relevant or 0) < settings.list_size:
        raise InputError(
            "bad number of relevant items",
            value=relevant,
            accepted=f"1 or more, fewer than the {settings.list_size} sampled",
        )
    with own_randomness("cpu"):
        task = RatingsTask(ratings, split, settings, visits=visits, graded=graded, cutoffs=cutoffs)
        run = TrainingRun(task, settings, "cpu")
        while not run.finished:
            run.train_epoch(lambda: None, None, None)
            if watch is not None:
                watch(run)
    task.network.load_state_dict(run.best)
    return RatingsFit(task.network, tuple(run.history), run.best_epoch, np.array(task.measured))


def training_pairs(ratings: Ratings, split: RatingSplit, *, graded: bool = False) -> RelevantPairs:
    """Take the training ratings as relevant pairs of lists of all items."""
    rows = split.train
    labels = ratings.values[rows] if graded else np.ones(len(rows))
    return RelevantPairs.from_rows(
        ratings.users[rows], ratings.items[rows], labels, lengths=len(ratings.item_ids)
    )


@torch.no_grad()
def score_all(network: NeuMF, *, batch: int = 128) -> NDArray[np.float32]:
    """Score every item for every user, float32 (U, I), in evaluation mode."""
    was = network.training
    network.eval()
    users = network.user_factors.num_embeddings
    items = torch.arange(network.item_factors.num_embeddings)
    every = torch.arange(users)
    parts = [
        network(some, items.expand(len(some), -1))
        for some in (every[at : at + batch] for at in range(0, users, batch))
    ]
    network.train(was)
    scores: NDArray[np.float32] = torch.cat(parts).numpy()
    return scores
