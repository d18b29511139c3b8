"""Ratings of items by users as lists to rank: holding some out, NDCG over all items, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, check_least
from lmtune.formats.ratings import Ratings
from lmtune.measures.list_kernels import count_above
from lmtune.measures.lists import ndcg_of_ranks
from lmtune.progress import Count
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
        items, left = (ratings.items[own].astype(np.int32) for own in (rows, others))
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
                if not np.isfinite(scores).all():
                    raise InputError(
                        "the scores are no longer finite",
                        accepted="a smaller learning rate, clipping, or another loss",
                    )
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
