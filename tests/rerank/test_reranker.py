"""Rerankers learnt, compared, and kept on disk."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from made_lists import made_lists

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune import rerank  # noqa: E402
from lmtune.errors import InputError  # noqa: E402
from lmtune.io.digests import sealed, unsealed  # noqa: E402
from lmtune.io.letor import write_letor  # noqa: E402
from lmtune.measures.lists import ndcg  # noqa: E402
from lmtune.parallel import Workers  # noqa: E402
from lmtune.rerank.comparison import compare, empty_queries, history_rows  # noqa: E402
from lmtune.rerank.data import RankingSplit  # noqa: E402
from lmtune.rerank.learners.feature_networks import fit  # noqa: E402
from lmtune.rerank.learners.trees import LambdaMart  # noqa: E402
from lmtune.rerank.loss_names import parse_loss, parse_losses  # noqa: E402
from lmtune.rerank.normalisation import Normalisation, Normaliser  # noqa: E402
from lmtune.rerank.rankers import parse_ranker  # noqa: E402
from lmtune.rerank.reranker import (  # noqa: E402  # noqa: E402
    CUTOFFS,
    MODEL_KIND,
    Reranker,
    learn,
    learn_folds,
    learner_of,
    load_model,
    save_model,
)
from lmtune.rerank.settings import Settings  # noqa: E402
from lmtune.rerank.sources import TrainingData  # noqa: E402

SMALL = Settings(
    loss=parse_loss("listnet"), network="b64", dropout=0.1, learning_rate=1e-3, epochs=2, batch_size=8
)
TREES = parse_ranker("lambdamart:rounds=5:threads=1:min_rows=2:min_hessian=0.001")
TRAIN, VALIDATION, TEST = made_lists(0), made_lists(1, queries=8), made_lists(2, queries=8, empty=0.3)
SPLIT = RankingSplit("made", TRAIN, VALIDATION, TEST)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def test_trials_differ_by_seed_alone() -> None:
    seen: list[tuple[int, int]] = []

    def report(label: str, done: int, total: int, words: str) -> None:
        del words
        if label == "listnet":
            seen.append((done, total))

    [outcome] = compare([SPLIT], [SMALL.loss], SMALL, trials=3, report=report)
    [found] = outcome.trials
    assert [one.settings.seed for one in found] == [0, 1, 2]
    assert seen == [(step, 18) for step in range(1, 19)]
    scaled = SPLIT.map(Normaliser.fit(TRAIN).transform)
    alone, third = fit(scaled.train, scaled.validation, replace(SMALL, seed=2)), found[2]
    assert all(torch.equal(alone.weights[name], third.weights[name]) for name in alone.weights)
    with pytest.raises(InputError, match="bad number of trials: 0"):
        compare([SPLIT], [SMALL.loss], SMALL, trials=0)


def test_each_fold_selects_the_rate_by_its_own_validation_queries() -> None:
    """With the labels upside down, the fold prefers the network that hardly learnt."""
    inverted = replace(VALIDATION, labels=VALIDATION.labels.max() - VALIDATION.labels)
    folds = [SPLIT, replace(SPLIT, name="other", validation=inverted)]
    [outcome] = compare(folds, [SMALL.loss], replace(SMALL, epochs=6), rates=[1e-6, 0.01], trials=1)
    assert outcome.rates == (0.01, 1e-6) and outcome.rate_text == "0.01 or 1e-06"
    alone = compare(folds[1:], [SMALL.loss], replace(SMALL, epochs=6, learning_rate=1e-6), trials=1)[0]
    tests = TEST.starts.size - 1
    np.testing.assert_array_equal(outcome.queries[:, tests:], alone.queries)


def test_losses_are_compared_by_what_their_trials_reach() -> None:
    told: list[str] = []
    outcomes = compare(
        [SPLIT, replace(SPLIT, name="other", test=VALIDATION)],
        [SMALL.loss, TREES],
        SMALL,
        rates=[1e-6, 0.01],
        trials=2,
        report=lambda label, done, total, words: told.append(f"{label} {done}/{total} {words}"),
    )
    networks, trees = outcomes
    assert (networks.label, trees.label) == ("listnet", str(TREES))
    assert (networks.rates, trees.rates) == ((0.01, 0.01), (0.1, 0.1))
    assert [len(own) for own in networks.trials] == [2, 2] and trees.trials == ()
    normaliser = Normaliser.fit(TRAIN)
    scaled = SPLIT.map(normaliser.transform)
    for trial in range(2):
        seeded = replace(SMALL, learning_rate=0.01, seed=trial)
        alone = fit(scaled.train, scaled.validation, seeded)
        both = [ndcg(alone.score(part), part, CUTOFFS) for part in (scaled.test, scaled.validation)]
        expected = np.nanmean(np.concatenate(both), axis=0)
        for measure, value in zip(networks.measures, expected, strict=True):
            assert networks.by_trial("skip", measure)[trial] == pytest.approx(value, rel=1e-12)
    ndcg_10 = networks.measures[-1]
    assert (networks.by_trial("zero", ndcg_10) < networks.by_trial("skip", ndcg_10)).all()
    assert networks.by_query("zero", ndcg_10).size == 16 > networks.by_query("skip", ndcg_10).size
    assert empty_queries([SPLIT]) == sum(not part.any() for part in np.split(TEST.labels, TEST.starts[1:-1]))
    rows = history_rows(outcomes)
    assert len(rows) == 2 * 2 * 2 and {row["loss"] for row in rows} == {"listnet"}
    assert told[0].startswith("listnet 1/24 rate 1e-06, fold 1, trial 1, ")
    assert told[-1].startswith(f"{TREES} 20/20 fold 2, trial 2, ")


def test_validation_chooses_among_a_loss_s_options() -> None:
    losses = parse_losses("song:margin=1|10")
    [outcome] = compare([SPLIT], [losses], SMALL, trials=1)
    scaled = SPLIT.map(Normaliser.fit(TRAIN).transform)
    alone = [fit(scaled.train, scaled.validation, replace(SMALL, loss=loss)).validation for loss in losses]
    assert alone[0] != alone[1]
    assert outcome.label == str(losses[int(np.argmax(alone))])


def test_trees_of_trials_have_their_own_seeds() -> None:
    [outcome] = compare([SPLIT], [TREES], replace(SMALL, seed=3), trials=2)
    asked = [replace(SMALL, ranker=TREES, seed=seed) for seed in (3, 4)]
    one, other = (learner_of(settings).fit(TRAIN, VALIDATION) for settings in asked)
    assert isinstance(one, LambdaMart) and isinstance(other, LambdaMart)
    assert (one.settings.seed, other.settings.seed, one.settings.rounds) == (3, 4, 5)
    assert one.text != other.text
    for tree, values in zip((one, other), outcome.queries, strict=True):
        expected = ndcg(tree.score(TEST), TEST, CUTOFFS)
        np.testing.assert_allclose(values, expected, rtol=1e-12)
    with pytest.raises(InputError, match="lambdamart has no such option: 'seed'"):
        parse_ranker("lambdamart:seed=5")


@pytest.mark.parametrize("method", [SMALL.loss, TREES])
def test_what_was_learnt_comes_back_from_its_folder(tmp_path: Path, method: Any) -> None:
    names = [f"f{i}" for i in range(6)]
    reranker = learn(
        TRAIN,
        VALIDATION,
        SMALL.with_method(method),
        normalisation=Normalisation("query-z-score"),
        names=names,
        facts={"depth": 3},
    )
    save_model(tmp_path / "m", reranker, {"how": "so"})
    again = load_model(tmp_path / "m")
    assert again.names == tuple(names) and again.facts == {"depth": 3}
    assert (again.score(TEST) == reranker.score(TEST)).all()
    assert again.scorer.settings == reranker.scorer.settings
    own, other = cast(Any, again.scorer), cast(Any, reranker.scorer)
    assert own.history == other.history
    assert (again.scorer.label, again.scorer.summary) == (reranker.scorer.label, reranker.scorer.summary)
    assert list(again.report(TEST)) == list(reranker.report(TEST))
    save_model(tmp_path / "m2", again, {"how": "so"})
    kept = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    assert kept == {path.name: path.read_bytes() for path in (tmp_path / "m2").iterdir()}
    assert set(kept) < set(MODEL_KIND.files or ())
    with pytest.raises(InputError, match=r"other features .*'f6'"):
        again.check_features([*names[:-1], "f6"])


@pytest.mark.parametrize(
    ("method", "bar"), [(SMALL.loss, "training: 100%.*6/6"), (TREES, "growing trees: 100%.*5/5")]
)
def test_true_draws_a_bar(capsys: pytest.CaptureFixture[str], method: Any, bar: str) -> None:
    learn(TRAIN, VALIDATION, SMALL.with_method(method), progress=True)
    assert re.search(bar, capsys.readouterr().err)


def test_networks_see_normalised_features() -> None:
    reranker = learn(TRAIN, VALIDATION, SMALL)
    normaliser = Normaliser.fit(TRAIN)
    trained = fit(normaliser.transform(TRAIN), normaliser.transform(VALIDATION), SMALL)
    assert reranker.names == ("1", "2", "3", "4", "5", "6")
    assert (reranker.score(TEST) == trained.score(normaliser.transform(TEST))).all()


def test_reports_leave_out_or_count_empty_queries() -> None:
    reranker = learn(TRAIN, VALIDATION, SMALL)
    kept, zero = reranker.report(TEST)
    assert kept.startswith("test, queries without relevant documents left out: nDCG@1 0.")
    assert zero.startswith("test, queries without relevant documents count 0: nDCG@1 0.")
    assert len(list(reranker.report(VALIDATION))) == 1


def average_precision(scores: Any, labels: Any) -> float:
    ranked = labels[np.argsort(-scores)] > 0
    return float((np.cumsum(ranked) / np.arange(1, ranked.size + 1))[ranked].mean())


def test_the_measure_chooses_and_is_reported() -> None:
    reranker = learn(TRAIN, VALIDATION, replace(SMALL, measure="ap", epochs=5))
    means = []
    for data in (VALIDATION, TEST):
        scores, every = reranker.score(data), map(data.rows, range(len(data.queries)))
        lists = [(scores[rows], data.labels[rows]) for rows in every if (data.labels[rows] > 0).any()]
        means.append(float(np.mean([average_precision(*own) for own in lists])))
    assert reranker.scorer.validation == pytest.approx(means[0])
    assert reranker.scorer.summary.endswith(f"validation AP {means[0]:.4f}")
    assert f"left out: AP {means[1]:.4f}  nDCG" in next(reranker.report(TEST))
    trees = learn(TRAIN, VALIDATION, replace(SMALL, ranker=TREES, measure="mrr")).scorer
    assert isinstance(trees, LambdaMart)
    assert trees.validation == max(trees.history)
    assert " RR " in trees.summary
    with pytest.raises(InputError, match="a cost"):
        replace(SMALL, measure="wta")


def test_damaged_folders(tmp_path: Path) -> None:
    home = tmp_path / "m"
    names = tuple(f"f{i}" for i in range(6))
    normaliser = Normaliser.fit(TRAIN)
    trained = fit(normaliser.transform(TRAIN), None, SMALL)
    save_model(home, Reranker(replace(trained, normaliser=normaliser), names), {})
    kept = json.loads((home / "model.json").read_text())
    wrong: list[dict[str, Any]] = [kept | {"version": 99}, kept | {"features": names[1:]}, {}]
    for broken in wrong:
        (home / "model.json").write_text(json.dumps(broken))
        with pytest.raises(InputError, match="model"):
            load_model(home)
    (home / "model.json").write_text(json.dumps(kept))
    load_model(home)
    weights = (home / "model.safetensors").read_bytes()
    for name, content in [
        ("history.csv", b"epoch\nx\n"),
        ("seconds.csv", b""),
        ("model.safetensors", weights[:-8]),
    ]:
        whole = (home / name).read_bytes()
        (home / name).write_bytes(content)
        with pytest.raises(InputError, match="damaged: the checksum differs") as caught:
            load_model(home)
        assert caught.value.file == str(home / name)
        (home / name).write_bytes(whole)
    with pytest.raises(InputError, match="no model here"):
        load_model(tmp_path)


def test_damaged_trees(tmp_path: Path) -> None:
    save_model(tmp_path / "m", learn(TRAIN, VALIDATION, replace(SMALL, ranker=TREES)), {})
    (tmp_path / "m" / "trees.txt").write_text("tree\n")
    with pytest.raises(InputError, match=r"trees\.txt: damaged: the checksum differs"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("network", ["mlp:65536-65536-65536", "attention:65536-64-2", "linear"])
def test_weights_of_another_network_are_refused_before_it_takes_memory(
    tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "m"
    save_model(home, learn(TRAIN, VALIDATION, SMALL), {})
    kept = unsealed(json.loads((home / "model.json").read_text()))
    kept["settings"]["network"] = network
    (home / "model.json").write_text(json.dumps(sealed(kept)))
    taken: list[int] = []

    def drawn(tensor: Any, **_: Any) -> Any:
        if tensor.device.type != "meta":
            taken.append(tensor.nbytes)
        return tensor

    monkeypatch.setattr("torch.nn.init.kaiming_uniform_", drawn)
    with pytest.raises(InputError, match="the weights do not match the network"):
        load_model(home)
    assert taken == []


def test_what_the_package_says_works(tmp_path: Path) -> None:
    for name, data in (("train", TRAIN), ("vali", VALIDATION), ("test", TEST)):
        write_letor(tmp_path / f"{name}.txt", data)
    [split] = rerank.read_letor_folder(tmp_path)
    reranker = rerank.learn(split.train, split.validation, replace(SMALL, loss=rerank.parse_loss("listnet")))
    rerank.save_model(tmp_path / "model", reranker, record={})
    scores = rerank.load_model(tmp_path / "model").score(split.test)
    assert (scores == reranker.score(split.test)).all()


@pytest.mark.slow
def test_a_cluster_changes_nothing(cluster: str, tmp_path: Path) -> None:
    splits, told = [SPLIT, replace(SPLIT, test=VALIDATION)], []
    expected = compare(splits, [SMALL.loss], SMALL, trials=2)
    with Workers(cluster=cluster).engaged():
        found = compare(
            splits, [SMALL.loss], SMALL, trials=2, checkpoint=tmp_path, report=lambda *now: told.append(now)
        )
    assert [now[1:3] for now in told if now[0] == "trainings"] == [(done, 4) for done in range(1, 5)]
    assert history_rows(found) == history_rows(expected)
    assert found[0].queries.tobytes() == expected[0].queries.tobytes()
    assert len(list(tmp_path.iterdir())) == 4  # each training's own: what is finished costs nothing again


@pytest.mark.slow
def test_processes_change_no_fold() -> None:
    parts = [TrainingData(TRAIN, VALIDATION, TEST, (), {}, fold=fold) for fold in ("fold1", "fold2")]
    told: list[Any] = []

    def learnt(device: str = "cpu") -> list[bytes]:
        how: Any = {"device": device, "checkpoint": None, "checkpoint_every": None}
        found = learn_folds(parts, SMALL, Normalisation(), **how, progress=lambda *now: told.append(now))
        return [one.score(TEST).tobytes() for _, one in found]

    expected = learnt()
    told.clear()
    with Workers(2).engaged():
        assert learnt() == expected
    assert told == [("folds", 1, 2), ("folds", 2, 2)]
    assert learnt("cpu,cpu") == expected
    assert told[2:] == told[:2]


@pytest.mark.slow
def test_devices_change_no_comparison(tmp_path: Path) -> None:
    splits = [SPLIT, replace(SPLIT, test=VALIDATION)]
    expected, found = (
        compare(splits, [SMALL.loss, TREES], SMALL, trials=2, device=device, checkpoint=tmp_path / device)
        for device in ("cpu", "cpu,cpu")
    )
    assert history_rows(found) == history_rows(expected)
    assert [own.queries.tobytes() for own in found] == [own.queries.tobytes() for own in expected]
    assert sorted(own.name for own in (tmp_path / "cpu").iterdir()) == sorted(
        own.name for own in (tmp_path / "cpu,cpu").iterdir()
    )


@pytest.mark.parametrize("rate", [0.001, 0.0003])
def test_another_loss_keeps_the_learning_rate(rate: float) -> None:
    settings = Settings(loss=parse_loss("ranknet"), learning_rate=rate)
    assert settings.with_method(parse_loss("listnet")).learning_rate == rate
    assert Settings(loss=parse_loss("listnet")).learning_rate == 0.001
    assert Settings(network="text:model").learning_rate == 5e-5
