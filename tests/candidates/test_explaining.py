"""Each term's weight and what made it: parts that add up, factors that multiply, files."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from made_lucene import require_java
from scripts import run_command
from support import random_collection

import lmtune
from lmtune.candidates.explaining import explain_document, explain_terms, write_explained
from lmtune.candidates.pool import CandidatePool
from lmtune.cli.main import app
from lmtune.cli.main import run as run_main
from lmtune.index.lucene.index import LuceneIndex, build_lucene_index
from lmtune.tuning.space import ParameterSpace


@pytest.mark.parametrize(
    "model", ["bm25+rm3:3,8+weights:idf,place", "two-stage+bo1", "bm25+weights:characters"]
)
def test_parts_add_up_to_weights_and_weights_to_scores(model: str) -> None:
    for seed in range(5):
        index, queries, _ = random_collection(seed, documents=120, vocabulary=80)
        pool = CandidatePool.build(index, queries, model=model)
        space = ParameterSpace.of(pool.formula)
        setting = space.named(space.random(np.random.default_rng(seed)))
        explained: dict[str, dict[str, dict[str, float]]] = {}
        for topic, term, made in explain_terms(pool, setting):
            explained.setdefault(topic, {})[term] = made
        features = [name.removeprefix("theta_") for name in setting if name.startswith("theta_")]
        for t, topic in enumerate(pool.topics):
            own = explained.get(topic, {})
            assert own.keys() == set(pool.terms[t])
            weights = [made["weight"] for made in own.values()]
            assert weights == sorted(weights, reverse=True)
            count = dict(zip(pool.terms[t], pool.count[0, pool.term_rows(t)].tolist(), strict=True))
            for term, made in own.items():
                assert made["original"] + made.get("expansion", 0.0) == pytest.approx(made["weight"])
                factors = np.prod([made[name] for name in features])
                original = setting.get("original", 1.0) * count[term] * factors
                assert made["original"] == pytest.approx(original, abs=1e-12)
            places = np.arange(int(np.diff(pool.candidates.start)[t]))
            documents = pool.topic_documents(t, places)
            vector = space.vector(setting)
            base = pool.formula.base  # type: ignore[attr-defined]
            parts, _ = base.parts(documents, vector[: len(base.parameters)])
            added = sum(
                (own[term]["weight"] * part for term, part in zip(pool.terms[t], parts, strict=True)), 0.0
            )
            np.testing.assert_allclose(pool.formula.differentiate(documents, vector)[0], added, rtol=1e-9)


def test_a_plain_model_has_counts(tmp_path: Path) -> None:
    index, _, _ = random_collection(1)
    pool = CandidatePool.build(index, {"q": "w1 w2 w1"}, model="bm25")
    assert list(explain_terms(pool, {})) == [("q", "w1", {"weight": 2.0}), ("q", "w2", {"weight": 1.0})]
    write_explained(str(tmp_path / "terms.tsv"), pool, {})
    assert (tmp_path / "terms.tsv").read_text() == "topic\tterm\tweight\nq\tw1\t2\nq\tw2\t1\n"


def test_the_command_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    texts = ["fish oil tank"] * 2 + ["fish oil"] + ["sea wind"] * 30
    lines = [f'{{"_id": "d{n}", "text": "{text}"}}\n' for n, text in enumerate(texts)]
    Path("mine/docs.jsonl").write_text("".join(lines))
    Path("mine/topics.tsv").write_text("1\tfish\n")
    model = "--model bm25+rm3+weights:place --set original=0.8"
    run_command("search mine --output out.run --explain terms.tsv", model)
    rows = list(csv.DictReader(Path("terms.tsv").read_text().splitlines(), delimiter="\t"))
    assert list(rows[0]) == ["topic", "term", "weight", "original", "expansion", "place"]
    assert [row["term"] for row in rows] == ["fish", "oil", "tank"]
    assert [float(row["original"]) for row in rows] == [0.8, 0.0, 0.0]
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(1.0, abs=1e-5)


MODELS = ["bm25", "bm25:atire", "bm25:plus", "bm25:l", "two-stage", "lucene-dirichlet", "bm25+rm3:3,8"]


@pytest.mark.parametrize("model", MODELS)
def test_factors_multiply_to_parts_and_parts_add_up(model: str) -> None:
    for seed in range(3):
        index, queries, _ = random_collection(seed, documents=80, vocabulary=60)
        pool = CandidatePool.build(index, queries, model=model)
        space = ParameterSpace.of(pool.formula)
        setting = space.named(space.random(np.random.default_rng(seed)))
        for t, topic in enumerate(pool.topics):
            numbers = pool.candidates.doc[pool.candidates.rows(t)][:5]
            for docno in pool.index.docnos(numbers):
                account = explain_document(pool, topic, docno, setting)
                assert sum(own.part for own in account.terms) == pytest.approx(account.score, rel=1e-9)
                parts = [own.part for own in account.terms]
                assert parts == sorted(parts, reverse=True)
                for own in account.terms:
                    product = own.times * np.prod([factor.value for factor in own.factors])
                    assert own.factors
                    assert product == pytest.approx(own.part, rel=1e-9)


@pytest.mark.slow
def test_lucenes_own_account_has_the_same_numbers(shared_data: Path, tmp_path: Path) -> None:
    require_java()
    import jnius

    documents = lmtune.load(shared_data / "cranfield").documents
    assert documents is not None
    build_lucene_index(documents, tmp_path / "lucene")
    index = LuceneIndex.open(tmp_path / "lucene", home=tmp_path)
    pool = CandidatePool.build(index, {"1": "boundary layer flow layer"}, model="lucene-bm25")
    load = jnius.autoclass
    folder = load("java.nio.file.Paths").get(str(tmp_path / "lucene"))
    directory = load("org.apache.lucene.store.FSDirectory").open(folder)
    reader = load("org.apache.lucene.index.DirectoryReader").open(directory)
    kind = load("org.apache.lucene.search.IndexSearcher", include_protected=False, include_private=False)
    searcher = kind(reader.getContext())
    searcher.setSimilarity(load("org.apache.lucene.search.similarities.BM25Similarity")(1.1, 0.6))
    for docno in ("4", "335", "1220"):
        account = explain_document(pool, "1", docno, {"k1": 1.1, "b": 0.6})
        [number] = index.doc_numbers([docno]).tolist()
        assert len(account.terms) == 3
        for own in account.terms:
            term = load("org.apache.lucene.index.Term")("contents", own.term)
            asked = load("org.apache.lucene.search.TermQuery")(term)
            told = searcher.explain(asked, number).toString()
            numbers = re.findall(r"([0-9.]+) = (idf|tf|n|N|freq|k1|b|dl|avgdl),", told)
            theirs = {name: float(value) for value, name in numbers}
            ours = {name: value for factor in own.factors for name, value in factor.inputs.items()}
            ours |= {factor.name: factor.value for factor in own.factors}
            assert theirs.keys() == {"idf", "tf", "n", "N", "freq", "k1", "b", "dl", "avgdl"}
            ours["n"] = ours.pop("df")
            assert ours == pytest.approx(theirs, rel=1e-6)
            assert float(told.split(" = ")[0]) * own.times == pytest.approx(own.part, rel=1e-6)


def test_a_query_is_answered_by_an_account(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "few"
    folder.mkdir()
    (folder / "documents.tsv").write_text("d1\tbird flu bird\nd2\tflu\nd3\tother words\n")
    command = ["search", str(folder), "bird flu", "--model", "bm25", "--indexes", str(tmp_path)]
    done = CliRunner().invoke(app, [*command, "--explain-doc", "d1"], standalone_mode=False)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("d1: ")
    assert lines[1].split()[1] == "bird:"
    assert "idf = log(1 + (N - df + 0.5) / (df + 0.5)); df = 1, N = 3" in lines[2]
    assert "freq = 2, k1 = 0.9, b = 0.4, dl = 3, avgdl = 2" in lines[3]
    for wrong, message in (
        ([*command, "--explain-doc", "d9"], "no such document among the candidates: 'd9'"),
        (["search", str(folder), "--explain-doc", "d1"], "--explain-doc without a query"),
    ):
        assert run_main(wrong) == 2
        assert message in capsys.readouterr().err
