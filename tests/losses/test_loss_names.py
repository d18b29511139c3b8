"""Losses by name: read once, with everything that can be wrong said in one line."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.rerank.loss_names import SONG, loss_names, make_loss, parse_loss, parse_losses  # noqa: E402
from lmtune.rerank.settings import Settings  # noqa: E402


def test_a_loss_with_options() -> None:
    found = parse_loss("K-SONG:theoretical=true:gamma=0.5:eta=solve:cutoff=5:gamma-curvature=1")
    assert (found.name, found.family) == ("k-song", SONG)
    assert found.options == {
        "theoretical": True,
        "gamma": 0.5,
        "eta": "solve",
        "cutoff": 5,
        "gamma_curvature": 1.0,
    }
    assert str(found).startswith("K-SONG:theo")
    assert make_loss("k-song", found.options) == found
    assert parse_loss("k-song:eta=0.25:scale=none").options == {"eta": 0.25, "scale": None}
    assert parse_loss("lambdarank:gains=linear:backend=torch").options == {
        "gains": "linear",
        "backend": "torch",
    }
    assert all(parse_loss(name).name == name for name in loss_names() if name != "lambdas")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lambdarank:k=abc", "lambdarank: bad k: 'abc'; accepted: an integer"),
        ("lambdarank:k=0", "lambdarank: bad k: 0; accepted: 1 or more"),
        ("song:margin=0", "song: bad margin: 0.0; accepted: a positive number"),
        ("song:gamma=1.5", "song: bad gamma: 1.5; accepted: a positive number, up to 1"),
        ("neuralndcg:sinkhorn=2.5", "neuralndcg: bad sinkhorn: '2.5'; accepted: an integer"),
        ("k-song:cutoff=2.5", "k-song: bad cutoff: 2.5; accepted: a rank, 1 or more; or a share"),
        ("k-song:eta=no", "k-song: bad eta: 'no'; accepted: 0 or more, or 'solve'"),
        ("k-song:eta=-1", "k-song: bad eta: -1.0; accepted: 0 or more"),
        ("k-song:theoretical=3", "k-song: bad theoretical: '3'; accepted: yes, no"),
        ("listmle:ties=none", "listmle: unknown ties: 'none'; accepted: random, shared"),
        ("listmle:seed=3", "listmle has no such option: 'seed'; accepted: ties, positions, backend"),
        ("cross-entropy:margin=3", "cross-entropy has no such option: 'margin'; accepted: gamma"),
        ("song:gamma", "bad loss: 'song:gamma'; accepted: NAME or NAME:OPTION=VALUE:..."),
        ("song:=1", "bad loss: 'song:=1'; accepted: NAME or NAME:OPTION=VALUE:..."),
        ("ndgc@10", "unknown loss: 'ndgc@10'; accepted: ranknet, lambdarank"),
    ],
)
def test_bad_losses(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_loss(text)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_settings_come_back_from_their_record() -> None:
    settings = Settings(
        loss=parse_loss("song:gamma=0.3"), warm_up=2, warm_up_loss=parse_loss("cross-entropy:gamma=0.5")
    )
    record = settings.as_record()
    assert list(record)[:3] == ["loss", "loss_options", "network"]
    assert (record["loss"], record["loss_options"]) == ("song", {"gamma": 0.3})
    assert record["warm_up_loss"] == "cross-entropy:gamma=0.5"
    assert Settings.from_record(record) == settings


def test_a_grid_is_every_combination() -> None:
    found = parse_losses("k-song:margin=1|5:theoretical=no:cutoff=10|0.5")
    given = [(one.options["margin"], one.options["cutoff"]) for one in found]
    assert given == [(1.0, 10.0), (1.0, 0.5), (5.0, 10.0), (5.0, 0.5)]
    assert str(found[1]) == "k-song:margin=1:theoretical=no:cutoff=0.5"
    assert [str(one) for one in parse_losses("ranknet")] == ["ranknet"]
    with pytest.raises(InputError, match="bad margin: 0"):
        parse_losses("song:margin=1|0")
