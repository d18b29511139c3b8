"""Late interaction and kernel pooling against their formulas, over a small table and a tiny BERT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers", reason="the extra 'text' is not installed")

import torch
import transformers
from safetensors.torch import save_file
from tiny_bert import WORDS, tiny_bert
from tokenizers import Tokenizer, models, pre_tokenizers

from lmtune.errors import InputError
from lmtune.reranking.losses.names import parse_loss
from lmtune.reranking.settings import Settings
from lmtune.reranking.text import TextLists, fit
from lmtune.reranking.text.late_interaction import LateInteraction, of_encoder, of_table, register

QUERY, DOCUMENTS = "panda sea", ["the Bear eats panda", "whale in the sea of paris and the whale"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    tokenizer = Tokenizer(
        models.WordLevel({word: n for n, word in enumerate(["[UNK]", *WORDS])}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(
        {"w": torch.randn(len(WORDS) + 1, 6, generator=torch.Generator().manual_seed(1))},
        folder / "w.safetensors",
    )
    return folder


def logits(model: Any, tokenizer: Any, documents: list[str]) -> Any:
    read = tokenizer([QUERY] * len(documents), documents, padding=True, return_tensors="pt")
    return model(**read).logits[:, 0]


def by_hand(pooling: str, queries: Any, documents: Any, importance: Any, last: Any) -> float:
    """Score one pair in float64, as the formulas stand."""
    unit = [own / np.linalg.norm(own, axis=1, keepdims=True) for own in (queries, documents)]
    weight = np.log1p(np.exp(unit[0] @ importance[0] + importance[1]))
    total = 0.0
    for i, query in enumerate(unit[0]):
        cosines = [float(query @ document) for document in unit[1]]
        if pooling == "maxsim":
            total += weight[i] * max(cosines)
            continue
        for k, mean in enumerate([1.0, 0.9, 0.7, 0.5, 0.3, 0.1, -0.1, -0.3, -0.5, -0.7, -0.9]):
            spread = 1e-3 if k == 0 else 0.1
            kernel = sum(np.exp(-((cosine - mean) ** 2) / (2 * spread**2)) for cosine in cosines)
            total += last[k] * weight[i] * 0.01 * np.log(max(kernel, 1e-10))
    return float(total)


@pytest.mark.parametrize("pooling", ["maxsim", "knrm"])
@pytest.mark.parametrize("source", ["table", "encoder"])
def test_scores_are_the_formulas(home: Path, tmp_path: Path, pooling: str, source: str) -> None:
    model: Any
    if source == "table":
        model, tokenizer = of_table(pooling, home / "w.safetensors", home / "tokenizer.json")
        torch.nn.init.normal_(model.turn.weight)
        turned = (model.words.weight @ model.turn.weight.T).double().detach().numpy()

        def vectors(text: str, begins: bool) -> Any:
            del begins
            return turned[[1 + WORDS.index(word) for word in text.lower().split()]]
    else:
        bert = tiny_bert(tmp_path)
        encoder = transformers.AutoModel.from_pretrained(bert).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
        model = of_encoder(pooling, encoder)

        def vectors(text: str, begins: bool) -> Any:
            read = tokenizer(text, return_tensors="pt")["input_ids"][:, 0 if begins else 1 :]
            with torch.no_grad():
                return encoder(input_ids=read).last_hidden_state[0].double().numpy()

    model.eval()
    torch.nn.init.normal_(model.importance.weight)
    importance = model.importance.weight[0].double().detach().numpy(), model.importance.bias.item()
    last = model.kernels.weight[0].tolist() if pooling == "knrm" else []
    found = logits(model, tokenizer, DOCUMENTS).tolist()
    for score, text in zip(found, DOCUMENTS, strict=True):
        wanted = by_hand(pooling, vectors(QUERY, True), vectors(text, False), importance, last)
        assert score == pytest.approx(wanted, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("pooling", ["maxsim", "knrm"])
def test_it_learns_and_is_kept_but_for_the_table(home: Path, tmp_path: Path, pooling: str) -> None:
    model, tokenizer = of_table(pooling, home / "w.safetensors", home / "tokenizer.json")
    assert isinstance(model, LateInteraction)
    before = model.words.weight.clone()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(30):
        optimizer.zero_grad()
        cost: Any = -torch.log_softmax(logits(model, tokenizer, DOCUMENTS), dim=0)[1]
        cost.backward()
        optimizer.step()
    first, second = logits(model, tokenizer, DOCUMENTS).tolist()
    assert second > first + 1
    assert torch.equal(model.words.weight, before)
    model.save_pretrained(tmp_path)
    register()
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=1)
    assert torch.equal(again.words.weight, before)
    assert logits(again, tokenizer, DOCUMENTS).tolist() == pytest.approx([first, second], rel=1e-6)


def test_a_document_without_words_comes_last(home: Path) -> None:
    model, tokenizer = of_table("maxsim", home / "w.safetensors", home / "tokenizer.json")
    empty, full = logits(model, tokenizer, ["", DOCUMENTS[0]]).tolist()
    assert empty == pytest.approx(-2.0, rel=1e-6)
    assert empty < full


def test_what_is_no_table_is_refused(home: Path, tmp_path: Path) -> None:
    wrong, tokenizer = tmp_path / "two.safetensors", home / "tokenizer.json"
    save_file({"a": torch.zeros(3, 2), "b": torch.zeros(2)}, wrong)
    with pytest.raises(InputError, match=r"two.safetensors: no table of words"):
        of_table("maxsim", wrong, tokenizer)
    save_file({"a": torch.zeros(3, 2)}, wrong)
    with pytest.raises(InputError, match="the tokenizer is of another table"):
        of_table("maxsim", wrong, tokenizer)
    with pytest.raises(InputError, match="no table of words"):
        of_table("maxsim", tokenizer, tokenizer)
    with pytest.raises(InputError, match="no tokenizer"):
        of_table("maxsim", home / "w.safetensors", wrong)


@pytest.mark.parametrize("network", ["maxsim:{home}", "knrm:{home}", "maxsim:{bert}"])
def test_it_is_trained_by_name(home: Path, tmp_path: Path, network: str) -> None:
    topics = {"1": "panda", "2": "whale", "3": "paris"}
    texts = {word: f"the {word} in {word}" for word in topics.values()}
    gains = {topic: {word: float(word == own) for word in texts} for topic, own in topics.items()}
    lists = TextLists.of(topics, gains, texts)
    bert = tiny_bert(tmp_path) if "bert" in network else None
    named = network.format(home=home, bert=bert)
    settings = Settings(
        loss=parse_loss("ranknet"), network=named, epochs=8, batch_size=3, learning_rate=0.003
    )
    trained = fit(lists, lists, settings)
    assert min(epoch.loss for epoch in trained.history[1:]) < trained.history[0].loss
    assert trained.score(lists).shape == (9,)
