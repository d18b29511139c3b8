"""``lmtune lab``: options of an experiment, output, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import toy_experiment
from click.testing import CliRunner, Result

from lmtune.cli import lab as commands
from lmtune.cli.main import app
from lmtune.laboratory import catalogue


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "NAMES", ("toy",))
    monkeypatch.setattr(catalogue, "find_experiment", lambda _: toy_experiment.Powers)
    monkeypatch.setattr(commands, "summary", lambda _: "Powers of a number")


def lab(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["lab", *arguments], env={"COLUMNS": "100"})


def test_an_experiment_with_options(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["--output", str(out), "--powers", "2,3", "--share", "1", "--no-upwards"]
    shown = lab("toy", *arguments, "--workers", "1")
    assert shown.stdout == "toy:\n  the highest power is 27\n"
    assert shown.stderr == f"toy: pictures and numbers are in {out}\n"
    made = json.loads((out / "made.json").read_text())
    assert made["settings"]["powers"] == [2, 3]
    assert made["settings"]["upwards"] is False
    assert made["command"]


def test_quick_and_all(tmp_path: Path) -> None:
    shown = lab("all", "--output", str(tmp_path), "--quick", "--seed", "1", "--workers", "1")
    assert shown.stdout == "toy:\n  the highest power is 2\n"
    assert json.loads((tmp_path / "toy" / "made.json").read_text())["settings"]["seed"] == 1


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_the_list(arguments: list[str]) -> None:
    shown = lab(*arguments)
    assert shown.exit_code == 0
    text = " ".join(shown.stdout.split())
    assert "toy Powers of a number" in text
    assert "all Run every experiment" in text


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_an_experiment(flag: str) -> None:
    shown = lab("toy", flag)
    assert shown.exit_code == 0
    text = " ".join(shown.stdout.split())
    assert "Powers of a number" in text
    assert "--powers N,... exponents [default: 1, 2]" in text
    assert "--upwards, --no-upwards whether to go up, 100% of the time [default: --upwards]" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["toy", "--seed", "x"], "bad --seed: 'x'; accepted: an integer"),
        (["toy", "--powers", "1,x"], "bad --powers: 'x'; accepted: an integer"),
        (["toy", "--share", "half"], "bad --share: 'half'; accepted: a number"),
        (["toy", "--workers", "0"], "bad --workers: 0; accepted: 1 or more"),
        (["toy", "--pow", "1"], "No such option: --pow"),
        (["toy", "--pow", "1"], "accepted: what lmtune lab toy --help says"),
        (["toy"], "no --output; accepted: --output DIR"),
        (["toys"], "no such command: 'toys'; did you mean toy?"),
    ],
)
def test_bad_options(arguments: list[str], message: str, tmp_path: Path) -> None:
    out = ["--output", str(tmp_path / "out")] if len(arguments) > 1 else []
    shown = lab(*arguments, *out)
    assert shown.exit_code == 2
    assert shown.stderr.startswith("lmtune: ")
    assert message in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
