"""Training: repeatable, resumable, and the same in parts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from made_lists import made_lists  # noqa: E402

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses.songs.pairs import PairState  # noqa: E402
from lmtune.measures.lists import ndcg  # noqa: E402
from lmtune.rerank.learners.feature_networks import FeatureFeed, Trained, fit  # noqa: E402
from lmtune.rerank.loss_names import make_loss, parse_loss  # noqa: E402
from lmtune.rerank.settings import Settings, rate_at  # noqa: E402
from lmtune.rerank.training.loop import TrainingRun  # noqa: E402

torch.set_num_threads(1)

SMALL = Settings(
    loss=parse_loss("listnet"), network="mlp:8", epochs=3, batch_size=5, learning_rate=0.01, list_size=8
)
TRAIN, VALIDATION = made_lists(0), made_lists(1, queries=10)
ROOT = Path(__file__).parents[3]


def same(first: Trained, second: Trained) -> bool:
    assert first.weights.keys() == second.weights.keys()
    equal = all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)
    return equal and first.history == second.history and first.best_epoch == second.best_epoch


@pytest.mark.first_case
@pytest.mark.parametrize("network", ["b64", "attention:8-1-2"])
@pytest.mark.parametrize(
    ("loss", "options"), [("listmle", {}), ("song", {}), ("k-song", {"theoretical": True})]
)
def test_one_seed_gives_one_network(network: str, loss: str, options: dict[str, Any]) -> None:
    settings = replace(SMALL, loss=make_loss(loss, options), network=network, dropout=0.3, epochs=2)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = fit(TRAIN, VALIDATION, settings)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert same(first, fit(TRAIN, VALIDATION, settings))
    assert not same(first, fit(TRAIN, VALIDATION, replace(settings, seed=1)))


def test_it_trains_on_one_thread_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    step = TrainingRun.train_step

    def noted(run: TrainingRun, *inputs: Any) -> None:
        used.append(torch.get_num_threads())
        step(run, *inputs)

    monkeypatch.setattr(TrainingRun, "train_step", noted)
    torch.set_num_threads(3)
    try:
        for threads in (None, 2):
            fit(TRAIN, VALIDATION, replace(SMALL, network="mlp:4", epochs=1, threads=threads))
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
    assert sorted(set(used)) == [1, 2]


def test_steps_leave_no_calls_for_devices_that_are_not_used() -> None:
    waiting = len(torch.cuda._queued_calls)
    fit(TRAIN, VALIDATION, replace(SMALL, network="mlp:4", epochs=2))
    assert len(torch.cuda._queued_calls) == waiting


def test_it_learns_and_keeps_the_best_epoch() -> None:
    settings = replace(SMALL, network="mlp:16", epochs=12, learning_rate=0.02, schedule="step:8")
    trained = fit(TRAIN, VALIDATION, settings)
    values = [row.validation for row in trained.history]
    assert [row.epoch for row in trained.history] == list(range(1, 13))
    assert trained.best_epoch == 1 + int(np.argmax(values))
    assert trained.history[-1].loss < trained.history[0].loss
    measured = np.nanmean(ndcg(trained.score(VALIDATION), VALIDATION, [10]))
    assert measured == trained.validation == max(values)
    assert measured > trained.history[0].validation + 0.02
    assert [row.rate for row in trained.history] == pytest.approx([0.02] * 8 + [0.002] * 4)


def test_patience_ends_it() -> None:
    settings = replace(SMALL, learning_rate=1e-9, epochs=30, patience=2)
    trained = fit(TRAIN, VALIDATION, settings)
    assert len(trained.history) == trained.best_epoch + 2


def test_without_validation_the_last_epoch_is_kept() -> None:
    trained = fit(TRAIN, None, SMALL)
    assert trained.best_epoch == SMALL.epochs
    assert np.isnan(trained.validation)


def test_warm_up_trains_with_the_other_loss_then_renews_the_last_layer() -> None:
    settings = replace(SMALL, loss=parse_loss("song"), epochs=4, warm_up=2, list_relevant=2)
    trained = fit(TRAIN, VALIDATION, settings)
    plain = fit(TRAIN, VALIDATION, replace(settings, loss=parse_loss("listnet"), warm_up=0, epochs=2))
    assert trained.history[:2] == plain.history
    assert trained.best_epoch > 2
    with pytest.raises(InputError, match="warm-up"):
        replace(settings, warm_up=4)


def test_samples_for_song_have_relevant_documents() -> None:
    """A quarter of the sample, 2 to 10, unless it is said; other losses' samples are uniform."""
    song = replace(SMALL, loss=parse_loss("song"), list_size=3)
    sizes = (3, 12, 400)
    assert [replace(song, list_size=size).relevant_of_sample for size in sizes] == [2, 3, 10]
    assert replace(song, list_size=40, list_relevant=6).relevant_of_sample == 6
    assert replace(song, list_size=None).relevant_of_sample is None
    assert SMALL.relevant_of_sample is None
    given = replace(song, list_relevant=2)
    assert fit(TRAIN, VALIDATION, song).history == fit(TRAIN, VALIDATION, given).history


def test_schedules() -> None:
    cosine = replace(SMALL, schedule="cosine", epochs=10, learning_rate=2.0)
    assert rate_at(cosine, 0, 0, 4) == 2.0
    assert rate_at(cosine, 5, 0, 4) == pytest.approx(1.0)
    assert rate_at(cosine, 9, 3, 4) == pytest.approx(1.0 + np.cos(np.pi * 39 / 40))
    steps = replace(SMALL, schedule="step:2,5", learning_rate=1.0)
    assert [rate_at(steps, e, 0, 1) for e in (1, 2, 4, 5)] == pytest.approx([1, 0.1, 0.1, 0.01])
    thirds = replace(SMALL, schedule="step", epochs=30, learning_rate=1.0)
    assert [rate_at(thirds, e, 0, 1) for e in (19, 20)] == pytest.approx([1.0, 0.1])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"network": "no"}, "unknown network"),
        ({"optimizer": "no"}, "unknown optimizer"),
        ({"schedule": "no"}, "unknown schedule"),
        ({"schedule": "step:a"}, "unknown schedule"),
        ({"epochs": 0}, "epochs"),
        ({"learning_rate": float("nan")}, "learning rate"),
        ({"clip": 0.0}, "clip"),
        ({"seed": -1}, "seed"),
        ({"list_relevant": 0}, "list relevant"),
        ({"list_size": None, "list_relevant": 2}, "needs list_size"),
        ({"loss": parse_loss("song"), "list_size": 2}, "too small for SONG's estimates: .*2 documents, 2"),
        ({"loss": parse_loss("k-song"), "list_size": 9, "list_relevant": 1}, "too small for SONG's"),
        ({"warm_up": 1, "warm_up_loss": parse_loss("cross-entropy"), "list_relevant": 1}, "too small for"),
    ],
)
def test_bad_settings(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(TRAIN, VALIDATION, replace(SMALL, **changed))


def test_the_network_can_be_watched() -> None:
    seen: list[float] = []

    def watch(run: TrainingRun) -> None:
        scores = FeatureFeed(VALIDATION, "cpu").scores(run.task.network)
        seen.append(float(np.nanmean(ndcg(scores, VALIDATION, [10]))))

    watched = fit(TRAIN, VALIDATION, SMALL, watch=watch)
    assert seen == [row.validation for row in watched.history]
    assert same(watched, fit(TRAIN, VALIDATION, SMALL))


def test_data_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="different features"):
        fit(TRAIN, made_lists(1, features=5), SMALL)
    with pytest.raises(InputError, match="no training query"):
        fit(made_lists(0, empty=1.0), VALIDATION, SMALL)
    with pytest.raises(InputError, match="device"):
        fit(TRAIN, VALIDATION, SMALL, device="tpu")


def test_divergence_is_told() -> None:
    broken = replace(SMALL, optimizer="sgd", learning_rate=1e30, network="mlp:8-8", epochs=5)
    with pytest.raises(InputError, match="no longer finite"):
        fit(TRAIN, VALIDATION, broken)


def test_what_a_loss_could_not_say_at_once_ends_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_state: PairState) -> None:
        raise InputError("a query that the training data lacks")

    monkeypatch.setattr(PairState, "check", check)
    runs: list[TrainingRun] = []
    with pytest.raises(InputError, match="a query that"):
        fit(TRAIN, None, replace(SMALL, loss=parse_loss("song")), watch=runs.append)
    assert not runs


def test_bf16_and_clipping_change_the_result_a_little() -> None:
    exact = fit(TRAIN, VALIDATION, SMALL)
    for changed in (replace(SMALL, amp_bf16=True), replace(SMALL, clip=0.1)):
        other = fit(TRAIN, VALIDATION, changed)
        assert not same(exact, other)
        assert abs(other.validation - exact.validation) < 0.1


KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
import torch
torch.set_num_threads(1)
from made_lists import made_lists
from lmtune.rerank.training import checkpoints
from lmtune.rerank.loss_names import parse_loss
from lmtune.rerank.settings import Settings
from lmtune.rerank.learners.feature_networks import fit

train, validation, home = made_lists(0), made_lists(1, queries=10), Path(sys.argv[1])

def forked(work):
    # With one thread only, so that a child may go on computing.
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1]

def train_once(settings, name, die_at=None):
    def watch(done, total, words):
        if done == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
    trained = fit(train, validation, settings, checkpoint=home / name, checkpoint_every=2,
                  progress=watch)
    torch.save((trained.weights, trained.history, trained.best_epoch), home / f"{name}.pt")

for number, settings in enumerate([
    Settings(loss=parse_loss("song"), network="b64", epochs=4, batch_size=5, list_size=8, warm_up=1,
             dropout=0.2, schedule="cosine", warm_up_loss=parse_loss("cross-entropy")),
    Settings(loss=parse_loss("k-song:theoretical=true"), epochs=4, batch_size=5,
             network="attention:8-1-2", dropout=0.2,
             optimizer="sgd", patience=1),
]):
    train_once(settings, f"whole{number}")
    for step in (1, 7, 9):  # again and again the same training
        if forked(lambda: train_once(settings, f"killed{number}", step)) != signal.SIGKILL:
            break
    assert forked(lambda: train_once(settings, f"killed{number}")) == 0
    whole, killed = (torch.load(home / f"{name}{number}.pt", weights_only=False)
                     for name in ("whole", "killed"))
    assert all(torch.equal(whole[0][name], killed[0][name]) for name in whole[0])
    assert whole[1:] == killed[1:]
    assert not list((home / f"killed{number}").glob(".*")), "left by what was killed"
    assert len(list((home / f"killed{number}").glob("state-*"))) == 1

# Killed while a checkpoint is written: the one before is whole.
def torn():
    real = checkpoints.os.fsync
    count = 0
    def fsync(number):
        nonlocal count
        count += 1
        if count == 4:  # the second checkpoint's JSON: its state is there, its name is not
            os.kill(os.getpid(), signal.SIGKILL)
        real(number)
    checkpoints.os.fsync = fsync
    train_once(settings, "torn")
assert forked(torn) == signal.SIGKILL
assert forked(lambda: train_once(settings, "torn")) == 0
again = torch.load(home / "torn.pt", weights_only=False)
assert all(torch.equal(whole[0][name], again[0][name]) for name in whole[0])
print("equal")
"""


def script(text: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        env=os.environ | {"PYTHONPATH": path} | more,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_and_resumed_is_never_killed(tmp_path: Path) -> None:
    out, err = script(KILLED, str(tmp_path)).communicate(timeout=300)
    assert out == "equal\n", err


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    whole = fit(TRAIN, VALIDATION, SMALL, checkpoint=tmp_path)
    assert same(fit(TRAIN, VALIDATION, SMALL, checkpoint=tmp_path), whole)
    with pytest.raises(InputError, match=r"checkpoint\.json: checkpoint of another settings"):
        fit(TRAIN, VALIDATION, replace(SMALL, seed=1), checkpoint=tmp_path)
    with pytest.raises(InputError, match="checkpoint of another data"):
        fit(TRAIN, made_lists(3), SMALL, checkpoint=tmp_path)
    [state] = tmp_path.glob("state-*")
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(InputError, match="damaged checkpoint"):
        fit(TRAIN, VALIDATION, SMALL, checkpoint=tmp_path)
    (tmp_path / "checkpoint.json").write_text("{")
    with pytest.raises(InputError, match="damaged checkpoint"):
        fit(TRAIN, VALIDATION, SMALL, checkpoint=tmp_path)


TOGETHER: list[dict[str, Any]] = [
    {"loss": parse_loss("listmle"), "network": "b64"},
    {"loss": parse_loss("song"), "network": "attention:8-1-2"},
    {"loss": parse_loss("k-song"), "network": "b64"},
    {"loss": parse_loss("song:gamma=0.5"), "network": "mlp:8", "list_size": 8},
    {"loss": parse_loss("k-song:theoretical=true:eta=0.1"), "network": "mlp:8", "batch_size": 23},
    {"loss": parse_loss("lambdarank"), "network": "mlp:8", "batch_size": 1},
]
# Batches of 5: one process has three queries, the other two; the last batch has four.
PARTED = Settings(epochs=2, batch_size=5, clip=1.0)
PARTS = """
import os
import sys
from dataclasses import replace
from pathlib import Path
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[2])
from test_training import PARTED, TOGETHER, made_lists
from lmtune.rerank.training.distributed import process_group, process_number
from lmtune.rerank.learners.feature_networks import fit
with process_group() as device:
    for number, changed in enumerate(TOGETHER):
        trained = fit(made_lists(0, empty=0.2), made_lists(1, queries=10),
                      replace(PARTED, **changed), device=device)
        torch.save((trained.weights, trained.history),
                   Path(sys.argv[1]) / f"{process_number()}-{number}.pt")
# Seldom a thread of torch's aborts a process that is ending; what is tested has been written.
os._exit(0)
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    together = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    here = str(Path(__file__).parent)
    running = [script(PARTS, str(tmp_path), here, RANK=str(rank), **together) for rank in (0, 1)]
    alone = [fit(made_lists(0, empty=0.2), VALIDATION, replace(PARTED, **changed)) for changed in TOGETHER]
    ended = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0], ended
    for number, trained in enumerate(alone):
        first, second = (torch.load(tmp_path / f"{rank}-{number}.pt", weights_only=False) for rank in (0, 1))
        for name, value in trained.weights.items():
            assert torch.equal(first[0][name], second[0][name])
            torch.testing.assert_close(first[0][name], value, rtol=1e-6, atol=1e-6)
        assert first[1] == second[1]
        losses = [[row.loss for row in history] for history in (first[1], trained.history)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
