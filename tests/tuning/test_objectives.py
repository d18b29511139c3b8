"""Costs of settings and their gradients against the whole chain in mpmath; names of objectives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray
from smooth_brute import Smooth, derivatives, softplus
from support import TinyIndex, random_collection
from toy_formulas import Mixed, Saturated

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.models.formula import Formula
from lmtune.models.kernels import TopicDocuments
from lmtune.models.parameter import Parameter
from lmtune.models.two_stage import LUCENE_DIRICHLET, TWO_STAGE
from lmtune.tuning.pairs import Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import SurrogateCost, parse_objective

Array = NDArray[np.float64]

OBJECTIVES = (
    "approx-ap approx-AP@4 approx-ndcg approx-nDCG(dcg='exp-log2')@5 approx-p@5 approx-r@5 approx-bpref "
    "approx-Bpref(rel=2) approx-rr song softmax ranknet lambda-ap lambda-ndcg@5"
).split()
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)


def made_collection() -> tuple[TinyIndex, dict[str, str], dict[str, dict[str, int]]]:
    """Make documents of different lengths, and a topic without a relevant one."""
    rng = np.random.default_rng(8)
    words = [f"w{i}" for i in range(6)]
    index = TinyIndex({f"d{i}": " ".join(rng.choice(words, size=i + 2)) for i in range(16)})
    topics = {"1": "w0 w1 w1", "2": "w2 w3", "3": "w4", "4": "w5 w0"}
    qrels = {topic: {f"d{i}": int(rng.integers(-1, 4)) for i in range(1, 16)} for topic in topics}
    for judged in qrels.values():
        judged |= {"missing": 2, "lost": 0}
    qrels["3"] = {"d3": 0, "missing": 1}
    return index, topics, qrels


def score(formula: Formula, tf: Sequence[int], length: int, topic: TopicDocuments, x: Sequence[Any]) -> Any:
    """Score one document in mpmath, from the formulas' definitions."""
    total = mpf(0)
    for own, p, count in zip(tf, map(mpf, topic.value.tolist()), topic.counts.tolist(), strict=True):
        if formula is TWO_STAGE:
            total += count * mp.log((1 - x[0]) * (own + x[1] * p) / (x[1] + length) + x[0] * p)
        elif formula is LUCENE_DIRICHLET:
            total += count * max(mpf(0), mp.log(1 + own / (x[1] * p)) + mp.log(x[1] / (x[1] + length)))
        elif isinstance(formula, Mixed):
            room = x[0] * (1 - x[1] + x[1] * length / x[4])
            total += count * (-mp.log(p)) ** x[2] * own / (own + room)
        else:
            total += count / -mp.log(p) * mp.log1p(own / x[0])
    return total + x[3] / (1 + length) if isinstance(formula, Mixed) else total


def topic_of(lists: Lists, t: int) -> TopicDocuments:
    [topic] = lists.pool.documents(lists.columns).of(slice(t, t + 1)).topics()
    return topic._replace(mean_length=10.0)


def standard(lists: Lists, t: int, x: Sequence[Any]) -> list[Any]:
    """Return a topic's scores over their spread."""
    topic = topic_of(lists, t)
    scores = [
        score(lists.pool.formula, tf, length, topic, x)
        for tf, length in zip(topic.tf.T.tolist(), topic.length.tolist(), strict=True)
    ]
    mean = sum(scores) / len(scores)
    spread = mp.sqrt(sum((s - mean) ** 2 for s in scores) / len(scores))
    return [(s - mean) / spread for s in scores]


def average_precision(relevant: Sequence[bool]) -> float:
    ranks = np.flatnonzero(relevant) + 1
    return float((np.arange(1, ranks.size + 1) / ranks).sum())


def pair_weights(objective: str, gains: Array, at: Array) -> Array:
    """Return what swapping two documents does to R AP, or to DCG@5; ties are in their mean place."""
    ahead = (at[None] > at[:, None]) | ((at[None] == at[:, None]) & (gains[None] < gains[:, None]))
    alike = (at[None] == at[:, None]) & (gains[None] == gains[:, None])
    rank = 1 + ahead.sum(axis=1) + (alike.sum(axis=1) - 1) / 2
    if objective != "lambda-ap":
        discount = np.where(rank <= 5, 1 / np.log2(1 + rank), 0.0)
        found: Array = np.abs((gains[:, None] - gains) * (discount[:, None] - discount))
        return found
    assert np.unique(rank).size == rank.size
    place = rank.astype(int) - 1
    weights: Array = np.zeros((gains.size, gains.size))
    ordered = np.empty(gains.size, bool)
    ordered[place] = gains > 0
    for i in range(gains.size):
        for j in range(gains.size):
            swapped = ordered.copy()
            swapped[[place[i], place[j]]] = ordered[[place[j], place[i]]]
            weights[i, j] = abs(average_precision(swapped.tolist()) - average_precision(ordered.tolist()))
    return weights


class Reference:
    """An objective of a collection, from judgments and scores in mpmath."""

    def __init__(self, objective: str, lists: Lists, qrels: dict[str, dict[str, int]], at: Array) -> None:
        self.objective, self.lists, self.qrels = objective, lists, qrels
        self.measure = parse_objective(objective).measure
        self.weights = {
            t: pair_weights(
                objective, self.gains(t), np.array([float(u) for u in standard(lists, t, at.tolist())])
            )
            for t in range(len(lists.pool.topics))
            if objective.startswith("lambda") and self.gains(t).any()
        }

    def gains(self, t: int) -> Array:
        """Return what documents of a topic's list add, 0 for those that are not relevant."""
        judged = self.lists.columns.gain[self.lists.columns.rows(t)]
        return self.worth(judged)

    def worth(self, judged: NDArray[np.int32]) -> Array:
        kept = np.where(judged >= self.measure.rel, judged, 0).astype(np.float64)
        if self.measure.kind != "nDCG":
            return (kept > 0).astype(np.float64)
        return np.exp2(kept) - 1 if self.measure.dcg == "exp-log2" else kept

    def __call__(self, alpha: float, x: list[Any]) -> Any:
        """Take the parameters and the logarithm of what alpha is multiplied by."""
        total = mpf(0)
        for t in range(len(self.lists.pool.topics)):
            if self.gains(t).any():
                u = [v * mp.exp(x[-1]) for v in standard(self.lists, t, x[:-1])]
                total += self.topic(t, u, mpf(alpha))
        return total / len(self.lists.pool.topics)

    def topic(self, t: int, u: list[Any], alpha: Any) -> Any:
        gains, measure = self.gains(t), self.measure
        all_judged = np.array([g for g in self.qrels[self.lists.pool.topics[t]].values() if g >= 0])
        relevant = int((all_judged >= measure.rel).sum())
        best = np.sort(self.worth(all_judged))[::-1][: measure.cutoff]
        ideal_dcg = float((best / np.log2(np.arange(2, best.size + 2))).sum())
        pairs = [(i, j) for i in range(len(u)) for j in range(len(u)) if gains[i] > gains[j]]
        if self.objective == "softmax":
            share = mp.log(sum(mp.exp(alpha * v) for v in u))
            return sum(share - alpha * v for v, gain in zip(u, gains, strict=True) if gain) / int(gains.sum())
        if self.objective == "ranknet":
            return sum(softplus(alpha * (u[j] - u[i])) for i, j in pairs) / len(pairs)
        if self.objective.startswith("lambda"):
            weights = self.weights[t]
            summed = sum(mpf(float(weights[i, j])) * softplus(alpha * (u[j] - u[i])) for i, j in pairs)
            return summed / (relevant if self.objective == "lambda-ap" else ideal_dcg)
        judged = self.lists.columns.gain[self.lists.columns.rows(t)]
        smooth = Smooth(
            {"nDCG": "DCG", "R": "P"}.get(measure.kind, measure.kind),
            gains.tolist(),
            ((judged >= 0) & (judged < measure.rel)).tolist(),
            {"nDCG": ideal_dcg, "P": measure.cutoff or 0, "RR": 1}.get(measure.kind, relevant),
            measure.cutoff or 0,
            float(alpha) / max(measure.cutoff or 0, 1),
            self.objective == "song",
            max(1, min(relevant, all_judged.size - relevant)),
        )
        return -smooth(u, alpha)


def check(formula: Formula, objective: str, settings: Sequence[Sequence[float]]) -> None:
    index, topics, qrels = made_collection()
    pool = CandidatePool.build(index, topics, qrels, model=formula)
    lists = Lists.build(pool, ParameterSpace.of(formula))
    at = np.array(settings[-1])
    cost, reference = (
        SurrogateCost(lists, parse_objective(objective), pool.positions()),
        Reference(objective, lists, qrels, at),
    )
    if reference.weights:
        cost.weight_pairs(at)
    for setting in settings:
        for alpha in (0.8, 7.0):
            found = cost(np.array(setting), alpha)
            x = [*map(mpf, setting), mpf(0)]
            assert found.value == pytest.approx(float(reference(alpha, x)), rel=1e-11)
            slopes = [float(slope) for slope in derivatives(partial(reference, alpha), x)]
            np.testing.assert_allclose(found.gradient, slopes, rtol=1e-8, atol=1e-10 * max(map(abs, slopes)))


@pytest.mark.first_case
@every_objective
def test_costs_and_gradients_are_the_formulas_to_the_end(objective: str) -> None:
    check(TWO_STAGE, objective, [(0.3, 40.0), (0.9, 2.0)])


@pytest.mark.first_case
@pytest.mark.parametrize(
    "objective", ["approx-ap", "approx-nDCG(dcg='exp-log2')@5", "ranknet", "lambda-ndcg@5"]
)
@pytest.mark.parametrize(
    ("formula", "setting"),
    [(LUCENE_DIRICHLET, (0.0, 30.0)), (Saturated(), (1.5,)), (Mixed(), (1.2, 0.6, 0.4, 0.3, 3.0))],
    ids=lambda value: getattr(value, "name", ""),
)
def test_any_formulas_gradient(formula: Formula, setting: tuple[float, ...], objective: str) -> None:
    check(formula, objective, [setting])


class Loud(Saturated):
    """A saturated sum times a parameter, which moves no document."""

    name = "loud"
    parameters = (*Saturated.parameters, Parameter("loud", 0.01, 100.0, "log", 1.0, "how loud"))

    def differentiate(self, topic: TopicDocuments, setting: Array) -> tuple[Array, Array]:
        scores, slope = super().differentiate(topic, setting[:1])
        return setting[1] * scores, np.stack((setting[1] * slope[0], scores))


@every_objective
def test_no_parameter_gains_by_stretching_scores(objective: str) -> None:
    pool = CandidatePool.build(*random_collection(5, documents=80, topics=10), model=Loud())
    cost = SurrogateCost(
        Lists.build(pool, ParameterSpace.of(Loud())), parse_objective(objective), pool.positions()
    )
    if objective.startswith("lambda"):
        cost.weight_pairs(np.array([2.0, 1.0]))
    soft, loud = (cost(np.array([2.0, way]), 4.0) for way in (0.02, 50.0))
    assert soft.value == pytest.approx(loud.value, rel=1e-12)
    assert soft.gradient[0] == pytest.approx(loud.gradient[0], rel=1e-9)
    assert abs(soft.gradient[0]) > 1e-6
    for each in (soft, loud):
        assert abs(each.gradient[1]) < 1e-11


@every_objective
def test_any_number_of_threads_gives_the_same_bits(objective: str) -> None:
    pool = CandidatePool.build(*random_collection(5, documents=120, topics=30))
    cost = SurrogateCost(
        Lists.build(pool, ParameterSpace.of("two-stage")), parse_objective(objective), pool.positions()
    )
    setting = np.array([0.4, 25.0])
    cost.weight_pairs(setting)
    one, three = (cost(setting, 5.0, threads=threads) for threads in (1, 3))
    assert one.value == three.value
    np.testing.assert_array_equal(one.gradient, three.gradient)


@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if not name.startswith("lambda")])
def test_costs_of_the_same_lists_share_losses(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = CandidatePool.build(*random_collection(5, documents=120, topics=30))
    lists, setting = Lists.build(pool, ParameterSpace.of("two-stage")), np.array([0.4, 25.0])
    some, others, everything = (
        SurrogateCost(lists, parse_objective(objective), topics)
        for topics in (pool.positions()[::2], pool.positions()[1::2], pool.positions())
    )
    expected = [cost(setting, 5.0).value for cost in (some, others, everything)]
    found = [some.value(setting, 5.0), others.value(setting, 5.0)]
    monkeypatch.setattr(pool.formula.__class__, "likelihoods", None)
    assert [*found, everything.value(setting, 5.0)] == expected
    with pytest.raises(TypeError):
        everything.value(setting, 6.0)


def test_topics_without_relevant_documents_count_as_nothing() -> None:
    index, topics, qrels = made_collection()
    pool = CandidatePool.build(index, topics, qrels)
    lists, objective = Lists.build(pool, ParameterSpace.of("two-stage")), parse_objective("approx-ap")
    all_of_them, [without] = pool.positions(), pool.positions(["3"])
    others = np.delete(all_of_them, without)
    setting = {"lambda": 0.3, "mu": 9.0}
    mean, part = (SurrogateCost(lists, objective, some)(setting, 4.0) for some in (all_of_them, others))
    assert mean.value == pytest.approx(part.value * 3 / 4, rel=1e-14)
    with pytest.raises(InputError, match="no topic has a relevant document"):
        SurrogateCost(lists, objective, np.array([without]))


def test_settings_outside_their_domain_are_refused() -> None:
    pool = CandidatePool.build(*made_collection())
    lists = Lists.build(pool, ParameterSpace.of("two-stage"))
    cost = SurrogateCost(lists, parse_objective("approx-ap"), pool.positions())
    with pytest.raises(InputError, match="lambda"):
        cost({"lambda": 1.5}, 2.0)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("approx-map", "approx-AP"),
        ("approx-ndcg_cut_10", "approx-nDCG@10"),
        ("approx-recip_rank", "approx-RR"),
        ("approx-R@100", "approx-R@100"),
        ("lambda-ndcg", "lambda-nDCG"),
        ("lambda-ap", "lambda-AP"),
        ("song", "song"),
        ("softmax", "softmax"),
        ("ranknet", "ranknet"),
    ],
)
def test_names_are_read_and_written(name: str, text: str) -> None:
    objective = parse_objective(name)
    assert str(objective) == text
    assert parse_objective(text) == objective
    assert objective.fits_steepness == (objective.family in ("softmax", "ranknet", "lambda"))


@pytest.mark.parametrize(
    "name", ["approx", "approx-", "AP", "lambda-AP@5", "lambda-p@5", "approx-success@5", ""]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        parse_objective(name)
