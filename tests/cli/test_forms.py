"""Dataclasses of options as commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from lmtune.cli.forms import command, parse
from lmtune.cli.main import app
from lmtune.errors import InputError
from lmtune.options import option

GOT: list[tuple[Any, ...]] = []


@dataclass(frozen=True)
class Cooking:
    """The kitchen."""

    hours: int = option(3, "how long [at least]", low=1)
    rates: tuple[float, ...] = option((0.1, 2.0), "how hot")
    spice: tuple[str, ...] = option(("salt",), "what goes in", flag="--spice -s", separator=None)
    shape: tuple[int, ...] = option((2, 3), "of the cake", separator="x")
    size: tuple[int, ...] = option((), "of the pot", read=lambda text: (len(text),))
    lid: bool = option(True, "on or off", flag="--lid -l")
    slow: bool = option(False, "no hurry")
    pot: Path = option(..., "made of what", metavar="FILE")
    kind: str = option("soup", "what to cook", choices=("soup", "stew"))
    secret: int = option(7, "not on the command line", flag="")


@dataclass(frozen=True)
class Eating:
    """The table."""

    guests: int = option(2, "who comes")


def cook(
    dish: Annotated[str, "What it is called.", "DISH"],
    cooking: Annotated[Cooking, "kind"],
    eating: Annotated[dict[str, Any], Eating],
) -> None:
    """Cook a dish."""
    GOT.append((dish, cooking, eating))


def cooked(*arguments: str) -> tuple[Any, ...]:
    GOT.clear()
    command(cook).main(list(arguments), standalone_mode=False)
    [found] = GOT
    GOT.clear()
    cook(**parse(cook, arguments))
    assert [found] == GOT  # without typer, too
    return found


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
        ("pie", "no --pot; accepted: --pot FILE"),
        ("pie --pot a --hours 0", "bad --hours: 0; accepted: 1 or more"),
        ("pie --pot a --hours x", "bad --hours: 'x'; accepted: an integer"),
        ("pie --pot a --rates 1,", "bad --rates: ''; accepted: a number"),
        ("pie --pot a --guests two", "bad --guests: 'two'; accepted: an integer"),
    ],
)
def test_what_cannot_be_is_said_by_its_flag(words: str, message: str) -> None:
    for reading in (lambda given: command(cook).main(given, standalone_mode=False), lambda g: parse(cook, g)):
        with pytest.raises(InputError) as found:
            reading(words.split())
        assert str(found.value) == message


@pytest.mark.parametrize("words", ["pie --pot a --kind stew", "pie --pot a --secret 1", "--pot a"])
def test_what_is_left_out_is_not_there(words: str) -> None:
    with pytest.raises(InputError, match="accepted: what lmtune cook --help says"):
        parse(cook, words.split())
    with pytest.raises(Exception, match=r"No such option|Missing"):
        command(cook).main(words.split(), standalone_mode=False)


def test_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    command(cook, epilog="So it ends [with this].").main(["-h"], standalone_mode=False)
    lines = [" ".join(line.replace("│", "").split()) for line in capsys.readouterr().out.splitlines()]
    text = "\n".join(lines)
    assert "Cook a dish." in lines
    assert "─ The kitchen ─" in text
    assert "─ The table ─" in text
    for line in (
        "--hours N how long [at least] [1 or more] [default: 3]",
        "--rates X,... how hot [default: 0.1, 2]",
        "--spice -s TEXT what goes in [default: salt]",
        "--shape N,... of the cake [default: 2x3]",
        "--lid -l --no-lid <bool> on or off [default: lid]",
        "--slow <bool> no hurry",
        "--pot FILE made of what",
        "So it ends [with this].",
    ):
        assert line in lines, text
    assert "--secret" not in text
    assert "--kind" not in text


def test_completion(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_LMTUNE_COMPLETE", "complete_bash")
    for words, expected in (
        ("lmtune tu", {"tune"}),
        ("lmtune lab map-s", {"map-smoothness"}),
        ("lmtune tune --ranknet-opt", {"--ranknet-optimizer"}),
        ("lmtune tune --ranknet-optimizer l", {"l-bfgs"}),
        ("lmtune nothing --", set()),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        with pytest.raises(SystemExit):
            app(prog_name="lmtune")
        found = set(capsys.readouterr().out.split())
        assert found >= expected
        assert expected or found <= {"--version", "--help", "--install-completion", "--show-completion"}
