"""``lmtune rerank`` with networks that read text."""

from __future__ import annotations

import json
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scripts import refusal, run_command

from lmtune.io.runs import read_run

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
pytest.importorskip("transformers", reason="the extra 'text' is not installed")

from tiny_bert import WORDS, tiny_bert  # noqa: E402

torch.set_num_threads(1)

TEXT = "--max-length 32 --epochs 6 --batch-size 3 --learning-rate 0.02 --loss ranknet".split()


run = partial(run_command, "rerank")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a collection in which documents of pandas are relevant, a run of it, and a model."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "c").mkdir()
    rng = np.random.default_rng(0)
    others = [word for word in WORDS if word != "panda"]
    with (folder / "c/docs.jsonl").open("w") as file:
        for d in range(30):
            words = rng.choice(others, rng.integers(2, 20)).tolist()
            text = " ".join(["panda", *words] if d < 6 else words)
            file.write(json.dumps({"id": f"d{d}", "title": f"t{d}", "contents": text}) + "\n")
    with (folder / "c/topics.tsv").open("w") as file:
        file.writelines(f"{t}\twhat {rng.choice(others)}\n" for t in range(1, 13))
    with (folder / "c/qrels.txt").open("w") as file:
        file.writelines(f"{t} 0 d{d} {int(d < 6)}\n" for t in range(1, 13) for d in range(30))
    with (folder / "base.run").open("w") as file:
        for t in range(1, 13):
            docs = rng.permutation(30)[:12].tolist()
            docs = [*docs[:10], 0, 1] if not {0, 1} & set(docs) else docs
            file.writelines(f"{t} Q0 d{d} {rank} {-rank} base\n" for rank, d in enumerate(docs, 1))
    tiny_bert(folder / "bert", dropout=0.0)
    return folder


def where(home: Path) -> tuple[str | Path, ...]:
    return (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")


def net(home: Path) -> tuple[str, ...]:
    return ("--net", f"text:{home / 'bert'}", *TEXT)


def learning(home: Path) -> tuple[str, ...]:
    return (*net(home), "--loss", "ranknet")


def panda_places(path: Path, topics: list[str]) -> float:
    ranked = read_run(path)
    orders = [sorted(ranked[topic], key=ranked[topic].__getitem__, reverse=True) for topic in topics]
    return float(np.mean([place for order in orders for place, d in enumerate(order) if int(d[1:]) < 6]))


def test_trained_and_applied(home: Path) -> None:
    out, err = run(
        "train", *where(home), "--train-topics 1-8 --depth 10 --output", home / "m", *learning(home)
    )
    assert out.startswith("best epoch")
    assert "training takes up to" in err
    made = json.loads((home / "m/model.json").read_text())
    assert made["facts"]["text"]["max_length"] == 32
    new = home / "new.run"
    err = run("apply", home / "m", *where(home), "--output", new, "--checkpoint", home / "scores").err
    assert "documents scored in" in err
    topics = [str(t) for t in range(9, 13)]
    assert "it has no features" in run("importance", home / "m", *where(home), status=2).err
    assert panda_places(new, topics) < panda_places(home / "base.run", topics) - 1
    base, ranked = read_run(home / "base.run"), read_run(new)
    for topic in map(str, range(1, 9)):
        assert ranked[topic] == base[topic]
    for topic in topics:
        assert list(ranked[topic])[10:] == list(base[topic])[10:]  # beneath --depth
    for flags in (["--bf16"], ["--checkpoint", str(home / "scores"), "--depth", "10"]):
        run("apply", home / "m", *where(home), "--output", home / "again.run", *flags)
        assert panda_places(home / "again.run", topics) == pytest.approx(panda_places(new, topics), abs=0.5)


def test_a_cross_encoder_of_others_and_other_texts(home: Path) -> None:
    first = home / "first.run"
    model = f"text:{home / 'bert'}"
    run("apply", model, *where(home), "--output", first)
    titled = home / "titled.run"
    run("apply", model, *where(home), "--output", titled, "--text '{title}: {contents}'")
    assert read_run(first).keys() == read_run(titled).keys()
    assert read_run(first) != read_run(titled)


def test_a_document_without_text_is_ranked(home: Path, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    texts = {"d1": "panda whale", "d2": "", "d3": "whale"}
    rows = [json.dumps({"id": name, "contents": text}) + "\n" for name, text in texts.items()]
    (tmp_path / "c/docs.jsonl").write_text("".join(rows))
    (tmp_path / "c/topics.tsv").write_text("1\tpanda\n")
    (tmp_path / "base.run").write_text("".join(f"1 Q0 d{n} {n} {-n} base\n" for n in (1, 2, 3)))
    given = ("--run", tmp_path / "base.run", "--indexes", tmp_path / "indexes")
    output = tmp_path / "new.run"
    err = run(f"apply text:{home / 'bert'}", tmp_path / "c", *given, "--output", output).err
    assert set(read_run(output)["1"]) == set(texts)
    assert err.count("d2 has no text; documents without text are read as empty") == 1


def test_crossval_and_compare(home: Path) -> None:
    out = run("crossval", *where(home), "--folds 2 --output", home / "cv.run", *learning(home)).out
    assert "nDCG" in out
    short = [*net(home)[:-4], "--epochs", "1"]
    assert "song" in run("compare", *where(home), "--folds 2 --trials 1 --losses ranknet,song", *short).out


def test_exported(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the extra 'export' is not installed")
    pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
    (tmp_path / "pairs.tsv").write_text("what is panda\tthe panda eats\nwhat is panda\tparis\nsea\twhale\n")
    pairs, model = tmp_path / "pairs.tsv", f"text:{home / 'bert'}"
    given = ("export", model, "--to onnx --output", tmp_path / "o", "--check")
    out, err = run(*given, pairs)
    assert out.startswith("scores match, by onnxruntime: 3 rows, largest difference ")
    assert "Warning" not in err
    names = {"model.onnx", "tokenizer.json", "tokenizer_config.json", "README.txt", "made.json"}
    assert names <= {path.name for path in (tmp_path / "o").iterdir()}
    (tmp_path / "no-tab.tsv").write_text("what is panda\n")
    for check, flags, problem in (
        (pairs, "--to solr", "cross-encoders are exported --to onnx"),
        (pairs, f"--feature-names {pairs}", "--feature-names has no effect"),
        (tmp_path / "no-tab.tsv", "", "no-tab.tsv:1: not a pair"),
    ):
        assert problem in refusal("rerank", *given, check, flags)


def test_what_is_refused(home: Path) -> None:
    given = ("train", *where(home), "--output", home / "no")
    for arguments, problem in {
        (*given, "--net", f"text:{home / 'c'}"): "no language model here",
        (*given, "--net", f"text:{home / 'bert'}", "--ranker", "lambdamart"): "trees cannot read text",
        ("train", home / "c", "--output", home / "no", *net(home)): "the network needs texts",
        (*given, *net(home), "--text", "{nothing}"): "nothing",
        (*given, *net(home), "--passages", "best"): "passages",
        (*given, *net(home), "--text", "{contents"): "bad template",
        ("compare", home / "c", "--net", f"text:{home / 'bert'}"): "the network needs texts",
        (
            "apply",
            f"text:{home / 'bert'}",
            home / "base.run",
            "--output",
            home / "no",
        ): "the model reads text, not features; accepted: --run",
    }.items():
        assert problem in refusal("rerank", list(map(str, arguments)))
    assert not (home / "no").exists()


def test_without_the_extra(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where_it_is = "lmtune.rerank.settings.find_spec"
    monkeypatch.setattr(where_it_is, lambda name: None if name == "transformers" else find_spec(name))
    err = run("train", *where(home), "--output", home / "no", *net(home), status=2).err
    assert "needs the 'text' extra" in err
