"""A GPT of two layers with random weights and a tokenizer of bytes and a few words, for tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_bert import WORDS


def tiny_gpt(folder: Path, *, seed: int = 0) -> Path:
    """Write a causal model as transformers keeps it, and return its folder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = dict.fromkeys(["<s>", "</s>", "<unk>", "yes", "no", "query", "document", "relevant", ":", *WORDS])
    vocabulary = {word: number for number, word in enumerate(words)}
    reader = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    reader.normalizer = tokenizers.normalizers.Lowercase()
    reader.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    bos = ("<s>", vocabulary["<s>"])
    reader.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[bos])
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=reader, model_max_length=64, padding_side="left", **marks
    ).save_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=len(vocabulary), n_embd=16, n_layer=2, n_head=2, n_positions=64, initializer_range=0.2
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder
