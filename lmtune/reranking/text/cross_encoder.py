"""Scores of (query, document) pairs by a language model, with the gradient in pieces.

With whole graphs, memory grows with a step's documents. Here a step's pairs are scored in
micro-batches that keep no graph; once the loss has given dL/ds, each micro-batch goes through the
model again, what is dropped out drawn again, and its part of the gradient back (gradient caching:
Gao, Zhang, Han and Callan, Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup,
RepL4NLP 2021). The last micro-batch keeps its graph: it goes back first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lmtune.errors import InputError
from lmtune.reranking.text.models import LanguageModel
from lmtune.reranking.text.options import TextOptions


class Pieces(NamedTuple):
    """What a model reads of pairs.

    Attributes
    ----------
    columns : mapping of str to list of list of int
        What the tokenizer gives, a list a piece.
    pair : numpy.ndarray of int64, shape (pieces,)
        The pair that each is of, ascending.
    pairs : int
        How many pairs there are.
    """

    columns: Mapping[str, list[list[int]]]
    pair: NDArray[np.int64]
    pairs: int


class CrossEncoder(nn.Module):
    """A language model that reads query and document together.

    Parameters
    ----------
    given : LanguageModel
        As `lmtune.reranking.text.models.load_language_model` gives it.
    options : TextOptions
        How texts are cut, and into which micro-batches.
    dropout : float, optional
        In place of the model's own.
    """

    def __init__(self, given: LanguageModel, options: TextOptions, *, dropout: float | None = None) -> None:
        super().__init__()
        self.model, self.tokenizer, self.options = given.model, given.tokenizer, options
        self.tokenizer.model_max_length = min(options.max_length, self.tokenizer.model_max_length)
        # Padding here is of encoded lists, by micro-batches.
        self.tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True
        self.whole_graphs = False
        for module in self.model.modules():
            if dropout is not None and isinstance(module, nn.Dropout):
                module.p = dropout

    @property
    def last(self) -> nn.Linear:
        """The layer that gives the score."""
        return [module for module in self.model.modules() if isinstance(module, nn.Linear)][-1]

    @property
    def language_model(self) -> LanguageModel:
        """The model and its tokenizer."""
        return LanguageModel(self.model, self.tokenizer)

    def encode(self, queries: Sequence[str], documents: Sequence[str]) -> Pieces:
        """Tokenise pairs, one or several pieces each.

        Raises
        ------
        InputError
            Where a query leaves no room for passages.
        """
        if not queries:
            return Pieces({}, np.empty(0, np.int64), 0)
        if self.options.passages == "first":
            columns = self.tokenizer(list(queries), list(documents), truncation=True)
            return Pieces(columns, np.arange(len(queries)), len(queries))
        try:
            columns = self.tokenizer(
                list(queries),
                list(documents),
                truncation="only_second",
                return_overflowing_tokens=True,
                stride=self.options.overlap,
            )
        except BaseException as error:  # tokenizers' own panic is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            longest = max(queries, key=len)
            raise InputError(
                f"a query leaves no room for passages of {self.tokenizer.model_max_length} tokens",
                value=longest,
                accepted="a larger max length, less overlap, or first passages alone",
            ) from None
        pair = np.asarray(columns.pop("overflow_to_sample_mapping"), np.int64)
        return Pieces(columns, pair, len(queries))

    def forward(self, pieces: Pieces, mask: Tensor) -> Tensor:
        """Score pairs into a padded table, (batch, items); the mask's True are the pairs in order."""
        # A process may have no pair of a batch; what it gives must still have a gradient.
        table = mask.float() * 0.0 * self.last.weight.flatten()[0]
        if not pieces.pairs:
            return table
        return table.masked_scatter(mask, self.of_pairs(pieces))

    def of_pairs(self, pieces: Pieces) -> Tensor:
        """Score pairs, shape (pairs,)."""
        lengths = np.array([len(own) for own in pieces.columns["input_ids"]])
        parts = micro_batches(lengths, self.options.batch_tokens)
        found = []
        for number, part in enumerate(parts, 1):
            inputs = self._padded(pieces.columns, part)
            if torch.is_grad_enabled() and number < len(parts) and not self.whole_graphs:
                found.append(checkpoint(self._scores, inputs, use_reentrant=False))
            else:
                found.append(self._scores(inputs))
        places = torch.from_numpy(np.argsort(np.concatenate(parts))).to(found[0].device)
        return self._joined(torch.cat(found)[places], pieces)

    def _joined(self, scores: Tensor, pieces: Pieces) -> Tensor:
        if self.options.passages == "first":
            return scores
        pair = torch.from_numpy(pieces.pair).to(scores.device)
        how = "amax" if self.options.passages == "max" else "sum"
        zeros = scores.new_zeros(pieces.pairs)
        return zeros.scatter_reduce(0, pair, scores, how, include_self=False)

    def _padded(self, columns: Mapping[str, list[list[int]]], part: NDArray[np.int64]) -> dict[str, Tensor]:
        chosen = {name: [rows[place] for place in part.tolist()] for name, rows in columns.items()}
        padded = self.tokenizer.pad(chosen, return_tensors="pt")
        device = self.last.weight.device
        return {name: tensor.to(device) for name, tensor in padded.items()}

    def _scores(self, inputs: dict[str, Tensor]) -> Tensor:
        logits: Tensor = self.model(**inputs).logits
        return logits.squeeze(-1).float()


def micro_batches(lengths: NDArray[np.integer[Any]], tokens: int) -> list[NDArray[np.int64]]:
    """Part pieces, longest first, so that padded to its longest no part has more tokens.

    Parameters
    ----------
    lengths : numpy.ndarray of int, shape (pieces,)
        Tokens of each piece.
    tokens : int
        Of a part; a longer piece stands alone.

    Returns
    -------
    list of numpy.ndarray
        Places of pieces.
    """
    order = np.argsort(-lengths, kind="stable")
    parts, first = [], 0
    while first < order.size:
        count = max(1, tokens // int(lengths[order[first]]))
        parts.append(order[first : first + count])
        first += count
    return parts
