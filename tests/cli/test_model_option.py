"""``--model``: what it searches, what it fixes, and where its name is kept."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from made_folder import write_folder
from scripts import refusal, run_command

import lmtune
from lmtune.io.runs import read_run
from lmtune.models.model import MODELS

WORDS = [f"word{i}" for i in range(40)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(7)
    documents = {f"d{d}": " ".join(rng.choice(WORDS, rng.integers(3, 90))) for d in range(80)}
    topics = {t: " ".join(rng.choice(WORDS, 3)) for t in range(1, 11)}
    gains = ((t, f"d{d}", int(rng.integers(0, 2))) for t in topics for d in rng.permutation(80)[:20])
    write_folder(folder / "c", documents, topics, gains)
    return folder


@pytest.fixture(autouse=True)
def _working_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


REFUSED = {
    "tune-lambda": ("tune c --model dirichlet --range lambda=0,0.5", "--range lambda", "fixes"),
    "tune-mu": ("tune c --model jelinek-mercer --range mu=1,5", "--range mu", "mu = 0"),
    "tune-lucene": (
        "tune c --model lucene-dirichlet --range lambda=0,0",
        "--range lambda: --model lucene-dirichlet fixes it",
        "lambda = 0",
    ),
    "search-lambda": (
        "search c --model dirichlet --set lambda=0.4",
        "--set lambda: --model dirichlet fixes it",
        "lambda = 0",
    ),
    "search-mu": (
        "search c --model jelinek-mercer --set mu=9",
        "--set mu: --model jelinek-mercer fixes it",
        "mu = 0",
    ),
    "search-zero": ("search c --model jelinek-mercer --set lambda=0", "0.0", "mu = 0"),
    "tune-name": ("tune c --model bm26", "'bm26'", "lucene-dirichlet"),
    "search-name": ("search c --model bm26", "'bm26'", "two-stage"),
    "search-mu-bm25": ("search c --model bm25 --set mu=9", "--set mu: bm25 has no such parameter", "k1, b"),
    "search-b": ("search c --model bm25 --set b=1.2", "b is outside its domain: 1.2", "0 <= b <= 1"),
    "search-k1": ("search c --model bm25 --set k1=-1", "k1 is outside its domain: -1.0", "k1 > 0"),
    "tune-b": ("tune c --model bm25 --range b=0,2", "b is outside its domain: 2.0", "0 <= b <= 1"),
    "search-weights": (
        "search c --model sdm --set ordered=0.9 --set unordered=0.3",
        "weights of windows are outside their domain: (0.9, 0.3)",
        "ordered + unordered <= 1",
    ),
    "search-sdm-lambda": ("search c --model sdm --set lambda_ordered=0.3", "--model sdm fixes it", "= 0"),
    "search-windows": (
        "search c --model sdm --set mu_windows=3",
        "sdm has no such parameter",
        "mu_unordered",
    ),
    "certify": ("tune c --model lucene-dirichlet --certify 1e-2", "this model cannot be certified", "bm25"),
    "jm-range": ("tune c --model jelinek-mercer --range lambda=0,0.5", "lambda = 0", "mu = 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_line_says_what_is_wrong(case: str) -> None:
    command, *parts = REFUSED[case]
    line = refusal(command)
    assert all(part in line for part in parts), line


def grid_for(name: str) -> str:
    return "4x5" if len(MODELS[name].parameters) == 2 else "20"


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_tables_runs_and_records_name_the_model(name: str, home: Path) -> None:
    output = home / "kept" / name
    tune = f"tune c --model {name} --grid {grid_for(name)} --restarts 1 -m AP"
    shown = run_command(tune, "--output", output).out
    plain = name == "two-stage"
    kept = ["table.txt", "table.md", "table.tex", "table.csv", "table.json"]
    for text in [shown.replace(str(output), ""), *((output / file).read_text() for file in kept)]:
        tables = text.partition("\nMeasure")[2].partition("\nSearch with")[0] or text
        assert (name in tables) != plain
    made = json.loads((output / "made.json").read_text())
    assert made["plan"]["model"] == name
    fixed, names = MODELS[name].fixed, list(MODELS[name].default)
    with (output / "parameters.csv").open() as file:
        for row in csv.DictReader(file):
            assert all(float(row[parameter]) == value for parameter, value in fixed.items())
    with gzip.open(output / "runs/c/direct-AP.run.gz", "rt") as stream:
        tag = stream.readline().split()[5]
    assert tag == ("direct-AP" if plain else f"{name}-direct-AP")
    free, lines = set(names) - set(fixed), output / "lines/c/AP-fold1.csv"
    assert lines.is_file() == (len(free) > 2)
    if lines.is_file():
        with lines.open() as file:
            assert {row["line"] for row in csv.DictReader(file)} == {f"best {name}" for name in free}
    if len(names) == 2:  # tests/report/test_any_model.py draws more
        run_command("plot", output, "--output", home / f"pictures-{name}")
        pictures = [path.name for path in (home / f"pictures-{name}").iterdir()]
        assert any("surface" in picture for picture in pictures) == (not fixed)
        assert "c-parameters.svg" in pictures
    # The kept run measures what the table says.
    needed = MODELS[name].formula.needs_positions
    index = lmtune.index_for(lmtune.load("c").documents, home=home / "indexes", positions=needed)
    data = lmtune.load("c")
    pool = lmtune.CandidatePool.build(index, data.topics, data.qrels, model=MODELS[name].formula.name)
    rows = csv.DictReader((output / "parameters.csv").open())
    row = next(row for row in rows if row["method"] == "Direct")
    first = read_run(output / "runs/c/direct-AP.run.gz")
    ranked = {
        ranking.topic: ranking.docnos
        for ranking in lmtune.rank(pool, {name: float(row[name]) for name in names})
    }
    equal = [topic for topic in first if list(first[topic]) == ranked[topic]]
    assert len(equal) >= len(json.loads((output / "folds.json").read_text())["c"][0]["test"])


@pytest.mark.parametrize(
    ("arguments", "tag"),
    [
        ("", "lmtune-lambda0-mu1000"),
        ("--model dirichlet", "lmtune-dirichlet-mu1000"),
        ("--model jelinek-mercer", "lmtune-jelinek-mercer-lambda0.1"),
        ("--model lucene-dirichlet --set mu=50", "lmtune-lucene-dirichlet-mu50"),
        ("--model bm25", "lmtune-bm25-k10.9-b0.4"),
        ("--model lucene-bm25 --set k1=1.2 --set b=0.75", "lmtune-lucene-bm25-k11.2-b0.75"),
        (
            "--model sdm --set ordered=0.2 --set mu=500",
            "lmtune-sdm-ordered0.2-unordered0.05-mu500-mu_ordered1000-mu_unordered1000",
        ),
    ],
)
def test_runs_say_the_model_and_its_setting(arguments: str, tag: str, home: Path) -> None:
    out = run_command("search c", arguments).out
    assert {line.split()[5] for line in out.splitlines()} == {tag}
    output = home / "some.run"
    run_command("search c", arguments, "--output", output)
    assert output.read_text() == out
    made = json.loads((home / "some.run.made.json").read_text())
    assert made["model"]["name"] == (arguments.split()[1] if arguments else "two-stage")


def test_the_special_cases_are_two_stage_smoothing() -> None:
    for case, plain in [
        ("--model dirichlet --set mu=300", "--set lambda=0 --set mu=300"),
        ("--model jelinek-mercer --set lambda=0.7", "--set lambda=0.7 --set mu=0"),
    ]:
        one, other = (run_command("search c --run-tag x", words).out for words in (case, plain))
        assert one == other
    lucene = run_command("search c --model lucene-dirichlet --set mu=300 --run-tag x").out
    assert lucene != one


@pytest.mark.first_case
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "sdm-two-stage")) for name in MODELS]
)
def test_pruned_candidates_give_the_same_table(name: str, home: Path) -> None:
    # Only relevant judgments: RankNet's sampled negatives come from deeper than the run depth.
    relevant = [line for line in (home / "c/qrels.txt").read_text().splitlines() if line[-1] == "1"]
    (home / "relevant.txt").write_text("\n".join(relevant) + "\n")
    # Approx's lists are deeper than this collection.
    tune = f"tune c --qrels relevant.txt --model {name} --grid {grid_for(name)} -m P@3 --no-approx"
    tune += " --restarts 1 --sampled-negatives 9"
    served = ("dirichlet", "jelinek-mercer", "sdm-two-stage")  # by the candidates of models before them
    pruned, err = run_command(tune, "--depth 4")
    assert "pruning to" in err or name in served or not MODELS[name].formula.dominance
    whole = run_command(tune, "--depth 1000").out
    assert pruned == whole
    assert "Judged@" not in whole  # it would be P@10


def test_a_named_index_without_positions_says_what_builds_them() -> None:
    run_command("index c --output plain")
    line = refusal("search c --index plain --model sdm")
    assert "no positions" in line
    assert "lmtune index ... --positions --output plain" in line
    run_command("index c --positions --output placed")
    own, named = (run_command("search c --model sdm", more).out for more in ("", "--index placed"))
    assert own == named


def test_a_query_is_answered_on_the_screen() -> None:
    """The ten best are those of a run of the same query, each with its text's first words."""
    Path("one.tsv").write_text("1\tword1 word2\n")
    out, said = run_command("search c 'word1 word2' --model bm25")
    assert "bm25 with k1 = 0.9, b = 0.4" in said
    run_command("search c --topics one.tsv --model bm25 --output one.run")
    best = sorted(read_run("one.run")["1"].items(), key=lambda item: -item[1])[:10]
    lines = [line.split() for line in out.splitlines()]
    assert [line[1] for line in lines] == [docno for docno, _ in best]
    assert [float(line[2]) for line in lines] == pytest.approx([score for _, score in best], abs=1e-4)
    texts = {d["id"]: d["contents"] for d in map(json.loads, Path("c/docs.jsonl").read_text().splitlines())}
    assert all(texts[line[1]].startswith(" ".join(line[3:6])) for line in lines)
    assert run_command("search c nothing-has-this").out == "no document contains a term of the query\n"
    assert len(run_command("search c word1 --hits 3").out.splitlines()) == 3
    run_command("search c 'word1 word2' --model bm25 --output two.run")
    assert read_run("two.run") == read_run("one.run")


@pytest.mark.parametrize("part", ["rm3", "weights"])
def test_an_expanded_query_without_a_known_word_is_answered(part: str) -> None:
    out = run_command(f"search c zebra --model bm25+{part}").out
    assert out == "no document contains a term of the query\n"


def test_negative_weights_are_measured_unpruned(home: Path) -> None:
    """The default's mean is that of the run that search writes; a certificate is refused."""
    (home / "signed.jsonl").write_text(
        "".join(
            json.dumps({"id": str(t), "terms": {"word1": 1, f"word{t + 5}": 1, "word2": -2}}) + "\n"
            for t in range(1, 11)
        )
    )
    for model in ("two-stage", "bm25"):
        topics = ("c", "--topics", "signed.jsonl", "--model", model)
        fast = ("--depth", "3", "--grid", "3x3", "--restarts", "0", "-m", "AP", "--no-approx")
        out, said = run_command("tune", *topics, *fast, "--format json")
        assert "10 topics with a negative term weight (1, 2, 3, 4, 5, ...)" in said
        [mean] = [row["mean"] for row in json.loads(out) if row["method"] == "Default"]
        run_command("search", *topics, "--hits 3 --output signed.run")
        measured = lmtune.evaluate("c/qrels.txt", "signed.run", measures="AP")["AP"]
        assert mean == pytest.approx(measured, abs=1e-12)
        assert "a topic with a negative term weight cannot be certified" in refusal(
            "tune", *topics, *fast, "--certify 1e-2"
        )
