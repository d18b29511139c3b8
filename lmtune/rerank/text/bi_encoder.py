"""Bi-encoders of sentence-transformers: a pair's score is the similarity of its two embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from lmtune.errors import InputError
from lmtune.options import flags, options_of
from lmtune.rerank.settings import TextOptions
from lmtune.rerank.text.cross_encoder import find_language_model, load_pretrained, quiet

_MODULES, _TOKENS = "modules.json", 8192
_USED = ("template", "max_length", "batch_tokens")

Pairs = tuple[Sequence[str], Sequence[str]]
"""Queries and documents."""


class BiEncoder(nn.Module):
    """A bi-encoder with the methods of `lmtune.rerank.text.cross_encoder.CrossEncoder` that scoring needs.

    The model's own prompts, pooling and similarity are used; without a similarity, the cosine.

    Parameters
    ----------
    name : str
        ``encoder:MODEL``; see `lmtune.rerank.text.cross_encoder.find_language_model`.
    options : TextOptions
        Only ``template``, ``max_length`` and ``batch_tokens`` are used; ``max_length`` is that of one text.

    Raises
    ------
    InputError
        If the model cannot be loaded or is none of sentence-transformers, or another option is given.
    """

    def __init__(self, name: str, options: TextOptions) -> None:
        from sentence_transformers import SentenceTransformer

        super().__init__()
        for field in options_of(options):
            value = getattr(options, field.name)
            if field.name not in _USED and value != getattr(TextOptions, field.name):
                raise InputError(
                    f"{flags(field)[0]} has no effect with {name}", value=value, accepted="without it"
                )
        folder = find_language_model(name)
        if Path(folder).is_dir() and not Path(folder, _MODULES).is_file():
            raise InputError(
                "no bi-encoder of sentence-transformers", file=folder, accepted=f"a folder with {_MODULES}"
            )
        how = {"device": "cpu", "model_kwargs": {"use_safetensors": True, "dtype": torch.float32}}
        with quiet():
            model = load_pretrained(SentenceTransformer, folder, "model", **how)
        model.max_seq_length = min(options.max_length, model.max_seq_length or options.max_length)
        self.model = model
        self.batch = max(1, (options.batch_tokens or _TOKENS) // model.max_seq_length)

    def save(self, folder: Path) -> None:
        """Refuse: a bi-encoder is used from where it is."""
        raise InputError(
            "a bi-encoder is not saved", file=folder, accepted="encoder:MODEL, where it is needed"
        )

    def encode(self, queries: Sequence[str], documents: Sequence[str]) -> Pairs:
        """Return the pairs; `score_pairs` tokenises each text once."""
        return queries, documents

    def score_pairs(self, pairs: Pairs) -> Tensor:
        """Score pairs, shape (pairs,)."""
        embedded = []
        for texts, embed in zip(pairs, (self.model.encode_query, self.model.encode_document), strict=True):
            numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
            vectors = embed(
                [*numbers], batch_size=self.batch, convert_to_tensor=True, show_progress_bar=False
            )
            embedded.append(vectors[[numbers[text] for text in texts]])
        scores: Tensor = self.model.similarity_pairwise(*embedded)
        return scores.float()
