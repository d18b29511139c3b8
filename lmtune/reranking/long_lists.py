"""Train a NeuMF scorer on every user's ranking of all items: cost by samples, not items.

Sources: Qiu et al. 2022, section 7.2 (the task); He, Liao, Zhang, Nie, Hu and Chua, Neural
Collaborative Filtering, WWW 2017 (the network).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lmtune.formats.ratings import Ratings
from lmtune.measures.measure import Measure, exponential_ndcg
from lmtune.progress import Count
from lmtune.reranking.batches import Batch
from lmtune.reranking.devices import check_device, to_device
from lmtune.reranking.long_list_settings import LONG_LISTS, RankingOptions, cutoff_of
from lmtune.reranking.loop import TrainingRun
from lmtune.reranking.networks import scores_of
from lmtune.reranking.ratings import HeldOut, RatingSplit, leave_out
from lmtune.reranking.settings import Settings
from lmtune.reranking.song import ListSampler, RelevantPairs, reinitialise_last_layer
from lmtune.reranking.training import Training, TrainingOptions, run_through

CUTOFFS = (10, 20, 50)
"""Of the nDCG that is reported on test items."""

_CHUNK = 1 << 17
"""Numbers of a layer held at a time where all items are scored: they fit a processor's cache."""
_CHUNK_ELSEWHERE = 1 << 25


class LongLists(Protocol):
    """Long lists of the same items, to learn from and to choose by."""

    @property
    def pairs(self) -> RelevantPairs:
        """The relevant pairs of the training lists."""

    @property
    def items(self) -> int:
        """How many items each list has."""

    @property
    def visits(self) -> int:
        """How often an epoch visits each list."""

    @property
    def digest(self) -> str:
        """What tells these lists from others."""

    def network(self, settings: Settings) -> Any:
        """Make a network, with a layer `last` or None in its place, from torch's own generator."""

    def inputs(self, queries: NDArray[np.int64], items: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        """Return what the network takes for items (B, n), -1 on padding, of some lists (B,)."""

    def validate(self, network: Any, cutoff: int) -> float:
        """Return the mean NDCG of a network on what chooses the epoch."""


@dataclass(frozen=True, eq=False)
class RatingLists:
    """Users' rankings of all items, to learn from and to measure.

    Attributes
    ----------
    ratings : Ratings
    options : RankingOptions
    """

    ratings: Ratings
    options: RankingOptions = field(default_factory=RankingOptions)

    @cached_property
    def split(self) -> RatingSplit:
        """Which ratings are held out."""
        count = self.options.held_out
        return leave_out(self.ratings, validation=count, test=count)

    @cached_property
    def pairs(self) -> RelevantPairs:
        """The training ratings as relevant pairs of lists of all items."""
        rows, ratings = self.split.train, self.ratings
        labels = ratings.values[rows] if self.options.graded else np.ones(len(rows), np.float32)
        return RelevantPairs.from_rows(
            ratings.users[rows], ratings.items[rows], labels, lengths=len(ratings.item_ids)
        )

    @cached_property
    def validation(self) -> HeldOut:
        """What chooses the epoch, among all items that are not in training."""
        held = HeldOut.of(self.ratings, self.split.validation, self.split.train, graded=self.options.graded)
        return held.sample(self.options.validation_users, seed=0)

    @cached_property
    def test(self) -> HeldOut:
        """What tests measure, among all items in neither training nor validation."""
        seen = np.concatenate([self.split.train, self.split.validation])
        return HeldOut.of(self.ratings, self.split.test, seen, graded=self.options.graded)

    @property
    def folds(self) -> int:
        """One: of each user the latest ratings are held out."""
        return 1

    def reported(self, measure: str) -> tuple[Measure, ...]:
        """Return what is measured where validation chooses by a measure."""
        return tuple(map(exponential_ndcg, sorted({cutoff_of(measure), *CUTOFFS})))

    def train(self, fold: int, settings: Settings, **how: Unpack[TrainingOptions]) -> LongListFit:
        """Train a network: see `fit`."""
        del fold
        return fit(self, settings, **how)

    def measure(
        self, trial: Sequence[Any], measures: Sequence[Measure], device: str, progress: Count | None = None
    ) -> NDArray[np.float64]:
        """Measure a network on the test items, shape (users, measures)."""
        [fitted] = trial
        network: NeuMF = fitted.network().to(device)
        return network.ndcg(self.test, [measure.cutoff or 0 for measure in measures], progress)

    @property
    def items(self) -> int:
        """How many items each user ranks."""
        return len(self.ratings.item_ids)

    @property
    def visits(self) -> int:
        """How often an epoch visits each user."""
        return self.options.visits

    def network(self, settings: Settings) -> NeuMF:
        """Make a NeuMF."""
        return NeuMF(len(self.ratings.user_ids), self.items, dropout=settings.dropout)

    def inputs(self, queries: NDArray[np.int64], items: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        """Return users and items."""
        return queries, items

    def validate(self, network: NeuMF, cutoff: int) -> float:
        """Return the mean NDCG on the validation items."""
        return float(network.ndcg(self.validation, [cutoff]).mean())

    @cached_property
    def digest(self) -> str:
        """What tells these lists from others."""
        own = hashlib.blake2b(repr(self.options).encode(), digest_size=16)
        for array in (self.ratings.users, self.ratings.items, self.ratings.values, self.ratings.times):
            own.update(np.ascontiguousarray(array).data)
        return own.hexdigest()


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
        return scores_of(self.last, torch.cat([factors, hidden], dim=-1)).squeeze(-1)

    @torch.no_grad()
    def score_all(self, users: Tensor) -> Tensor:
        """Score every item for users (B,), nothing dropped out; returns (B, items)."""
        width = self.user_factors.embedding_dim
        of_factors, of_hidden = self.last.weight[0, :width], self.last.weight[0, width:]
        scores: Tensor = (self.user_factors(users) * of_factors) @ self.item_factors.weight.T + self.last.bias
        of_users = self.of_user(self.user_inputs(users)).unsqueeze(2)
        of_items = self.of_item(self.item_inputs.weight).T
        layers = [layer for layer in self.perceptron if isinstance(layer, nn.Linear)]
        numbers = _CHUNK if users.device.type == "cpu" else _CHUNK_ELSEWHERE
        items = max(1, numbers // of_items.shape[0])
        together = max(1, items // of_items.shape[1])
        for first in range(0, of_items.shape[1], items):
            chunk = of_items[:, first : first + items].contiguous()
            for at in range(0, len(users), together):
                hidden = (of_users[at : at + together] + chunk).relu_()
                for layer in layers:
                    hidden = (layer.weight @ hidden).add_(layer.bias[:, None]).relu_()
                scores[at : at + together, first : first + items] += of_hidden @ hidden
        return scores

    def scorer(self) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
        """Return a function of users (B,) that scores every item, as `HeldOut.ndcg` takes it."""
        device = self.last.weight.device

        def score(users: NDArray[np.int64]) -> NDArray[np.float32]:
            scores: NDArray[np.float32] = self.score_all(torch.from_numpy(users).to(device)).cpu().numpy()
            return scores

        return score

    def ndcg(
        self, held: HeldOut, cutoffs: Sequence[int], progress: Count | None = None
    ) -> NDArray[np.float64]:
        """Compute `HeldOut.ndcg`, on the CPU by as many threads as torch has."""
        score, threads = self.scorer(), torch.get_num_threads()
        if self.last.weight.device.type != "cpu" or threads == 1:
            return held.ndcg(score, cutoffs, progress=progress)

        def alone(users: NDArray[np.int64]) -> NDArray[np.float32]:
            # Threads of torch's own would wait for each other at each of many small steps.
            torch.set_num_threads(1)
            return score(users)

        try:
            return held.ndcg(alone, cutoffs, threads=threads, progress=progress)
        finally:
            torch.set_num_threads(threads)


@dataclass(frozen=True)
class LongListFit(Training):
    """A network trained on long lists.

    Attributes
    ----------
    lists : LongLists
        What it was trained on.
    """

    lists: LongLists

    def network(self) -> Any:
        """Make the network with the weights of the best epoch."""
        with torch.device("meta"):
            network = self.lists.network(self.settings)
        network.load_state_dict(self.weights, assign=True)
        return network.eval()


class LongListTask:
    """Rankings of all items, as `lmtune.reranking.loop.TrainingRun` learns from them.

    Parameters
    ----------
    As of `fit`.
    """

    def __init__(self, lists: LongLists, settings: Settings, device: str) -> None:
        self.lists, self.settings, self.device = lists, settings, device
        relevant = settings.relevant_of_sample or 1
        self.sampler = ListSampler(
            lists.pairs,
            lists.items,
            relevant=relevant,
            others=(settings.list_size or relevant + 1) - relevant,
            seed=settings.seed,
        )
        torch.manual_seed(settings.seed)
        self.network = lists.network(settings).to(device)
        self.steps = math.ceil(len(lists.pairs.queries) * lists.visits / settings.batch_size)
        self.cutoff = cutoff_of(settings.measure)

    def pairs(self) -> RelevantPairs:
        """Return the training lists' relevant pairs."""
        return self.lists.pairs

    def batches(self, epoch: int, start: int) -> Iterator[Batch]:
        """Yield an epoch's batches from a step on: each list is visited several times."""
        random = np.random.default_rng((self.settings.seed, epoch))
        known, size = self.lists.pairs.queries, self.settings.batch_size
        order = np.concatenate([random.permutation(len(known)) for _ in range(self.lists.visits)])
        for step in range(start, self.steps):
            positions = order[step * size : (step + 1) * size]
            if self.settings.list_size is None:
                sample = self.sampler.all_items(positions)
            else:
                sample = self.sampler.draw(positions, epoch=epoch, step=step)
            yield Batch(sample.labels, sample.items >= 0, sample.items, known[positions])

    def inputs(self, batch: Batch, part: slice) -> tuple[Tensor, ...]:
        """Return what the lists say."""
        found = self.lists.inputs(batch.queries[part], batch.rows[part])
        return tuple(to_device(own, self.device) for own in found)

    def weight(self, batch: Batch) -> int:
        """Return 1: epochs' losses are means over steps."""
        del batch
        return 1

    def renew_last_layer(self) -> None:
        """Draw the weights of the network's last layer anew."""
        if self.network.last is not None:
            reinitialise_last_layer(self.network, seed=self.settings.seed, layer=self.network.last)

    def measure(self) -> float:
        """Return the mean NDCG on the validation items."""
        return self.lists.validate(self.network.eval(), self.cutoff)


def fit(
    lists: LongLists,
    settings: Settings = LONG_LISTS,
    *,
    watch: Callable[[TrainingRun], None] | None = None,
    **how: Unpack[TrainingOptions],
) -> LongListFit:
    """Train on long lists; keep the epoch, after the warm-up, with the best NDCG.

    Parameters
    ----------
    lists : RatingLists
        What to learn from and to choose by.
    settings : Settings
        All but the network. `list_size` items are sampled for each user and step,
        `list_relevant` of them relevant; without, a step takes every item of a list.
    watch : callable, optional
        Called after each epoch with the training in progress.
    **how
        As for `lmtune.reranking.training.fit`.

    Raises
    ------
    InputError
        For an unknown device, a checkpoint of another training, or a loss that is no longer finite.
    """
    device = how.get("device", "cpu")
    check_device(device)
    identity = {"settings": settings.as_record(), "data": lists.digest}
    run = run_through(lambda: LongListTask(lists, settings, device), settings, identity, how, watch)
    return LongListFit.of(run, lists=lists)
