"""Options of a text reranker: its name, how texts are cut, how much goes through it at a time."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from lmtune.errors import InputError, MissingExtraError
from lmtune.options import check, option
from lmtune.rerank.settings import DECODER, TEXT


@dataclass(frozen=True)
class TextOptions:
    """Texts, for --net text:MODEL and its like.

    Attributes
    ----------
    template : str
        As `lmtune.collections.texts.Template` has it.
    max_length : int
        Tokens of query and document together, the model's own marks included; fewer where the model
        takes fewer.
    passages : {"first", "max", "sum"}
        A longer document is cut, or scored passage by passage: by its best one, or by their sum.
    overlap : int
        Tokens that a passage has in common with the one before.
    batch_tokens : int, optional
        Tokens, padding included, that go through the model at a time; see `CrossEncoder.batch_tokens`.
    prompt, answers, lora
        Of ``decoder:MODEL``, as `lmtune.rerank.text.decoder.of_causal` takes them.
    """

    template: str = option(
        "{contents}", "A document's text, of its fields: '{title}. {contents}'.", flag="--text"
    )
    max_length: int = option(256, "Tokens of query and document that the model sees.", low=8)
    passages: str = option(
        "first",
        "Of longer documents: their first passage alone, or the max or the sum of all passages' scores.",
        choices=("first", "max", "sum"),
    )
    overlap: int = option(32, "Tokens that a passage has in common with the one before.", low=0)
    batch_tokens: int | None = option(
        None,
        "Tokens that go through the model at a time: the memory that training takes; default 2048, on a GPU "
        "32768.",
        low=8,
    )
    prompt: str = option(
        "Query: {query}\nDocument: {document}\nDoes the document answer the query? Answer yes or no:",
        "Of decoder:MODEL, what it is asked; only texts are cut.",
    )
    answers: str = option("yes,no", "Of decoder:MODEL, its two answers, a token each.")
    lora: int = option(
        0, "Of decoder:MODEL, learn adapters of this rank (LoRA) and leave its weights; 0 learns all.", low=0
    )

    def __post_init__(self) -> None:
        check(self)
        if self.passages != "first" and self.overlap >= self.max_length // 2:
            raise InputError(
                "passages overlap too much",
                value=self.overlap,
                accepted=f"less than half of the {self.max_length} tokens",
            )


def reads_text(network: str) -> bool:
    """Tell whether a network of that name reads text; it does not look at features then.

    Raises
    ------
    MissingExtraError
        Where it does, and the extra is not installed.
    """
    if not network.startswith((TEXT, DECODER)):
        return False
    if any(find_spec(name) is None for name in ("torch", "safetensors", "transformers")):
        raise MissingExtraError(network, "text")
    return True
