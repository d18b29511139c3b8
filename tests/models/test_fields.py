"""Mixtures of fields against the formula in 50 digits, a plain ranking of the text, and pruned candidates."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.typing import NDArray
from support import COLLECTIONS, FieldedTiny, TinyIndex

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.candidates.skyband import skyband
from lmtune.candidates.storage import stored_pool
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.models.fields import Fields
from lmtune.models.kernels import TopicDocuments
from lmtune.models.model import find_model, named_model
from lmtune.tuning.direct import CoordinateAscent, GridSearch
from lmtune.tuning.gradient import RankNetTuner
from lmtune.tuning.gradient_free import SPSA
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import SurrogateTuner

mp.dps = 50
NAMES = ("title", "body", "links")
MODEL = "fields:title,body"
MODELS = (MODEL, "bm25f:title,body", "bm25-fields:title,body")
# Of a term: how often it counts, and in each field tf and p.
Term = tuple[int, list[tuple[int, float]]]


def printed(terms: list[Term], lengths: list[int], setting: list[Any]) -> Any:
    """Evaluate the formula as the issue prints it."""
    fields = len(lengths)
    weights, mus, lambda_ = setting[:fields], setting[fields:-1], mpf(setting[-1])
    total = mpf(0)
    for count, parts in terms:
        p = mpf(0)
        for weight, mu, length, (tf, p_f) in zip(weights, mus, lengths, parts, strict=True):
            p += mpf(weight) * ((1 - lambda_) * (tf + mpf(mu) * p_f) / (mpf(mu) + length) + lambda_ * p_f)
        total += count * mp.log(p)
    return total


@st.composite
def documents(draw: st.DrawFn) -> tuple[list[Term], list[int], list[float]]:
    fields = draw(st.integers(1, 3))
    known = st.tuples(st.integers(0, 30), st.floats(1e-7, 0.3))
    lacked = st.just((0, 0.0))
    terms: list[Term] = []
    for _ in range(draw(st.integers(1, 5))):
        rest = [draw(known | lacked) for _ in range(fields - 1)]
        terms.append((draw(st.integers(1, 3)), draw(st.permutations([draw(known), *rest]))))
    held = [sum(parts[f][0] for _, parts in terms) for f in range(fields)]
    lengths = [own + draw(st.integers(0, 1000)) for own in held]
    weights = np.array([draw(st.floats(0.01, 1.0)) for _ in range(fields)])
    mus = [draw(st.floats(0.1, 1e5)) for _ in range(fields)]
    return terms, lengths, [*(weights / weights.sum()).tolist(), *mus, draw(st.floats(0.0, 0.95))]


def ours(terms: list[Term], lengths: list[int], setting: list[float]) -> tuple[float, NDArray[np.float64]]:
    fields = len(lengths)
    tf, p = (np.array([part[i] for _, parts in terms for part in parts]) for i in (0, 1))
    topic = TopicDocuments(
        tf[:, None],
        np.array([sum(lengths)]),
        p,
        np.repeat([count for count, _ in terms], fields),
        np.tile(np.arange(fields, dtype=np.int8), len(terms)),
        1.0,
        np.array(lengths, np.int32)[:, None],
    )
    scores, gradients = Fields(NAMES[:fields]).differentiate(topic, np.array(setting))
    return float(scores[0]), gradients[:, 0]


@settings(max_examples=COLLECTIONS, deadline=None)
@given(documents())
def test_scores_and_gradients_are_the_formulas(document: tuple[list[Term], list[int], list[float]]) -> None:
    terms, lengths, setting = document
    score, gradient = ours(terms, lengths, setting)
    exact = printed(terms, lengths, setting)
    assert abs(score - exact) <= 1e-12 * max(1, abs(exact))
    h, occurrences = mpf(10) ** -20, sum(count for count, _ in terms)
    for axis, value in enumerate(setting):
        high, low = ([*setting[:axis], mpf(value) + way * h, *setting[axis + 1 :]] for way in (1, -1))
        slope = (printed(terms, lengths, high) - printed(terms, lengths, low)) / (2 * h)
        # In mu and lambda terms of both signs cancel.
        assert abs(gradient[axis] - slope) <= 1e-12 * (abs(slope) + occurrences / max(value, 1e-2))


@lru_cache
def collection(
    seed: int, documents: int = 150
) -> tuple[FieldedTiny, dict[str, str], dict[str, dict[str, int]]]:
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(12)]
    weights = 1.0 / np.arange(1, 13)

    def text(most: int, some: list[str]) -> str:
        share = weights[: len(some)] / weights[: len(some)].sum()
        return " ".join(rng.choice(some, size=rng.integers(0, most), p=share))

    # Titles lack some words of bodies, and bodies one of titles.
    texts = {
        f"d{i:03d}": {"title": text(5, words[:8]), "body": text(15, words[1:])} for i in range(documents)
    }
    queries = {str(t): " ".join(rng.choice([*words, "absent"], size=rng.integers(1, 6))) for t in range(1, 9)}
    qrels = {
        topic: {str(docno): int(rng.integers(0, 2)) for docno in rng.choice([*texts], 40, replace=False)}
        for topic in queries
    }
    return FieldedTiny(texts), queries, qrels


def plain_scores(
    texts: dict[str, dict[str, str]], query: str, weights: list[float], mus: list[float], lambda_: float
) -> dict[str, float]:
    """Score documents that hold a term, from the text."""
    counts = {docno: [Counter(own[f].split()) for f in ("title", "body")] for docno, own in texts.items()}
    whole = [sum((own[f] for own in counts.values()), Counter[str]()) for f in (0, 1)]
    terms = [term for term in query.split() if any(term in own for own in whole)]
    scores: dict[str, float] = {}
    for docno, own in counts.items():
        if not any(term in part for part in own for term in terms):
            continue
        scores[docno] = 0.0
        for term in terms:
            p = 0.0
            for f in (0, 1):
                prior = whole[f][term] / whole[f].total()
                smoothed = (own[f][term] + mus[f] * prior) / (own[f].total() + mus[f])
                p += weights[f] * ((1.0 - lambda_) * smoothed + lambda_ * prior)
            scores[docno] += math.log(p)
    return scores


SETTINGS = [
    ([0.5, 0.5], [1000.0, 1000.0], 0.0),
    ([0.9, 0.1], [3.0, 20.0], 0.4),
    ([0.01, 0.99], [1.0, 5.0], 0.9),
]


def test_rankings_are_those_of_the_text() -> None:
    index, topics, _ = collection(1)
    pool = CandidatePool.build(index, topics, model=MODEL)
    for weights, mus, lambda_ in SETTINGS:
        setting = dict(zip(ParameterSpace.of(MODEL).names, [*weights, *mus, lambda_], strict=True))
        for ranking in rank(pool, setting):
            expected = plain_scores(index.texts, topics[ranking.topic], weights, mus, lambda_)
            own = dict(zip(ranking.docnos, ranking.scores.tolist(), strict=True))
            assert own == pytest.approx(expected, rel=1e-12)
            assert (np.diff(ranking.scores) <= 1e-12).all()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("depth", [1, 5, 20])
def test_pruning_changes_no_ranking_at_any_setting(depth: int, model: str) -> None:
    index, topics, _ = collection(2, 500)
    pool = CandidatePool.build(index, topics, model=model)
    pruned = skyband(pool, depth=depth)
    assert pruned.candidates.doc.size < 0.9 * pool.candidates.doc.size
    space, rng = ParameterSpace.of(model), np.random.default_rng(depth)
    some = [space.random(rng) for _ in range(25)]
    extremes = [[1e-9, 1.0 - 1e-9, 1e-12, 1e12, 0.0], [0.5, 0.5, 1e300, 1e-300, 0.999], [0.5, 0.5, 1, 1, 0]]
    if model != MODEL:
        extremes = [[1e-9, 1.0 - 1e-9, 0.0, 1.0, 0.0], [0.5, 0.5, 1.0, 0.0, 1e300], [0.5, 0.5, 1, 1, 1e-300]]
    for setting in [*some, *np.array(extremes, np.float64)]:
        for t in range(len(pool.topics)):
            kept, whole = (
                own.candidates.doc[own.candidates.rows(t)][own.top(t, setting, depth)]
                for own in (pruned, pool)
            )
            np.testing.assert_array_equal(kept, whole)


@pytest.mark.parametrize("model", MODELS)
def test_computed_scores_rise_with_frequencies_and_fall_with_lengths(model: str) -> None:
    index, topics, _ = collection(3)
    pool = CandidatePool.build(index, topics, model=model)
    documents, rng = pool.documents(pool.candidates), np.random.default_rng(0)
    tf = documents.tf + rng.integers(0, 2, documents.tf.size).astype(np.int32)
    lengths = np.maximum(0, documents.field_length - rng.integers(0, 2, documents.field_length.shape))
    better = documents._replace(tf=tf, field_length=lengths.astype(np.int32))
    space = ParameterSpace.of(model)
    settings = np.array([space.random(rng) for _ in range(40)])
    scores = np.empty((2, documents.length.size * len(settings)))
    for out, own in zip(scores, (documents, better), strict=True):
        pool.formula.rank_scores(own, settings, out)
    assert (scores[1] >= scores[0]).all()
    assert (scores[1] > scores[0]).any()


def test_kept_candidates_go_with_a_fields_documents(tmp_path: Any) -> None:
    index, topics, _ = collection(4)
    texts = {docno: {**own, "title": own["title"] + " w0"} for docno, own in index.texts.items()}
    other = FieldedTiny(texts)
    other.fingerprint = index.fingerprint
    reasons: list[str] = []
    for own in (index, index, other):
        pool = stored_pool(
            tmp_path, own, topics, model=MODEL, depth=3, on_build=lambda _, why: reasons.append(why)
        )
        again = skyband(CandidatePool.build(own, topics, model=MODEL), depth=3)
        np.testing.assert_array_equal(pool.candidates.doc, again.candidates.doc)
        np.testing.assert_array_equal(
            pool.documents(pool.candidates).field_length, again.documents(again.candidates).field_length
        )
    assert reasons == ["there is none yet", "made with another index"]


def test_weights_add_up_to_one_wherever_a_search_goes() -> None:
    space, rng = ParameterSpace.of("fields:title,body,links"), np.random.default_rng(0)
    points = [space.random(rng) for _ in range(20)]
    points += [
        space.clip(rng.uniform(0.0, 2.0, 7)),
        space.from_unbounded(np.array(space.unbounded_box)[:, 0]),
    ]
    points += [*space.grid([20]), *space.grid([2, 2, 3, 1, 1, 1, 1])]
    for point in points:
        assert point[:3].sum() == pytest.approx(1.0, abs=1e-12)
        assert space.with_value(point, 1, 0.25)[:3].sum() == pytest.approx(1.0, abs=1e-12)
        back = space.from_unbounded(space.to_unbounded(point))
        if space.normalise_shares(point)[:3].min() > 0.001:
            np.testing.assert_allclose(back[:3], point[:3], rtol=1e-9)
    assert len(space.grid([2, 2, 2, 1, 1, 1, 1])) == 7  # ratios, not weights, tell settings apart


def test_gradients_in_softmax_coordinates() -> None:
    space, rng = ParameterSpace.of("fields:title,body,links"), np.random.default_rng(1)
    linear, square = rng.normal(size=7), rng.normal(size=7)

    def cost(x: NDArray[np.float64]) -> float:
        setting = space.from_unbounded(x)
        return float(linear @ setting + square @ setting**2)

    for _ in range(10):
        x = space.to_unbounded(space.random(rng))
        setting = space.from_unbounded(x)
        slopes = space.chain(linear + 2 * square * setting, setting)
        low, high = np.array(space.unbounded_box).T
        for axis in np.flatnonzero((x > low + 0.01) & (x < high - 0.01)):
            h = 1e-6 * np.eye(7)[axis]
            numeric = (cost(x + h) - cost(x - h)) / 2e-6
            assert slopes[axis] == pytest.approx(numeric, rel=1e-5, abs=1e-4 * abs(float(setting @ linear)))


@pytest.mark.first_case
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "tuner",
    [
        GridSearch("AP", shape=[64]),
        CoordinateAscent("AP", restarts=1),
        SPSA("AP", evaluations=60),
        RankNetTuner(starts=1),
        RankNetTuner(optimizer="l-bfgs", starts=1),
        SurrogateTuner("approx-ap", starts=1),
    ],
    ids=lambda tuner: type(tuner).__name__,
)
def test_every_tuner_ends_with_weights_that_add_up_and_better_than_it_began(tuner: Any, model: str) -> None:
    pool = CandidatePool.build(*collection(5), model=model)
    tuner.fit(pool)
    best, space = tuner.best_params_, ParameterSpace.of(model)
    assert best["w_title"] + best["w_body"] == pytest.approx(1.0, abs=1e-9)
    settings = np.array([space.start, space.vector(best)])
    pool.formula.check(settings)
    means = measure_settings(pool, settings, parse_measures(["AP"]))[:, :, 0].mean(axis=0)
    costs = [Pairs.build(pool).cost(setting).value for setting in settings]
    assert costs[1] < costs[0] if isinstance(tuner, RankNetTuner) else means[1] > means[0]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"w_title": 0.3}, "w_title, w_body do not add up to 1: 0.8; accepted: a sum of 1"),
        ({"w_title": 0.0, "w_body": 1.0}, "w_title is outside its domain: 0.0; accepted: w_title > 0"),
        ({"mu_body": 0.0}, "mu_body is outside its domain: 0.0; accepted: mu_body > 0"),
        ({"lambda": 1.0}, "lambda is outside its domain: 1.0; accepted: 0 <= lambda < 1"),
        (
            {"mu": 3.0},
            "the model has no such parameter: 'mu'; accepted: w_title, w_body, mu_title, mu_body, lambda",
        ),
    ],
)
def test_settings_outside_the_domain_are_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(InputError) as found:
        find_model(MODEL).check(setting)
    assert str(found.value) == message


def test_models_are_named_with_their_fields() -> None:
    assert named_model("fields", ("title", "body")) == MODEL
    assert named_model("bm25", ()) == "bm25"
    for name, fields, accepted in [
        ("fields", (), "fields"),
        ("bm25f", (), "bm25f"),
        ("bm25", ("title",), "bm25f"),
    ]:
        with pytest.raises(InputError, match=f"accepted: --model {accepted} --fields title,contents"):
            named_model(name, fields)
    for name in ("fields:", "fields:a,a", "fields:../x"):
        with pytest.raises(InputError, match="bad field"):
            find_model(name)
    with pytest.raises(InputError, match="w_title cannot have a range: it is a share of 1"):
        ParameterSpace.of(MODEL, {"w_title": (0.2, 0.4)})
    assert find_model("fields:title").fixed == {"w_title": 1.0}


def test_an_index_without_fields_is_refused() -> None:
    with pytest.raises(InputError, match="has no fields"):
        CandidatePool.build(TinyIndex({"a": "x"}), {"1": "x"}, model=MODEL)
