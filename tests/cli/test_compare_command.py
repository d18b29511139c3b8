"""``lmtune compare`` end to end."""

from __future__ import annotations

import csv
import gzip
import io
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from one_p_value import p_values_by_difference
from scipy import stats
from scripts import refusal, run_command
from support import read_answer

from lmtune.report.comparison_tables import p_text, p_value_text

TOPICS = range(1, 13)


compared = partial(run_command, "compare")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    qrels = "".join(f"{t} 0 d{t}-{i} {int(i < 4)}\n" for t in TOPICS for i in range(10))
    (tmp_path / "qrels.txt").write_text(qrels)
    for name, skill in (("one/base.run", 0.0), ("one/new.run", 1.0), ("two/new.run", 0.5)):
        lines = []
        for t in TOPICS:
            scores = rng.normal(0, 1, 10) + skill * (np.arange(10) < 4)
            lines += [f"{t} Q0 d{t}-{i} 1 {scores[i]:.6f} tag\n" for i in range(10)]
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_and_its_p_values() -> None:
    files = ("qrels.txt", "one/base.run", "one/new.run", "two/new.run")
    out, err = compared(*files, "--test randomization --test t --margin 0.05")
    title, answer = read_answer(out)
    assert title == "2 runs compared with base, 12 topics" and answer["Baseline"].startswith("base, AP 0.")
    lines = out.splitlines()[7:]
    assert lines[0].split() == ["System", "AP", "P@10", "nDCG@10", "judged@10"]
    assert {line.split()[0] for line in lines[1:4]} == {"base", "one/new.run", "two/new.run"}
    assert "paired randomization test (exact) over 12 topics, Holm's correction over 2 comparisons" in out
    assert "P@10: one/new.run and base are equal on every topic: p is 1" in err
    out = compared(*files, "-m map --format csv -q").out
    rows = [row for row in csv.DictReader(io.StringIO(out)) if row["system"] == "one/new.run"]
    assert len(rows) == len(TOPICS)
    gains = [float(row["difference"]) for row in rows]
    assert gains == sorted(gains, reverse=True)
    out, err = compared(*files, "-m AP --format json")
    record = json.loads(out)["contrasts"][0]
    a, b = ([float(row[key]) for row in rows] for key in ("value", "against_value"))
    assert record["p_t"] == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-10)
    assert "two-sided paired t-test" in err
    assert compared(*files, "-m AP --format json --seed 0").out == out


def test_residuals(home: Path) -> None:
    lines = (home / "qrels.txt").read_text().splitlines(keepends=True)
    (home / "half.txt").write_text("".join(lines[::2]))
    files = ("half.txt", "one/base.run", "one/new.run", "-m", "P@5", "--residuals")
    out = compared(*files).out
    assert out.splitlines()[8].split()[-1] == "0.5000"
    record = json.loads(compared(*files, "--format json").out)
    assert record["judged@10"] == {"base": 0.5, "new": 0.5}
    (contrast,) = record["contrasts"]
    assert contrast["lowest_difference"] < contrast["difference"] < contrast["highest_difference"]
    could, cannot = (f"{verb} change the sign for P@5 of new" in out for verb in ("could", "cannot"))
    assert could != cannot
    assert contrast["could_turn"] == could


def test_missed_topics_count_as_nothing(home: Path) -> None:
    lines = (home / "one/base.run").read_text().splitlines(keepends=True)
    kept = [line for line in lines if line.split()[0] not in ("3", "7")]
    with gzip.open(home / "short.run.gz", "wt") as stream:
        stream.writelines([*kept, "99 Q0 d 1 1 tag\n"])
    out, err = compared("qrels.txt one/base.run short.run.gz -m RR --format csv -q")
    assert "short misses 2 of 12 judged topics" in err
    rows = {row["topic"]: row for row in csv.DictReader(io.StringIO(out))}
    assert set(rows) == {str(t) for t in TOPICS}
    assert all((float(rows[t]["value"]) == 0.0) == (t in ("3", "7")) for t in rows)
    assert float(rows["3"]["against_value"]) > 0


@pytest.mark.parametrize("pairwise", [False, True])
@pytest.mark.parametrize("correction", ["holm", "bonferroni", "bh", "hsd", "none"])
def test_each_difference_has_one_p_value(correction: str, pairwise: bool) -> None:
    files = ("qrels.txt", "one/base.run", "one/new.run", "two/new.run")
    arguments = (*files, "-m", "AP", "-m", "nDCG@5", "--correction", correction, *["--pairwise"] * pairwise)
    out = compared(*arguments, "--format json").out
    content = json.loads(out)
    found = p_values_by_difference(content)
    assert len(found) == (6 if pairwise else 4)
    assert all(len(p_values) == 1 for p_values in found.values())
    out = compared(*arguments).out
    for record in content["contrasts"]:
        [p] = found[record["measure"], *sorted((record["system"], record["against"]))]
        assert record["better"] == (p < 0.05 and record["difference"] > 0.0)
        assert record["worse"] == (p < 0.05 and record["difference"] < 0.0)
        low, high = record["interval_low"], record["interval_high"]
        # Holm's correction has no two-sided intervals, so that Bonferroni's may contain 0.
        assert (low <= 0.0 <= high) == (p >= 0.05) or (correction == "holm" and low <= 0.0 <= high)
        assert p_text(p) in out
        best = read_answer(out)[1]["Best"]
        if not pairwise and record["measure"] == "AP" and best.startswith(f"{record['system']}, "):
            assert p_value_text(p) in read_answer(out)[1]["Difference"]


def test_one_run_twice() -> None:
    assert "nothing to compare with the baseline" in refusal(
        "compare qrels.txt one/base.run one/base.run --pairwise"
    )


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--test", "anova"), ("'anova'", "wilcoxon")),
        (("--correction", "fdr"), ("'fdr'", "holm")),
        (("--margin", "0"), ("margin", "0.0")),
        (("--format", "html"), ("'html'", "markdown")),
        (("--confidence", "95"), ("confidence", "95.0")),
        (("--permutations", "0"), ("permutations",)),
        (("--seed", "-1"), ("seed", "-1")),
        (("--alternative", "more"), ("'more'", "greater")),
        (("-m", "Magic@3"), ("'Magic@3'",)),
    ],
)
def test_bad_options_are_one_line(arguments: tuple[str, ...], parts: tuple[str, ...]) -> None:
    # Options are read before files: the run is not there.
    err = refusal("compare qrels.txt one/base.run absent.run", *arguments)
    assert all(part in err for part in parts), err


def test_bad_files_are_one_line(home: Path) -> None:
    (home / "other.run").write_text("99 Q0 d 1 1 tag\n")
    (home / "bad.run").write_text("1 Q0 d1-1 1 high tag\n")
    (home / "one.txt").write_text("1 0 d1-1 1\n")
    for arguments, parts in (
        (("qrels.txt", "one/base.run", "absent.run"), ("absent.run",)),
        (("qrels.txt", "one/base.run", "bad.run"), ("bad.run:1:", "'high'")),
        (("qrels.txt", "one/base.run", "other.run"), ("other.run", "judg")),
        (("one.txt", "one/base.run", "one/new.run"), ("one.txt", "two topics", "['1']")),
        (("qrels.txt", "one/base.run"), ("lmtune compare QRELS BASELINE RUN...",)),
    ):
        err = refusal("compare", *arguments)
        assert all(part in err for part in parts), err


def test_means_are_trec_evals(shared_data: Path) -> None:
    folder = shared_data / "robust03"
    out = compared(
        folder / "qrels.txt",
        *(folder / f"runs/{n}.gz" for n in ("uic0301", "aplrob03a")),
        "-m map -m P_10 -m bpref --format json",
    ).out
    for system, means in json.loads(out)["means"].items():
        text = (folder / f"trec_eval_9.0.8/{system}.all_trec.txt").read_text()
        golden = {line.split()[0]: line.split()[2] for line in text.splitlines() if line.split()[1] == "all"}
        for name, key in (("AP", "map"), ("P@10", "P_10"), ("Bpref", "bpref")):
            assert f"{means[name]:.4f}" == golden[key]


def test_some_of_the_topics(home: Path) -> None:
    (home / "held-out").write_text("# test topics\n3\n4\n7\n")
    files = ("qrels.txt", "one/base.run", "one/new.run", "-m", "AP", "--format", "csv", "-q")
    every = compared(*files).out
    rows = [row for row in csv.DictReader(io.StringIO(every)) if row["topic"] in "347"]
    for spec in ("3-4,7", "@held-out", "held-out"):
        out = compared(*files, "--topics", spec).out
        assert list(csv.DictReader(io.StringIO(out))) == rows
    assert "no such topic: '13'" in compared(*files, "--topics 13", status=2).err


def test_the_pictures(home: Path) -> None:
    files = ("qrels.txt", "one/base.run", "one/new.run", "two/new.run")
    err = compared(*files, "-m AP --plot", home / "pictures").err
    assert f"drew 3 pictures in {home / 'pictures'}" in "".join(err.split("\n"))
    names = {"AP-one_new.run-base-topics.svg", "AP-two_new.run-base-topics.svg", "intervals.svg"}
    assert {path.name for path in (home / "pictures").iterdir()} == names
    assert "AP: one/new.run minus base" in (home / "pictures" / "intervals.svg").read_text()
