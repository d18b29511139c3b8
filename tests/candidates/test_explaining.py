"""Each term's weight and what made it: parts that add up, factors that multiply, files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support import random_collection

from lmtune.candidates.explaining import explain_terms, write_explained
from lmtune.candidates.pool import CandidatePool
from lmtune.cli.main import app
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
    words = ["search", "mine", "--model", "bm25+rm3+weights:place", "--set", "original=0.8"]
    words += ["--output", "out.run", "--explain", "terms.tsv"]
    assert CliRunner().invoke(app, words).exit_code == 0
    rows = list(csv.DictReader(Path("terms.tsv").read_text().splitlines(), delimiter="\t"))
    assert list(rows[0]) == ["topic", "term", "weight", "original", "expansion", "place"]
    assert [row["term"] for row in rows] == ["fish", "oil", "tank"]
    assert [float(row["original"]) for row in rows] == [0.8, 0.0, 0.0]
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(1.0, abs=1e-5)
