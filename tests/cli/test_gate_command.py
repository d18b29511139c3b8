"""``lmtune compare --require``: exit statuses, annotations, JUnit's XML, slices and stored baselines."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats
from scripts import refusal, run_command
from support import read_answer

from lmtune import topic_values
from lmtune.io.runs import read_run
from lmtune.report.gate import _escaped

FILES = ("qrels.txt", "base.run", "new.run", "bad.run")
GITHUB = re.compile(r"::(error|notice) title=([^:,]*)::(.*)")


compared = partial(run_command, "compare")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    rng, topics = np.random.default_rng(5), range(1, 31)
    files = {"qrels.txt": "".join(f"{t} 0 d{t}-{i} {int(i < 4)}\n" for t in topics for i in range(20))}
    noise = rng.normal(0, 1, (30, 20))
    for name, skill, change in (("base", 0.8, 0.0), ("new", 0.9, 0.1), ("bad", 0.0, 0.3)):
        scores = noise + skill * (np.arange(20) < 4) + rng.normal(0, 1, (30, 20)) * change
        rows = (f"{t} Q0 d{t}-{i} 1 {scores[t - 1, i]:.6f} tag\n" for t in topics for i in range(20))
        files[f"{name}.run"] = "".join(rows)
    kinds = "".join(f'{t}\t{"long" if t % 3 else "short"}\tq{t} "\n' for t in topics if t != 9)
    return files | {"slices.tsv": f"topic\tlength\ttext\n{kinds}"}


@pytest.fixture(autouse=True)
def home(made: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in made.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_status_and_lines() -> None:
    rules = ("--require", "nDCG@10 >= -0.02", "--require", "AP not worse", "--margin", "0.05")
    out, err = compared(*FILES, rules, "--quiet", status=3)
    failed = [line for line in err.splitlines() if line.startswith("failed: ")]
    assert err.splitlines() == failed and len(failed) == 2
    assert re.fullmatch(
        r"failed: bad: AP not worse by 0.05: difference -0\.\d{4}, lower bound -0\.\d{4}, "
        r"required > -0\.0500, 30 topics, power 0\.\d\d",
        failed[1],
    )
    rows = [line for line in out.splitlines()[9:] if line.endswith(("passed", "failed"))]
    assert [row.split()[-1] for row in rows] == ["passed", "failed"] * 2
    assert "lower bound: one-sided 95% confidence, paired t-test, Holm's correction over 2 bounds" in out
    assert read_answer(out)[1]["Gate"] == "2 of 4 requirements failed"
    # The measures are those of the requirements.
    assert out.splitlines()[8].split() == ["System", "nDCG@10", "AP", "judged@10"]
    out, err = compared(*FILES[:3], rules)
    assert "failed" not in err
    assert read_answer(out)[1]["Gate"] == "passed"


def test_the_numbers() -> None:
    out = compared(*FILES[:3], "--require 'AP not worse by 0.01' --format json").out
    [check] = json.loads(out)["requirements"]
    values = [topic_values("qrels.txt", run, "AP")["AP"].to_numpy() for run in FILES[1:3]]
    test = stats.ttest_1samp(values[1] - values[0], -0.01, alternative="greater")
    assert check["bound"] == pytest.approx(test.confidence_interval(0.95).low)
    assert check["is_met"] == (test.pvalue < 0.05)
    assert check["difference"] == pytest.approx((values[1] - values[0]).mean())


@pytest.mark.parametrize("style", ["table", "markdown", "latex", "csv", "json", "github"])
def test_each_format_has_the_status(style: str) -> None:
    rules = ("--require", "AP >= -0.02 in each slice", "--slices", "slices.tsv", "--slice", "length")
    out, err = compared(*FILES, rules, "--format", style, status=3)
    assert err.count("failed: bad: AP >= -0.02 in ") == 2
    assert "1 of 30 topics are in no slice" in err
    if style == "csv":
        rows = list(csv.DictReader(io.StringIO(out)))
        assert [(row["slice"], row["topics"], row["system"]) for row in rows] == [
            (place, size, system)
            for place, size in (("", "30"), ("long", "20"), ("short", "9"))
            for system in ("new", "bad")
        ]
    if style == "json":
        content = json.loads(out)
        assert [one["place"] for one in content["requirements"]] == ["long", "long", "short", "short"]
        assert content["slices"]["short"][0]["topics"] == 9


def test_annotations_and_junit(home: Path) -> None:
    rules = ("--require", "RBP(rel=1, p=0.7) >= -0.01", "--require", "AP not worse by 0.05")
    (home / "50%,a:b.run").write_text((home / "bad.run").read_text())
    runs = (*FILES[:3], "50%,a:b.run")
    out = compared(*runs, rules, "--format github --junit made/gate.xml", status=3).out
    found = [GITHUB.fullmatch(line) for line in out.splitlines()]
    assert [one and one[1] for one in found] == ["error", "error", "notice", "notice"]
    assert found[0] and found[0][2] == "RBP(p=0.7) >= -0.01"
    assert found[0][3].startswith("failed: 50%25,a:b: RBP(p=0.7) >= -0.01: difference -0.")
    suites = ElementTree.parse("made/gate.xml").getroot()
    [suite] = suites
    assert suites.attrib == {"tests": "4", "failures": "2"}
    assert [(case.get("name"), case[0].tag) for case in suite] == [
        (f"{run}: {rule}", tag)
        for rule in ("RBP(p=0.7) >= -0.01", "AP not worse by 0.05")
        for run, tag in (("new", "system-out"), ("50%,a:b", "failure"))
    ]
    assert [case[0].text for case in suite][1] == found[0][3].replace("%25", "%")
    assert _escaped("a:b,%0A\r\n", ":,") == "a%3Ab%2C%250A%0D%0A"
    assert _escaped("a:b,%0A\r\n") == "a:b,%250A%0D%0A"


def test_names_cannot_add_commands(home: Path) -> None:
    name = "x\n::stop-commands::y\x01<&.run"
    (home / name).write_text((home / "bad.run").read_text())
    out = compared(*FILES[:2], (name,), "--require 'AP >= 0' --format github --junit gate.xml", status=3).out
    assert len(out.splitlines()) == 1 and out.startswith("::error title=AP >= 0::failed: x ::stop")
    assert ElementTree.parse("gate.xml").getroot()[0][0].get("name", "").startswith("x ::stop")


def test_a_stored_baseline(home: Path) -> None:
    measures = ("-m", "AP", "-m", "nDCG@10")
    out, err = compared(*FILES[:2], *measures, "--store kept/base.json")
    assert out == "" and "kept/base.json" in err
    (home / "base.run").rename(home / "gone")
    stored = compared("qrels.txt base=kept/base.json", *FILES[2:], *measures, "--format json").out
    (home / "gone").rename(home / "base.run")
    assert stored == compared(*FILES, *measures, "--format json").out
    # In the place of another run.
    stored = compared("qrels.txt", FILES[2], "base=kept/base.json", *measures, "--format json").out
    assert stored == compared("qrels.txt", FILES[2], FILES[1], *measures, "--format json").out
    # Some of the topics, and the same judgments compressed.
    (home / "qrels.gz").write_bytes(gzip.compress((home / "qrels.txt").read_bytes()))
    some = ("--topics", "3-7", *measures, "--format", "csv")
    stored = compared("qrels.gz base=kept/base.json", *FILES[2:], *some).out
    assert stored == compared(*FILES, *some).out


def test_a_run_in_json_is_no_stored_baseline(home: Path) -> None:
    run = {t: {d: float(s) for d, s in own.items()} for t, own in read_run("base.run").items()}
    (home / "base.json").write_text(json.dumps(run | {"judgments": {"d": 1.0}}))
    found = compared("qrels.txt base=base.json new.run -m AP --format csv").out
    assert found == compared(*FILES[:3], "-m AP --format csv").out


def test_stored_baselines_that_are_refused(home: Path) -> None:
    compared(*FILES[:2], "-m AP --store base.json --topics 1-20")
    whole = (home / "base.json").read_text()
    (home / "other.txt").write_text((home / "qrels.txt").read_text().replace("d1-1 1", "d1-1 0"))
    (home / "copy.json").write_text(whole)
    (home / "damaged.json").write_text(whole.replace('"1"', '"2"'))
    some = ("-m", "AP", "--topics", "1-20")
    for arguments, part in (
        (("other.txt", "base.json", "new.run", *some), "base.json: stored with other judgments than"),
        (("qrels.txt", "damaged.json", "new.run", *some), "damaged.json: damaged: the checksum differs"),
        (("qrels.txt", "base.json", "new.run", "-m", "AP"), "this topic is not stored: '21'"),
        (("qrels.txt", "base.json", "new.run"), "this measure is not stored: 'P@10'; accepted: AP"),
        (("qrels.txt", "base.json", "new.run", *some, "--residuals"), "residual bounds of stored values"),
        (("qrels.txt", "base.json", "copy.json", *some), "only stored values"),
        (
            ("qrels.txt", "base.json", "new.run", *some, "--predicted", "qrels.txt"),
            "--predicted with stored values",
        ),
        (("qrels.txt", "base.json", "--store", "more.json"), "base.json"),
        (("qrels.txt", "base.run", "--store", "base.run"), "base.run"),
        (("qrels.txt", "base.run", "--store", "base.tsv"), "accepted: a name ending in .json"),
    ):
        assert part in refusal("compare", *arguments)
    assert (home / "base.json").read_text() == whole
    assert not (home / "more.json").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--require", "AP"), "bad requirement: 'AP'"),
        (("--require", "AP not worse"), "--margin 0.01"),
        (("--require", "AP >= 0 in long"), "accepted: --slices TSV"),
        (("--require", "AP >= 0 in wide", "--slices", "slices.tsv", "--slice", "length"), "'wide'"),
        (("--require", "AP not worse by 1", "--correction", "bh"), "accepted: holm, bonferroni, none"),
        (("--junit", "gate.xml"), "--junit without --require"),
        (("--format", "github"), "--format github without --require"),
        (("--slice", "length"), "--slice without --slices"),
        (("--slices", "slices.tsv"), "slices.tsv:1: several columns of slices; accepted: --slice length or"),
        (("--slices", "slices.tsv", "--slice", "width"), "slices.tsv:1: no such column: 'width'; accepted"),
        (("--slices", "slices.tsv", "--slice", "text"), "too few topics in slice"),
        (("--slices", "twice.tsv"), "twice.tsv:3: topic given twice: '1'"),
        (("--slices", "ragged.tsv"), "ragged.tsv:2: another number of columns: 3; accepted: 2"),
        (("--slices", "single.tsv"), "single.tsv:1: no column of slices"),
        (("--slices", "others.tsv"), "no slice has a compared topic: ['a']"),
        (("--require", "AP >= 0", "--junit", "qrels.txt"), "qrels.txt"),
    ],
)
def test_refusals_are_one_line(home: Path, arguments: tuple[str, ...], part: str) -> None:
    texts = {
        "twice": "t\ts\n1\ta\n1\tb\n",
        "ragged": "t\ts\n1\ta\tb\n",
        "single": "t\n1\n",
        "others": "t\ts\n99\ta\n",
    }
    for name, text in texts.items():
        (home / f"{name}.tsv").write_text(text)
    before = {path.name for path in home.iterdir()}
    assert part in refusal("compare", *FILES, arguments)
    assert {path.name for path in home.iterdir()} == before


def test_one_column_needs_no_name(home: Path) -> None:
    (home / "two.tsv").write_text("qid\tkind\n" + "".join(f"{t}\t{t % 2}\n" for t in range(1, 31)) + "\n")
    out = compared(*FILES, "-m AP --slices two.tsv").out
    rows = [line.split() for line in out.splitlines() if line.startswith(("0 ", "1 "))]
    assert [row[:4] for row in rows] == [["1", "AP", "new", "15"], ["0", "AP", "new", "15"]]
    assert "95% CIs: simultaneous, Bonferroni, over 2 slices" in out


def test_the_step_of_the_page(home: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/howto/evaluate.md").read_text()
    [step] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    first, second = (line.split() for line in re.findall(r"lmtune (.*)\n", step.replace("\\\n", "")))
    (home / "topics.tsv").write_text("topic\tlength\n" + "".join(f"{t}\t{t % 2}\n" for t in range(1, 31)))
    compared("qrels.txt base.run -m nDCG@10 --store baseline.json")
    for run, status in (("base", 0), ("bad", 3)):
        (home / "new.run").write_text((home / f"{run}.run").read_text())
        out = compared(" ".join(first[1:]), status=status).out
        assert all(map(GITHUB.fullmatch, out.splitlines()))
        assert len(ElementTree.parse("gate.xml").findall(".//testcase")) == 3
    assert second[-2:] == [">>", '"$GITHUB_STEP_SUMMARY"']
    out = compared(*second[1:-2]).out
    assert out.startswith("| System | nDCG@10 |")
