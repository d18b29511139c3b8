"""Folds and the experiment's promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support import TinyIndex, random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold, cross_validation
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure
from lmtune.measures.measure import parse_measures
from lmtune.measures.significance.tests import paired_t_test
from lmtune.parallel import Workers
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import (
    APPROX,
    BAGGED,
    DEFAULT,
    DIRECT,
    EDGE,
    OPTIMAL,
    RANKNET,
    SAMPLED_NEGATIVES,
    STOPPED,
)
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.gradient import RankNetTuner
from lmtune.tuning.surrogate import SurrogateTuner


@pytest.fixture(scope="module")
def pool() -> CandidatePool:
    index, topics, qrels = random_collection(7, documents=100, topics=20)
    return CandidatePool.build(index, topics, qrels)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(tuple(parse_measures(["AP", "Bpref", "P@10"])), grid=(4, 5), validation=0.3)


@pytest.mark.slow
def test_parameters_come_from_the_training_topics_alone(pool: CandidatePool, plan: Plan) -> None:
    folds = cross_validation(pool.topics, 3, seed=5)
    rows = run_experiment(pool, folds, plan).rows
    for number, fold in enumerate(folds):
        tuner = RankNetTuner(seed=plan.seed).fit(pool, topics=fold.train)
        fits = [row.fits[number] for row in rows if row.method == RANKNET]
        assert {(*fit.params.values(), fit.evaluations) for fit in fits} == {
            (*tuner.best_params_.values(), tuner.n_evaluations_)
        }
        for row in rows:
            if row.method == APPROX:
                smooth = SurrogateTuner(f"approx-{row.measure}", seed=plan.seed).fit(pool, topics=fold.train)
                assert row.fits[number].params == smooth.best_params_
                assert row.fits[number].evaluations == smooth.n_evaluations_
    # Judgments of the test topics must not reach any choice but Optimal's.
    index, topics, qrels = random_collection(7, documents=100, topics=20)
    for topic in folds[0].test:
        qrels[topic] = {docno: 1 - min(gain, 1) for docno, gain in qrels[topic].items() if gain >= 0}
    other = run_experiment(CandidatePool.build(index, topics, qrels), folds[:1], plan).rows
    for row, changed in zip(rows, other, strict=True):
        if row.method != OPTIMAL:
            assert changed.fits[0].params == row.fits[0].params
            assert changed.fits[0].train_value == row.fits[0].train_value
            assert changed.fits[0].evaluations == row.fits[0].evaluations
            assert not np.array_equal(changed.values, row.values[: changed.values.size])


def test_rows_keep_the_experiments_promises(pool: CandidatePool, plan: Plan) -> None:
    folds = cross_validation(pool.topics, 2)
    result = run_experiment(pool, folds, plan)
    rows = {(str(row.measure), row.method): row for row in result.rows}
    methods = [DIRECT, BAGGED, RANKNET, APPROX, STOPPED, OPTIMAL]
    assert [method for name, method in rows if name == "AP"] == methods
    assert len(rows) == 3 * 6
    for name in ("AP", "Bpref", "P@10"):
        direct, optimal = rows[name, DIRECT], rows[name, OPTIMAL]
        for number, fold in enumerate(folds):
            for method in (RANKNET, APPROX, STOPPED):
                fit = rows[name, method].fits[number]
                assert direct.fits[number].train_value >= fit.train_value - 1e-12
                assert optimal.fits[number].test_value >= fit.test_value - 1e-12
            assert optimal.fits[number].test_value >= direct.fits[number].test_value - 1e-12
            fit = direct.fits[number]
            values = measure(pool, fit.params, measures=[name], topics=fold.test)[name]
            assert fit.test_value == pytest.approx(values.mean(), rel=1e-12)
        for row in (direct, rows[name, APPROX], optimal):
            assert row.topics == (*folds[0].test, *folds[1].test)
            assert row.mean == pytest.approx(np.mean(row.values))
        trace = pd.DataFrame(result.traces[f"approx-{name}-fold2"])
        fit = rows[name, APPROX].fits[1]
        chosen = (trace[["lambda", "mu"]] == list(fit.params.values())).all(axis=1)
        assert trace.loc[chosen, name].to_numpy() == pytest.approx(fit.train_value, rel=1e-12)
        assert trace.loc[chosen, "alpha"].max() == trace["alpha"].max()
    again = run_experiment(pool, folds, plan, traced=False)
    assert not again.traces
    for row, other in zip(result.rows, again.rows, strict=True):
        assert row.fits == other.fits
        assert np.array_equal(row.values, other.values)


@pytest.mark.filterwarnings("ignore:Precision loss")
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=40))
def test_t_test_agrees_with_scipy(values: list[tuple[float, float]]) -> None:
    a, b = (np.round(column, 6) for column in np.array(values).T)
    expected = stats.ttest_rel(a, b).pvalue
    if np.isnan(expected):
        assert paired_t_test(a, b) == 1.0
    elif (a - b).std() > 1e-9:
        assert paired_t_test(a, b) == pytest.approx(expected, rel=1e-10, abs=1e-300)


def test_equal_differences_are_no_test() -> None:
    assert np.isnan(paired_t_test([0.5, 0.75, 1.0], [0.25, 0.5, 0.75]))
    assert paired_t_test([0.5, 0.75], [0.5, 0.75]) == 1.0


def test_a_certified_optimal_bounds_every_row(pool: CandidatePool) -> None:
    measures = tuple(parse_measures(["AP", "P@5"]))
    plan = Plan(measures, grid=(4, 5), certify=5e-3)
    folds = cross_validation(pool.topics, 2)
    shown: list[tuple[str, int, int, str]] = []
    result = run_experiment(
        pool,
        folds,
        plan,
        progress=lambda stage, done, total, detail="": shown.append((stage, done, total, detail)),
    )
    rows = {(str(row.measure), row.method): row for row in result.rows}
    for name in ("AP", "P@5"):
        for number in range(2):
            bound = rows[name, OPTIMAL].fits[number].bound
            assert bound is not None
            assert bound - rows[name, OPTIMAL].fits[number].test_value <= 5e-3 + 1e-12
            for method in (DIRECT, RANKNET, OPTIMAL):
                assert rows[name, method].fits[number].test_value <= bound
            assert f"certificate-{name}-fold{number + 1}" in result.traces
    assert rows["AP", DIRECT].fits[0].bound is None
    [note] = [note for note in result.notes if note.startswith("MAP: no (lambda, mu)")]
    assert "chosen for each fold" in note
    stated = float(note.split("more than ")[1].split()[0])
    assert stated >= rows["AP", OPTIMAL].mean
    closing = [done for stage, done, _, _ in shown if stage == "certifying MAP, fold 1"]
    assert closing == sorted(closing)
    assert closing[-1] == 100
    done = [part / total for stage, part, total, _ in shown if stage == "tuning"]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0.0, 1.0)
    # Two folds of RankNet's descent, Direct's climbs and, for two measures, five rows, and all but Optimal
    # at last; each begins a part of its own.
    assert {k / 34 for k in range(34)} <= set(done)
    assert "fold 2, P@5, Direct" in {what for stage, _, _, what in shown if stage == "tuning"}


def test_notes_say_how_far_from_the_best_possible_a_row_is(pool: CandidatePool) -> None:
    plan = Plan(tuple(parse_measures(["AP"])), grid=(4, 5), certify=5e-3)
    result = run_experiment(pool, cross_validation(pool.topics, 3), plan)
    rows = {row.method: row for row in result.rows}
    bounds = np.repeat([fit.bound for fit in rows[OPTIMAL].fits], [len(fold.test) for fold in result.folds])
    [note] = [note for note in result.notes if note.startswith("MAP: no")]
    for method in (DIRECT, APPROX):
        stated = float(note.split(f"{method} is within ")[1].split()[0].rstrip(","))
        true = float(np.mean(bounds - rows[method].values))
        assert true - 1e-9 <= stated < true + 1e-4
    assert note.endswith("of the best possible")


def test_measures_without_a_smooth_form_follow_that_of_map(pool: CandidatePool) -> None:
    plan = Plan(tuple(parse_measures(["AP", "Success@3"])), grid=(3, 4))
    folds = cross_validation(pool.topics, 2)
    result = run_experiment(pool, folds, plan)
    by_name = {str(row.measure): row for row in result.rows if row.method == APPROX}
    for ap, success in zip(by_name["AP"].fits, by_name["Success@3"].fits, strict=True):
        assert ap.params == success.params
    assert [note for note in result.notes if "smooth" in note] == [
        "Approx uses a smooth MAP for Success@3, which has no smooth approximation"
    ]
    without = run_experiment(pool, folds, replace(plan, approx=False))
    assert {row.method for row in without.rows} == {DIRECT, BAGGED, RANKNET, OPTIMAL}
    assert not any(name.startswith("approx") for name in without.traces)
    assert not any("Approx" in note for note in without.notes)


def test_approx_stays_at_the_start_where_nothing_is_relevant(pool: CandidatePool) -> None:
    plan = Plan(tuple(parse_measures(["P(rel=9)@5"])), grid=(3, 4))
    result = run_experiment(pool, cross_validation(pool.topics, 2), plan)
    [row] = [row for row in result.rows if row.method == APPROX]
    for fit in row.fits:
        assert list(fit.params.values()) == plan.space.start.tolist()
        assert fit.evaluations == 0
    assert (
        "Approx had no relevant document to learn P(rel=9)@5 from in fold 1, fold 2, the final fit"
        in result.notes
    )


def test_ctrl_c_ends_the_proofs_not_the_experiment(pool: CandidatePool) -> None:
    plan = Plan(tuple(parse_measures(["AP", "P@5"])), grid=(4, 5), certify=1e-9)

    def interrupt(stage: str, done: int, total: int, detail: str = "") -> None:
        assert done <= total
        if stage == "certifying MAP, fold 1" and "boxes" in detail:
            raise KeyboardInterrupt

    folds = cross_validation(pool.topics, 2)
    result = run_experiment(pool, folds[:1], plan, progress=interrupt)
    rows = {(str(row.measure), row.method): row for row in result.rows}
    bound = rows["AP", OPTIMAL].fits[0].bound
    assert bound is not None
    assert bound >= rows["AP", OPTIMAL].mean
    assert any("above the tolerance 1e-09" in note for note in result.notes)
    assert rows["P@5", OPTIMAL].fits[0].bound is None
    assert "P@5: Optimal is not certified: interrupted" in result.notes


def test_measures_without_bounds_cannot_be_certified() -> None:
    with pytest.raises(InputError, match="RBP"):
        Plan(tuple(parse_measures(["AP", "RBP"])), certify=1e-3)
    with pytest.raises(InputError, match="tolerance"):
        Plan(tuple(parse_measures(["AP"])), certify=0.0)


def test_every_method_ends_with_a_fit_on_all_topics(pool: CandidatePool, plan: Plan) -> None:
    folds = cross_validation(pool.topics[:15], 3)
    shown: list[tuple[Any, ...]] = []
    result = run_experiment(
        pool, folds, plan, progress=lambda stage, *at: shown.append(at) if stage == "tuning" else None
    )
    assert shown[-1] == (1, 1)
    shares = [done / total for done, total, *_ in shown]
    assert shares == sorted(shares)
    assert any(what.startswith("the final fit") for _, _, *more in shown for what in more)
    used = [topic for topic in pool.topics if topic in pool.topics[:15]]
    # The same methods, trained on these topics as if they were one fold's.
    one = run_experiment(pool, [Fold(tuple(used), pool.topics[15:])], replace(plan, final=False))
    assert all(row.final is None for row in one.rows)
    for row, other in zip(result.rows, one.rows, strict=True):
        if row.method == OPTIMAL:
            assert row.final is None
            continue
        assert row.final is not None
        if row.method != STOPPED:  # its validation topics are drawn anew
            assert row.final.params == other.fits[0].params
            assert row.final.evaluations == other.fits[0].evaluations
        values = measure(pool, row.final.params, measures=[str(row.measure)], topics=used)
        assert row.final.train_value == pytest.approx(values.to_numpy().mean(), rel=1e-12)
        assert row.final.test_value == row.mean


def test_ranknet_stays_at_the_start_of_a_fold_without_pairs() -> None:
    index = TinyIndex({"a": "x", "b": "y", "c": "y x", "d": "z x", "e": "z z"})
    qrels = {"1": {"a": 1}, "2": {"b": 1, "c": 0}, "3": {"e": 1, "d": 0}}
    pool = CandidatePool.build(index, {"1": "w", "2": "y", "3": "z"}, qrels)
    plan = Plan(tuple(parse_measures(["AP"])), grid=(2, 2), validation=0.5)
    folds = [Fold(("1",), ("2", "3")), Fold(("2", "3"), ("1",))]
    result = run_experiment(pool, folds, plan)
    for method in (RANKNET, STOPPED):
        [row] = [row for row in result.rows if row.method == method]
        assert list(row.fits[0].params.values()) == plan.space.start.tolist()
        assert row.fits[0].evaluations == 0
    assert row.fits[1].evaluations > 0
    assert "RankNet had no pair of documents to learn from in fold 1" in result.notes


def test_bpref_is_left_out_without_a_judged_nonrelevant_document() -> None:
    index, topics, qrels = random_collection(7, documents=100, topics=6)
    relevant = {topic: {docno: 1 for docno, gain in own.items() if gain > 0} for topic, own in qrels.items()}
    plan = Plan(tuple(parse_measures(["Bpref", "AP"])), grid=(3, 4), validation=0.3)
    only = CandidatePool.build(index, topics, relevant)
    result = run_experiment(only, cross_validation(only.topics, 2), plan)
    assert "BPREF skipped: there are no judged non-relevant documents" in result.notes
    for row in result.rows:
        assert str(row.measure) == "AP"
        assert (SAMPLED_NEGATIVES in row.cautions) == (row.method in (RANKNET, STOPPED))
        edges = row.method == RANKNET and any(fit.at_edge for fit in row.fits)
        assert (EDGE in row.cautions) == edges
        assert (row.final is None) == (row.method == OPTIMAL)
    with pytest.raises(InputError, match="has no judged non-relevant document"):
        run_experiment(only, cross_validation(only.topics, 2), replace(plan, measures=plan.measures[:1]))
    judged = CandidatePool.build(index, topics, qrels)
    found = run_experiment(judged, cross_validation(judged.topics, 2), plan).rows
    assert {str(row.measure) for row in found} == {"Bpref", "AP"}
    assert not any(SAMPLED_NEGATIVES in row.cautions for row in found)


@pytest.mark.slow
def test_workers_change_nothing(pool: CandidatePool) -> None:
    plan = Plan(tuple(parse_measures(["AP", "P@10"])), grid=(4, 5), also=("spsa",), certify=0.2)
    folds, told = cross_validation(pool.topics, 3), []
    expected = run_experiment(pool, folds, plan)
    with Workers(2).engaged():
        found = run_experiment(pool, folds, plan, progress=lambda *now: told.append(now))
    assert [now for now in told if now[0] == "tuning"] == [("tuning", n, 4) for n in (1, 2, 3, 4)] + [
        ("tuning", 1, 1)
    ]
    assert found.notes == expected.notes
    for one, other in zip(found.rows, expected.rows, strict=True):
        assert one.values.tobytes() == other.values.tobytes()
        assert (one.fits, one.final) == (other.fits, other.final)
    assert found.traces.keys() == expected.traces.keys()
    for name, table in found.traces.items():
        np.testing.assert_equal(table, expected.traces[name])


@pytest.mark.parametrize("ranges", [{}, {"lambda": (0.2, 0.9)}])
def test_the_default_is_measured_on_the_same_topics_and_nothing_is_fitted(
    pool: CandidatePool, ranges: dict[str, tuple[float, float]]
) -> None:
    folds, given = cross_validation(pool.topics, 2), {"lambda": 0.0, "mu": 300.0}
    plan = Plan(tuple(parse_measures(["AP"])), grid=(2, 2), ranges=ranges, baseline={"mu": 300.0})
    assert plan.measured["lambda"] == (0.0, 0.9 if ranges else 0.95)
    found = run_experiment(pool, folds, plan)
    rows = {row.method: row for row in found.rows}
    default = rows[DEFAULT]
    every = measure(pool, given, measures=["AP"])["AP"]
    assert dict(zip(default.topics, default.values, strict=True)) == every.to_dict()
    assert default.topics == rows[DIRECT].topics
    gain = found.gains[default.measure, BAGGED]
    assert gain.p_value == pytest.approx(paired_t_test(rows[BAGGED].values, default.values), rel=1e-12)
    assert default.final is None
    for fit in default.fits:
        assert (fit.params, fit.evaluations, fit.at_edge) == (given, 0, ())
    for row in (rows[DIRECT], rows[OPTIMAL]):
        assert all(fit.params["lambda"] >= ranges.get("lambda", (0.0,))[0] for fit in row.fits)
    # The other rows are those of an experiment without it.
    plain = {row.method: row for row in run_experiment(pool, folds, replace(plan, baseline=None)).rows}
    assert plain.keys() == rows.keys() - {DEFAULT}
    for method in plain.keys() - {OPTIMAL}:
        assert plain[method].fits == rows[method].fits
    if not ranges:
        assert rows[OPTIMAL].mean >= default.mean


def test_a_baseline_outside_the_formulas_domain_is_refused() -> None:
    for wrong in ({"lambda": 1.5}, {"nu": 1.0}):
        with pytest.raises(InputError, match="lambda"):
            Plan(baseline=wrong)
