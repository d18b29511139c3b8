"""The papers' comparisons of losses: figures against other ways to them, and what papers print."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_lists import made_lists
from scipy import stats

pytest.importorskip("torch", reason="the extra 'neural' is not installed")
pytest.importorskip("lightgbm", reason="the extra 'neural' is not installed")

from experiments.papers.losses import BRUCH, QIU, Bruch, LossTable, Qiu
from experiments.running import run, settings_of
from lmtune.errors import InputError
from lmtune.formats.letor import write_letor
from lmtune.measures.lists import ndcg
from lmtune.reranking.learners.feature_networks import fit
from lmtune.reranking.letor_folder import read_letor_folder
from lmtune.reranking.losses.names import parse_loss
from lmtune.reranking.settings import Settings

pytestmark = pytest.mark.slow

PAPERS = Path(__file__).parents[4] / "shared/papers"


@pytest.fixture(scope="module")
def web30k(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make lists in a folder named as MSLR-WEB30K's are."""
    fold = tmp_path_factory.mktemp("made") / "MSLR-WEB30K" / "Fold1"
    fold.mkdir(parents=True)
    for seed, name in enumerate(["train", "vali", "test"]):
        write_letor(fold / f"{name}.txt", made_lists(seed, queries=40, empty=0.1))
    return str(fold.parent)


@pytest.fixture(scope="module")
def found(web30k: str) -> Any:
    return run(Bruch(data=web30k, network="b:4", trials=2, epochs=2), folder=Path(web30k).parent / "out")


def test_its_means_are_those_of_trainings_by_hand(found: Any, web30k: str) -> None:
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
    rows = found.tables["table"].query("method == 'ApproxNDCG'")
    assert list(rows["column"]) == ["NDCG@1", "NDCG@5", "NDCG@10"]
    np.testing.assert_allclose(rows["mean"], np.mean(values, axis=0), rtol=1e-12)
    half = np.ptp(values, axis=0) / 2 * stats.t.ppf(0.975, 1)
    np.testing.assert_allclose(rows["half"], half, rtol=1e-9)


def test_the_printed_figures_stand_beside_ours(found: Any) -> None:
    lines = found.table.text().splitlines()
    beside = [name for cutoff in (1, 5, 10) for name in (f"NDCG@{cutoff}", "printed")]
    assert lines[0].split() == ["Method", *beside]
    # The lists are too few for the paper's trees.
    gbm = next(line for line in lines if "LightGBM" in line)
    assert gbm.count("–") == 3
    assert ".5033 ± .0022" in gbm
    assert any("LightGBM) is not there: the training data are too few" in own for own in found.conclusions)
    ranklib = next(line for line in lines if "RankLib" in line)
    assert ranklib.split("  ")[-1].strip() == ".4646 ± .0003"
    assert ranklib.count("–") == 3
    assert found.table.caption == "Bruch et al. (2019), table 1, on MSLR-WEB30K: test queries"
    assert not any("none of its figures" in text for text in found.conclusions)
    assert any("trials 2 instead of 10" in text for text in found.conclusions)


def made_results(experiment: LossTable, value: Callable[[int, int, int], Any]) -> dict[str, Any]:
    results = {}
    for unit in experiment.units():
        place, number, trial = (int(part) - 1 for part in re.findall(r"\d+", unit.key))
        validation, test = value(place, number, trial)
        results[unit.key] = {"validation": validation, "test": test.tolist()}
    return results


def test_validation_chooses_and_holm_marks() -> None:
    experiment = replace(Qiu(), trials=3)
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.4, (50, 3))

    def value(place: int, number: int, trial: int) -> Any:
        test = base + 0.02 * place + 0.02 * np.random.default_rng([place, number, trial]).normal(size=(50, 3))
        test[7] = np.nan
        return float(number == 3) + 0.01 * number, test

    tables = experiment.tables(made_results(experiment, value))
    tried = tables["tried"].query("method == 'K-SONG'")
    assert len(tried) == 15
    assert list(tried["options"][tried["chosen"]]) == ["k-song:theoretical=true:gamma=0.2:cutoff=10"]
    # The query without a relevant document counts 1, as in allRank.
    of_query = {
        place: np.mean([np.nan_to_num(value(place, n, t)[1][:, 0], nan=1.0) for t in range(3)], axis=0)
        for place, n in [*((place, 0) for place in range(6)), (6, 3), (7, 3)]
    }
    methods = list(experiment.protocol.methods)
    rows: Any = tables["table"].query("column == 'NDCG@1'").set_index("method")
    pairs = [(a, b) for a in range(8) for b in range(a)]
    p_values = np.array([stats.ttest_rel(of_query[a], of_query[b]).pvalue for a, b in pairs])
    order = np.argsort(p_values)
    holm = np.empty(28)
    holm[order] = np.maximum.accumulate(p_values[order] * np.arange(28, 0, -1))
    for place, method in enumerate(methods):
        assert rows.loc[method, "mean"] == pytest.approx(of_query[place].mean())
        better = {
            methods[b if a == place else a]
            for (a, b), p in zip(pairs, holm, strict=True)
            if place in (a, b)
            and p < 0.05
            and of_query[place].mean() > of_query[b if a == place else a].mean()
        }
        assert set(filter(None, rows.loc[method, "better_than"].split("; "))) == better
    assert rows.loc["K-SONG", "better_than"]


def test_protocols_as_they_are_printed(tmp_path: Path) -> None:
    (tmp_path / "yahoo").mkdir()
    (tmp_path / "yahoo" / "set1.train.txt").touch()
    known = QIU.set_of(str(tmp_path / "yahoo" / "set1"))
    assert known is not None
    experiment = Qiu(data=str(tmp_path / "yahoo" / "set1"))
    by_loss = {unit.arguments["settings"]["loss"]: unit.arguments["settings"] for unit in experiment.units()}
    assert len(experiment.units()) == 10 * (6 + 5 + 15)
    song = by_loss["song"]
    assert (song["list_size"], song["list_relevant"], song["batch_size"]) == (40, 10, 64)
    assert (song["epochs"], song["warm_up"], song["schedule"]) == (120, 20, "step:70")
    units = Bruch(data=str(tmp_path / "yahoo")).units()
    momenta = {unit.arguments["settings"]["norm_momentum"] for unit in units}
    trees = [unit.arguments for unit in units if unit.arguments["settings"]["loss"] == "lambdamart"]
    assert momenta == {0.99}
    assert trees[0]["settings"]["loss_options"]["leaves"] == 200
    assert BRUCH.set_of("/yahoo-user/data/web/mine") is None


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers are not beside the checkout")
@pytest.mark.parametrize(("protocol", "file"), [(BRUCH, "bruch"), (QIU, "qiu")])
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


def test_a_killed_run_goes_on(web30k: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = settings_of(Bruch, {"data": web30k, "network": "b:4", "epochs": 1}, quick=True)
    whole = run(experiment, folder=tmp_path / "whole")
    trained = LossTable.train
    count = 0

    def train(self: LossTable, settings: Any) -> dict[str, Any]:
        nonlocal count
        count += 1
        if count == 5:
            raise KeyboardInterrupt
        return trained(self, settings)

    monkeypatch.setattr(LossTable, "train", train)
    with pytest.raises(KeyboardInterrupt):
        run(experiment, folder=tmp_path / "killed")
    assert not (tmp_path / "killed/table.txt").exists()
    again = run(experiment, folder=tmp_path / "killed")
    assert count == 5 + len(experiment.units()) - 4
    assert again.table is not None
    assert whole.table is not None
    assert again.table.text() == whole.table.text()
    files = [path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*")]
    for name in files:
        if (tmp_path / "whole" / name).is_file():
            assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert {"table.txt", "table.md", "table.tex", "table.csv"} <= {str(name) for name in files}


def test_an_unknown_set_has_no_printed_figures() -> None:
    experiment = settings_of(Bruch, {"trials": 2}, quick=True)
    assert experiment.protocol.set_of(experiment.data) is None
    with pytest.raises(InputError, match="unknown network"):
        replace(experiment, network="no").units()
