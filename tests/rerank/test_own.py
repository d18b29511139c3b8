"""Losses and learners from outside the package stand where lmtune's own do."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import pytest
from made_lists import made_lists

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses import ranknet  # noqa: E402
from lmtune.progress import silent  # noqa: E402
from lmtune.rerank import Loss, RankingData, RankingSplit, Settings, compare, learn, load_model, save_model  # noqa: E402
from lmtune.rerank.learners.learner import Learner  # noqa: E402
from lmtune.rerank.learners.trees import LambdaMart, fit  # noqa: E402
from lmtune.rerank.loss_names import parse_loss  # noqa: E402
from lmtune.rerank.normalisation import Normalisation  # noqa: E402
from lmtune.rerank.rankers import Ranker, TreeSettings, parse_ranker  # noqa: E402
from lmtune.rerank.reranker import learn_folds  # noqa: E402
from lmtune.rerank.sources import TrainingData  # noqa: E402
from lmtune.rerank.training.loop import TrainingOptions  # noqa: E402

TRAIN, VALIDATION, TEST = made_lists(0), made_lists(1, queries=8), made_lists(2, queries=8)
SMALL = Settings(loss=parse_loss("ranknet:sigma=2"), network="mlp:8", epochs=2, batch_size=8)
BRIEF: dict[str, Any] = {"rounds": 5, "threads": 1, "min_rows": 2, "min_hessian": 0.001}


def my_pairs(scores: Any, labels: Any, *, mask: Any, steepness: float = 1.0) -> Any:
    return ranknet(scores, labels, mask=mask, sigma=steepness)


def no_scalar(scores: Any, labels: Any, *, mask: Any) -> Any:
    return (scores * labels * mask).sum(dim=1)


class Grown(LambdaMart):
    kind = "grown"


class Growing(Learner):
    scorer, options = Grown, TreeSettings

    def fit(self, train: RankingData, validation: RankingData, **how: Unpack[TrainingOptions]) -> Grown:
        del how
        asked = TreeSettings(**self.settings.ranker.options, seed=self.settings.seed)
        return Grown(**vars(fit(train, validation, asked)))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cpu,cpu", marks=pytest.mark.slow)])
def test_ones_own_learns_as_its_formula_does_in_lmtune(device: str) -> None:
    own: list[Any] = [Loss.of(my_pairs, steepness=2.0), Ranker.of(Growing, **BRIEF)]
    known: list[Any] = [
        SMALL.loss,
        parse_ranker("lambdamart:rounds=5:threads=1:min_rows=2:min_hessian=0.001"),
    ]
    found = compare(
        [RankingSplit("made", TRAIN, VALIDATION, TEST)], [*own, *known], SMALL, trials=2, device=device
    )
    for loss, mine, theirs in zip(own, found[:2], found[2:], strict=True):
        assert mine.queries.tobytes() == theirs.queries.tobytes()
        assert mine.label == str(loss)


def test_ones_own_is_learnt_fold_by_fold() -> None:
    parts = [TrainingData(TRAIN, VALIDATION, TEST, (), {}, fold=fold) for fold in ("fold1", "fold2")]
    how: Any = {"device": "cpu", "checkpoint": None, "checkpoint_every": None, "progress": silent}
    mine, theirs = (
        [
            model.score(TEST).tobytes()
            for _, model in learn_folds(parts, replace(SMALL, loss=loss), Normalisation(), **how)
        ]
        for loss in (Loss.of(my_pairs, steepness=2.0), SMALL.loss)
    )
    assert mine == theirs


def test_a_model_by_ones_own_loss_is_kept_and_scores_but_trains_no_other(tmp_path: Path) -> None:
    own = Loss.of(my_pairs)
    settings = replace(SMALL, loss=own, warm_up=1, warm_up_loss=own)
    model = learn(TRAIN, VALIDATION, settings)
    save_model(tmp_path / "m", model, {})
    again = load_model(tmp_path / "m")
    assert again.score(TEST).tobytes() == model.score(TEST).tobytes()
    assert again.scorer.label == "my-pairs-mlp:8"
    with pytest.raises(InputError, match="the loss cannot train networks: 'my-pairs'"):
        learn(TRAIN, VALIDATION, again.scorer.settings)


def test_ones_own_scorer_is_kept_and_read_where_it_is_named(tmp_path: Path) -> None:
    model = learn(TRAIN, VALIDATION, replace(SMALL, ranker=Ranker.of(Growing, **BRIEF)))
    save_model(tmp_path / "m", model, {})
    save_model(tmp_path / "m", model, {})
    again = load_model(tmp_path / "m", Grown)
    assert isinstance(again.scorer, Grown)
    assert again.score(TEST).tobytes() == model.score(TEST).tobytes()
    with pytest.raises(
        InputError, match="unknown kind of model: 'grown'; accepted: network, trees, yetirank, text"
    ):
        load_model(tmp_path / "m")


def test_options_of_ones_own_are_checked() -> None:
    assert str(Loss.of(my_pairs, steepness=0.5)) == "my-pairs:steepness=0.5"
    assert Loss.of(my_pairs) != Loss.of(no_scalar)
    for own, options, message in (
        (my_pairs, {"slope": 1.0}, "my-pairs has no such option: 'slope'; accepted: steepness"),
        (my_pairs, {"steepness": "much"}, "my-pairs: bad steepness: 'much'"),
        (Growing, {"leaves": 1}, "grown: bad leaves: 1; accepted: 2 or more"),
        (no_scalar, {"margin": 1.0}, "no-scalar has no such option: 'margin'; accepted: none"),
    ):
        with pytest.raises(InputError, match=message):
            made: Any = Ranker if own is Growing else Loss
            made.of(own, **options)


def test_a_loss_that_is_no_scalar_is_refused() -> None:
    with pytest.raises(InputError, match=r"a loss returned no scalar: \(8,\); accepted: a tensor of shape"):
        learn(TRAIN, VALIDATION, replace(SMALL, loss=Loss.of(no_scalar)))


def test_the_record_of_lmtunes_losses_is_as_before() -> None:
    assert "own_losses" not in SMALL.as_record()
    assert Settings.from_record(json.loads(json.dumps(SMALL.as_record()))) == SMALL


def test_a_learner_where_losses_stood_is_taken_as_a_ranker() -> None:
    with pytest.warns(DeprecationWarning, match=r"Ranker\.of"):
        old: Any = Loss.of(Growing, **BRIEF)
    assert Settings(loss=old) == Settings(ranker=Ranker.of(Growing, **BRIEF))
    old = parse_loss("lambdamart:rounds=5")
    assert Settings(loss=old) == Settings(ranker=parse_ranker("lambdamart:rounds=5"))
    assert Settings.from_record({"loss": "lambdamart", "loss_options": {"rounds": 5}}) == Settings(ranker=old)
    recorded = Settings(ranker=old).as_record()
    assert (recorded["ranker"], recorded["ranker_options"]) == ("lambdamart", {"rounds": 5})
    assert Settings.from_record(recorded) == Settings(ranker=old)
