"""What a new user types: slips of commands, collections and measures; output on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from made_folder import write_folder
from scripts import refusal, run_command

from lmtune.errors import MissingExtraError

ROOT = Path(__file__).parents[2]
TOPICS, DOCUMENTS = 40, 30


def made_collection(folder: Path) -> None:
    documents = {f"d{n}": f"alpha word{n} beta{n % 7}" for n in range(DOCUMENTS)}
    topics = {t: f"alpha beta{t % 7}" for t in range(TOPICS)}
    write_folder(folder, documents, topics, ((t, f"d{t % DOCUMENTS}", 1) for t in topics))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made_collection(tmp_path / "c")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_on_terminal(*arguments: str) -> tuple[int, str, str]:
    """Run a command with standard output on a terminal; what it prints has to fit a terminal's buffer."""
    own, its = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "lmtune", *arguments],
        stdout=its,
        stderr=subprocess.PIPE,
        check=False,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    os.write(its, b"\0")
    shown = os.read(own, 65536).decode().replace("\0", "").removesuffix("\x1b[0m")
    os.close(own)
    os.close(its)
    return done.returncode, shown, done.stderr


@pytest.mark.parametrize(
    ("words", "near"), [("evalute q r", "evaluate"), ("tune-up", "tune"), ("rerank trian c", "train")]
)
def test_a_mistyped_command_gets_a_suggestion(words: str, near: str) -> None:
    assert refusal(words).endswith(f"did you mean {near}?")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("tune c -m AP, P@10", "lmtune: --measure ends with a comma: 'AP,'; accepted: no space after a"),
        ("compare q a b -m AP, P@10", "lmtune: --measure ends with a comma: 'AP,'"),
        ("tune c -m AP P@10", "lmtune: a measure where a collection is expected: 'P@10'; accepted: -m P@10 "),
        ("tune c --range k1=0.1, 3", "lmtune: --range ends with a comma: 'k1=0.1,'"),
        ("tune c nowhere", "lmtune: no such collection: 'nowhere'"),
    ],
)
def test_a_wrong_argument_is_reported_before_any_work(words: str, message: str) -> None:
    err = refusal(*words.split())
    assert err.startswith(message)


def test_all_collections_are_read_before_one_is_tuned(home: Path) -> None:
    made_collection(home / "bad")
    (home / "bad" / "qrels.txt").write_text("1 0 d1\n")
    err = refusal("tune c bad --grid 2x2")
    assert "qrels.txt:1:" in err
    assert "tuned" not in err


@pytest.mark.slow
def test_a_long_run_is_not_printed_on_a_terminal() -> None:
    words = ["search", "c", "--model", "bm25"]
    code, out, err = run_on_terminal(*words)
    assert (code, out) == (2, "")
    assert f"too long for a terminal: 'up to {TOPICS * DOCUMENTS:,} lines'; accepted: --output FILE" in err
    code, out, _ = run_on_terminal(*words, "--hits", "1")
    assert (code, len(out.splitlines())) == (0, TOPICS)
    piped = run_command(*words).out
    assert len(piped.splitlines()) == TOPICS * DOCUMENTS


def test_the_installation_of_extras_is_the_one_that_is_documented() -> None:
    told = str(MissingExtraError("explore", "explore")).partition("accepted: ")[2]
    command = told.removesuffix(" in a checkout of lmtune")
    assert command != told
    assert command in (ROOT / "docs" / "howto" / "explore.md").read_text()


def made_of(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / "made.json").read_text())
    return made


TUNE = ["tune", "--grid", "2x2", "--model", "bm25"]


@pytest.mark.slow
def test_results_of_another_collection_are_kept(home: Path) -> None:
    made_collection(home / "other")
    run_command(*TUNE, "c --output kept")
    run_command(*TUNE, "./c --stemmer none --output kept")
    before = made_of(home / "kept")
    (home / "few.tsv").write_text("1\talpha beta1\n2\talpha beta2\n")
    for words in (["other"], ["c", "other"], ["c", "--topics", "few.tsv", "--ignore-unknown"]):
        err = refusal(*TUNE, *words, "--output kept")
        assert "kept: will not replace results of another collection: 'c'; accepted: another" in err
        assert "extracted" not in err
    assert made_of(home / "kept") == before
    run_command(*TUNE, "other --output kept --overwrite")
    assert [own["name"] for own in made_of(home / "kept")["collections"]] == ["other"]
    assert "--overwrite" not in made_of(home / "kept")["command"]


@pytest.mark.slow
def test_results_of_another_command_are_kept(home: Path) -> None:
    choose = [*TUNE, "--choose", "stemmer=porter,none"]
    made_collection(home / "other")
    for words in ([*TUNE, "c", "--output", "tuned"], [*choose, "c", "--output", "chosen"]):
        run_command(*words)
    deploy = ["deploy", "tuned", "--to", "bm25s", "--output"]
    run_command(*deploy, "deployed")
    for words in (
        [*choose, "c", "--output", "tuned"],
        [*TUNE, "c", "--output", "chosen"],
        [*TUNE, "c", "--output", "deployed", "--overwrite"],
        [*deploy, "chosen"],
    ):
        assert "will not replace a folder that contains the results of another command" in refusal(*words)
    assert "results of another collection: 'c'" in refusal(*choose, "other --output chosen")
    err = run_command(*choose, "c other --output both", status=2).err
    assert "--choose writes one collection to a folder: ['c', 'other']" in err
    assert not (home / "both").exists()
    for words in ([*choose, "c", "--output", "chosen"], [*deploy, "deployed"]):
        run_command(*words)


def test_runs_are_called_as_the_user_says(home: Path) -> None:
    for model in ("bm25", "two-stage"):
        run_command("search c --model", model, f"--output {model}.run")
    (home / "x=y.run").write_bytes((home / "bm25.run").read_bytes())
    given = ["c/qrels.txt", "LM=two-stage.run", "BM25=bm25.run"]
    assert {"LM", "BM25"} < set(run_command("compare", *given, "-m AP").out.split())
    assert {"LM", "BM25"} < set(run_command("fuse", *given, "-m AP --method rrf --folds 2").out.split())
    shown = run_command("evaluate", *given, "-m AP --format json").out
    assert [own["run"] for own in json.loads(shown)] == ["LM", "BM25"]
    assert run_command("evaluate c/qrels.txt LM=bm25.run -m map") == run_command(
        "evaluate c/qrels.txt bm25.run -m map"
    )
    assert run_command("evaluate c/qrels.txt x=y.run") == run_command("evaluate c/qrels.txt bm25.run")
    for command in ("compare", "fuse"):
        err = run_command(command, "c/qrels.txt A=bm25.run A=two-stage.run", status=2).err
        assert "two files have one name: ['A', 'A']" in err
        err = run_command(command, "c/qrels.txt A=nowhere.run B=bm25.run", status=2).err
        assert "nowhere.run: cannot read" in err
