"""``lmtune rerank labels``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_labels import text_of, topical

from lmtune.cli.main import app

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
torch.set_num_threads(1)

FAST = ("--losses", "song,listnet", "--epochs", "3", "--warm-up", "1", "--net", "mlp:8", "--batch-size", "16")


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["rerank", "labels", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred examples to learn from; one of 40 to test on has no label."""
    home = tmp_path_factory.mktemp("made")
    (home / "topics_train.txt").write_text(text_of(topical(100, 0)))
    lines = text_of(topical(40, 1)).splitlines()
    lines[1] = lines[1].partition(" ")[2]
    (home / "topics_test.txt").write_text("\n".join([*lines, ""]))
    return home


@pytest.mark.slow
def test_losses_are_compared_and_go_on_where_they_ended(folder: Path, tmp_path: Path) -> None:
    given = (folder, *FAST, "--trials", "2", "--list-size", "12")
    code, out, err = run(*given, "--output", tmp_path / "whole")
    assert code == 0, err
    assert "100 examples to learn from, 40 to test on; 60 features, 40 labels, 2.00 an example" in err
    assert "1 test examples have no label" in err
    assert [line.split()[3] for line in out.splitlines()[3:-1]] == ["song", "listnet"]
    assert " held out" in out.splitlines()[0]
    records = json.loads((tmp_path / "whole/table.json").read_text())
    names = ["P@1", "P@5", "nDCG@3", "nDCG@5", "PSP@5", "PSnDCG@5"]
    assert [own["measure"] for own in records] == 2 * names
    kept = ("--checkpoint", tmp_path / "state")
    assert run(*given, *kept, "--losses", "listnet")[0] == 0
    assert run(*given, *kept, "--output", tmp_path / "again")[1] == out
    whole, again = (
        {own.name: own.read_bytes() for own in (tmp_path / name).iterdir()} for name in ("whole", "again")
    )
    assert whole == again


def test_a_file_and_other_measures(folder: Path) -> None:
    code, out, err = run(
        folder / "topics_train.txt", *FAST, "--trials", "1", "--test-share", "0.4", "--report", "p@3,psp@1",
        "--propensity-a", "0.5", "--propensity-b", "0.4", "--format", "csv",
    )  # fmt: skip
    assert code == 0, err
    assert "60 examples to learn from, 40 to test on" in err
    assert {line.split(",")[2] for line in out.splitlines()[1:]} == {"P@3", "PSP@1"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere",), "no such file or folder"),
        (("FOLDER", "--losses", "lambdamart"), "trees need features of each item"),
        (("FOLDER", "--net", "b64"), "no network for labels: 'b64'; accepted: linear, mlp:256"),
        (("FOLDER", "--report", "p@5,mrr"), "unknown measure of labels: 'mrr'"),
        (("FOLDER", "--measure", "mrr"), "no measure of held-out items"),
        (("FOLDER", "--test-share", "1"), "bad --test-share"),
        (("FOLDER", "--validation", "0.001"), "bad share of examples: 0.001; accepted: some of the 100"),
        (("FOLDER", "--net", "mlp:60000-60000"), "too many weights"),
        (("FOLDER", "--output", "FOLDER"), "would replace what the command reads"),
    ],
)
def test_bad_input_is_one_line(folder: Path, tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    given = [str(folder) if word == "FOLDER" else word for word in arguments]
    code, _, err = run(*given, *(() if "--output" in given else ("--output", tmp_path / "out")))
    last = err.splitlines()[-1]
    assert code == 2 and last.startswith("lmtune: ") and told in last
    assert not list(tmp_path.iterdir())
