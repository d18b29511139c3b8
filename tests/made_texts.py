"""A random language model of two layers with a tokenizer made of a file here, and lists of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lmtune.reranking.text.lists import TextLists
from lmtune.reranking.text.options import TextOptions

README = Path(__file__).resolve().parents[1] / "README.md"
LONGEST = 64


def made_model(folder: Path, *, seed: int = 0) -> Path:
    """Write a two-layer BERT of 16 units with random weights, and its tokenizer."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    words.normalizer = normalizers.BertNormalizer()
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=marks, show_progress=False)
    words.train([str(README)], trainer)
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    kind: Any = PreTrainedTokenizerFast
    kind(tokenizer_object=words, model_max_length=LONGEST, model_input_names=inputs, **names).save_pretrained(
        folder
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        make: Any = BertConfig
        config = make(
            vocab_size=words.get_vocab_size(),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=LONGEST,
            num_labels=1,
            initializer_range=0.2,
        )
        BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def made_texts(seed: int, *, queries: int = 8, options: TextOptions | None = None) -> TextLists:
    """Make lists of 2 to 6 documents of words of the README; those with one word are relevant."""
    rng = np.random.default_rng(seed)
    words = np.array(sorted({word for word in README.read_text(encoding="utf-8").split() if word.isalpha()}))
    topics: dict[str, str] = {}
    texts: dict[str, str] = {}
    run: dict[str, dict[str, float]] = {}
    for q in range(queries):
        topics[f"{seed}-{q}"] = f"what is {rng.choice(words)}"
        run[f"{seed}-{q}"] = labels = {}
        for d in range(rng.integers(2, 7)):
            own = rng.choice(words, rng.integers(3, 30)).tolist()
            labels[f"{seed}-{q}-{d}"] = float(d == 0)
            texts[f"{seed}-{q}-{d}"] = " ".join(["reranking", *own] if d == 0 else own)
    return TextLists.of(topics, run, texts, options)
