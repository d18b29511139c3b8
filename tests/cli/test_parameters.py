"""Values and ranges by parameter name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts import refusal, run_command, run_python

from lmtune.cli.parameters import Ranges, SettingOptions
from lmtune.errors import InputError


def test_values_by_name_and_the_models_own_for_the_rest() -> None:
    assert SettingOptions().values("two-stage") == {"lambda": 0.0, "mu": 1000.0}
    assert SettingOptions(named=(("mu", 300.0),)).values("two-stage") == {"lambda": 0.0, "mu": 300.0}
    assert SettingOptions("jelinek-mercer").values("jelinek-mercer") == {"lambda": 0.1, "mu": 0.0}
    assert SettingOptions("bm25", (("k1", 1.2), ("b", 0.75))).values("bm25") == {"k1": 1.2, "b": 0.75}


def test_ranges_by_name() -> None:
    assert Ranges().of("two-stage") == {}
    given = Ranges(named=(("lambda", (0.0, 0.5)), ("mu", (2.0, 3.0))))
    assert given.of("two-stage") == {"lambda": (0.0, 0.5), "mu": (2.0, 3.0)}


@pytest.mark.parametrize(
    ("model", "named", "message"),
    [
        (
            "two-stage",
            (("b", 1.0),),
            "--set b: two-stage has no such parameter: 'b';"
            " accepted: lambda, mu; --model bm25, lucene-bm25 has it",
        ),
        ("two-stage", (("mu", 1.0), ("mu", 2.0)), "mu is given twice: 2.0; accepted: once"),
        (
            "dirichlet",
            (("lambda", 0.4),),
            "--set lambda: --model dirichlet fixes it: 0.4; accepted: lambda = 0, without this option",
        ),
    ],
)
def test_what_a_model_does_not_have(model: str, named: tuple[tuple[str, float], ...], message: str) -> None:
    with pytest.raises(InputError) as found:
        SettingOptions(model, named).values(model)
    assert str(found.value) == message


def test_ranges_of_what_a_model_fixes_are_refused() -> None:
    with pytest.raises(InputError, match="--range mu: --model jelinek-mercer fixes it"):
        Ranges(named=(("mu", (1.0, 2.0)),)).of("jelinek-mercer")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("search c --set mu", "bad --set: 'mu'; accepted: NAME=VALUE, such as mu=1000"),
        ("search c --set mu=many", "bad --set mu: 'many'; accepted: a number"),
        ("tune c --range mu", "bad --range: 'mu'; accepted: NAME=LOW,HIGH, such as mu=1,100000"),
        ("tune c --range mu=5", "bad --range mu: '5'; accepted: LOW,HIGH, such as 1,100000"),
        ("tune pydocs --range mu=9,5", "the mu range is empty"),
    ],
)
def test_bad_text_is_one_line(arguments: str, message: str) -> None:
    assert refusal(arguments).startswith(f"lmtune: {message}")


def test_set_makes_the_run_tag_and_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.jsonl").write_text(
        "".join(json.dumps({"id": f"d{i}", "contents": "alpha " * (i + 1) + "beta"}) + "\n" for i in range(4))
    )
    (tmp_path / "topics.tsv").write_text("1\talpha beta\n")
    run_command("search --documents docs.jsonl --topics topics.tsv --output a --set mu=20 --set lambda=0.3")
    assert (tmp_path / "a").read_text().count("lmtune-lambda0.3-mu20") == 4
    made = json.loads((tmp_path / "a.made.json").read_text())
    assert made["model"] == {"name": "two-stage", "lambda": 0.3, "mu": 20.0}


@pytest.mark.slow
def test_parameters_called_as_options_leave_the_options(tmp_path: Path) -> None:
    """A model from outside may name its parameters as options are named."""
    script = tmp_path / "own.py"
    script.write_text(
        "import sys\n"
        "from copy import copy\n"
        "from dataclasses import replace\n"
        "from lmtune.models.model import MODELS, Model\n"
        "own = copy(MODELS['bm25'].formula)\n"
        "k1, b = own.parameters\n"
        "own.name, own.parameters = 'own', (replace(k1, name='model'), replace(b, name='hits'))\n"
        "MODELS['own'] = Model('own', 'BM25', own, own.parameters)\n"
        "from lmtune.cli.main import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    (tmp_path / "c").mkdir()
    lines = [f'{{"id": "d{i}", "contents": "alpha {"beta " * i}"}}\n' for i in range(3)]
    (tmp_path / "c/docs.jsonl").write_text("".join(lines))
    line = "search c alpha --model own --set model=1.2 --set hits=0.5 --hits 1"
    out, err = run_python(str(script), *line.split(), cwd=tmp_path)
    assert "own with model = 1.2, hits = 0.5" in err
    [found] = out.splitlines()
    assert found.split()[:2] == ["1", "d0"]
