"""Users' rankings of all items: ratings held out, NDCG over all items in blocks, NeuMF that scores them.

Sources: Qiu et al. 2022, section 7.2 (the task); He, Liao, Zhang, Nie, Hu and Chua, Neural
Collaborative Filtering, WWW 2017 (the network).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lmtune.errors import InputError, check_least
from lmtune.formats.ratings import Ratings
from lmtune.measures.list_kernels import count_above
from lmtune.measures.lists import ndcg_of_ranks
from lmtune.measures.measure import Measure, exponential_ndcg
from lmtune.progress import Count
from lmtune.reranking.learners.networks import hidden_layers, scores_of
from lmtune.reranking.long_lists.learning import LongLists, digest_of
from lmtune.reranking.long_lists.settings import RankingOptions, cutoff_of
from lmtune.reranking.settings import Settings
from lmtune.reranking.song import RelevantPairs
from lmtune.reranking.training.loop import check_finite
from lmtune.threads import over_slices

_BLOCK = 64
"""Users whose scores of all items are held at a time."""


@dataclass(frozen=True, eq=False)
class RatingSplit:
    """Row numbers of ratings to train on, to choose on and to test on, int64."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]


def leave_out(ratings: Ratings, *, validation: int = 1, test: int = 1) -> RatingSplit:
    """Hold each user's latest ratings out: the last `test`, and the `validation` ones before.

    With 1 and 1 this is the split of Qiu et al. 2022, section 7.2. Equal times are ordered by
    item. Users with no more than `validation` + `test` ratings keep all of them in training.

    Raises
    ------
    InputError
        For numbers below 1, or where no user has enough ratings.
    """
    for name, value in (("validation", validation), ("test", test)):
        check_least(f"{name} is too small", value, 1)
    order = np.lexsort((ratings.items, ratings.times, ratings.users))
    counts = np.bincount(ratings.users)
    enough = counts > validation + test
    if not enough.any():
        raise InputError(
            "no user has enough ratings",
            value=f"{int(counts.max())} at most",
            accepted=f"{validation + test + 1} or more, {validation} to validate and {test} to test with",
        )
    of_user = ratings.users[order]
    left = np.cumsum(counts)[of_user] - np.arange(len(order))  # 1 for a user's last rating
    left[~enough[of_user]] = len(order) + 1
    tested = left <= test
    chosen = ~tested & (left <= test + validation)
    return RatingSplit(order[~tested & ~chosen], order[chosen], order[tested])


class Ranks(NamedTuple):
    """Where held-out items are ranked, all int64 (n,).

    Attributes
    ----------
    lists, places : numpy.ndarray
        The user of each, as a place in `HeldOut.users`; and its place in `HeldOut.items`.
    above, tied : numpy.ndarray
        How many of the user's items have a higher score, and how many the same, itself included.
    """

    lists: NDArray[np.int64]
    places: NDArray[np.int64]
    above: NDArray[np.int64]
    tied: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out items of users, and the items that are left out of their rankings.

    Attributes
    ----------
    users : int64 (U',)
        Those with held-out items, ascending.
    starts, seen_starts : int64 (U + 1,)
        User u has the held-out items ``starts[u]`` to ``starts[u + 1] - 1``; so for those left out.
    items, gains : int32 and float64 (n,)
        Held-out items, and what each counts.
    seen : int32 (m,)
        Items left out.
    """

    users: NDArray[np.int64]
    starts: NDArray[np.int64]
    items: NDArray[np.int32]
    gains: NDArray[np.float64]
    seen_starts: NDArray[np.int64]
    seen: NDArray[np.int32]

    @classmethod
    def of(
        cls, ratings: Ratings, held_out: NDArray[np.int64], seen: NDArray[np.int64], *, graded: bool = False
    ) -> HeldOut:
        """Take the rows `held_out` for relevant items, and leave the rows `seen` out of rankings.

        With `graded` gains are 2^rating - 1, otherwise 1.
        """
        starts, rows = _by_user(ratings, held_out)
        seen_starts, others = _by_user(ratings, seen)
        gains = np.exp2(ratings.values[rows].astype(np.float64)) - 1.0 if graded else np.ones(len(rows))
        items, left = (ratings.items[rated].astype(np.int32) for rated in (rows, others))
        return cls(np.flatnonzero(np.diff(starts)), starts, items, gains, seen_starts, left)

    def sample(self, count: int, seed: int) -> HeldOut:
        """Draw `count` of the users; all where there are no more."""
        if count >= len(self.users):
            return self
        drawn = np.random.default_rng(seed).choice(self.users, count, replace=False)
        return replace(self, users=np.sort(drawn))

    def ndcg(
        self,
        score: Callable[[NDArray[np.int64]], NDArray[np.floating]],
        cutoffs: Sequence[int] = (10, 20, 50),
        *,
        threads: int = 1,
        progress: Count | None = None,
    ) -> NDArray[np.float64]:
        """Compute NDCG of the held-out items in each user's ranking of all items not left out.

        Parameters
        ----------
        score : callable
            Takes users (B,) and gives their scores of every item, (B, I), which are overwritten.
        cutoffs : sequence of int
            Ranks that count.
        threads : int
            How many call `score`; the result does not depend on it.
        progress : callable, optional
            Called with (blocks of users done, blocks in all).

        Returns
        -------
        float64 (U', cutoffs)
            Items of equal score stand in every order equally often: the mean over these.

        Raises
        ------
        InputError
            For scores that are not finite.
        """
        ranks = self.ranks(score, threads=threads, progress=progress)
        return ndcg_of_ranks(ranks.lists, self.gains[ranks.places], ranks.above, ranks.tied, cutoffs)

    def ranks(
        self,
        score: Callable[[NDArray[np.int64]], NDArray[np.floating]],
        *,
        threads: int = 1,
        progress: Count | None = None,
    ) -> Ranks:
        """Find where held-out items are ranked; as `ndcg`."""
        counts = np.diff(self.starts)[self.users]
        ends = np.cumsum(counts)
        above, tied = np.empty((2, int(counts.sum())), np.int64)

        def count(part: slice) -> None:
            for first in range(part.start * _BLOCK, min(part.stop * _BLOCK, len(self.users)), _BLOCK):
                users = self.users[first : first + _BLOCK]
                scores = score(users)
                check_finite(bool(np.isfinite(scores).all()), "the scores are no longer finite")
                begin = int(ends[first] - counts[first])
                seen = self.seen_starts, self.seen
                count_above(scores, users, self.starts, self.items, *seen, above[begin:], tied[begin:])

        over_slices(count, -(-len(self.users) // _BLOCK), threads=threads, progress=progress)
        rows = np.arange(len(above)) - np.repeat(ends - counts, counts)
        places = rows + np.repeat(self.starts[self.users], counts)
        return Ranks(np.repeat(np.arange(len(counts)), counts), places, above, tied)


def _by_user(ratings: Ratings, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each user's rows begin, and the rows user by user."""
    users = ratings.users[rows]
    starts = np.zeros(len(ratings.user_ids) + 1, np.int64)
    np.cumsum(np.bincount(users, minlength=len(ratings.user_ids)), out=starts[1:])
    return starts, rows[np.argsort(users, kind="stable")]


CUTOFFS = (10, 20, 50)


"""Of the nDCG that is reported on test items."""


_CHUNK = 1 << 17


"""Numbers of a layer held at a time where all items are scored: they fit a processor's cache."""


_CHUNK_ELSEWHERE = 1 << 25


@dataclass(frozen=True, eq=False)
class RatingLists(LongLists):
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
        """Held-out items that choose the epoch, among all items that are not in training."""
        held = HeldOut.of(self.ratings, self.split.validation, self.split.train, graded=self.options.graded)
        return held.sample(self.options.validation_users, seed=0)

    @cached_property
    def test(self) -> HeldOut:
        """Held-out items of the tests, among all items in neither training nor validation."""
        seen = np.concatenate([self.split.train, self.split.validation])
        return HeldOut.of(self.ratings, self.split.test, seen, graded=self.options.graded)

    def reported(self, measure: Measure) -> tuple[Measure, ...]:
        """Return what is measured where validation chooses by a measure."""
        return tuple(map(exponential_ndcg, sorted({cutoff_of(measure), *CUTOFFS})))

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
        """A digest that tells these lists from others."""
        known = self.ratings
        return digest_of(self.options, known.users, known.items, known.values, known.times)


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
        self.perceptron = hidden_layers(layers, dropout)
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
