"""Ratings of items by users as lists to rank: reading, holding some out, NDCG over all items."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.formats.files import read_lines
from lmtune.measures.lists import ndcg_of_ranks

_ACCEPTED = "user TAB item TAB rating TAB time, whole numbers but for the rating"


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings, users and items numbered from 0 in ascending order of their ids.

    Attributes
    ----------
    users, items : int64 (n,)
        Numbers.
    values : float64 (n,)
        Ratings, above 0.
    times : int64 (n,)
        When.
    user_ids, item_ids : int64 (U,), (I,)
        The ids in the file.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    values: NDArray[np.float64]
    times: NDArray[np.int64]
    user_ids: NDArray[np.int64]
    item_ids: NDArray[np.int64]


def read_ratings(path: str | os.PathLike[str]) -> Ratings:
    """Read ratings as MovieLens-100K has them: user, item, rating and time, separated by tabs.

    Parameters
    ----------
    path : path-like
        The file, compressed or not.

    Returns
    -------
    Ratings

    Raises
    ------
    InputError
        For lines with other fields, ratings that are not above 0, and an item rated twice by one
        user.
    """
    rows: list[tuple[int, int, float, int]] = []
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            user, item, value, time = line.split("\t")
            rows.append((int(user), int(item), float(value), int(time)))
        except ValueError:
            raise InputError("not a rating", file=path, line=number, value=line, accepted=_ACCEPTED) from None
        if not (0.0 < rows[-1][2] < np.inf):
            raise InputError(
                "rating out of range", file=path, line=number, value=rows[-1][2], accepted="above 0"
            )
    if not rows:
        raise InputError("no ratings", file=path, accepted=_ACCEPTED)
    users, items, values, times = zip(*rows, strict=True)
    user_ids, user_numbers = np.unique(np.array(users, np.int64), return_inverse=True)
    item_ids, item_numbers = np.unique(np.array(items, np.int64), return_inverse=True)
    keys = np.sort(user_numbers * len(item_ids) + item_numbers)
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if twice.size:
        first, second = divmod(int(keys[twice[0]]), len(item_ids))
        pair = int(user_ids[first]), int(item_ids[second])
        raise InputError("an item rated twice by one user", file=path, value=pair)
    return Ratings(
        user_numbers.astype(np.int64),
        item_numbers.astype(np.int64),
        np.array(values),
        np.array(times, np.int64),
        user_ids,
        item_ids,
    )


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
        For numbers below 1.
    """
    for name, value in (("validation", validation), ("test", test)):
        if value < 1:
            raise InputError(f"{name} is too small", value=value, accepted="1 or more")
    order = np.lexsort((ratings.items, ratings.times, ratings.users))
    counts = np.bincount(ratings.users)
    ends = np.cumsum(counts)
    of_user = ratings.users[order]
    left = ends[of_user] - np.arange(len(order))  # 1 for a user's last rating
    enough = counts[of_user] > validation + test
    tested = enough & (left <= test)
    chosen = enough & ~tested & (left <= test + validation)
    return RatingSplit(order[~tested & ~chosen], order[chosen], order[tested])


def held_out_ndcg(
    scores: NDArray[np.floating],
    ratings: Ratings,
    held_out: NDArray[np.int64],
    seen: NDArray[np.int64],
    cutoffs: Sequence[int] = (10, 20, 50),
    *,
    graded: bool = False,
) -> NDArray[np.float64]:
    """Compute NDCG of held-out items in each user's ranking of all items but the seen ones.

    Parameters
    ----------
    scores : float (U, I)
        Of every item for every user; not NaN.
    held_out, seen : int64
        Row numbers of `ratings`: the relevant ones, and those left out of the ranking.
    cutoffs : sequence of int
        Ranks that count.
    graded : bool
        Gains 2^rating - 1; otherwise 1.

    Returns
    -------
    float64 (users with held-out items, cutoffs)
        Users in ascending order. An item that ties with others is ranked behind them.
    """
    users = np.unique(ratings.users[held_out])
    ranked = scores.astype(np.float64)
    ranked[ratings.users[seen], ratings.items[seen]] = -np.inf
    row: NDArray[np.int64] = np.searchsorted(users, ratings.users[held_out])
    gain = np.exp2(ratings.values[held_out]) - 1.0 if graded else np.ones(len(held_out))
    own = ranked[ratings.users[held_out], ratings.items[held_out]]
    # Behind every item of the same score, the other held-out ones too: those share the last rank.
    rank = (ranked[users[row]] >= own[:, None]).sum(axis=1)
    shared = np.lexsort((gain, rank, row))
    for here, before in pairwise(shared[::-1]):
        if row[here] == row[before]:
            rank[before] = min(rank[before], rank[here] - 1)
    return ndcg_of_ranks(row, gain, rank, cutoffs)
