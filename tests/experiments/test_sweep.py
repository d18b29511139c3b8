"""Sweeps, SONG's objective over whole lists, and papers' tables, against scipy and brute force."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
pytest.importorskip("lightgbm", reason="the extra 'neural' is not installed")

from made_lists import made_lists  # noqa: E402
from scipy import stats  # noqa: E402
from scipy.optimize import minimize_scalar  # noqa: E402
from scipy.special import log_softmax  # noqa: E402

from experiments import sweep  # noqa: E402
from experiments.approxndcg import __main__ as bruch  # noqa: E402
from experiments.datasets import load_split  # noqa: E402
from experiments.loss_tables import TableOptions, method_settings  # noqa: E402
from experiments.paper_tables import laid_out, rows_of  # noqa: E402
from experiments.song import __main__ as qiu  # noqa: E402
from experiments.sweep import train, whole_objective, with_least_grade  # noqa: E402
from lmtune.io.letor import write_letor  # noqa: E402
from lmtune.losses.songs import RelevantPairs  # noqa: E402
from lmtune.measures.lists import mean_over_lists, ndcg  # noqa: E402
from lmtune.measures.measure import exponential_ndcg  # noqa: E402
from lmtune.rerank import Loss, Outcome, Settings, fit, parse_loss, read_letor_folder  # noqa: E402
from lmtune.rerank.loss_names import make_loss  # noqa: E402

torch.set_num_threads(1)

PAPERS = Path(__file__).parents[3] / "shared/papers"

DATA = "artificial:8x20"
SMALL: dict[str, Any] = {"loss": "listnet", "network": "mlp:8", "epochs": 3, "batch_size": 4, "seed": 3}


def song_loss(margin: float, cutoff: int | None = None) -> Loss:
    options = {"margin": margin, "gamma": 0.3}
    return make_loss("song", options) if cutoff is None else make_loss("k-song", options | {"cutoff": cutoff})


def slow_objective(
    scores: NDArray[np.float64], labels: NDArray[np.floating], margin: float, cutoff: int | None = None
) -> float:
    """Compute one list's term as the paper defines it."""
    gains = np.exp2(labels) - 1.0
    best = np.sort(gains)[::-1][:cutoff]
    ideal = (best / np.log2(np.arange(len(best)) + 2.0)).sum()
    total = 0.0
    weight = np.ones(len(scores))
    if cutoff is not None and len(scores) > cutoff:
        tau = 0.1 * max(margin, 1.0)

        def lower(threshold: float) -> float:
            soft = tau * np.log1p(np.exp((scores - threshold) / tau)).mean()
            share = (cutoff + 0.5) / len(scores)
            return float(share * threshold + 0.5e-4 * threshold**2 + soft)

        bounds = (scores.min() - 20.0, scores.max() + 20.0)
        threshold = minimize_scalar(lower, bounds=bounds, options={"xatol": 1e-9}).x
        weight = 1.0 / (1.0 + np.exp(-2.0 / max(margin, 1.0) * (scores - threshold)))
    for i in np.flatnonzero(labels > 0):
        hinges = np.maximum(0.0, scores - scores[i] + margin) ** 2
        total -= weight[i] * gains[i] / (ideal * np.log2(hinges.sum() + 1.0))
    return float(total)


@pytest.mark.parametrize(("margin", "cutoff"), [(1.0, None), (10.0, None), (1.0, 4)])
def test_the_objective_over_whole_lists(margin: float, cutoff: int | None) -> None:
    data = made_lists(5, queries=70, empty=0.2)
    scores = np.random.default_rng(1).normal(size=data.labels.size)
    pairs = RelevantPairs.from_lists(data.starts, np.asarray(data.labels))
    found = whole_objective(pairs, data, scores, song_loss(margin, cutoff))
    terms = [
        slow_objective(scores[data.rows(q)], data.labels[data.rows(q)], margin, cutoff)
        for q in range(70)
        if (data.labels[data.rows(q)] > 0).any()
    ]
    assert len(terms) < 70
    assert found == pytest.approx(np.mean(terms), rel=1e-5)


@pytest.mark.slow
def test_a_training_is_fits_and_is_measured_at_its_best_epoch() -> None:
    song = SMALL | {"loss": "song"}
    result = train(data=DATA, data_seed=1, settings=song, cutoffs=[1, 5], watched=True)
    fold = load_split(DATA, 1)
    trained = fit(fold.train, fold.validation, Settings(**song | {"loss": parse_loss("song")}))
    assert result["best_epoch"] == trained.best_epoch
    assert result["courses"]["validation"] == [row.validation for row in trained.history]
    expected = mean_over_lists(ndcg(trained.score(fold.test), fold.test, [1, 5])).tolist()
    assert result["test"] == expected
    assert len(result["courses"]["objective"]) == len(result["courses"]["training"]) == 3
    assert all(-1.0 < value < 0.0 for value in result["courses"]["objective"])
    unwatched = train(data=DATA, data_seed=1, settings=song, cutoffs=[1, 5])
    assert unwatched["validation"] == result["validation"]
    assert list(unwatched["courses"]) == ["validation"]


def test_few_queries_take_smaller_steps() -> None:
    common: dict[str, Any] = {"data": DATA, "data_seed": 1, "cutoffs": [5]}
    few = train(**common, settings=SMALL, least_steps=4)
    assert few == train(**common, settings=SMALL | {"batch_size": 2})
    assert few != train(**common, settings=SMALL)


def test_the_cross_entropy_over_whole_lists() -> None:
    data = made_lists(5, queries=70, empty=0.2)
    scores = np.random.default_rng(1).normal(size=data.labels.size)
    pairs = RelevantPairs.from_lists(data.starts, np.asarray(data.labels))
    terms = []
    for q in range(70):
        own, labels = scores[data.rows(q)], data.labels[data.rows(q)]
        if (labels > 0).any():
            terms.append(-(labels / labels.sum()) @ log_softmax(own))
    found = whole_objective(pairs, data, scores, make_loss("cross-entropy", {"gamma": 0.1}))
    assert found == pytest.approx(np.mean(terms), rel=1e-5)


def test_labels_are_lowered() -> None:
    fold = load_split(DATA, 1)
    lowered = with_least_grade(fold, 2)
    assert with_least_grade(fold, 1) is fold
    for before, after in ((fold.train, lowered.train), (fold.test, lowered.test)):
        assert after.labels.tolist() == [max(0.0, label - 1.0) for label in before.labels]


@pytest.mark.slow
def test_means_and_differences_are_scipys() -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    random = np.random.default_rng(0)
    rows = [
        (value, trial, queries, cutoff, place + 0.1 * random.random(), 1)
        for place, value in enumerate(("a", "b", "c"))
        for trial in range(4)
        for queries in sweep.QUERIES
        for cutoff in (5, 10)
    ]
    trials = pd.DataFrame(rows, columns=["value", "trial", "queries", "cutoff", "ndcg", "best_epoch"])
    tables = sweep.compared(trials, [[("a", "c"), ("b", "c"), ("a", "b")], []])
    by_value = trials.set_index(["value", "queries", "cutoff"])["ndcg"].sort_index()
    for row in tables["summary"].itertuples():
        values = by_value.loc[(row.value, row.queries, row.cutoff)].to_numpy()
        low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
        assert (row.mean, row.low, row.high) == pytest.approx((np.mean(values), low, high))
    for key, own in tables["differences"].groupby(["queries", "cutoff"]):
        tests = [
            stats.ttest_rel(by_value.loc[(row.a, *key)], by_value.loc[(row.b, *key)])
            for row in own.itertuples()
        ]
        p_values = [test.pvalue for test in tests]
        assert own["p"].tolist() == pytest.approx(p_values)
        assert own["p_holm"].tolist() == pytest.approx(multitest.multipletests(p_values, method="holm")[1])
        for row, test in zip(own.itertuples(), tests, strict=True):
            interval = test.confidence_interval(0.95)
            assert (row.low, row.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.slow
def test_a_papers_means_are_those_of_trainings_by_hand(tmp_path: Path) -> None:
    web30k = tmp_path / "MSLR-WEB30K"
    (web30k / "Fold1").mkdir(parents=True)
    for seed, name in enumerate(["train", "vali", "test"]):
        write_letor(web30k / "Fold1" / f"{name}.txt", made_lists(seed, queries=40, empty=0.1))
    tables = bruch.experiment(TableOptions(str(web30k), network="b:4", trials=2, epochs=2))
    [fold] = read_letor_folder(web30k)
    values = []
    for seed in (0, 1):
        asked = Settings(
            loss=parse_loss("approxndcg:alpha=10"),
            network="b:4",
            learning_rate=0.005,
            batch_size=128,
            epochs=2,
            measure="ndcg@5",
            norm_momentum=0.8,
            seed=seed,
        )
        scores = fit(fold.train, fold.validation, asked).score(fold.test)
        values.append(np.nanmean(ndcg(scores, fold.test, [1, 5, 10]), axis=0))
    rows = tables["table"].query("method == 'ApproxNDCG'")
    assert list(rows["column"]) == ["NDCG@1", "NDCG@5", "NDCG@10"]
    np.testing.assert_allclose(rows["mean"], np.mean(values, axis=0), rtol=1e-12)
    half = np.ptp(values, axis=0) / 2 * stats.t.ppf(0.975, 1)
    np.testing.assert_allclose(rows["half"], half, rtol=1e-9)
    printed = tables["printed"].set_index("method")
    # The lists are too few for the paper's trees.
    assert printed.loc["LambdaMART (LightGBM)", "NDCG@1"] == "- / 0.5033 ± 0.0022"
    assert tables["notes"]["note"].str.contains("LightGBM. is missing: too few training rows").any()


def test_a_mean_is_better_than_those_that_holms_tests_say() -> None:
    rng = np.random.default_rng(0)
    base, measure = rng.uniform(0.2, 0.4, (3, 50, 1)), exponential_ndcg(5)
    shifts = {"a": 0.0, "b": 0.002, "c": 0.05}
    values = {name: base + shift + 0.02 * rng.normal(size=base.shape) for name, shift in shifts.items()}
    outcomes = [Outcome(name, (), (measure,), own) for name, own in values.items()]
    rows = pd.DataFrame(rows_of(outcomes, measure, over="trials", printed={"a": "0.5"}, column="NDCG@5"))
    of_query = {name: own.mean(axis=0)[:, 0] for name, own in values.items()}
    means = {name: own.mean() for name, own in of_query.items()}
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    p_values = np.array([stats.ttest_rel(of_query[a], of_query[b]).pvalue for a, b in pairs])
    holm = np.maximum.accumulate(np.sort(p_values) * [3, 2, 1])[np.argsort(np.argsort(p_values))]
    for name, better in rows.set_index("method")["better_than"].items():
        expected = {
            b if a == name else a
            for (a, b), p in zip(pairs, holm, strict=True)
            if name in (a, b) and p < 0.05 and means[str(name)] == max(means[a], means[b])
        }
        assert set(filter(None, better.split("; "))) == expected
    cells = laid_out(rows).set_index("method")["NDCG@5"]
    assert cells["a"].endswith(" / 0.5")
    assert cells["c"].endswith("(1,2)")


def test_protocols_as_they_are_printed(tmp_path: Path) -> None:
    asked = method_settings(qiu.PROTOCOL, TableOptions(str(tmp_path / "yahoo" / "set1"), warm_up=20))
    assert sum(map(len, asked.values())) == 6 + 5 + 15
    song = asked["SONG"][0]
    assert (song.list_size, song.list_relevant, song.batch_size) == (40, 10, 64)
    assert (song.epochs, song.warm_up, song.schedule) == (120, 20, "step:70")
    asked = method_settings(bruch.PROTOCOL, TableOptions(str(tmp_path / "yahoo"), network="b64"))
    assert {one.norm_momentum for some in asked.values() for one in some} == {0.99}
    assert bruch.PROTOCOL.set_of("/yahoo-user/data/web/mine") is None


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers are not beside the checkout")
@pytest.mark.parametrize(("protocol", "file"), [(bruch.PROTOCOL, "bruch"), (qiu.PROTOCOL, "qiu")])
def test_printed_figures_are_the_papers(protocol: Any, file: str) -> None:
    [path] = PAPERS.glob(f"{file}-*.txt")
    tokens = re.sub(r"[^0-9.\n]+", " ", path.read_text(encoding="utf-8"))
    for own in protocol.sets:
        for cells in own.printed.values():
            pairs = [cell.split(" ± ") for cell in cells]
            if file == "bruch":
                row = " ".join(f"{100 * float(a):.2f} {100 * float(b):.2f}" for a, b in pairs)
            else:
                row = " ".join(f"0{a}0{b}" for a, b in pairs)
            assert row in tokens
