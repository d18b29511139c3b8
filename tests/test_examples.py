"""What ``examples/`` and ``docs/`` show runs, and does what it says."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tiny_bert import WORDS, tiny_bert

from lmtune.cli.main import app
from lmtune.formats.frames import as_run
from lmtune.formats.labelled import read_labelled
from lmtune.formats.runs import read_run
from lmtune.laboratory import data
from lmtune.reranking.sources import in_order

ROOT = Path(__file__).resolve().parents[1]
DOCS = {
    path.name: found
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if (found := re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S))
}


@pytest.mark.usefixtures("one_thread")
def test_a_network_learns_by_lambdarank(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "train_with_lambdarank.py"))
    shown = [float(value) for value in re.findall(r"nDCG@10 (.*)", capsys.readouterr().out)]
    assert len(shown) == 20
    assert shown[0] < 0.8 < 0.93 < shown[-1]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder for all examples: they share an index."""
    return tmp_path_factory.mktemp("examples")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("tune_and_compare", lambda default, grid, gradient: default < min(grid, gradient)),
        ("bm25_with_certificate", lambda climb, best, bound: climb <= best <= bound <= best + 0.0051),
        ("fuse_runs", lambda *values: len(values) == 6 and min(values[3:]) > np.mean(values[:3])),
        ("rerank_with_song", lambda ranknet, song, feature: feature + 0.2 < min(ranknet, song)),
        ("own_model", lambda grid, gradient: grid > 0.2 < gradient),
    ],
)
def test_the_scripts_run(work: Path, name: str, holds: Callable[..., bool]) -> None:
    script = ROOT / "examples" / f"{name}.py"
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 40
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    shown = subprocess.run(
        [sys.executable, script], cwd=work, env=environment, capture_output=True, text=True, check=True
    ).stdout
    before = "AP|than|nDCG@10|alone:|default|grid|gradient|single|linear|rrf|combmnz"
    assert holds(*map(float, re.findall(rf"(?:{before}) +(0?\.\d{{4}})\b", shown)))
    if name == "fuse_runs":
        assert len(read_run(work / "fused.txt")) == 150


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with what the pages speak of: ``my-collection``, and a cross-encoder ``model``."""
    tiny_bert(tmp_path / "model")
    folder, rng = tmp_path / "my-collection", np.random.default_rng(2)
    folder.mkdir()
    words = [word for word in WORDS if len(word) > 3]
    texts = [" ".join(rng.choice(words, 4 + n % 9)) for n in range(80)]
    documents = (json.dumps({"id": f"d{n}", "contents": text}) + "\n" for n, text in enumerate(texts))
    (folder / "docs.jsonl").write_text("".join(documents))
    queries = [" ".join(rng.choice(words, 3, replace=False)) for _ in range(12)]
    (folder / "topics.tsv").write_text("".join(f"{t}\t{text}\n" for t, text in enumerate(queries)))
    found = [
        (t, n, set(query.split()) <= set(text.split()) or n % 20 == t)
        for t, query in enumerate(queries)
        for n, text in enumerate(texts)
    ]
    (folder / "qrels.txt").write_text("".join(f"{t} 0 d{n} {int(gain)}\n" for t, n, gain in found))
    attributes = [*(f"word{n} numeric" for n in range(3)), *(f"label{n} {{0,1}}" for n in range(159))]
    rows = ["0.5,0,2," + ",".join(str(int(n in (0, 158))) for n in range(159)), ",".join("0" * 162)]
    lines = ["@relation made", *(f"@attribute {name}" for name in attributes), "@data", *rows]
    (tmp_path / "bibtex-train.arff").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("one_thread")
def test_the_commands_of_the_page_on_text_run(home: Path) -> None:
    [block] = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "text.md").read_text(encoding="utf-8"), re.S)
    shown = ""
    for command in block.splitlines():
        result = CliRunner().invoke(app, command.split()[1:])
        assert result.exit_code == 0, (command, result.stderr)
        shown = result.stdout
    assert shown.split()[:3] == ["run", "map", "ndcg_cut_10"]
    assert len(shown.splitlines()) == 1 + len(["first", "features", "text"])
    assert set(read_run(home / "fused.run")) == set(read_run(home / "first.run"))
    features, text = (read_run(home / f"{name}.run") for name in ("features", "text"))
    changed = 0
    for topic, own in features.items():
        before, after = in_order(own), in_order(text[topic])
        assert after[20:] == before[20:]
        assert set(after[:20]) == set(before[:20])
        changed += after[:20] != before[:20]
    assert changed > 6


@pytest.fixture
def few_topics(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Show the laboratory the first 150 topics of a collection alone."""
    usable = data._usable
    monkeypatch.setattr(data, "_usable", lambda *given: usable(*given)[:150])
    data.load_pool.cache_clear()
    yield
    data.load_pool.cache_clear()


@pytest.mark.parametrize(
    "page", [pytest.param(name, marks=[pytest.mark.slow] * (name == "python.md")) for name in DOCS]
)
@pytest.mark.usefixtures("one_thread", "home", "few_topics")
def test_the_pages_run(page: str) -> None:
    scope: dict[str, object] = {}
    for block in DOCS[page]:
        exec(block, scope)
    if page == "losses.md":
        loss, same, bound = (float(str(scope[name].item())) for name in ("loss", "same", "bound"))  # type: ignore[attr-defined]
        assert same == pytest.approx(loss, rel=1e-6)
        assert -1 <= bound <= 0
    if page == "python.md":
        chosen = scope["tuner"].best_params_  # type: ignore[attr-defined]
        assert 0 < chosen["lambda"] < 1
        assert chosen["mu"] > 0
        assert scope["found"].conclusions  # type: ignore[attr-defined]
    if page == "rerank.md":
        examples = read_labelled("bibtex_train.txt")
        assert (len(examples), examples.features, examples.labels) == (2, 3, 159)
        assert (examples.relevant.ids.tolist(), examples.values.tolist()) == ([0, 158], [0.5, 2.0])
    if page == "text.md":
        second, third = (as_run(scope[name]) for name in ("second", "third"))
        for topic, own in second.items():
            assert in_order(third[topic])[20:] == in_order(own)[20:]
        assert second != third
        assert set(as_run(scope["fused"])) == set(second)


@pytest.mark.slow
def test_the_notebook_runs_and_shows_tables_and_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    client = pytest.importorskip("nbclient", reason="nbclient is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    client.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown: list[str] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shown += output.get("data", {}).keys()
            assert output.get("output_type") != "error"
            assert "Warning" not in output.get("text", "")
    assert shown.count("image/png") == 3
    assert shown.count("text/html") >= 7
