"""What the README and the site's pages promise: their commands and options exist."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from lmtune.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "FINDINGS.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_commands_and_options_they_name_exist() -> None:
    groups = "rerank [a-z]+|paper [a-z]+|lab [a-z-]+"
    commands = f"tune|index|search|fuse|explore|datasets|evaluate|compare|report|plot|{groups}"
    shown = {
        (page.name, *found)
        for page in PAGES
        for found in re.findall(rf"lmtune ({commands})([^\n`#]*)", page.read_text(encoding="utf-8"))
    }
    assert {page for page, *_ in shown} > {"README.md", "FINDINGS.md", "trec.md", "rerank.md", "start.md"}
    helps = {}
    for command in {command for _, command, _ in shown}:
        result = CliRunner().invoke(app, [*command.split(), "--help-all"])
        assert result.exit_code == 0, command
        helps[command] = result.stdout
    for page, command, rest in sorted(shown):
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in helps[command], (page, command, option)


def test_its_targets_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make (\w+)", README):
        assert f"\n{target}:" in makefile
