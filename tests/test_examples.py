"""What ``examples/`` and ``docs/`` show runs, and does what it says."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from tiny_bert import WORDS, tiny_bert
from typer.testing import CliRunner

from lmtune.cli.main import app
from lmtune.formats.frames import as_run
from lmtune.formats.runs import read_run
from lmtune.reranking.runs import in_order

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.usefixtures("one_thread")
def test_a_network_learns_by_lambdarank(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "train_with_lambdarank.py"))
    shown = [float(value) for value in re.findall(r"nDCG@10 (.*)", capsys.readouterr().out)]
    assert len(shown) == 20
    assert shown[0] < 0.8 < 0.93 < shown[-1]


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
    assert len(shown.splitlines()) == 5
    features, text = (read_run(home / f"{name}.run") for name in ("features", "text"))
    changed = 0
    for topic, own in features.items():
        before, after = in_order(own), in_order(text[topic])
        assert after[20:] == before[20:]
        assert set(after[:20]) == set(before[:20])
        changed += after[:20] != before[:20]
    assert changed > 6


@pytest.mark.parametrize("page", DOCS, ids=[page.name for page in DOCS])
@pytest.mark.usefixtures("one_thread", "home")
def test_the_pages_run(page: Path) -> None:
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        exec(block, scope)
    if page.name == "losses.md":
        loss, same, bound = (float(str(scope[name].item())) for name in ("loss", "same", "bound"))  # type: ignore[attr-defined]
        assert same == pytest.approx(loss, rel=1e-6)
        assert -1 <= bound <= 0
    if page.name == "text.md":
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
