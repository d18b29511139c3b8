"""What is released: the wheel and the sdist, the citation, the workflows."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PAPERS = ROOT.parent / "shared" / "papers"
GITHUB = sorted((ROOT / ".github").glob("*/*.yml"))
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(dist: Path) -> None:
    [path] = dist.glob("*.whl")
    info = f"lmtune-{VERSION}.dist-info"
    with zipfile.ZipFile(path) as wheel:
        found = set(wheel.namelist())
        metadata = message_from_bytes(wheel.read(f"{info}/METADATA"))
        scripts = wheel.read(f"{info}/entry_points.txt").decode()
    ours = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "lmtune").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in found if not name.startswith(info)} == ours
    assert {"lmtune/py.typed", "lmtune/explorer/site/share.js", "lmtune/report/templates/report.css"} < ours
    assert f"{info}/licenses/LICENSE" in found
    assert metadata["Version"] == VERSION
    assert "lmtune = lmtune.cli:main" in scripts


def test_the_sdist_holds_the_package_and_leaves_the_tests_out(dist: Path) -> None:
    [path] = dist.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        files = {name.partition("/")[2] for name in sdist.getnames()}
    [wheel] = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as built:
        assert {name for name in built.namelist() if name.startswith("lmtune/")} <= files
    assert set("pyproject.toml README.md LICENSE CHANGELOG.md CITATION.cff constraints.txt".split()) < files
    assert not [name for name in files if name.startswith(("tests", "benchmarks", "indexes"))]


def test_the_version_is_in_one_place_and_agrees_elsewhere() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.M)[0] == VERSION
    assert read_yaml(ROOT / "CITATION.cff")["version"] == VERSION


def test_the_citation_names_the_papers_as_they_are_printed() -> None:
    if not PAPERS.is_dir():
        pytest.skip(f"{PAPERS} is absent")
    texts = [" ".join(path.read_text(encoding="utf-8").split()) for path in sorted(PAPERS.glob("*.txt"))]
    papers = read_yaml(ROOT / "CITATION.cff")["references"]
    for text in texts:
        [paper] = [paper for paper in papers if paper["title"] in text[:400]]
        papers.remove(paper)
        if paper["year"] != 2022:  # that one's text comes without names
            assert all(author["family-names"] in text[:600] for author in paper["authors"])
    assert papers == []


@pytest.mark.parametrize("path", GITHUB, ids=[path.stem for path in GITHUB])
def test_workflows_only_call_make_and_templates_parse(path: Path) -> None:
    content = read_yaml(path)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    jobs = dict(content.get("jobs", {}))
    publish = jobs.pop("publish", None)
    for job in jobs.values():
        runs = [step["run"].split() for step in job["steps"] if "run" in step]
        assert [run[0] for run in runs] == ["make"]
        assert runs[0][1] in targets
    if publish is not None:
        # A tag alone is published, what was built as it was built, and by no token.
        assert "refs/tags/v" in publish["if"] and publish["needs"] in jobs
        assert publish["permissions"] == {"id-token": "write"} and publish["environment"]
        assert [step["uses"].split("@")[0] for step in publish["steps"]] == [
            "actions/download-artifact",
            "pypa/gh-action-pypi-publish",
        ]
    if path.parent.name == "ISSUE_TEMPLATE":
        assert {"name", "description", "body"} <= set(content)
