from __future__ import annotations

from pathlib import Path

from scripts import run_command


def test_it_lists_what_can_be_named(tmp_path: Path) -> None:
    for role, name in (("topics", "[robust04]"), ("topics", "wt10g"), ("qrels", "wt10g")):
        (tmp_path / role).mkdir(exist_ok=True)
        (tmp_path / role / f"{role}.{name}.txt").write_text("")
    out = run_command("datasets", cwd=tmp_path).out
    for name in ("pydocs", "FOLDER", "irds:ID", "--documents PATH"):
        assert name in out
    assert "--topics names in this folder: [robust04], wt10g" in out
    assert "--qrels names in this folder: wt10g" in out
    assert "\x1b" not in out


def test_it_says_how_a_file_gets_a_name(tmp_path: Path) -> None:
    out = run_command("datasets", cwd=tmp_path).out
    assert "--qrels names in this folder: none; qrels/qrels.NAME.txt gives a name" in out
