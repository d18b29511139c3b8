"""Dataclasses of options as commands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner

from lmtune.cli.forms import Command, Group
from lmtune.cli.main import app, run
from lmtune.errors import InputError
from lmtune.options import option

GOT: list[tuple[Any, ...]] = []


@dataclass(frozen=True)
class Cooking:
    """The kitchen."""

    hours: int = option(3, "how long [at least]", low=1, usual=True)
    rates: tuple[float, ...] = option((0.1, 2.0), "how hot")
    spice: tuple[str, ...] = option(("salt",), "what goes in", flag="--spice -s", separator=None)
    shape: tuple[int, ...] = option((2, 3), "of the cake", separator="x")
    size: tuple[int, ...] = option((), "of the pot", read=lambda text: (len(text),))
    lid: bool = option(True, "on or off", flag="--lid -l")
    slow: bool = option(False, "no hurry")
    pot: Path = option(..., "made of what", metavar="FILE", usual=True)
    kind: str = option("soup", "what to cook", choices=("soup", "stew"))
    secret: int = option(7, "not on the command line", flag="")


@dataclass(frozen=True)
class Eating:
    """The table."""

    guests: int = option(2, "who comes", high=12)
    course: tuple[str, ...] = option((), "of how many", choices=("first", "main"))


def cook(
    dish: Annotated[str, "What it is called.", "DISH"],
    cooking: Annotated[Cooking, "kind"],
    eating: Annotated[dict[str, Any], Eating],
) -> None:
    """Cook a dish.

    Notes
    -----
    So it ends [with this].

    Examples
    --------
    cook pie --pot tin
    cook soup --pot iron
    """
    GOT.append((dish, cooking, eating))


def cooked(*arguments: str) -> tuple[Any, ...]:
    GOT.clear()
    Command(cook).main(list(arguments), standalone_mode=False)
    [cooking] = GOT
    return cooking


def test_defaults_are_the_dataclasses() -> None:
    assert cooked("pie", "--pot", "a") == ("pie", Cooking(pot=Path("a")), {})


def test_everything_given() -> None:
    words = "pie --hours 4 --rates 1,2.5 -s pepper --spice mint --shape 4x5 --size abc --no-lid --slow"
    words += " --pot b --guests 9"
    dish, cooking, eating = cooked(*words.split())
    assert cooking == Cooking(
        4, (1.0, 2.5), ("pepper", "mint"), (4, 5), (3,), lid=False, slow=True, pot=Path("b")
    )
    assert eating == {"guests": 9}
    assert dish == "pie"
    assert cooked("pie", "-l", "--pot", "b")[1].lid


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pie", "missing --pot; accepted: --pot FILE"),
        ("pie --pot a --hours 0", "bad --hours: 0; accepted: 1 or more"),
        ("pie --pot a --hours x", "bad --hours: 'x'; accepted: an integer"),
        (
            "pie --pot a --rates 1,",
            "--rates ends with a comma: '1,'; accepted: no space after a comma, or quotes",
        ),
        ("pie --pot a --rates 1,,2", "bad --rates: ''; accepted: a number"),
        ("pie --pot a --guests two", "bad --guests: 'two'; accepted: an integer"),
        ("pie --pot a --guests 13", "bad --guests: 13; accepted: up to 12"),
        ("pie --pot a --course sweet", "unknown --course: 'sweet'; accepted: first, main"),
    ],
)
def test_what_cannot_be_is_said_by_its_flag(words: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        Command(cook).main(words.split(), standalone_mode=False)
    assert str(refused.value) == message


@pytest.mark.parametrize("words", ["pie --pot a --kind stew", "pie --pot a --secret 1", "--pot a"])
def test_what_is_left_out_is_not_there(words: str) -> None:
    with pytest.raises(click.UsageError, match=r"No such option|Missing"):
        Command(cook).main(words.split(), standalone_mode=False)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("-h", "--help", "--help-all"):
        Command(cook).main([flag], "cook", standalone_mode=False)
        text = capsys.readouterr().out
        lines = [" ".join(line.split()) for line in text.splitlines()]
        assert max(map(len, text.splitlines())) <= 80
        for line in (
            "Cook a dish.",
            "DISH What it is called.",
            "The kitchen:",
            "--hours N how long [at least] [1 or more] [default: 3]",
            "--pot FILE made of what [required]",
            "cook soup --pot iron",
            "So it ends [with this].",
        ):
            assert line in lines, text
        for line in (
            "The table:",
            "--rates X,... how hot [default: 0.1, 2]",
            "--spice, -s TEXT what goes in [default: salt]",
            "--shape N,... of the cake [default: 2x3]",
            "--lid, -l, --no-lid on or off [default: --lid]",
            "--slow no hurry",
        ):
            assert (line in lines) == (flag == "--help-all"), text
        assert ("cook --help-all shows all options." in lines) == (flag != "--help-all")
        assert "--secret" not in text
        assert "--kind" not in text
    Command(cook, whole=True).main(["--help"], standalone_mode=False)
    assert "--slow" in capsys.readouterr().out


def commands(group: Group, *path: str) -> Iterator[tuple[tuple[str, ...], Command]]:
    for name in group.members:
        loaded = group.load(name)
        if isinstance(loaded, Group):
            yield from commands(loaded, *path, name)
        else:
            assert isinstance(loaded, Command)
            yield (*path, name), loaded


COMMANDS = dict(commands(app, "lmtune"))


@pytest.mark.parametrize("group", [app, app.load("rerank")])
def test_summaries_are_those_of_the_commands(group: Group) -> None:
    for name, (_, summary, _) in group.members.items():
        assert (group.load(name).help or "").partition("\n")[0] == summary


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_is_short_and_its_examples_are_right(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    shown = CliRunner().invoke(app, [*path[1:], "--help"], env={"COLUMNS": "80"})
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    if command.brief:
        assert 5 <= sum(line.startswith("  --") for line in lines) <= 14, shown.stdout
    assert len(command.examples) == (1 if path[-1] == "datasets" else 2)
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 60
    for example in command.examples:
        assert f"  {example}" in lines
        words = shlex.split(example)
        assert tuple(words[: len(path)]) == path
        context = command.make_context(" ".join(path), words[len(path) :])
        assert set(command.values(context)) == {part.name for part in command.parts}


@pytest.mark.parametrize("name", ["evaluate", "compare", pytest.param("fuse", marks=pytest.mark.slow)])
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "qrels.txt").write_text("".join(f"{topic} 0 d{topic % 3} 1\n" for topic in range(12)))
    for run_name, step in (("bm25", 2), ("dense", 1)):
        ranked = (f"{t} Q0 d{t * step % 3 + r} {r + 1} {9 - r} x\n" for t in range(12) for r in range(4))
        (tmp_path / f"{run_name}.run").write_text("".join(ranked))
    monkeypatch.chdir(tmp_path)
    for example in COMMANDS["lmtune", name].examples:
        shown = CliRunner().invoke(app, shlex.split(example)[1:])
        assert shown.exit_code == 0, shown.stderr
        assert shown.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("lmtune tu", {"plain,tune"}),
        ("lmtune rerank fea", {"plain,features"}),
        ("lmtune tune --ranknet-opt", {"plain,--ranknet-optimizer"}),
        ("lmtune tune --ranknet-optimizer l", {"plain,l-bfgs"}),
        ("lmtune fuse --method rrf,comb", {"plain,rrf,combsum", "plain,rrf,combmnz", "plain,rrf,combanz"}),
        ("lmtune fuse qr", {"file,qr"}),
        ("lmtune nothing --", {"plain,--version", "plain,--help"}),
        ("lmtune tune irds : vasw", {"plain,vaswani"}),
        ("lmtune search --qrels x irds :", {"plain,antique", "plain,beir/scifact/test"}),
        ("lmtune tune cranfield irds : beir/scif", {"plain,beir/scifact", "plain,beir/scifact/train"}),
    ],
)
def test_completion(
    words: str, expected: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_LMTUNE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert run([]) == 0
    shown = set(capsys.readouterr().out.split())
    assert shown >= expected
    assert all(entry.startswith(("plain,--", *expected)) for entry in shown) or words.endswith(":")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_identifiers_of_ir_datasets_are_completed(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_LMTUNE_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "lmtune tune irds:vas")
    monkeypatch.setenv("COMP_CWORD", "irds:vas" if shell == "fish" else "2")
    assert run([]) == 0
    assert "irds:vaswani" in capsys.readouterr().out.replace("\\", "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_completion_is_installed(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "lmtune"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lmtune "$@"\n')
    program.chmod(0o755)
    home = {"HOME": str(tmp_path), "SHELL": "/bin/bash", "PATH": f"{folder}:{os.environ['PATH']}"}
    environment = os.environ | home | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def called(*arguments: str) -> str:
        return subprocess.run(
            arguments, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
        ).stdout

    script = called("lmtune", "--show-completion")
    for _ in range(2):
        called("lmtune", "--install-completion")
    assert (tmp_path / ".bashrc").read_text() == f"\n{script}"
    asked = "COMP_WORDS=(lmtune fuse --normalise z-); COMP_CWORD=3; _lmtune_completion lmtune"
    assert called("bash", "-c", f". ~/.bashrc; {asked}; echo ${{COMPREPLY[@]}}") == "z-score\n"


def test_an_option_that_does_not_exist_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "--mesure", "AP"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("lmtune: No such option: --mesure (Possible options: --measure")
    assert told.endswith("; accepted: see lmtune tune --help\n")
    assert run(["--mesure"]) == 2
    assert capsys.readouterr().err == "lmtune: No such option: --mesure; accepted: see lmtune --help\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("tune c --k1 0.9", "(Possible options: --range NAME=LOW,HIGH)"),
        ("tune c --k1-range 0.1,3", "(Possible options: --range NAME=LOW,HIGH)"),
        ("search c --lambda 0.9", "(Possible options: --set NAME=VALUE)"),
        ("rerank train c --k1 1", "No such option: --k1"),
        ("evaluate q r --metric map", "(Possible options: --measure NAME)"),
        ("search c --top_k 10", "(Possible options: --hits N)"),
        ("rerank crossval c --lr 0.1", "(Possible options: --learning-rate X)"),
    ],
)
def test_unknown_options_get_a_suggestion(words: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words.split()) == 2
    assert f"{meant}; accepted: see lmtune " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("tune --measure", "Option '--measure' requires an argument; accepted: see lmtune tune --help"),
        ("tune --final=3", "Option '--final' does not take a value; accepted: see lmtune tune --help"),
        ("fuse", "Missing argument 'QRELS RUN...'; accepted: lmtune fuse [OPTIONS] QRELS RUN..."),
        ("fuse --runs a b", "No such option: --runs; accepted: lmtune fuse [OPTIONS] QRELS RUN..."),
        (
            "compare --qrels a",
            "No such option: --qrels; accepted: lmtune compare [OPTIONS] QRELS BASELINE [RUN]...",
        ),
        (
            "compare a",
            "Missing argument 'BASELINE'; accepted: lmtune compare [OPTIONS] QRELS BASELINE [RUN]...",
        ),
        ("rerank train", "missing --output; accepted: --output DIR"),
        ("rerank compare x --batch-size 0", "bad --batch-size: 0; accepted: 1 or more"),
    ],
)
def test_errors_name_the_command(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words.split()) == 2
    assert capsys.readouterr() == ("", f"lmtune: {message}\n")


def _commands(group: Group) -> Iterator[Command]:
    for name in group.members:
        loaded = group.load(name)
        if isinstance(loaded, Group):
            yield from _commands(loaded)
        else:
            assert isinstance(loaded, Command)
            yield loaded


def test_titles_of_option_groups_are_short_and_plain() -> None:
    titles = {one.title for command in _commands(app) for one in command.parameters}
    assert [title for title in titles if not re.fullmatch(r"[A-Z][a-z_, ]{1,30}", title)] == []
