"""Engines' fusion: scores equal those of the published sources, and the search finds the best of them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import engine_oracles as oracle
import numpy as np
import pytest
import pytrec_eval

from lmtune.fusion.fusing import fuse_runs
from lmtune.fusion.methods import FusionOptions
from lmtune.fusion.runs import RunSet
from lmtune.fusion.space_search import in_query_order, search_space
from lmtune.fusion.spaces import SPACES, Combination, Scale, Space, Variant
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.measures.measure import parse_measure
from lmtune.report.recommendation import fusion_answer

Run = dict[str, dict[str, float]]

DOCNOS = [f"d{n:02d}" for n in range(24)]


def drawn(
    seed: int, runs: int, topics: int = 5, *, negative: bool = False, ties: bool = True
) -> dict[str, Run]:
    """Return runs with ties, topics of one document, of equal scores, and documents that some runs lack."""
    rng = np.random.default_rng(seed)
    out: dict[str, Run] = {}
    for name in "zyx"[:runs]:  # not in the order of their names
        run: Run = {}
        for topic in range(topics):
            size = (int(rng.integers(6, 16)), 1, int(rng.integers(2, 9)))[topic % 3]
            scores = rng.integers(-4 if negative else 0, 12, size) / 4.0
            scores = np.full(size, scores[0]) if topic % 3 == 2 else scores + rng.choice([0.0, 1 / 3], size)
            scores = scores if ties else rng.uniform(0.5, 9.0, size)
            docnos = rng.choice(DOCNOS, size, replace=False).tolist()
            run[str(topic)] = dict(zip(docnos, scores.tolist(), strict=True))
        out[name] = run
    return out


def nearly_tied(seed: int, runs: int = 2, topics: int = 6) -> dict[str, Run]:
    """Return runs whose scores differ by few units in the last place of single precision, or not at all."""
    rng = np.random.default_rng(seed)
    out: dict[str, Run] = {}
    for name in "zyx"[:runs]:
        out[name] = {}
        for topic in range(topics):
            size = int(rng.integers(5, 11))
            # In the third draw scores have both signs.
            low, high, unit = (-2.0, 2.0, 2.0**-22) if seed % 3 == 2 else (70.0, 90.0, 2.0**-17)
            scores = rng.uniform(low, high) + rng.integers(0, 4, size) * unit + rng.integers(0, 2, size) * 3.0
            docnos = rng.choice(DOCNOS[:12], size, replace=False).tolist()
            out[name][str(topic)] = dict(zip(docnos, scores.tolist(), strict=True))
    return out


def limits(runs: dict[str, Run]) -> list[tuple[float, float]]:
    scores = [[s for ranking in run.values() for s in ranking.values()] for run in runs.values()]
    return [(min(own), max(own)) for own in scores]


def engines() -> list[Any]:
    """Return engines with numbers of runs; those with the most variants are slow."""
    every = [(name, n) for name, own in SPACES.items() for n in ([own.queries] if own.queries else [2, 3])]
    slow = ("opensearch", 2), ("opensearch", 3), ("elasticsearch", 3)
    return [pytest.param(*one, marks=pytest.mark.slow) if one in slow else one for one in every]


@pytest.mark.parametrize(("engine", "number"), engines())
def test_scores_are_those_of_the_engine(engine: str, number: int) -> None:
    space = SPACES[engine]
    for seed in range(6):
        runs = drawn(seed, number, negative=seed % 2 == 1)
        loaded = in_query_order(RunSet.of(runs))
        weights = np.random.default_rng(seed).dirichlet(np.ones(number), 2)
        for variant in space.variants(limits(runs)):
            row = space.combination(variant)
            every = [[*own.tolist()] for own in weights] if row.is_weighted else [[1.0] * number]
            for topic, table in loaded.scores.items():
                docnos = [loaded.docnos[doc] for doc in loaded.docs[topic]]
                ours = space.scores(table, variant, np.array(every))
                for own, used in zip(ours.tolist(), every, strict=True):
                    hits = [oracle.best_first(run[topic]) for run in runs.values()]
                    theirs = oracle.fuse(
                        engine, variant.normalise, variant.combine, variant.constant, used, hits
                    )
                    expected = [theirs[docno] for docno in docnos]
                    # log, exp and sqrt may differ by one unit in the last place between libraries.
                    assert own == pytest.approx(expected, rel=2e-7, abs=1e-12), (variant, topic)


@pytest.mark.parametrize(("engine", "number"), engines())
def test_columns_rank_as_the_engine_does(engine: str, number: int) -> None:
    space = SPACES[engine]
    compared = 0
    for seed in range(4):
        loaded = in_query_order(RunSet.of(drawn(seed, number)))
        for variant in space.variants(limits(drawn(seed, number))):
            for table in loaded.scores.values():
                columns = space.combination(variant).linear(space.values(table, variant))
                if columns is None or not space.combination(variant).is_weighted:
                    continue
                weights = np.random.default_rng(seed).dirichlet(np.ones(number), 3)
                for ours, theirs in zip(
                    weights @ columns, space.scores(table, variant, weights), strict=True
                ):
                    for a, b in itertools.combinations(range(ours.size), 2):
                        if abs(theirs[a] - theirs[b]) > 1e-6 * abs(theirs).max():
                            assert (ours[a] > ours[b]) == (theirs[a] > theirs[b]), (variant, table[:, [a, b]])
                            compared += 1
    assert compared > 1000


def by_oracle(
    engine: str, variant: Variant, weights: list[float], runs: dict[str, Run], *, digits: int = 5
) -> Run:
    """Return the engine's run. Scores that differ by the rounding of single precision are made equal."""
    how = engine, variant.normalise, variant.combine, variant.constant, weights
    out = {}
    for topic in next(iter(runs.values())):
        fused = oracle.fuse(*how, [oracle.best_first(run[topic]) for run in runs.values()])
        out[topic] = {docno: float(f"{score:.{digits}g}") for docno, score in fused.items()}
    return out


def by_trec_eval(qrels: dict[str, dict[str, int]], run: Run, measure: str) -> dict[str, float]:
    name = {"AP": "map", "nDCG@5": "ndcg_cut_5"}[measure]
    values = pytrec_eval.RelevanceEvaluator(qrels, {name.replace("_5", ".5")}).evaluate(run)
    return {topic: own[name] for topic, own in values.items()}


def test_the_page_of_formulas_lists_the_rows() -> None:
    page = (Path(__file__).parents[2] / "docs/computes.md").read_text()
    listed: list[tuple[Space, Scale | Combination]] = []
    for space in SPACES.values():
        listed += [(space, scale) for scale in space.scales]
        listed += [(space, combination) for combination in space.combinations]
    rows = [
        f"| {space.name} | `{row.name}` | {row.formula} | {space.source_version}, {row.source} |"
        for space, row in listed
    ]
    assert "\n".join(["| engine | name | formula | read from |", "|---|---|---|---|", *rows]) in page


@pytest.mark.parametrize("engine", SPACES)
def test_the_default_is_what_the_engine_does_with_nothing_set(engine: str) -> None:
    runs, variant = drawn(3, 2, topics=9, ties=False), SPACES[engine].default
    rng = np.random.default_rng(0)
    qrels = {t: {d: int(g) for d, g in zip(DOCNOS, rng.integers(0, 3, 24), strict=True)} for t in runs["z"]}
    result = fuse_runs(runs, qrels, FusionOptions(engine=engine, measure=("AP",), folds="3"))
    [row] = [row for row in result.rows if row.name == "default"]
    weights = [0.25, 0.75] if engine == "weaviate" else [1.0, 1.0]
    expected = by_trec_eval(qrels, by_oracle(engine, variant, weights, runs), "AP")
    assert row.values.tolist() == pytest.approx([expected[topic] for topic in result.topics])
    tuned = result.fixed(row.measure)
    assert tuned.in_sample >= row.in_sample - 1e-12
    answer = fusion_answer(result)
    assert answer is not None
    certificate = dict(answer.lines)["Certificate"]
    refused = "none: the weights of Qdrant's rrf are searched on a grid"
    assert (certificate == refused) == (engine == "qdrant"), certificate
    assert tuned.bound is None or tuned.bound >= tuned.in_sample - 1e-12
    # Held-out values are those of the folds' own variants and weights.
    assert len(tuned.folds) == 3
    assert {one.engine for one in (*tuned.folds, result.output)} <= {engine, ""}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["opensearch", "elasticsearch"])
def test_no_variant_and_weights_of_three_runs_exceed_the_bound(engine: str) -> None:
    space, runs = SPACES[engine], drawn(5, 3, topics=4, ties=False)
    rng = np.random.default_rng(1)
    qrels = {t: {d: int(g) for d, g in zip(DOCNOS, rng.integers(0, 3, 24), strict=True)} for t in runs["z"]}
    found = search_space(
        space, RunSet.of(runs), qrels, parse_measure("AP"), [tuple(qrels)], depth=100, tolerance=0.005
    )
    [best] = found.best
    fused = by_trec_eval(qrels, by_oracle(engine, best.variant, [*best.weights], runs), "AP")
    assert np.mean([*fused.values()]) == pytest.approx(best.value, abs=1e-9)
    assert best.value <= found.bound <= best.value + 0.005 + 1e-9
    grid = [w.tolist() for w in rng.dirichlet(np.ones(3), 12)] + np.eye(3).tolist() + [[0.5, 0.5, 0.0]]
    for variant in space.variants(limits(runs)):
        for weights in grid:
            own = by_trec_eval(qrels, by_oracle(engine, variant, weights, runs), "AP")
            assert np.mean([*own.values()]) <= found.bound + 1e-9, (variant, weights)


@pytest.mark.parametrize(
    "engine",
    ["weaviate", *(pytest.param(e, marks=pytest.mark.slow) for e in ("opensearch", "elasticsearch"))],
)
@pytest.mark.parametrize("measure", ["AP", "nDCG@5"])
def test_no_variant_and_weights_exceed_the_bound(engine: str, measure: str) -> None:
    space, runs = SPACES[engine], drawn(3, 2, topics=9, ties=False)
    rng = np.random.default_rng(0)
    qrels = {t: {d: int(g) for d, g in zip(DOCNOS, rng.integers(0, 3, 24), strict=True)} for t in runs["z"]}
    topics = tuple(qrels)
    sets = [topics, topics[:6], topics[3:]]
    loaded = RunSet.of(runs)
    found = search_space(space, loaded, qrels, parse_measure(measure), sets, depth=100)
    best = [-1.0] * len(sets)
    grid = [[1.0 - t, t] for t in np.linspace(0.0, 1.0, 30).tolist()]
    for variant in space.variants(limits(runs)):
        for weights in grid:
            by_topic = by_trec_eval(qrels, by_oracle(engine, variant, weights, runs), measure)
            for number, own in enumerate(sets):
                mean = float(np.mean([by_topic[topic] for topic in own]))
                best[number] = max(best[number], mean)
    assert best[0] <= found.bound + 1e-9
    for own, one, most in zip(sets, found.best, best, strict=True):
        assert one.value >= most - 1e-9
        by_topic = by_trec_eval(qrels, by_oracle(engine, one.variant, [*one.weights], runs), measure)
        assert np.mean([by_topic[topic] for topic in own]) == pytest.approx(one.value, abs=1e-9)


@pytest.mark.parametrize(
    ("engine", "number"),
    [
        *((e, 2) for e in ("milvus", "weaviate", "vespa", "lancedb")),
        *(pytest.param(e, 2, marks=pytest.mark.slow) for e in ("opensearch", "elasticsearch")),
        *(pytest.param(e, 3, marks=pytest.mark.slow) for e in ("milvus", "vespa")),
    ],
)
@pytest.mark.parametrize("measure", ["AP", "nDCG@5"])
def test_rounding_never_exceeds_the_bound(engine: str, number: int, measure: str) -> None:
    space = SPACES[engine]
    for seed in range(3):
        runs, rng = nearly_tied(seed, number), np.random.default_rng(seed)
        qrels = {
            t: {d: int(g) for d, g in zip(DOCNOS[:12], rng.integers(0, 4, 12), strict=True)}
            for t in runs["z"]
        }
        found = search_space(
            space,
            RunSet.of(runs),
            qrels,
            parse_measure(measure),
            [tuple(qrels)],
            depth=100,
            tolerance=0.05,
            boxes=200,
        )
        grid = [*rng.dirichlet(np.ones(number), 25).tolist(), *np.eye(number).tolist()]
        grid += [[1.0 / number] * number, [1e-6] + [1.0] * (number - 1), [1.0] * (number - 1) + [1e-6]]
        for variant in space.variants(limits(runs)):
            for weights in grid if space.combination(variant).is_weighted else [[1.0] * number]:
                run = by_oracle(engine, variant, weights, runs, digits=17)
                most = np.mean([*by_trec_eval(qrels, run, measure).values()])
                assert most <= found.bound + 1e-12, (seed, variant, weights)
        assert found.bound < 0.99


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["opensearch", "elasticsearch", "milvus"])
def test_rounding_does_not_exceed_the_bound_on_dl21(engine: str, shared_data: Path) -> None:
    # Documents whose dense scores differ in the last bit become equal when they are multiplied by a weight.
    folder = shared_data / "trec_dl21_runs"
    runs = {name: read_run(folder / f"runs/{name}.run.zst") for name in ("p_bm25", "TUW_TAS-B_768")}
    options = FusionOptions(engine=engine, measure=("nDCG@10",), in_sample=True)
    result = fuse_runs(runs, read_qrels(folder / "qrels.nist.txt.zst"), options)
    tuned = result.fixed(parse_measure("nDCG@10"))
    assert tuned.bound is not None
    assert tuned.in_sample <= tuned.bound <= tuned.in_sample + 0.001
