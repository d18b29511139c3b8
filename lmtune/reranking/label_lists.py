"""Examples whose lists are all labels: learnt by the losses of ranking, measured as multi-label sets are.

Source: Qiu et al. 2022, appendix D.4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.formats.labelled import LabelledExamples
from lmtune.measures.label_measures import inverse_propensities, values_of_ranks
from lmtune.measures.measure import Measure
from lmtune.progress import Count
from lmtune.reranking import long_lists
from lmtune.reranking.label_folder import hold_out
from lmtune.reranking.label_networks import LabelNetwork
from lmtune.reranking.label_settings import LabelOptions, LabelSettings
from lmtune.reranking.long_lists import LongListFit
from lmtune.reranking.ratings import HeldOut
from lmtune.reranking.settings import Settings
from lmtune.reranking.song import RelevantPairs
from lmtune.reranking.training import TrainingOptions

Score = Callable[[NDArray[np.int64]], NDArray[np.floating]]


@dataclass(frozen=True, eq=False)
class LabelLists:
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
        """What to learn from, and what chooses the epoch."""
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

    @property
    def visits(self) -> int:
        """How often an epoch visits each example."""
        return self.options.visits

    @cached_property
    def digest(self) -> str:
        """What tells these examples from others."""
        facts = self.options.validation, self.visits, self.items, self.given.features
        own = hashlib.blake2b(repr(facts).encode(), digest_size=16)
        for array in (*self.given.bags, self.given.values, *self.given.relevant):
            own.update(np.ascontiguousarray(array).data)
        return own.hexdigest()

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

    @property
    def folds(self) -> int:
        """One."""
        return 1

    def reported(self, measure: str) -> tuple[Measure, ...]:
        """Return what is measured."""
        del measure
        return self.options.reported

    def train(self, fold: int, settings: Settings, **how: Unpack[TrainingOptions]) -> LongListFit:
        """Train a network: see `lmtune.reranking.long_lists.fit`."""
        del fold
        return long_lists.fit(self, settings, **how)

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
        found = network.score_all(*(torch.from_numpy(own).to(device) for own in _bags(examples, rows)))
        scores: NDArray[np.float32] = found.cpu().numpy()
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
    own = examples.relevant
    nothing = np.zeros(len(own.starts), np.int64), np.empty(0, np.int32)
    users = np.flatnonzero(np.diff(own.starts))
    return HeldOut(users, own.starts, own.ids, np.ones(len(own.ids)), *nothing)
