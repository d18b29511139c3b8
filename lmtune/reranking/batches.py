"""Batches of ranking data, for training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.reranking.data import RankingData


@dataclass(frozen=True, eq=False)
class Batch:
    """Lists of several queries, padded to the longest.

    Attributes
    ----------
    labels : numpy.ndarray of float, shape (B, n)
        0 on padding.
    mask : numpy.ndarray of bool, shape (B, n)
        True at documents, False on padding, which stands at each list's end.
    rows : numpy.ndarray of int64, shape (B, n)
        Each document's row in the data; -1 on padding.
    queries : numpy.ndarray of int64, shape (B,)
        The queries' numbers in the data.
    """

    labels: NDArray[np.floating]
    mask: NDArray[np.bool_]
    rows: NDArray[np.int64]
    queries: NDArray[np.int64]


def batches(
    data: RankingData,
    *,
    size: int,
    seed: int,
    epoch: int,
    list_size: int | None = None,
    list_relevant: int | None = None,
    shuffle: bool = True,
    start: int = 0,
    bucket: int = 8,
) -> Iterator[Batch]:
    """Yield one epoch's batches, of lists of about the same length.

    Batch k depends on the arguments and on k alone, so that training resumed at step k sees what
    it would have seen.

    Parameters
    ----------
    data : RankingData
        The queries.
    size : int
        Queries a batch; the last ones of an epoch may stand in a smaller batch.
    seed, epoch : int
        Where the order and the cut lists come from; 0 or more.
    list_size : int, optional
        Longer lists are cut to this many documents: with `shuffle` to a random sample, anew in
        each epoch, in which one document is replaced by a relevant one if it has none and the
        query has; without, to the first ones. Whole lists by default.
    list_relevant : int, optional
        With `list_size` and `shuffle`: how many documents of a cut list are relevant ones, drawn
        among these, the others among the others; all of a kind where it has fewer, and more of
        the other kind then. A uniform sample by default.
    shuffle : bool
        Whether queries come in random order. Without, they come by length descending, those of
        equal length as in the data.
    start : int
        How many batches to skip.
    bucket : int
        With `shuffle`, queries are drawn at random for `bucket` batches at a time and sorted by
        length among these; 1 draws each batch from all, at the price of more padding.

    Yields
    ------
    Batch

    Raises
    ------
    InputError
        For sizes below 1, or numbers below 0.
    """
    for name, value, lowest in (
        ("size", size, 1),
        ("bucket", bucket, 1),
        ("list_size", list_size, 1),
        ("list_relevant", list_relevant, 1),
        ("seed", seed, 0),
        ("epoch", epoch, 0),
        ("start", start, 0),
    ):
        if value is not None and value < lowest:
            raise InputError(f"{name} is too small", value=value, accepted=f"{lowest} or more")
    plan = _plan(data, size, seed, epoch, list_size, shuffle, bucket)
    for step in range(start, len(plan)):
        random = np.random.default_rng([seed, epoch, 1, step]) if shuffle else None
        yield batch_of(data, plan[step], list_size, list_relevant, random)


def number_of_batches(data: RankingData, size: int) -> int:
    """Return how many batches `batches` yields an epoch."""
    return -(-len(data.queries) // size)


def _plan(
    data: RankingData, size: int, seed: int, epoch: int, list_size: int | None, shuffle: bool, bucket: int
) -> list[NDArray[np.int64]]:
    """Return the query numbers of each batch."""
    count = len(data.queries)
    lengths = data.lengths if list_size is None else np.minimum(data.lengths, list_size)
    if not shuffle:
        order = np.argsort(-lengths, kind="stable")
        return [order[first : first + size] for first in range(0, count, size)]
    random = np.random.default_rng([seed, epoch, 0])
    order = random.permutation(count)
    plan: list[NDArray[np.int64]] = []
    for first in range(0, count, size * bucket):
        drawn = order[first : first + size * bucket]
        drawn = drawn[np.argsort(-lengths[drawn], kind="stable")]
        plan += [drawn[begin : begin + size] for begin in range(0, drawn.size, size)]
    return [plan[place] for place in random.permutation(len(plan)).tolist()]


def batch_of(
    data: RankingData,
    queries: NDArray[np.int64],
    list_size: int | None,
    list_relevant: int | None,
    random: np.random.Generator | None,
) -> Batch:
    """Make a batch of queries by number; `list_size` and `list_relevant` as of `batches`.

    With `random` longer lists are cut to a sample, without to the first documents.
    """
    lengths = data.lengths[queries]
    rows = np.arange(int(lengths.max())) + data.starts[queries][:, None]
    rows[rows >= data.starts[queries + 1][:, None]] = -1
    if list_size is not None and rows.shape[1] > list_size:
        if random is not None:
            rows = _sampled(data, rows, list_size, list_relevant, random)
        rows = rows[:, :list_size]
    mask = rows >= 0
    labels = np.take(data.labels, rows, mode="clip")
    labels[~mask] = 0.0
    return Batch(labels, mask, rows, queries)


def _sampled(
    data: RankingData,
    rows: NDArray[np.int64],
    list_size: int,
    list_relevant: int | None,
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """Move a random sample of each list's rows to its front; lists that fit stay as they are."""
    keys = random.random(rows.shape)
    is_relevant = (rows >= 0) & (np.take(data.labels, rows, mode="clip") > 0)
    relevant = np.where(is_relevant, keys, np.inf)
    if list_relevant is None:
        # A relevant row whose key comes first is missed only by a sample that has no relevant row.
        first = relevant.argmin(axis=1)
        some = np.flatnonzero(np.isfinite(relevant.min(axis=1)))
        keys[some, first[some]] = -1.0
    else:
        # The first relevant rows before all others, the rest of them behind these.
        wanted = np.argsort(np.argsort(relevant, axis=1), axis=1) < list_relevant
        keys[is_relevant] += np.where(wanted, -1.0, 1.0)[is_relevant]
    keys[rows < 0] = np.inf
    chosen = np.sort(np.argsort(keys, axis=1)[:, :list_size], axis=1)
    return np.take_along_axis(rows, chosen, axis=1)
