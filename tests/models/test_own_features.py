"""Features of terms of one's own: from files and functions, by brute force, blind to test topics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import TinyIndex, random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.storage import stored_pool
from lmtune.collections.folds import Fold
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.models.model import MODELS, find_model, known_model
from lmtune.models.term_features import QueryTerm
from lmtune.models.weighted import Weighted
from lmtune.tuning.direct import CoordinateAscent
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import APPROX, DIRECT, RANKNET
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.gradient import RankNetTuner
from lmtune.tuning.ridge import RidgeTuner
from lmtune.tuning.surrogate import SurrogateTuner
from lmtune.tuning.tuner import Tuner

BM25 = MODELS["bm25"].formula
Values = dict[tuple[str, str], float]


def written(path: Path, values: Values) -> str:
    path.write_text("".join(f"{topic}\t{word}\t{value!r}\n" for (topic, word), value in values.items()))
    return f"bm25+weights:{path}"


def drawn_values(queries: dict[str, str], seed: int = 0) -> Values:
    rng = np.random.default_rng(seed)
    return {
        (t, word): float(rng.normal()) for t, text in queries.items() for word in dict.fromkeys(text.split())
    }


def test_scores_are_those_of_the_formula_by_hand(tmp_path: Path) -> None:
    """Each term's part times count x exp(theta (value - centre) / spread), the gradient by differences."""
    for seed in range(6):
        index, queries, qrels = random_collection(seed, vocabulary=80)
        values = drawn_values(queries, seed)
        pool = CandidatePool.build(index, queries, qrels, model=written(tmp_path / "tags.tsv", values))
        names = [p.name for p in pool.formula.parameters]
        assert names == ["k1", "b", "theta_tags", "centre_tags", "spread_tags"]
        setting = np.array([0.9, 0.4, 0.7, 0.3, 1.7])
        t = int(np.argmax(np.diff(pool.candidates.start)))
        documents = pool.topic_documents(t, np.arange(int(np.diff(pool.candidates.start)[t])))
        topic = pool.topics[t]
        expected = np.zeros(documents.length.size)
        for row, term in enumerate(pool.terms[t]):
            times = queries[topic].split().count(term)
            alone = documents._replace(
                tf=documents.tf[row : row + 1],
                value=documents.value[row : row + 1],
                counts=np.ones(1, np.int64),
                group=documents.group[row : row + 1],
            )
            weight = times * np.exp(0.7 * (values[topic, term] - 0.3) / 1.7)
            expected += weight * BM25.differentiate(alone, setting[:2])[0]
        scores, gradients = pool.formula.differentiate(documents, setting)
        np.testing.assert_allclose(scores, expected, rtol=1e-12)
        step = np.array([0.0, 0.0, 1e-6, 0.0, 0.0])
        up, down = (pool.formula.differentiate(documents, setting + sign * step)[0] for sign in (1, -1))
        np.testing.assert_allclose(gradients[2], (up - down) / 2e-6, rtol=1e-5, atol=1e-7)


def test_words_are_analysed_and_a_term_without_value_has_none(tmp_path: Path) -> None:
    class Stemming(TinyIndex):
        def analyze(self, text: str) -> list[str]:
            return [word.lower().rstrip("s") for word in text.split()]

    index = Stemming({"1": "ship tank", "2": "tank oil"})
    path = tmp_path / "tags.tsv"
    path.write_text("q\tShips\t2\nq\tship\t5\nq\tsail\t7\nother\ttank\t9\n")
    pool = CandidatePool.build(index, {"q": "tanks ships"}, model=f"bm25+weights:{path}")
    assert dict(zip(pool.terms[0], pool.count[1].tolist(), strict=True)) == {"tank": 0.0, "ship": 3.5}


TUNERS = [
    RidgeTuner(folds=2, ridges=(0.01,)),
    SurrogateTuner("approx-ap", starts=1),
    RankNetTuner(starts=1, optimizer="l-bfgs"),
    CoordinateAscent("AP", restarts=1),
]


@pytest.mark.parametrize("tuner", TUNERS, ids=lambda own: type(own).__name__)
def test_a_fit_knows_nothing_of_other_topics(tmp_path: Path, tuner: Tuner) -> None:
    """Centre and spread are of the fitting topics' query terms; others' values change nothing."""
    index, queries, qrels = random_collection(2, documents=60, topics=14, vocabulary=60)
    train, test = list(queries)[:9], list(queries)[9:]
    values = drawn_values(queries)
    fits = []
    for other in (1.0, 1e6):
        own = {key: value * (other if key[0] in test else 1.0) for key, value in values.items()}
        pool = CandidatePool.build(index, queries, qrels, model=written(tmp_path / "tags.tsv", own))
        fits.append(tuner.fit(pool, topics=train).best_params_)
    assert fits[0] == fits[1]
    known = [
        values[t, term]
        for t, terms in zip(pool.topics, pool.terms, strict=True)
        if t in train
        for term in terms
    ]
    assert fits[0]["centre_tags"] == pytest.approx(np.mean(known))
    assert fits[0]["spread_tags"] == pytest.approx(np.std(known))


@pytest.mark.slow
def test_no_row_of_an_experiment_knows_its_test_topics(tmp_path: Path) -> None:
    index, queries, qrels = random_collection(2, documents=60, topics=14, vocabulary=60)
    folds = [Fold(tuple(queries)[:9], tuple(queries)[9:])]
    chosen = []
    for other in (1.0, 1e6):
        values = {
            key: value * (other if key[0] in folds[0].test else 1.0)
            for key, value in drawn_values(queries).items()
        }
        model = written(tmp_path / "tags.tsv", values)
        pool = CandidatePool.build(index, queries, qrels, model=model)
        plan = Plan((parse_measure("AP"),), model=model, final=False, starts=1, restarts=1, grid=(8,))
        rows = {row.method: row for row in run_experiment(pool, folds, plan).rows}
        chosen.append([rows[method].fits[0].params for method in (DIRECT, RANKNET, APPROX)])
    assert chosen[0] == chosen[1]


def test_a_feature_may_be_of_any_size(tmp_path: Path) -> None:
    """What is learnt of a feature does not change with its unit or its zero."""
    index, queries, qrels = random_collection(4, documents=60, topics=14, vocabulary=60)
    values = drawn_values(queries)
    found = []
    for shift, unit in ((0.0, 1.0), (2010.0, 1e-3), (-1e5, 1e4)):
        own = {key: shift + unit * value for key, value in values.items()}
        pool = CandidatePool.build(index, queries, qrels, model=written(tmp_path / "tags.tsv", own))
        tuner = SurrogateTuner("approx-ap", starts=1, ridge=0.001).fit(pool)
        mean = measure_settings(pool, tuner.best_params_, [parse_measure("AP")]).mean()
        found.append((tuner.best_params_["theta_tags"], mean))
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-3)
    assert abs(found[0][0]) > 0.01


def sign(own: QueryTerm) -> float:
    """Whether the term comes late in the alphabet."""
    return float(own.term > "w4")


def test_a_function_is_a_feature(tmp_path: Path) -> None:
    index, queries, qrels = random_collection(1)
    pool = CandidatePool.build(index, queries, qrels, model=Weighted(BM25, features=("idf", sign)))
    values = {(t, word): float(word > "w4") for t, word in drawn_values(queries)}
    other = CandidatePool.build(
        index,
        queries,
        qrels,
        model=written(tmp_path / "sign.tsv", values).replace("weights:", "weights:idf,"),
    )
    np.testing.assert_array_equal(pool.count, other.count)
    names = [p.name for p in pool.formula.parameters]
    assert names[2:] == ["theta_idf", "theta_sign", "centre_sign", "spread_sign"]
    assert (
        pool.formula.parameters[3].what
        == "the coefficient of sign: Whether the term comes late in the alphabet."
    )


def test_kept_candidates_go_with_the_file(tmp_path: Path) -> None:
    index, queries, _ = random_collection(1)
    values = drawn_values(queries)
    model = written(tmp_path / "tags.tsv", values)
    reasons: list[str] = []

    def keep(model: str | Weighted) -> CandidatePool:
        return stored_pool(
            tmp_path / "kept",
            index,
            queries,
            model=model,
            depth=5,
            on_build=lambda _, why: reasons.append(why),
        )

    for _ in range(2):
        keep(model)
    assert len(reasons) == 1
    written(tmp_path / "tags.tsv", {key: -value for key, value in values.items()})
    pool = keep(model)
    assert len(reasons) == 2
    np.testing.assert_array_equal(pool.count, CandidatePool.build(index, queries, model=model).count)
    with pytest.raises(InputError, match="functions"):
        keep(Weighted(BM25, features=(sign,)))


def test_what_is_no_feature_is_refused(tmp_path: Path) -> None:
    index, queries, _ = random_collection(1)
    for name, match in [
        ("bm25+weights:idf,idf", "bad name"),
        (f"bm25+weights:{tmp_path}/none.tsv", "no such file|does not exist|cannot"),
        (f"bm25+weights:{tmp_path}/idf.tsv", "bad name"),
        (f"bm25+weights:{tmp_path}/2 tags.tsv", "bad name"),
        ("bm25+weights:speed", "unknown term feature"),
    ]:
        with pytest.raises(InputError, match=match):
            find_model(name)
    # A report of results does without the file.
    assert known_model("bm25+weights:gone.tsv") is not None
    model = find_model(written(tmp_path / "tags.tsv", {("none", "fish"): 1.0}))
    with pytest.raises(InputError, match="none of the topics"):
        CandidatePool.build(index, queries, model=model)
    with pytest.raises(InputError, match="cannot have a range"):
        Plan(model=model.name, ranges={"centre_tags": (0.0, 1.0)})
    with pytest.raises(InputError, match="spread_tags is 0"):
        model.check({"spread_tags": 0.0})
