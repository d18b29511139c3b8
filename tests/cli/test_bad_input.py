"""Bad input: one line that says where, what and what is accepted; status 2; nothing left behind."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from scripts import refusal, run_command

DOCS = "\n".join(json.dumps({"id": f"d{i}", "contents": f"alpha beta{i} gamma delta"}) for i in range(6))
TOPICS = "1\talpha beta1\n2\tgamma beta2\n3\tdelta beta3\n4\talpha beta4\n"
QRELS = "".join(f"{t} 0 d{t} 1\n{t} 0 d0 0\n" for t in range(1, 5))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "docs.jsonl").write_text(DOCS + "\n")
    (folder / "topics.tsv").write_text(TOPICS)
    (folder / "qrels.txt").write_text(QRELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_collection_itself_is_fine(home: Path) -> None:
    assert "MAP" in run_command("tune c --grid 2x2 --output results").out
    assert (home / "results/table.txt").is_file()


CASES: dict[str, tuple[str, bytes | None, tuple[str, ...], tuple[str, ...]]] = {
    # name: (file, content or None to remove it, extra arguments, parts of the line)
    "qrels-columns": ("qrels.txt", b"1 0 d1 1\n1 0 d2\n", (), ("qrels.txt:2:", "d2")),
    "qrels-absent": ("qrels.txt", None, (), ("qrels", "accepted")),
    "qrels-topic": ("qrels.txt", b"1 0 d1 1\n77 0 d1 1\n", (), ("qrels.txt:2:", "'77'", "ignore")),
    "qrels-docno": ("qrels.txt", b"1 0 yy 1\n2 0 zz 1\n", (), ("qrels.txt:1:", "'yy'", "ignore")),
    "no-relevant": ("qrels.txt", b"1 0 d1 0\n", (), ("qrels.txt", "relevant")),
    "one-usable": ("qrels.txt", b"1 0 d1 1\n1 0 d2 0\n", (), ("two topics",)),
    "topics-text": ("topics.tsv", b"1\talpha\n2\t\n", (), ("topics.tsv:2:",)),
    "topics-field": ("topics.tsv", TOPICS.encode(), ("--topic-fields", "desc"), ("desc", "SGML")),
    "docs-twice": ("docs.jsonl", b'{"id": "a", "contents": "x"}\n' * 2, (), ("docs.jsonl:2:", "'a'")),
    "docs-truncated": (
        "docs.jsonl.gz",
        gzip.compress(DOCS.encode())[:-20],
        ("--documents", "c/docs.jsonl.gz"),
        ("docs.jsonl.gz",),
    ),
    "docs-unclosed": (
        "d.trec",
        b"<DOC>\n<DOCNO> a </DOCNO>\n<TEXT>\nx\n",
        ("--documents", "c/d.trec"),
        ("d.trec:", "DOC"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_files(case: str, home: Path) -> None:
    file, content, extra, parts = CASES[case]
    path = home / "c" / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    before = sorted(home.rglob("*"))
    check_refused(("tune c --grid 2x2 --output results", extra), parts)
    after = [p for p in sorted(home.rglob("*")) if "indexes" not in p.relative_to(home).parts]
    assert after == before
    assert not [p for p in home.rglob("*") if p.name.startswith(".")]


OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "measure": (("tune", "c", "-m", "Magic@20"), ("'Magic@20'", "nDCG")),
    "measures": (("tune", "c", "-m", "Foo", "-m", "Bar"), ("'Foo'", "'Bar'")),
    "collection": (("tune", "nowhere"), ("'nowhere'", "pydocs")),
    "nothing": (("tune",), ("lmtune datasets",)),
    "lambda": (("search", "c", "--set", "lambda=1"), ("lambda", "1.0", "0 <= lambda < 1")),
    "mu": (("search", "c", "--set", "mu=-5"), ("mu", "-5.0", "mu > 0")),
    "mu-nan": (("search", "c", "--set", "mu=nan"), ("mu", "nan")),
    "both-zero": (("search", "c", "--set", "mu=0"), ("mu = 0",)),
    "hits": (("search", "c", "--hits", "0"), ("--hits", "0")),
    "tag": (("search", "c", "--run-tag", "a b"), ("'a b'",)),
    "lambda-range": (("tune", "c", "--range", "lambda=0,1"), ("lambda", "1.0")),
    "mu-range": (("tune", "c", "--range", "mu=5"), ("--range mu", "'5'")),
    "mu-order": (("tune", "c", "--range", "mu=10,5"), ("mu range",)),
    "grid": (("tune", "c", "--grid", "20x"), ("--grid", "'20x'", "20x26")),
    "folds": (("tune", "c", "--folds", "9"), ("folds", "9", "2 to 4")),
    "folds-file": (("tune", "c", "--folds", "absent.json"), ("absent.json",)),
    "one fold": (
        ("tune", "c", "--folds", "1"),
        ("one fold leaves no topic", "the final fit uses all topics"),
    ),
    "split": (("tune", "c", "--folds", "2", "--train-topics", "1"), ("folds",)),
    "train": (("tune", "c", "--train-topics", "1,99"), ("99",)),
    "range": (("tune", "c", "--train-topics", "50-60"), ("50-60",)),
    "shared": (("tune", "c", "--train-topics", "1,2", "--test-topics", "2"), ("'2'",)),
    "format": (("tune", "c", "--format", "html"), ("'html'", "markdown")),
    "stemmer": (("tune", "c", "--stemmer", "snowball"), ("'snowball'", "porter")),
    "stopwords": (("tune", "c", "--stopwords", "absent"), ("absent", "lucene")),
    "optimizer": (("tune", "c", "--ranknet-optimizer", "adam"), ("'adam'", "l-bfgs")),
    "restarts": (("tune", "c", "--restarts", "-1"), ("restarts", "-1")),
    "depth": (("tune", "c", "--depth", "0"), ("depth", "0")),
    "rerank depth": (("rerank", "apply", "m", "c", "--run", "r", "--depth", "0"), ("depth", "0")),
    "seed": (("tune", "c", "--seed", "-3"), ("seed", "-3")),
    "sampled-negatives": (("tune", "c", "--sampled-negatives", "0"), ("--sampled-negatives", "0")),
    "validation": (("tune", "c", "--ranknet-validation", "1"), ("1.0",)),
    "several": (("tune", "c", "pydocs", "--qrels", "x"), ("--qrels",)),
    "twice": (("tune", "c", "c"), ("the same name",)),
    "index": (("tune", "c", "--index", "absent"), ("absent",)),
    "topics-name": (("tune", "c", "--topics", "robust04"), ("'robust04'", "topics/")),
    "irds": (("tune", "irds:no/such"), ("irds:no/such",)),
    "workers": (("index", "c", "--workers", "0"), ("workers", "0")),
    "memory": (("index", "c", "--memory", "0"), ("--memory", "0")),
    "number": (("search", "c", "--set", "mu=abc"), ("--set mu", "'abc'", "a number")),
    "option": (("tune", "c", "--foo"), ("--foo",)),
    "command": (("retrieve",), ("'retrieve'",)),
    "cutoff": (("tune", "c", "-m", "P@" + "9" * 30), ("P@9",)),
    "measure-twice": (("tune", "c", "-m", "AP", "-m", "map"), ("twice", "AP")),
    "huge-grid": (("tune", "c", "--grid", "99999x99999"), ("--grid",)),
    "grid-digits": (("tune", "c", "--grid", "５x５"), ("--grid",)),
    "mu-zero": (("tune", "c", "--range", "mu=0,10"), ("mu > 0",)),
    "certify": (("tune", "c", "--certify", "0"), ("tolerance", "0.0")),
    "certify-measure": (("tune", "c", "--certify", "0.01", "-m", "RBP"), ("certified", "'RBP'")),
    "rel": (("tune", "c", "--ranknet-rel", "0"), ("rel",)),
    "same-name": (("tune", "c", "./c"), ("the same name",)),
    "index-analysis": (("tune", "c", "--index", "c", "--stemmer", "none"), ("--stemmer", "--index")),
    "tag-empty": (("search", "c", "--run-tag", ""), ("run tag",)),
    "output-is-file": (("tune", "c", "--output", "c/docs.jsonl"), ("c/docs.jsonl",)),
    "parts": (("tune", "--topics", "c/topics.tsv"), ("qrels",)),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_bad_options(case: str) -> None:
    arguments, parts = OPTIONS[case]
    check_refused((arguments,), parts)


def test_a_damaged_index_is_named(home: Path) -> None:
    run_command("index c --output built")
    column = next(p for p in sorted((home / "built").iterdir()) if p.suffix != ".json")
    data = bytearray(column.read_bytes())
    data[0] ^= 255
    column.write_bytes(data)
    check_refused(("tune c --index built",), ("built", "lmtune index"))
    column.write_bytes(data[:-1])
    check_refused(("tune c --index built",), ("built", "lmtune index"))
    (home / "built" / "index.json").write_text("{")
    check_refused(("tune c --index built",), ("built",))


def test_a_stale_index_is_named_and_the_cached_one_is_rebuilt(home: Path) -> None:
    run_command("index c --output built")
    run_command("tune c --grid 2x2")
    with (home / "c/docs.jsonl").open("a") as file:
        file.write('{"id": "new", "contents": "alpha"}\n')
    check_refused(("tune c --index built",), ("built", "stale", "lmtune index"))
    assert "other documents" in run_command("tune c --grid 2x2").err


@pytest.mark.parametrize("command", [("tune", "c", "--grid", "2x2"), ("index", "c")])
def test_a_folder_that_holds_more_than_ours_is_kept(home: Path, command: tuple[str, ...]) -> None:
    marker = "made.json" if command[0] == "tune" else "index.json"
    (home / "site").mkdir()
    (home / "site" / marker).write_text("{}")
    (home / "site" / "work.txt").write_text("mine")
    check_refused((command, "--output site"), ("site", "work.txt"))
    assert (home / "site" / "work.txt").read_text() == "mine"


def test_the_analysis_of_a_named_index_is_recorded(home: Path) -> None:
    (home / "few.txt").write_text("gamma\n")
    run_command("index c --output built --stemmer none --stopwords few.txt")
    (home / "few.txt").unlink()
    run_command("tune c --index built --grid 2x2 --output results")
    made = json.loads((home / "results" / "made.json").read_text())
    analysis = made["collections"][0]["analysis"]
    assert analysis == {"stemmer": "none", "stopwords": "few.txt", "words": ["gamma"]}


def test_the_krovetz_extra_is_named_where_it_is_missing() -> None:
    if importlib.util.find_spec("krovetzstemmer") is not None:
        pytest.skip("the krovetz extra is installed")
    check_refused(("tune c --stemmer krovetz",), ("pip install -c constraints.txt '.[krovetz]'",))


def test_an_output_that_is_no_results_folder_is_kept(home: Path) -> None:
    (home / "mine").mkdir()
    (home / "mine" / "thesis.tex").write_text("years of work")
    check_refused(("tune c --grid 2x2 --output mine",), ("mine",))
    assert (home / "mine" / "thesis.tex").read_text() == "years of work"
    run_command("tune c --grid 2x2 --output results")
    run_command("tune c --grid 2x2 --output results")


def test_unknown_judgments_can_be_ignored(home: Path) -> None:
    with (home / "c/qrels.txt").open("a") as file:
        file.write("77 0 d1 1\n1 0 gone 1\n")
    out = run_command("tune c --grid 2x2 --ignore-unknown --verbose").out
    assert "left out: judgments of 1 unknown topic\n" in out
    assert "counted as never retrieved: 1 judged document outside the collection\n" in out


def check_refused(words: Sequence[str | Sequence[str]], parts: tuple[str, ...]) -> None:
    line = refusal(*words)
    assert all(part in line for part in parts), line
