"""The page of mistakes, replayed word by word."""

from __future__ import annotations

import json
import random
import re
import shlex
from pathlib import Path

import pytest

from lmtune.cli.main import run as run_main

PAGE = Path(__file__).parents[1] / "docs" / "mistakes.md"
ALL = re.findall(r"^    \$ lmtune (.*)\n    (.*)$", PAGE.read_text(encoding="utf-8"), re.M)
WORDS = ["bird", "flu", "vaccine", "whale", "panda", "sea", "paris", "bear", "ship", "wing", "flow", "heat"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small collection, two runs of it, files with a mistake each, and an empty folder."""
    pytest.importorskip("torch", reason="the extra 'neural' is not installed")
    pytest.importorskip("transformers", reason="the extra 'text' is not installed")
    folder, rng = tmp_path_factory.mktemp("mistakes"), random.Random(1)
    mine = folder / "my-collection"
    for made in (mine, folder / "results"):
        made.mkdir()
    texts = [" ".join(rng.choices(WORDS, k=12)) for _ in range(60)]
    documents = [json.dumps({"id": f"d{n}", "contents": text}) for n, text in enumerate(texts)]
    (mine / "docs.jsonl").write_text("\n".join(documents) + "\n")
    topics = [f"{n + 1}\t{WORDS[n]} {WORDS[n + 3]}\n" for n in range(8)]
    (mine / "topics.tsv").write_text("".join(topics))
    judged = [f"{n + 1} 0 d{(7 * n + 3 * k) % 60} {k % 2}\n" for n in range(8) for k in range(20)]
    for own in (mine, folder):
        (own / "qrels.txt").write_text("".join(judged))
    (folder / "broken-qrels.txt").write_text("1 0 d1 1\n1 0 d1\n")
    (folder / "broken.run").write_text("1 Q0 d1 1 x tag\n")
    (folder / "empty.run").write_text("")
    (folder / "twice.run").write_text("1 Q0 d1 1 2.0 t\n1 Q0 d1 2 1.0 t\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for model, run in (("bm25", "bm25.run"), ("two-stage", "ql.run")):
            assert run_main(["search", "my-collection", "--model", model, "--output", run]) == 0
    return folder


def test_there_are_forty() -> None:
    assert len(ALL) >= 40


@pytest.mark.parametrize(("command", "said"), ALL, ids=[command for command, _ in ALL])
def test_a_mistake_is_answered_as_the_page_says(
    command: str, said: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    if "cuda" in command and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    monkeypatch.chdir(home)
    before = sorted(home.iterdir())
    capsys.readouterr()
    assert run_main(shlex.split(command)) == 2
    assert capsys.readouterr().err.splitlines()[-1:] == [said]
    assert sorted(home.iterdir()) == before
