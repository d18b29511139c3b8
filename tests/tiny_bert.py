"""A BERT of two layers with random weights and a tokenizer of letters and a few words, for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

WORDS = "what is a the of in and bear panda whale sea eats lives paris".split()


def tiny_bert(folder: Path, *, seed: int = 0, dropout: float = 0.1, width: int = 16) -> Path:
    """Write a cross-encoder with one output, as transformers keeps it, and return its folder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{one}" for one in letters)]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys([*pieces, *WORDS]))}
    tokenizer = transformers.BertTokenizerFast(vocab=vocabulary, model_max_length=64)
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_labels=1,
        initializer_range=0.2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder
