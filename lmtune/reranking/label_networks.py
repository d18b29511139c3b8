"""Networks that score labels of bags of words, and evaluate the labels that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmtune.errors import InputError
from lmtune.reranking.devices import autocast
from lmtune.reranking.networks import scores_of

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
        hidden: list[nn.Module] = [nn.ReLU(), nn.Dropout(dropout)] if widths else []
        for before, after in pairwise(widths):
            hidden += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
        self.hidden = nn.Sequential(*hidden)
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
            found: Tensor = torch.einsum("bh,bnh->bn", hidden, rows)
        return found + functional.embedding(labels, self.last.bias[:, None]).squeeze(-1)

    def score_all(self, words: Tensor, values: Tensor, starts: Tensor) -> Tensor:
        """Score every label; returns (B, labels)."""
        found = self._hidden(words, values, starts)
        scores: Tensor = found if self.last is None else scores_of(self.last, found)
        return scores

    def _hidden(self, words: Tensor, values: Tensor, starts: Tensor) -> Tensor:
        bags = functional.embedding_bag(
            words, self.words, starts, mode="sum", per_sample_weights=values, include_last_offset=True
        )
        found: Tensor = self.hidden(bags + self.bias)
        return found
