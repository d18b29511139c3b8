"""Networks that score long lists: NeuMF for users and items, bag-of-words networks for labels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


def _hidden(widths: Sequence[int], dropout: float) -> nn.Sequential:
    """Return layers of rectified units after one of width ``widths[0]``."""
    layers: list[nn.Module] = [nn.ReLU(), nn.Dropout(dropout)] if widths else []
    for before, width in pairwise(widths):
        layers += [nn.Linear(before, width), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers)


class NeuMF(nn.Module):
    """Matrix factorisation and a perceptron, combined by a linear layer (He et al. 2017)."""

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
        self.user_factors, self.user_inputs = (nn.Embedding(users, width) for _ in range(2))
        self.item_factors, self.item_inputs = (nn.Embedding(items, width) for _ in range(2))
        # the first layer is the sum of a user layer and an item layer: the user part is computed once a list
        self.of_user = nn.Linear(width, layers[0])
        self.of_item = nn.Linear(width, layers[0], bias=False)
        self.perceptron = _hidden(layers, dropout)
        self.last = nn.Linear(width + layers[-1], 1)
        for module in self.children():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.01)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Score items (B, n), -1 on padding, for users (B,); returns (B, n)."""
        items = items.clamp(min=0)
        factors = self.user_factors(users).unsqueeze(1) * self.item_factors(items)
        hidden = self.of_user(self.user_inputs(users)).unsqueeze(1)
        hidden = self.perceptron(hidden + self.of_item(self.item_inputs(items)))
        scores: Tensor = self.last(torch.cat([factors, hidden], dim=-1)).squeeze(-1)
        return scores

    def score_all(self, users: Tensor) -> Tensor:
        """Score every item for users (B,); returns (B, items)."""
        every = torch.arange(self.item_factors.num_embeddings)
        return torch.cat([self(user.view(1), every[None]) for user in users])


class LabelNetwork(nn.Module):
    """A linear scorer of bags of words, with optional hidden layers of rectified units."""

    def __init__(
        self, features: int, labels: int, widths: Sequence[int] = (), *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        first = widths[0] if widths else labels
        self.words = nn.Parameter(torch.empty(features, first))
        self.bias = nn.Parameter(torch.zeros(first))
        nn.init.normal_(self.words, std=first**-0.5 if widths else 0.01)
        self.hidden = _hidden(widths, dropout)
        self.last = nn.Linear(widths[-1], labels) if widths else nn.Identity()

    def score_all(self, words: Tensor, values: Tensor, starts: Tensor) -> Tensor:
        """Score every label; the words of example b are `words` from ``starts[b]`` on, with `values`."""
        bags = functional.embedding_bag(
            words, self.words, starts, mode="sum", per_sample_weights=values, include_last_offset=True
        )
        scores: Tensor = self.last(self.hidden(bags + self.bias))
        return scores

    def forward(self, words: Tensor, values: Tensor, starts: Tensor, labels: Tensor) -> Tensor:
        """Score labels (B, n), -1 on padding, of examples; returns (B, n)."""
        return self.score_all(words, values, starts).gather(1, labels.clamp(min=0))
