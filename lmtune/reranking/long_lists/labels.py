"""Examples whose lists are all labels: learnt by the losses of ranking, measured as multi-label sets are.

Source: Qiu et al. 2022, appendix D.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from lmtune.errors import InputError, PathLike
from lmtune.formats.labelled import LabelledExamples, read_labelled, read_rows
from lmtune.measures.lists import inverse_propensities, values_of_ranks
from lmtune.measures.measure import Measure
from lmtune.progress import Count
from lmtune.reranking.learners.networks import hidden_layers, scores_of
from lmtune.reranking.long_lists.learning import LongLists, digest_of
from lmtune.reranking.long_lists.ratings import HeldOut
from lmtune.reranking.long_lists.settings import LabelOptions, LabelSettings
from lmtune.reranking.settings import Settings
from lmtune.reranking.song import RelevantPairs
from lmtune.reranking.training.devices import autocast
from lmtune.storage.files import SUFFIXES

_PARTS = {part: rf"(.*[-_.])?{part}\.(txt|svm)" for part in ("train", "test")}
_TWO_FILES = {f"{part}_X_{kind}": rf"{part}_X_{kind}\.txt" for part in ("trn", "tst") for kind in ("Xf", "Y")}
_SPLITS = {"data": r".*_data\.txt", "train": r".*_trSplit\.txt", "test": r".*_tstSplit\.txt"}
_LAYOUT = (
    "a folder with X_train.txt and X_test.txt; trn_X_Xf.txt, trn_X_Y.txt, tst_X_Xf.txt and"
    " tst_X_Y.txt; or X_data.txt, X_trSplit.txt and X_tstSplit.txt; plain or compressed"
)


def read_label_folder(
    path: PathLike, *, split: int = 1, share: float = 0.3, seed: int = 0
) -> tuple[LabelledExamples, LabelledExamples]:
    """Read examples to learn from and to test on.

    Parameters
    ----------
    path : path-like
        A folder of the extreme-classification repository: ``eurlex_train.txt`` and
        ``eurlex_test.txt`` (also ``train.txt`` and ``test.txt``); the two-file form,
        ``trn_X_Xf.txt``, ``trn_X_Y.txt`` and ``tst_...``; or ``Bibtex_data.txt`` with columns of
        rows in ``bibtex_trSplit.txt`` and ``bibtex_tstSplit.txt``. Or a single file, of which some
        examples are drawn for the test. Case does not matter; files may be compressed.
    split : int
        Which column of split files, from 1.
    share : float
        Of a single file: how many of its examples are for the test, in (0, 1).
    seed : int
        Of that draw.

    Raises
    ------
    InputError
        Naming what is missing or comes several times; where the two parts differ in features or
        labels; as `read_labelled`.
    """
    home = Path(path)
    if home.is_file():
        return hold_out(read_labelled(home), share, seed)
    if not home.is_dir():
        raise InputError("no such file or folder", file=path, accepted=_LAYOUT)
    if files := _find(home, _SPLITS):
        every = read_labelled(files["data"])
        learnt, held = (read_rows(files[part], len(every), split) for part in ("train", "test"))
        if (both := np.intersect1d(learnt, held)).size:
            value = int(both[0]) + 1
            raise InputError("an example in both parts of a split", file=files["test"], value=value)
        return every.select(learnt), every.select(held)
    if files := _find(home, _TWO_FILES):
        train, test = (read_labelled(files[f"{part}_X_Xf"], files[f"{part}_X_Y"]) for part in ("trn", "tst"))
    elif files := _find(home, _PARTS):
        train, test = read_labelled(files["train"]), read_labelled(files["test"])
    else:
        raise InputError("no examples to learn from and to test on", file=path, accepted=_LAYOUT)
    sizes, other = (train.features, train.labels), (test.features, test.labels)
    if sizes != other:
        accepted = "the same number of features and labels"
        raise InputError(f"training data of {sizes}, test data of {other}", file=path, accepted=accepted)
    return train, test


def hold_out(
    examples: LabelledExamples, share: float, seed: int
) -> tuple[LabelledExamples, LabelledExamples]:
    """Part examples at random: what stays, and the share that is held out; either in their order.

    Raises
    ------
    InputError
        For a share that leaves no example on one side.
    """
    order: NDArray[np.int64] = np.random.default_rng(seed).permutation(len(examples))
    count = round(share * len(examples))
    if not 0 < count < len(examples):
        raise InputError("bad share of examples", value=share, accepted=f"some of the {len(examples)}")
    return examples.select(np.sort(order[count:])), examples.select(np.sort(order[:count]))


def _find(folder: Path, wanted: dict[str, str]) -> dict[str, Path]:
    """Return the files of a layout; none where it is another."""
    ends = "|".join(re.escape(end) for end in SUFFIXES)
    names = sorted(folder.iterdir())
    by_part = {}
    for part, pattern in wanted.items():
        files = [file for file in names if re.fullmatch(rf"{pattern}({ends})?", file.name, re.IGNORECASE)]
        if not files:
            return {}
        if len(files) > 1:
            listed = ", ".join(file.name for file in files)
            raise InputError(f"several {part} files", file=folder, value=listed, accepted="one")
        [by_part[part]] = files
    return by_part


_MOST_WEIGHTS = 1 << 28
# A share of the labels from which on all of them are quicker.
_MANY = 0.25


class LabelNetwork(nn.Module):
    """A linear scorer of bags of words, or one behind hidden layers of rectified units.

    Parameters
    ----------
    features, labels : int
        How many of each.
    widths : sequence of int
        Of the hidden layers; none for a linear scorer.
    dropout : float
        Behind each of them.

    Raises
    ------
    InputError
        For more than 2^28 weights.
    """

    def __init__(
        self, features: int, labels: int, widths: Sequence[int] = (), *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        sizes = [features, *widths, labels]
        if (weights := sum(a * b for a, b in pairwise(sizes))) > _MOST_WEIGHTS:
            accepted = f"{_MOST_WEIGHTS:,} at most: a narrower hidden layer, or one at all (mlp:64)"
            raise InputError("too many weights", value=weights, accepted=accepted)
        # Sums of rows of the words; examples have length 1.
        self.words = nn.Parameter(torch.empty(sizes[0], sizes[1]))
        self.bias = nn.Parameter(torch.zeros(sizes[1]))
        nn.init.normal_(self.words, std=sizes[1] ** -0.5 if widths else 0.01)
        self.hidden = hidden_layers(widths, dropout)
        self.last = nn.Linear(widths[-1], labels) if widths else None

    def forward(self, words: Tensor, values: Tensor, starts: Tensor, labels: Tensor) -> Tensor:
        """Score labels (B, n), -1 on padding, of examples; returns (B, n).

        Example b holds the `words` from ``starts[b]`` to ``starts[b + 1]``, with `values`.
        """
        labels = labels.clamp(min=0)
        total = self.bias.numel() if self.last is None else self.last.out_features
        if labels.shape[1] >= _MANY * total:
            return self.score_all(words, values, starts).gather(1, labels)
        if self.last is None:
            # Only the weights of an example's words for its labels are touched.
            example = torch.repeat_interleave(torch.arange(len(labels), device=words.device), starts.diff())
            weights = functional.embedding(words[:, None] * total + labels[example], self.words.view(-1, 1))
            scores = self.bias[labels]
            return scores.index_add(0, example, weights.squeeze(-1) * values[:, None])
        rows = functional.embedding(labels, self.last.weight)
        hidden = self._hidden(words, values, starts).float()
        with autocast(hidden.device, bf16=False):
            of_labels: Tensor = torch.einsum("bh,bnh->bn", hidden, rows)
        return of_labels + functional.embedding(labels, self.last.bias[:, None]).squeeze(-1)

    def score_all(self, words: Tensor, values: Tensor, starts: Tensor) -> Tensor:
        """Score every label; returns (B, labels)."""
        hidden = self._hidden(words, values, starts)
        scores: Tensor = hidden if self.last is None else scores_of(self.last, hidden)
        return scores

    def _hidden(self, words: Tensor, values: Tensor, starts: Tensor) -> Tensor:
        bags = functional.embedding_bag(
            words, self.words, starts, mode="sum", per_sample_weights=values, include_last_offset=True
        )
        hidden: Tensor = self.hidden(bags + self.bias)
        return hidden


Score = Callable[[NDArray[np.int64]], NDArray[np.floating]]


@dataclass(frozen=True, eq=False)
class LabelLists(LongLists):
    """Examples with labels, to learn from and to measure; bags of words are scaled to length 1.

    Attributes
    ----------
    given, test : LabelledExamples
        What to learn from and to choose by, and to test on.
    options : LabelOptions
    """

    given: LabelledExamples
    test: LabelledExamples
    options: LabelOptions = field(default_factory=LabelOptions)

    @cached_property
    def parts(self) -> tuple[LabelledExamples, LabelledExamples]:
        """Examples to learn from, and those that choose the epoch."""
        train, validation = hold_out(self.given, self.options.validation, seed=0)
        for name, part in (("training", train), ("validation", validation), ("test", self.test)):
            if not len(part.relevant.ids):
                raise InputError(f"no {name} example has a label", accepted="one or more")
        return train, validation

    @cached_property
    def pairs(self) -> RelevantPairs:
        """The training examples' labels as relevant pairs of lists of all labels."""
        relevant = self.parts[0].relevant
        return RelevantPairs.from_rows(
            relevant.rows, relevant.ids, np.ones(len(relevant.ids)), lengths=self.given.labels
        )

    @property
    def items(self) -> int:
        """How many labels there are."""
        return self.given.labels

    @cached_property
    def digest(self) -> str:
        """A digest that tells these examples from others."""
        facts = self.options.validation, self.visits, self.items, self.given.features
        return digest_of(facts, *self.given.bags, self.given.values, *self.given.relevant)

    def network(self, settings: Settings) -> LabelNetwork:
        """Make a network that ranks labels."""
        widths = settings.widths if isinstance(settings, LabelSettings) else ()
        return LabelNetwork(self.given.features, self.items, widths, dropout=settings.dropout)

    def check(self, settings: LabelSettings) -> None:
        """Raise InputError where there is nothing to learn from, or a network would be too large."""
        with torch.device("meta"):
            self.network(settings)
        self.parts  # noqa: B018 - whether every part has a label

    def inputs(self, queries: NDArray[np.int64], items: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        """Return words, values and starts, and labels."""
        return *_bags(self.parts[0], queries), items

    def validate(self, network: LabelNetwork, cutoff: int) -> float:
        """Return the mean NDCG on what chooses the epoch."""
        part = self.parts[1]
        return float(_held_out(part).ndcg(scorer(network, part), [cutoff]).mean())

    def reported(self, measure: Measure) -> tuple[Measure, ...]:
        """Return what is measured."""
        del measure
        return self.options.reported

    def measure(
        self, trial: Sequence[Any], measures: Sequence[Measure], device: str, progress: Count | None = None
    ) -> NDArray[np.float64]:
        """Measure a network on the test examples that have a label, shape (examples, measures)."""
        [fitted] = trial
        return self.measured(scorer(fitted.network().to(device), self.test), measures, progress)

    def measured(
        self, score: Score, measures: Sequence[Measure], progress: Count | None = None
    ) -> NDArray[np.float64]:
        """Measure what scores the labels of test examples, given by number."""
        held = _held_out(self.test)
        ranks = held.ranks(score, progress=progress)
        counts = np.bincount(self.given.relevant.ids, minlength=self.items)
        a, b = self.options.propensity_a, self.options.propensity_b
        weights = inverse_propensities(counts, len(self.given), a=a, b=b)[held.items[ranks.places]]
        return values_of_ranks(ranks.lists, weights, ranks.above, ranks.tied, measures)


def scorer(network: LabelNetwork, examples: LabelledExamples) -> Score:
    """Return a function of examples' numbers (B,) that scores every label."""
    device = network.words.device

    @torch.no_grad()
    def score(rows: NDArray[np.int64]) -> NDArray[np.float32]:
        bags = (torch.from_numpy(array).to(device) for array in _bags(examples, rows))
        scores: NDArray[np.float32] = network.score_all(*bags).cpu().numpy()
        return scores

    return score


def _bags(examples: LabelledExamples, rows: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Return words, values and starts of some examples."""
    places, starts = examples.bags.places(rows)
    values = examples.values[places]
    example = np.repeat(np.arange(len(rows)), np.diff(starts))
    length = np.sqrt(np.bincount(example, weights=values.astype(np.float64) ** 2, minlength=len(rows)))
    scaled = (values / np.where(length > 0, length, 1.0)[example]).astype(np.float32)
    return examples.bags.ids[places].astype(np.int64), scaled, starts


def _held_out(examples: LabelledExamples) -> HeldOut:
    """Take labels for held-out items; nothing is left out of the rankings."""
    relevant = examples.relevant
    nothing = np.zeros(len(relevant.starts), np.int64), np.empty(0, np.int32)
    users = np.flatnonzero(np.diff(relevant.starts))
    return HeldOut(users, relevant.starts, relevant.ids, np.ones(len(relevant.ids)), *nothing)
