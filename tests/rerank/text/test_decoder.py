"""Language models that answer yes or no, against the model itself asked by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers", reason="the extra 'text' is not installed")
pytest.importorskip("peft", reason="the extra 'text' is not installed")

import torch
import transformers
from tiny_bert import tiny_bert
from tiny_gpt import tiny_gpt, tiny_t5

from lmtune.errors import InputError
from lmtune.rerank.loss_names import parse_loss
from lmtune.rerank.reranker import Reranker, load_model, save_model
from lmtune.rerank.settings import Settings, TextOptions
from lmtune.rerank.text import TextLists, fit
from lmtune.rerank.text.cross_encoder import load_network

PROMPT = "query: {query} document: {document} relevant:"
OPTIONS = TextOptions(prompt=PROMPT, max_length=32, batch_tokens=64)
TEXTS = {"panda": "the bear eats", "whale": "lives in the sea of paris and the whale", "paris": "what is"}


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gpt(tmp_path_factory.mktemp("gpt"))


def lists(options: TextOptions = OPTIONS) -> TextLists:
    topics = {"1": "panda", "2": "whale", "3": "paris"}
    gains = {topic: {word: float(word == own) for word in TEXTS} for topic, own in topics.items()}
    return TextLists.of(topics, gains, TEXTS, options)


def asked(gpt: Path, text: str, words: tuple[str, str] = ("yes", "no")) -> float:
    """Ask the causal model by hand, without padding."""
    kind: Any = transformers.AutoModelForCausalLM
    model = kind.from_pretrained(gpt).eval()
    vocabulary = transformers.AutoTokenizer.from_pretrained(gpt).get_vocab()
    known = [vocabulary.get(word, vocabulary["<unk>"]) for word in text.split()]
    with torch.no_grad():
        logits = model(torch.tensor([[vocabulary["<s>"], *known]])).logits[0, -1]
    yes, no = (vocabulary[word] for word in words)
    return float(logits[yes] - logits[no])


@pytest.mark.parametrize("lora", [0, 4])
def test_scores_are_the_models_own(gpt: Path, lora: int) -> None:
    network = load_network(f"decoder:{gpt}", TextOptions(prompt=PROMPT, lora=lora))
    scores = network.score_pairs(network.encode(["panda"] * 3, list(TEXTS.values()))).tolist()
    wanted = [asked(gpt, f"query : panda document : {text} relevant :") for text in TEXTS.values()]
    assert scores == pytest.approx(wanted, rel=1e-4, abs=1e-6)


@pytest.mark.first_case
@pytest.mark.parametrize("lora", [0, 4])
def test_a_sequence_to_sequence_model_answers_first(tmp_path: Path, lora: int) -> None:
    folder = tiny_t5(tmp_path / "t5")
    options = TextOptions(prompt="Query: {query} Document: {document} Relevant:", lora=lora)
    reranker = load_model(f"decoder:{folder}", text={**vars(options)})
    kind: Any = transformers.AutoModelForSeq2SeqLM
    t5, read = kind.from_pretrained(folder).eval(), transformers.AutoTokenizer.from_pretrained(folder)
    wanted = []
    for query in ("panda", "whale", "paris"):
        for text in TEXTS.values():
            prompt = read(f"Query: {query} Document: {text} Relevant:", return_tensors="pt").input_ids
            assert prompt[0, -1] == read.eos_token_id
            with torch.no_grad():
                logits = t5(input_ids=prompt, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
            yes, no = (read.get_vocab()[word] for word in ("yes", "no"))
            wanted.append(float(logits[yes] - logits[no]))
    np.testing.assert_allclose(reranker.score(lists(options)), wanted, rtol=1e-4, atol=1e-6)
    assert np.ptp(wanted) > 0.01
    settings = Settings(
        loss=parse_loss("ranknet"), network=f"decoder:{folder}", epochs=4, batch_size=3, learning_rate=0.01
    )
    trained = fit(lists(options), lists(options), settings)
    assert min(epoch.loss for epoch in trained.history[1:]) < trained.history[0].loss
    save_model(tmp_path / "model", Reranker(trained, (), {"text": {**vars(options)}, "depth": 10}), {})
    again = load_model(tmp_path / "model")
    np.testing.assert_allclose(again.score(lists(options)), trained.score(lists(options)), rtol=1e-5)


def test_the_document_may_come_first_and_answers_be_others(gpt: Path) -> None:
    options = TextOptions(prompt="{document} : {query} relevant", answers="panda,whale")
    network = load_network(f"decoder:{gpt}", options)
    [score] = network.score_pairs(network.encode(["the sea"], ["a bear eats"])).tolist()
    assert score == pytest.approx(asked(gpt, "a bear eats : the sea relevant", ("panda", "whale")), rel=1e-4)


def test_only_texts_are_cut(gpt: Path) -> None:
    for passages in ("first", "max"):
        options = TextOptions(prompt=PROMPT, max_length=14, passages=passages, overlap=2)
        network = load_network(f"decoder:{gpt}", options)
        pieces = network.encode(["panda"], ["the whale lives in the sea and eats a bear"])
        read = [network.tokenizer.decode(tokens) for tokens in pieces.columns["input_ids"]]
        assert all(
            text.startswith("<s> query : panda document : the whale" if n == 0 else "<s> query : panda")
            for n, text in enumerate(read)
        )
        assert all(text.endswith("relevant :") for text in read)
        assert (len(read) > 1) == (passages == "max")
        assert max(map(len, pieces.columns["input_ids"])) == 14


def test_a_prompt_that_leaves_no_room_for_texts_is_refused(gpt: Path) -> None:
    prompt = 9  # <s> query : document : relevant :, and a token of each text
    network = load_network(f"decoder:{gpt}", TextOptions(prompt=PROMPT, max_length=prompt))
    pieces = network.encode(["panda whale"], ["the whale lives in the sea"])
    assert [network.tokenizer.decode(tokens) for tokens in pieces.columns["input_ids"]] == [
        "<s> query : panda document : the relevant :"
    ]
    with pytest.raises(
        InputError, match=r"--max-length leaves no room.*beside 7 tokens.*: 8; accepted: 9 or"
    ):
        load_network(f"decoder:{gpt}", TextOptions(prompt=PROMPT, max_length=prompt - 1))


@pytest.mark.first_case
@pytest.mark.parametrize("lora", [0, 2])
def test_it_learns_and_is_kept(gpt: Path, tmp_path: Path, lora: int) -> None:
    options = TextOptions(prompt=PROMPT, max_length=32, batch_tokens=64, lora=lora)
    settings = Settings(
        loss=parse_loss("ranknet"),
        network=f"decoder:{gpt}",
        epochs=8,
        batch_size=3,
        learning_rate=0.01,
        dropout=0.0,
    )
    assert Settings(network="decoder:x").learning_rate == Settings(network="text:x").learning_rate
    trained = fit(lists(options), lists(options), settings)
    assert min(epoch.loss for epoch in trained.history[1:]) < trained.history[0].loss
    before = load_network(f"decoder:{gpt}", options).state_dict()
    moved = {
        name for name, weight in trained.network.state_dict().items() if not torch.equal(weight, before[name])
    }
    assert moved
    if lora:
        assert all("lora_" in name for name in moved)
    folder = tmp_path / "model"
    save_model(folder, Reranker(trained, (), {"text": {**vars(options)}, "depth": 10}), {})
    again: Any = load_model(folder)
    np.testing.assert_allclose(again.score(lists(options)), trained.score(lists(options)), rtol=1e-5)
    assert [weight.requires_grad for weight in again.scorer.network.parameters()] == [
        weight.requires_grad for weight in trained.network.parameters()
    ]
    with pytest.raises(InputError, match="a trained model's prompt cannot change: 'x'"):
        load_model(folder, text={"prompt": "x"})


def test_one_that_was_not_trained_is_asked_as_it_is(gpt: Path) -> None:
    model = load_model(f"decoder:{gpt}", text={"prompt": PROMPT})
    wanted = [
        asked(gpt, f"query : {query} document : {text} relevant :")
        for query in ("panda", "whale", "paris")
        for text in TEXTS.values()
    ]
    np.testing.assert_allclose(model.score(lists()), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "{query} alone"}, "bad prompt: '{query} alone'; accepted: a text with {query} and"),
        ({"prompt": "{query} {query} {document}"}, "bad prompt"),
        ({"prompt": PROMPT, "answers": "yes"}, "bad answers: 'yes'; accepted: two comma-separated answers"),
        ({"prompt": PROMPT, "answers": "yes,no bear"}, "bad answers"),
        ({"prompt": PROMPT, "answers": "yes,yes"}, "bad answers"),
    ],
)
def test_bad_prompts_and_answers_are_refused(gpt: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_network(f"decoder:{gpt}", TextOptions(**options))
    assert message in str(caught.value)


def test_adapters_are_of_decoders_alone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only prompted models support lora"):
        load_network(f"text:{tiny_bert(tmp_path)}", TextOptions(lora=4))
