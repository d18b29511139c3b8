"""``lmtune lab``: options of an experiment, output, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import toy_experiment

from lmtune.cli import lab
from lmtune.errors import InputError
from lmtune.laboratory import catalogue


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "NAMES", ("toy",))
    monkeypatch.setattr(catalogue, "find_experiment", lambda _: toy_experiment.Powers)
    monkeypatch.setattr(catalogue, "summary", lambda _: "Powers of a number")


def test_an_experiment_with_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = ["--output", str(out), "--powers", "2,3", "--share", "1", "--upwards", "no"]
    lab.lab("toy", [*arguments, "--workers", "1"])
    shown = capsys.readouterr()
    assert shown.out == "toy:\n  the highest power is 27\n"
    assert shown.err == f"toy: pictures and numbers are in {out}\n"
    made = json.loads((out / "made.json").read_text())
    assert made["settings"]["powers"] == [2, 3]
    assert made["settings"]["upwards"] is False
    assert made["command"].startswith("lmtune")


def test_quick_and_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab.lab("all", ["--output", str(tmp_path), "--quick", "--seed", "1", "--workers", "1"])
    assert capsys.readouterr().out == "toy:\n  the highest power is 2\n"
    assert json.loads((tmp_path / "toy" / "made.json").read_text())["settings"]["seed"] == 1


@pytest.mark.parametrize("name", [None, "--help"])
def test_the_list(name: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    lab.lab(name, [])
    assert "toy              Powers of a number\n" in capsys.readouterr().out


def test_help_of_an_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        lab.lab("toy", ["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "--powers N,... exponents (default: 1,2)" in text
    assert "100% of the time (default: yes)" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "x"], "bad --seed: 'x'; accepted: an integer"),
        (["--powers", "1,x"], "bad --powers: 'x'; accepted: an integer"),
        (["--share", "half"], "bad --share: 'half'; accepted: a number"),
        (["--upwards", "true"], "bad --upwards: 'true'; accepted: yes, no"),
        (["--workers", "0"], "bad --workers: 0; accepted: 1 or more"),
        (["--pow", "1"], "unrecognized arguments: --pow 1; accepted: what lmtune lab toy --help"),
        ([], "the following arguments are required: --output"),
    ],
)
def test_bad_options(arguments: list[str], message: str, tmp_path: Path) -> None:
    out = ["--output", str(tmp_path / "out")] if arguments else []
    with pytest.raises(InputError, match=message):
        lab.lab("toy", [*out, *arguments])
    assert not (tmp_path / "out").exists()
