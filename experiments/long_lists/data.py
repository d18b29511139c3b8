"""Ratings and multi-label examples as long lists: relevant training pairs and held-out pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from experiments.long_lists.networks import LabelNetwork, NeuMF
from lmtune import InputError
from lmtune.losses.songs import RelevantPairs
from lmtune.measures import ndcg

Score = Callable[[NDArray[np.int64]], NDArray[np.floating]]
_BLOCK = 64
_SEPARATORS = {".dat": "::", ".csv": ",", ".tsv": "\t", ".data": "\t"}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out relevant items, and the items excluded from each ranking.

    Attributes
    ----------
    lists : int64 (n,)
        Indices of the evaluated lists.
    relevant, seen : sparse array (all lists, items)
        Grades of the held-out items; non-zero for excluded items.
    weights : float64 (items,)
        Inverse propensities of the items, for ``psp@k``.
    """

    lists: NDArray[np.int64]
    relevant: sparse.csr_array
    seen: sparse.csr_array
    weights: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))

    def measure(self, score: Score, measures: Sequence[str]) -> NDArray[np.float64]:
        """Evaluate rankings of all items that are not excluded, shape (lists, measures).

        ``ndcg@k`` is the mean over the orders of tied items; ``p@k`` and ``psp@k`` use the first order.
        ``psp@k`` is divided by the mean of the ideal values.
        """
        ends = range(_BLOCK, len(self.lists), _BLOCK)
        blocks = [self._block(score, rows, measures) for rows in np.split(self.lists, ends)]
        values, best = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        scaled: NDArray[np.float64] = values / best.mean(axis=0)
        return scaled

    def _block(
        self, score: Score, rows: NDArray[np.int64], measures: Sequence[str]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        scores, labels = score(rows).astype(np.float64), self.relevant[rows].toarray()
        ranked = self.seen[rows].toarray() == 0
        starts = np.concatenate([[0], ranked.sum(axis=1).cumsum()])
        lists = SimpleNamespace(labels=labels[ranked], starts=starts, docnos=None)
        values, best = np.ones((2, len(rows), len(measures)))
        gains = np.where(labels > 0, self.weights, 0.0)
        order = np.argsort(np.where(ranked, -scores, np.inf), axis=1, kind="stable")
        for column, name in enumerate(measures):
            kind, _, cutoff = name.partition("@")
            if kind == "ndcg":
                values[:, column] = ndcg(scores[ranked], lists, [int(cutoff)])[:, 0]
                continue
            own = gains if kind == "psp" else (labels > 0) * 1.0
            values[:, column] = np.take_along_axis(own, order[:, : int(cutoff)], 1).sum(1) / int(cutoff)
            if kind == "psp":
                best[:, column] = -np.sort(-own, axis=1)[:, : int(cutoff)].sum(1) / int(cutoff)
        return values, best


@dataclass(frozen=True, eq=False)
class LongLists:
    """Lists of the same items: relevant training pairs, and held-out validation and test pairs.

    Attributes
    ----------
    pairs : RelevantPairs
    items : int
    validation, test : HeldOut
    network : callable
        Creates the network that scores the items.
    inputs : callable
        Maps indices of training lists to the first inputs of the network.
    held_out_inputs : mapping of str to callable
        The same for "validation" and "test".
    """

    pairs: RelevantPairs
    items: int
    validation: HeldOut
    test: HeldOut
    network: Callable[[], nn.Module]
    inputs: Callable[[NDArray[np.int64]], tuple[torch.Tensor, ...]]
    held_out_inputs: Mapping[str, Callable[[NDArray[np.int64]], tuple[torch.Tensor, ...]]]

    def measure(self, network: Any, part: str, measures: Sequence[str]) -> NDArray[np.float64]:
        """Evaluate a network on "validation" or "test", shape (lists, measures)."""
        held: HeldOut = getattr(self, part)

        @torch.no_grad()
        def score(rows: NDArray[np.int64]) -> NDArray[np.floating]:
            scores: NDArray[np.floating] = network.score_all(*self.held_out_inputs[part](rows)).numpy()
            return scores

        return held.measure(score, measures)


def read_ratings(path: str | Path) -> pd.DataFrame:
    """Read MovieLens' ratings: user, item, rating, time; users and items become indices from 0."""
    separator = _SEPARATORS.get(Path(path).suffix, "\t")
    header = 0 if separator == "," else None
    columns = ["user", "item", "rating", "time"]
    frame = pd.read_csv(path, sep=separator, header=header, names=columns, engine="python")
    for name in ("user", "item"):
        frame[name] = pd.factorize(frame[name], sort=True)[0]
    return frame


def made_ratings() -> pd.DataFrame:
    """Make ratings of forty users; each likes one half of sixty items."""
    random = np.random.default_rng(0)
    items = np.concatenate([(user % 2) * 30 + random.permutation(30)[:12] for user in range(40)])
    made = {"user": np.repeat(np.arange(40), 12), "item": items, "rating": 1.0, "time": np.arange(480)}
    last = {"user": [0], "item": [59], "rating": [1.0], "time": [-1]}
    return pd.concat([pd.DataFrame(made), pd.DataFrame(last)])


def rating_lists(
    ratings: pd.DataFrame, *, held_out: int = 5, graded: bool = False, dropout: float = 0.0
) -> LongLists:
    """Hold out each user's latest ratings: the last for tests, as many before them for validation.

    Users with no more than twice `held_out` ratings keep all of them in training.
    """
    ordered = ratings.sort_values(["user", "time", "item"])
    users, items = int(ordered.user.max()) + 1, int(ordered.item.max()) + 1
    left = ordered.groupby("user").cumcount(ascending=False)
    enough = ordered.groupby("user")["item"].transform("size") > 2 * held_out
    if not enough.any():
        raise InputError("no user has enough ratings", accepted=f"{2 * held_out + 1} or more")
    part = np.where(~enough | (left >= 2 * held_out), 0, np.where(left >= held_out, 1, 2))
    grades = ordered.rating if graded else pd.Series(1.0, index=ordered.index)

    def table(chosen: NDArray[np.bool_]) -> sparse.csr_array:
        cells = ordered.user[chosen], ordered.item[chosen]
        return sparse.csr_array((grades[chosen], cells), shape=(users, items))

    train = part == 0
    pairs = RelevantPairs.from_rows(ordered.user[train], ordered.item[train], grades[train], lengths=items)
    tested = np.unique(ordered.user[part == 2])
    validation, test = (HeldOut(tested, table(part == n), table(part < n)) for n in (1, 2))

    def inputs(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
        return (torch.from_numpy(rows),)

    of_parts = {"validation": inputs, "test": inputs}
    return LongLists(
        pairs, items, validation, test, lambda: NeuMF(users, items, dropout=dropout), inputs, of_parts
    )


def read_examples(path: str | Path) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Read features and labels in the format of the extreme-classification repository.

    The first line has the numbers of examples, features and labels. Each other line has
    ``LABEL,LABEL FEATURE:VALUE FEATURE:VALUE``, with ids from 0; labels may be missing.
    """
    with Path(path).open(encoding="ascii") as stream:
        shape = [int(number) for number in stream.readline().split()]
        lines = [line.rstrip("\n") for line in stream]
    if len(shape) != 3 or len(lines) != shape[0]:
        accepted = "EXAMPLES FEATURES LABELS, then one line for each example"
        raise InputError("not a file of labelled examples", file=path, accepted=accepted)
    labels, features = sparse.lil_array((shape[0], shape[2])), sparse.lil_array((shape[0], shape[1]))
    for row, line in enumerate(lines):
        try:
            for word in line.split():
                name, colon, value = word.partition(":")
                if colon:
                    features[row, int(name)] = float(value)
                else:
                    labels[row, [int(label) for label in name.split(",") if label]] = 1.0
        except (ValueError, IndexError) as error:
            raise InputError(f"not an example ({error})", file=path, line=row + 2, value=line) from None
    return features.tocsr(), labels.tocsr()


def label_lists(
    train: Path, test: Path, *, widths: Sequence[int] = (256,), validation: float = 0.1, dropout: float = 0.0
) -> LongLists:
    """Make lists of all labels for multi-label examples with bags of words scaled to length 1."""
    (words, labels), (test_words, test_labels) = read_examples(train), read_examples(test)
    order = np.random.default_rng(0).permutation(words.shape[0])
    count = round(validation * len(order))
    rows = {"validation": np.sort(order[:count]), "train": np.sort(order[count:])}
    learnt = labels[rows["train"]].tocoo()
    row, label = learnt.coords
    pairs = RelevantPairs.from_rows(row, label, learnt.data, lengths=labels.shape[1])
    bags = {"train": words[rows["train"]], "validation": words[rows["validation"]], "test": test_words}
    relevant = {"validation": labels[rows["validation"]], "test": test_labels}
    weights = _inverse_propensities(labels)

    def of_part(part: str) -> Callable[[NDArray[np.int64]], tuple[torch.Tensor, ...]]:
        lengths = sparse.linalg.norm(bags[part], axis=1)
        scaled = sparse.csr_array(bags[part] / np.where(lengths > 0, lengths, 1.0)[:, None])

        def inputs(rows: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
            bag = scaled[rows]
            arrays = bag.indices.astype(np.int64), bag.data.astype(np.float32), bag.indptr.astype(np.int64)
            return tuple(map(torch.from_numpy, arrays))

        return inputs

    def held_out_part(part: str) -> HeldOut:
        labelled = np.flatnonzero(np.diff(relevant[part].indptr))
        return HeldOut(labelled, relevant[part], sparse.csr_array(relevant[part].shape), weights)

    def network() -> nn.Module:
        return LabelNetwork(words.shape[1], labels.shape[1], widths, dropout=dropout)

    of_parts = {part: of_part(part) for part in ("validation", "test")}
    return LongLists(
        pairs,
        labels.shape[1],
        held_out_part("validation"),
        held_out_part("test"),
        network,
        of_part("train"),
        of_parts,
    )


def _inverse_propensities(labels: sparse.csr_array, a: float = 0.55, b: float = 1.5) -> NDArray[np.float64]:
    """Weight labels by 1 + C (n + B)^-A (Jain et al. 2016); rare labels have larger weights."""
    counts, examples = np.asarray(labels.sum(axis=0)).ravel(), labels.shape[0]
    c = (np.log(examples) - 1.0) * (b + 1.0) ** a
    weights: NDArray[np.float64] = 1.0 + c * (counts + b) ** -a
    return weights
