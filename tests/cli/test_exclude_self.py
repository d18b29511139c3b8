"""``--exclude-self``: each topic's own document is left out, by every command and as results record."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from scripts import refusal, run_command, run_python

from lmtune.collections.collection import Collection
from lmtune.collections.loading import load
from lmtune.collections.names import excludes_self
from lmtune.errors import InputError
from lmtune.explorer.opening import Shown, open_collection
from lmtune.io.runs import read_run
from lmtune.measures.from_files import evaluate

QUICK = "-m RR --grid 2x2 --restarts 0 --ranknet-starts 1 --no-approx"


def write_arguments(home: Path) -> None:
    """Write arguments with counter-arguments, as BEIR's ArguAna has them: each query is a document."""
    rng = np.random.default_rng(2)
    (home / "qrels").mkdir(parents=True)
    texts = {}
    for n in range(12):
        words = [f"w{word}" for word in rng.integers(0, 60, 9)]
        texts[f"a{n}"] = " ".join(words)
        texts[f"b{n}"] = " ".join([*words[:5], *(f"w{word}" for word in rng.integers(0, 60, 6))])
    rows = [json.dumps({"_id": docno, "text": text}) for docno, text in texts.items()]
    (home / "corpus.jsonl").write_text("\n".join(rows) + "\n")
    (home / "queries.jsonl").write_text("\n".join(row for row in rows if '"a' in row) + "\n")
    lines = [f"a{n}\tb{n}\t1\n" for n in range(12)]
    (home / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_arguments(tmp_path / "plain")
    shutil.copytree(tmp_path / "plain", tmp_path / "arguana")
    monkeypatch.chdir(tmp_path)


def own_documents(path: str) -> int:
    return sum(topic in found for topic, found in read_run(path).items())


def test_it_is_asked_for_or_usual() -> None:
    cases = {
        "plain": (12, ""),
        "plain --exclude-self": (0, ""),
        "arguana": (0, "arguana: each topic's own document is left out; --no-exclude-self keeps it"),
        "arguana --no-exclude-self": (12, ""),
    }
    for number, (words, (own, noted)) in enumerate(cases.items()):
        said = run_command(f"search {words} --output {number}.run").err
        assert own_documents(f"{number}.run") == own
        assert ("own document" in said) == bool(noted)
        assert noted in said
        made = json.loads(Path(f"{number}.run.made.json").read_text())
        assert made["exclude_self"] == (own == 0)
    assert Path("1.run").read_text() == Path("2.run").read_text()
    without = {topic: dict(found) for topic, found in read_run("0.run").items()}
    for topic, found in without.items():
        del found[topic]
    assert without == read_run("1.run")


def test_evaluate_says_so_in_a_process_of_its_own() -> None:
    Path("own.run").write_text("a0 Q0 a0 1 2.0 x\na0 Q0 b0 2 1.0 x\n")
    line = "lmtune evaluate arguana/qrels/test.tsv own.run -m RR"
    assert "own document is left out of runs" in run_python("-m", *line.split()).err


def test_a_query_has_no_document_of_its_own() -> None:
    """The query of the command line is no topic, whatever number it has in a run."""
    shutil.copytree("arguana", "quora")
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        text = Path("quora", name).read_text()
        Path("quora", name).write_text(re.sub(r"\ba0\b", "1", text))
    queries = map(json.loads, Path("quora/queries.jsonl").read_text().splitlines())
    [text] = [query["text"] for query in queries if query["_id"] == "1"]
    for words in ("", " --exclude-self"):
        err = run_command("search quora", (text,), words, "--output query.run").err
        assert next(iter(read_run("query.run")["1"])) == "1"
        assert "own document" not in err
    run_command("search quora --output topics.run")
    assert "1" not in read_run("topics.run")["1"]


def test_reranking_takes_the_run_as_it_is() -> None:
    run_command("search arguana --no-exclude-self --output with.run")
    assert "own document" not in run_command("rerank features arguana --run with.run --output features").err


def test_evaluate_leaves_it_out_of_a_run() -> None:
    run_command("search plain --output with.run")
    run_command("search arguana --output without.run")
    kept, left = (
        evaluate("plain/qrels/test.tsv", f"{own}.run", "RR")["RR"].item() for own in ("with", "without")
    )
    assert kept < left
    for words, value in (
        ("plain/qrels/test.tsv with.run", kept),
        ("plain/qrels/test.tsv with.run --exclude-self", left),
        ("plain/qrels/test.tsv with.run --exclude-self --residuals", left),
        ("arguana/qrels/test.tsv with.run", left),
        ("arguana/qrels/test.tsv with.run --residuals", left),
        ("arguana/qrels/test.tsv with.run --no-exclude-self", kept),
        ("arguana/qrels/test.tsv without.run", left),
    ):
        out, said = run_command(f"evaluate {words} -m RR --format json")
        [row] = json.loads(out)
        found = row["value"] if "--residuals" in words else row["all"]["RR"]
        assert found == pytest.approx(value), (words, row)
        assert ("own document is left out of runs" in said) == words.startswith("arguana/") - (
            "--no" in words
        )
    Path("own.run").write_text("".join(f"a{n} Q0 a{n} 1 2.0 x\n" for n in range(12)))
    assert "the run has only each topic's own document" in refusal("evaluate arguana/qrels/test.tsv own.run")


@pytest.mark.slow
def test_results_record_it() -> None:
    """What is tuned without own documents is searched, checked, explored and opened without them."""
    out = run_command(f"tune plain --exclude-self {QUICK} --output kept").out
    assert "lmtune search plain --exclude-self" in out
    assert own_documents("kept/runs/plain/direct-RR.run.gz") == 0
    run_command("search plain --from kept --output same.run")
    assert own_documents("same.run") == 0
    said = run_command("search plain --no-exclude-self --from kept", status=2).err
    assert "--no-exclude-self differs from the tuned results" in said
    # An engine returns them; what is compared, and measured, is without.
    run_command("search plain --output engine.run")
    values = json.loads(Path("same.run.made.json").read_text())["model"]
    words = " ".join(f"--set {name}={value}" for name, value in values.items() if name != "name")
    run_command(f"search plain {words} --output engine.run")
    assert own_documents("engine.run") == 12
    out = run_command("check-run engine.run kept").out
    assert "12 of 12 topics: same documents in the same order" in out
    opened = open_collection(Collection("plain"), Shown(results=Path("kept")), lambda _: {})
    assert opened.pool.exclude_self
    assert "own document" in run_command("deploy kept --to elasticsearch").err
    run_command("report kept")


def test_it_is_usual_for_arguana_and_quora_of_beir(tmp_path: Path) -> None:
    assert excludes_self("arguana")
    assert excludes_self(tmp_path / "arguana/")
    assert load("arguana").exclude_self
    assert not load("plain").exclude_self
    Path("quora").mkdir()
    assert not excludes_self("quora")  # not laid out as BEIR's
    Path("quora/corpus.jsonl.gz").touch()
    assert excludes_self("quora")
    for identifier, usual in {"beir/arguana": True, "beir/quora/test": True, "beir/scifact": False}.items():
        assert excludes_self(f"irds:{identifier}") == usual
    assert not excludes_self(None)
    assert Collection("arguana", exclude_self=False).words() == ["arguana", "--no-exclude-self"]
    with pytest.raises(InputError, match="--exclude-self differs from the tuned results"):
        Collection("c", exclude_self=True).as_recorded({"exclude_self": False})
    assert Collection("c", exclude_self=True).as_recorded({}).exclude_self  # of older results
