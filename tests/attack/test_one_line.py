"""What once ended in a traceback, or was taken silently, ends in the right result or in one line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import mpmath
import pytest

from lmtune.errors import InputError
from lmtune.io.file_documents import document_files
from lmtune.io.qrels import read_qrels
from lmtune.measures.from_files import evaluations
from lmtune.options import check, option
from lmtune.rerank.loss_names import make_loss, parse_loss

RUN = "1 Q0 d2 1 3 t\n1 Q0 d1 2 2 t\n1 Q0 d3 3 1 t\n"


def measured(folder: Path, gains: tuple[int, int, int], measure: str) -> float:
    judged = "".join(f"1 0 d{number} {gain}\n" for number, gain in enumerate(gains, 1))
    (folder / "qrels.txt").write_text(judged)
    (folder / "run.txt").write_text(RUN)
    [found] = evaluations(folder / "qrels.txt", folder / "run.txt", measure)
    value = found.columns[0].mean
    assert isinstance(value, float)
    return value


@pytest.mark.parametrize(
    "gains", [(1030, 1029, 0), (1030, 1031, 1), (999_999_999, 999_999_998, 3), (3, 1, 2)]
)
def test_exponential_gains_of_any_size(gains: tuple[int, int, int], tmp_path: Path) -> None:
    with mpmath.workdps(30):
        # All over 2^largest, whose power no machine holds.
        top = max(gains)
        one, two, three = (mpmath.mpf(2) ** (g - top) - mpmath.mpf(2) ** -top for g in gains)
        discounts = [1 / mpmath.log(place + 2, 2) for place in range(3)]
        best = sum(g * d for g, d in zip(sorted([one, two, three], reverse=True), discounts, strict=True))
        exact = sum(g * d for g, d in zip([two, one, three], discounts, strict=True)) / best
    found = measured(tmp_path, gains, "nDCG(dcg='exp-log2')@10")
    assert found == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("name", ["BPM@10", "INST", "INSQ", "SDCG@10", "NERR8@10", "NERR10@10"])
def test_measures_that_ir_measures_cannot_compute(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"measure.*accepted: ") as raised:
        measured(tmp_path, (1, 0, 0), name)
    assert name in str(raised.value)


@pytest.mark.parametrize(("name", "gain"), [("Accuracy", 1)])
def test_programs_that_fail_are_named(name: str, gain: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"ir_measures cannot compute.*{name}"):
        measured(tmp_path, (gain, gain, gain), name)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lambdarank", {"k": "abc"}),
        ("lambdarank", {"k": 2.5}),
        ("lambdarank", {"k": True}),
        ("song", {"margin": "abc"}),
        ("song", {"margin": 0}),
        ("neuralndcg", {"sinkhorn": 2.5}),
        ("neuralndcg", {"sinkhorn": 10**30}),
        ("lambdamart", {"leaves": 3.5}),
        ("k-song", {"cutoff": 2.5}),
        ("ranknet", {"sigma": "1"}),
    ],
)
def test_options_of_a_wrong_kind(name: str, options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=rf"^{name}: (bad|unknown) "):
        make_loss(name, options)
    [(own, value)] = options.items()
    if not isinstance(value, bool) and value != "1":
        with pytest.raises(InputError, match=rf"^{name}: (bad|unknown) "):
            parse_loss(f"{name}:{own}={value}")


def test_options_know_their_kinds() -> None:
    @dataclass(frozen=True)
    class Settings:
        count: int = option(1, "a count")
        rates: tuple[float, ...] = option((0.5,), "rates")
        name: str | None = option(None, "a name")

    check(Settings(2, (1, 0.5), "x"))
    for wrong in (Settings(1.5), Settings(rates=("1",)), Settings(name=3), Settings(count=1 << 70)):  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"^bad "):
            check(wrong)


def test_large_gains_are_called_large(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("1 0 d 1000000000000\n")
    with pytest.raises(InputError, match="too large: '1000000000000'; accepted: nine digits"):
        read_qrels(tmp_path / "q")


def test_pipes_are_no_documents(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(InputError, match="are read several times"):
            document_files(path)


@pytest.mark.usefixtures("one_thread")
def test_labels_that_overflow() -> None:
    torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
    from lmtune.losses import approx_ndcg, lambdarank, neural_ndcg

    scores = torch.zeros(1, 2)
    for loss in (approx_ndcg, lambdarank, neural_ndcg):
        assert torch.isfinite(loss(scores, torch.tensor([[0.0, 100.0]])))
        with pytest.raises(InputError, match="label is too large"):
            loss(scores, torch.tensor([[0.0, 101.0]]))
        assert torch.isfinite(loss(scores, torch.tensor([[0.0, 101.0]]), gains="linear"))
