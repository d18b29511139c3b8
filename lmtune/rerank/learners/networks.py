"""Networks that score the items of a query, by name.

- ``linear``: one weight per feature.
- ``two-layer``: 10 hidden tanh units (Yue and Burges 2007, the SPSA paper).
- ``b64`` to ``b1024``: the networks of Bruch et al. (2019). ``b64`` has ReLU layers of 64, 32 and 16
  units; the larger ones put layers of twice the width before them. Batch norm is applied to the
  input and after each layer. ``b:256-64`` sets the widths of the layers.
- ``mlp:256-128-64``: ReLU layers of these widths, without batch norm.
- ``attention``: the context-aware ranker of Pobrotyn et al. (2020), with self-attention over the
  query's items. ``attention:128-2-2`` sets width, blocks and heads.

Parameters without effect are omitted: the bias of the score, biases before batch norm, and biases of
attention keys.
"""

from __future__ import annotations

import re
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmtune.devices import autocast
from lmtune.errors import InputError
from lmtune.rerank.training.distributed import sum_over_processes, world_size

_BRUCH = (64, 128, 256, 512, 1024)
_HIDDEN = 10
_MOST_WIDTH, _MOST_LAYERS = 65536, 64

_ACCEPTED = "linear, two-layer, b64, b128, b256, b512, b1024, b:256-64, mlp:256-128-64, attention[:128-2-2]"
"""Names that `make_network` accepts, for messages."""


class Pointwise(nn.Module):
    """Scores each item independently; padding is not computed.

    Parameters
    ----------
    body : nn.Sequential
        Maps (items, features) to (items, 1).
    """

    def __init__(self, body: nn.Sequential) -> None:
        super().__init__()
        self.body = body

    @property
    def last(self) -> nn.Linear:
        """The layer that computes the score."""
        return cast("nn.Linear", self.body[-1])

    def items(self, features: Tensor) -> Tensor:
        """Score items: (items, features) to (items,)."""
        return _scores_of(self.last, self.body[:-1](features)).squeeze(-1)

    def forward(self, features: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Score queries: (batch, items, features) and (batch, items) to (batch, items).

        Padding, where `mask` is False, has score 0. `features` can also contain only the items,
        shape (all items, features), in the mask's order. Their `positions` in the flattened mask
        avoid a synchronisation with the GPU.
        """
        of_items = self.items(features if features.dim() == 2 else features[mask])
        if positions is None:
            positions = mask.view(-1).nonzero().squeeze(1)
        return of_items.new_zeros(mask.numel()).scatter(0, positions, of_items).view(mask.shape)


class Attention(nn.Module):
    """Scores a query's items jointly by self-attention (Pobrotyn et al., 2020).

    A linear layer is followed by blocks and a linear layer that computes the score. Each block has
    self-attention and a two-layer network, both with a residual connection and layer norm first.
    There are no position embeddings: permuting the items permutes the scores.

    Parameters
    ----------
    features, width, blocks, heads : int
        Number of features, hidden units, blocks, and heads per block.
    dropout : float
        In [0, 1).
    """

    def __init__(self, features: int, *, width: int, blocks: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(features, width)
        self.blocks = nn.ModuleList(_Block(width, heads, dropout) for _ in range(blocks))
        self.norm = nn.LayerNorm(width, bias=False)
        self.last = nn.Linear(width, 1, bias=False)

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        """Score queries: (batch, items, features) and (batch, items) to (batch, items)."""
        # Values of padding must not reach the weights' gradients, not even as 0 * inf.
        x = self.first(torch.where(mask[..., None], features, 0.0))
        # A query without items attends to its padding, so that no score is NaN; its scores are not used.
        attended = (mask | ~mask.any(-1, keepdim=True))[:, None, None, :]
        for block in self.blocks:
            x = block(x, attended)
        return torch.where(mask, _scores_of(self.last, self.norm(x)).squeeze(-1), 0.0)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inputs = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * width, width)
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, attended: Tensor) -> Tensor:
        batch, items, width = x.shape
        parts = self.inputs(self.norms[0](x)).view(batch, items, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        context = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attended, dropout_p=self.dropout if self.training else 0.0
        )
        x = x + self.drop(self.output(context.transpose(1, 2).reshape(batch, items, width)))
        result: Tensor = x + self.drop(self.feed(self.norms[1](x)))
        return result


def _scores_of(last: nn.Linear, hidden: Tensor) -> Tensor:
    """Apply the last layer in float32, also under autocast.

    bfloat16 has so few values that different items would have equal scores.
    """
    with autocast(hidden.device, bf16=False):
        scores: Tensor = last(hidden.to(last.weight.dtype))
    return scores.float()


class ItemNorm(nn.BatchNorm1d):
    """Batch norm over items, in data parallel training over those of all processes."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (items, features); fewer than two items are normalised by the running statistics."""
        if not self.training or (world_size() == 1 and x.shape[0] > 1):
            return super().forward(x)
        if world_size() == 1:
            return functional.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        return self._over_processes(x)

    def _over_processes(self, x: Tensor) -> Tensor:
        assert self.running_mean is not None
        assert self.running_var is not None
        # In float64, as in torch on the CPU, so that the division into parts does not change the result.
        exact = x.double()
        count = sum_over_processes(exact.new_full((1,), x.shape[0]))
        is_enough, count = count > 1, count.clamp(min=1)
        mean = torch.where(is_enough, sum_over_processes(exact.sum(0)) / count, self.running_mean)
        exact = exact - mean
        variance = sum_over_processes(exact.square().sum(0)) / count
        variance = torch.where(is_enough, variance, self.running_var)
        share = (self.momentum or 0.0) * is_enough
        unbiased = variance.detach() * count / (count - 1).clamp(min=1)
        self.running_mean.lerp_(mean.detach().to(self.running_mean), share.to(self.running_mean))
        self.running_var.lerp_(unbiased.to(self.running_var), share.to(self.running_var))
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(is_enough.squeeze(0))
        normal = (exact * torch.rsqrt(variance + self.eps)).to(x.dtype)
        return normal * self.weight + self.bias if self.affine else normal


def make_network(
    name: str, features: int, *, dropout: float = 0.0, norm_momentum: float = 0.9, seed: int = 0
) -> Pointwise | Attention:
    """Create a network with random weights.

    Parameters
    ----------
    name : str
        A name from this module's docstring; case does not matter.
    features : int
        Number of features.
    dropout : float
        Dropout after each hidden layer, in [0, 1).
    norm_momentum : float
        Momentum m of batch norm's running statistics, in [0, 1): new = m old + (1 - m) batch, as in
        Keras. Torch's momentum is 1 - m.
    seed : int
        Seed of the weights. Torch's global generator does not change.

    Returns
    -------
    Pointwise or Attention
        ``network(features, mask)`` returns scores.

    Raises
    ------
    InputError
        If the name is unknown, there are no features, or the dropout is out of bounds.
    """
    if not 0.0 <= dropout < 1.0:
        raise InputError("bad dropout", value=dropout, accepted="0 or more, below 1")
    if features < 1:
        raise InputError("no features to learn from", value=features, accepted="one or more")
    kind, widths = parse_network(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "attention":
            width, blocks, heads = widths
            return Attention(features, width=width, blocks=blocks, heads=heads, dropout=dropout)
        if kind == "two-layer":
            layers = [nn.Linear(features, _HIDDEN), nn.Tanh()]
            return Pointwise(nn.Sequential(*layers, nn.Linear(_HIDDEN, 1, bias=False)))
        # Rounded, because 1 - 0.9 differs from torch's default 0.1 in the last bits.
        return _perceptron(features, widths, dropout, round(1.0 - norm_momentum, 12) if kind == "b" else None)


def parse_network(name: str) -> tuple[str, tuple[int, ...]]:
    """Parse a network's name into its kind and its widths, or (width, blocks, heads) for attention.

    Raises
    ------
    InputError
        If the name is unknown.
    """
    text = name.strip().lower()
    if text in ("linear", "two-layer"):
        return text, ()
    if text in [f"b{width}" for width in _BRUCH]:
        first = int(text[1:])
        return "b", tuple(width for width in (1024, 512, 256, 128, 64, 32, 16) if width <= first)
    kind, _, rest = text.partition(":")
    if text == "attention":
        rest = "128-2-2"
    numbers = re.fullmatch(r"[1-9][0-9]{0,5}(-[1-9][0-9]{0,5})*", rest)
    if numbers is None or kind not in ("mlp", "b", "attention"):
        raise InputError("unknown network", value=name, accepted=_ACCEPTED)
    widths = tuple(map(int, rest.split("-")))
    if kind == "attention" and (len(widths) != 3 or widths[0] % widths[2]):
        raise InputError(
            "bad attention network",
            value=name,
            accepted="attention:WIDTH-BLOCKS-HEADS, where WIDTH is a multiple of HEADS",
        )
    layers = widths[1] if kind == "attention" else len(widths)
    if max(widths) > _MOST_WIDTH or layers > _MOST_LAYERS:
        raise InputError("the network is too large", value=name, accepted=_ACCEPTED)
    return kind, widths


def _perceptron(features: int, widths: tuple[int, ...], dropout: float, norm: float | None) -> Pointwise:
    """Create ReLU layers; with batch norm of torch's momentum `norm`, or None for no batch norm."""
    layers: list[nn.Module] = [] if norm is None else [ItemNorm(features, momentum=norm, affine=False)]
    last = features
    for width in widths:
        layers.append(nn.Linear(last, width, bias=norm is None))
        if norm is not None:
            layers.append(ItemNorm(width, momentum=norm))
        layers.append(nn.ReLU())
        if dropout:
            layers.append(nn.Dropout(dropout))
        last = width
    return Pointwise(nn.Sequential(*layers, nn.Linear(last, 1, bias=False)))
