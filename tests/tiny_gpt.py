"""A GPT and a T5 of two layers with random weights, and a tokenizer of bytes and a few words, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_bert import WORDS


def tiny_gpt(folder: Path, *, seed: int = 0) -> Path:
    """Write a causal model as transformers keeps it, and return its folder."""
    transformers = pytest.importorskip("transformers")
    words = _write_tokenizer(folder, "<s> $A", "<s>")
    config = transformers.GPT2Config(
        vocab_size=words, n_embd=16, n_layer=2, n_head=2, n_positions=64, initializer_range=0.2
    )
    return _write_model(folder, transformers.GPT2LMHeadModel, config, seed)


def tiny_t5(folder: Path, *, seed: int = 0) -> Path:
    """Write a sequence-to-sequence model as transformers keeps it, and return its folder."""
    transformers = pytest.importorskip("transformers")
    words = _write_tokenizer(folder, "$A </s>", "</s>")
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    config = transformers.T5Config(vocab_size=words, decoder_start_token_id=0, **sizes)
    return _write_model(folder, transformers.T5ForConditionalGeneration, config, seed)


def _write_tokenizer(folder: Path, template: str, mark: str) -> int:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = dict.fromkeys(["<s>", "</s>", "<unk>", "yes", "no", "query", "document", "relevant", ":", *WORDS])
    vocabulary = {word: number for number, word in enumerate(words)}
    reader = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    reader.normalizer = tokenizers.normalizers.Lowercase()
    reader.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = [(mark, vocabulary[mark])]
    reader.post_processor = tokenizers.processors.TemplateProcessing(single=template, special_tokens=special)
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=reader, model_max_length=64, padding_side="left", **marks
    ).save_pretrained(folder)
    return len(vocabulary)


def _write_model(folder: Path, kind: Any, config: Any, seed: int) -> Path:
    torch = pytest.importorskip("torch")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        kind(config).save_pretrained(folder)
    return folder
