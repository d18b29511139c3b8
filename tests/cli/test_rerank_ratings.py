"""``lmtune rerank ratings``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from lmtune.cli.main import app

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
torch.set_num_threads(1)

FAST = (
    *("--losses", "song,listnet", "--epochs", "3", "--warm-up", "1"),
    *("--batch-size", "8", "--visits", "2", "--validation-users", "7"),
)


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["rerank", "ratings", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty users, the last of whom has rated little."""
    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("made") / "ratings.dat"
    rows = [
        f"{user}::{item + 1}::{random.integers(1, 6)}::{time}\n"
        for user in range(20)
        for time, item in enumerate(random.permutation(70)[: 20 if user < 19 else 4].tolist())
    ]
    path.write_text("".join(rows))
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_losses_are_compared_and_go_on_where_they_ended(file: Path, tmp_path: Path) -> None:
    code, out, err = run(file, *FAST, "--trials", "2", "--output", tmp_path / "whole")
    assert code == 0, err
    assert "384 ratings of 70 items by 20 users" in err
    assert "1 users have too few ratings to hold any out" in err
    assert "each epoch is measured on 7 of 19 users" in err
    assert [line.split()[3] for line in out.splitlines()[3:-1]] == ["song", "listnet"]
    assert " held out" in out.splitlines()[0], out
    assert "Holm's correction over 1 pair," in out
    records = json.loads((tmp_path / "whole/table.json").read_text())
    assert {own["measure"] for own in records} == {f"nDCG(dcg='exp-log2')@{k}" for k in (10, 20, 50)}
    rows = list(csv.DictReader((tmp_path / "whole/history.csv").open()))
    assert len(rows) == 2 * 2 * 3
    # One loss first, then both: what was trained is not trained again.
    kept = ("--trials", "2", "--checkpoint", tmp_path / "state")
    assert run(file, *FAST, *kept, "--losses", "listnet")[0] == 0
    before = content_below(tmp_path / "state")
    assert len(before) == 2 * 2
    assert run(file, *FAST, *kept, "--output", tmp_path / "again")[1] == out
    assert content(tmp_path / "again") == content(tmp_path / "whole")
    after = content_below(tmp_path / "state")
    assert len(after) == 2 * 4 and before.items() <= after.items()


def content_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere.dat",), "nowhere.dat"),
        (("FILE", "--losses", "lambdamart"), "trees need features"),
        (("FILE", "--losses", "no"), "unknown loss"),
        (("FILE", "--measure", "mrr"), "no measure of held-out items: 'mrr'; accepted: ndcg@10"),
        (("FILE", "--held-out", "0"), "--held-out"),
        (("FILE", "--held-out", "10"), "no user has enough ratings: '20 at most'; accepted: 21 or more"),
        (("FILE", "--device", "tpu"), "no such device"),
        (("FILE", "--list-size", "10"), "a sample too small for SONG"),
        (("FILE", "--epochs", "5"), "no epoch is left after the warm-up"),
        (("FILE", "--output", "FILE"), "ratings.dat"),
        (("FILE", "--visits", "none"), "visits"),
    ],
)
def test_bad_input_is_one_line(file: Path, tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    given = [str(file) if word == "FILE" else word for word in arguments]
    code, _, err = run(*given, *(() if "--output" in given else ("--output", tmp_path / "out")))
    last = err.splitlines()[-1]
    assert code == 2 and last.startswith("lmtune: ") and told in last
    assert not list(tmp_path.iterdir())
