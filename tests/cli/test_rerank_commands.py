"""``lmtune rerank``: train, apply, compare."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_lists import made_lists
from typer.testing import CliRunner

from lmtune.cli.main import app
from lmtune.formats.letor import read_letor, write_letor
from lmtune.formats.runs import read_run

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
torch.set_num_threads(1)

TREES = "lambdamart:rounds=5:threads=1:min_rows=2:min_hessian=0.001"
FAST = ("--net", "mlp:8", "--epochs", "3", "--batch-size", "8", "--learning-rate", "0.01")


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["rerank", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def letor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("letor")
    for seed, name in enumerate(["train", "vali", "test"]):
        write_letor(folder / f"{name}.txt", made_lists(seed, queries=16, empty=0.2))
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a collection in which short documents are relevant, and a run of it."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "c").mkdir()
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(12)]
    with (folder / "c/docs.jsonl").open("w") as file:
        for d in range(60):
            text = " ".join(rng.choice(words, 5 + d))
            file.write(json.dumps({"id": f"d{d}", "contents": text}) + "\n")
    with (folder / "c/topics.tsv").open("w") as file:
        file.writelines(f"{t}\t{' '.join(rng.choice(words, 3))}\n" for t in range(1, 13))
    with (folder / "c/qrels.txt").open("w") as file:
        file.writelines(f"{t} 0 d{d} {int(d < 12)}\n" for t in range(1, 13) for d in range(60))
    arguments = ["search", str(folder / "c"), "--output", str(folder / "base.run")]
    indexes = ["--indexes", str(folder / "indexes")]
    result = CliRunner().invoke(app, [*arguments, *indexes])
    assert result.exit_code == 0, result.stderr
    return folder


def test_a_run_is_reranked_by_what_was_learnt(home: Path) -> None:
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
    code, out, err = run(
        "train",
        *where,
        "--train-topics",
        "1-8",
        "--depth",
        "50",
        "--output",
        home / "m",
        *FAST,
        "--loss",
        "listnet",
        "--epochs",
        "10",
        "--validation",
        "0.25",
    )
    assert code == 0, err
    assert out.startswith("best epoch ")
    files = {path.name for path in (home / "m").iterdir()}
    assert files == {"model.safetensors", "model.json", "history.csv", "seconds.csv", "made.json"}
    made = json.loads((home / "m/made.json").read_text())
    assert made["versions"]["torch"] and made["documents"] == 60 and "--output" not in str(made)
    again = run("apply", home / "m", *where, "--output", home / "new.run")
    assert again[0] == 0, again[2]
    base, new = read_run(home / "base.run"), read_run(home / "new.run")
    assert list(new) == list(base)
    moved = 0
    for topic, before in base.items():
        old, now = list(before), list(new[topic])
        assert sorted(now) == sorted(old)
        assert now[50:] == old[50:]  # not scored: as they were, beneath
        moved += len({f"d{d}" for d in range(12)} & set(now[:12])) - len(
            {f"d{d}" for d in range(12)} & set(old[:12])
        )
    assert moved > 12
    assert json.loads((home / "new.run.made.json").read_text())["model"] == made
    code, _, err = run(
        "apply", home / "m", *where, "--only-topics", "9-12", "--depth", "5", "--output", home / "some.run"
    )
    assert code == 0, err
    some = read_run(home / "some.run")
    assert list(some) == ["9", "10", "11", "12"]
    assert list(some["9"])[5:] == list(base["9"])[5:]


def test_a_measure_is_learnt_without_a_gradient(letor: Path, tmp_path: Path) -> None:
    arguments = (*FAST, "--net", "linear", "--optimizer", "spsa", "--evaluations-per-step", "2")
    code, out, err = run(
        "train",
        letor,
        "--output",
        tmp_path / "m",
        "--loss",
        "ndcg@10",
        *arguments,
        "--perturbation",
        "0.1",
        "--checkpoint",
        tmp_path / "state",
    )
    assert code == 0, err
    assert out.startswith("best epoch ")
    kept = json.loads((tmp_path / "m/model.json").read_text())["settings"]
    chosen = [kept[name] for name in ("loss", "optimizer", "evaluations_per_step", "perturbation")]
    assert chosen == ["ndcg@10", "spsa", 2, 0.1]
    code, out, err = run(
        "compare", letor, "--losses", "ndcg@10,ranknet", "--trials", "1", "--format", "csv", *arguments
    )
    assert code == 0, err
    assert "ndcg@10" in out and "ranknet" in out


def test_letor_files_are_learnt_from_and_measured(letor: Path, tmp_path: Path) -> None:
    code, out, err = run(
        "train",
        letor,
        "--output",
        tmp_path / "m",
        "--loss",
        "k-song:theoretical=true:cutoff=5",
        *FAST,
        "--checkpoint",
        tmp_path / "state",
        "--warm-up",
        "1",
    )
    assert code == 0, err
    lines = out.splitlines()
    assert (
        len(lines) == 3
        and "left out: nDCG(dcg='exp-log2')@1" in lines[1]
        and "count 0: nDCG(dcg='exp-log2')@1" in lines[2]
    )
    kept = json.loads((tmp_path / "m/model.json").read_text())
    assert kept["settings"]["loss_options"] == {"theoretical": True, "cutoff": 5}
    assert kept["features"] == ["1", "2", "3", "4", "5", "6"]
    assert (tmp_path / "state/checkpoint.json").is_file()
    first = (tmp_path / "m/model.safetensors").read_bytes()
    assert (
        run(
            "train",
            letor,
            "--output",
            tmp_path / "m",
            "--loss",
            "k-song:theoretical=true:cutoff=5",
            *FAST,
            "--warm-up",
            "1",
        )[0]
        == 0
    )
    assert (tmp_path / "m/model.safetensors").read_bytes() == first


def test_a_lambda_function_is_trained_by(letor: Path, tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "lmtune" / "laboratory" / "lambdas" / "examples.py"
    mine = tmp_path / "mine.py"
    mine.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    train = ("train", letor, *FAST, "--loss", f"lambdas:{mine}:squared_hinge", "--output")
    code, out, err = run(*train, tmp_path / "m")
    assert code == 0, err
    assert "nDCG(dcg='exp-log2')@10" in out
    kept = json.loads((tmp_path / "m/model.json").read_text())["settings"]
    assert kept["loss"] == "lambdas"
    assert kept["loss_options"]["function"] == f"{mine}:squared_hinge"
    # A model can be read when the function's file is gone.
    mine.unlink()
    from lmtune.reranking.model_folder import load_model

    assert load_model(tmp_path / "m").scorer.label == "lambdas-mlp:8"
    code, _, err = run(*train, tmp_path / "m2")
    assert code == 2 and err.splitlines()[-1].startswith(f"lmtune: {mine}: no such file")


def test_a_model_of_other_features_is_refused(letor: Path, home: Path, tmp_path: Path) -> None:
    assert run("train", letor, "--output", tmp_path / "m", "--loss", "listnet", *FAST)[0] == 0
    code, _, err = run(
        "apply", tmp_path / "m", home / "c", "--run", home / "base.run", "--output", tmp_path / "new.run"
    )
    assert code == 2
    assert "other features (6, here" in err and len(err.splitlines()) == 1
    assert not (tmp_path / "new.run").exists()


def test_losses_are_compared(letor: Path, tmp_path: Path) -> None:
    arguments = (
        letor,
        "--losses",
        f"listnet,song:gamma=0.5,{TREES}",
        "--trials",
        "2",
        *FAST,
        "--learning-rate",
        "0.001,0.01",
    )
    code, out, err = run("compare", *arguments, "--output", tmp_path / "kept")
    assert code == 0, err
    assert "16 test queries, 4 of them without a relevant document" in err
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["Empty", "queries", "Loss"]
    assert [line.split()[2] for line in lines[1:]] == ["listnet", "song:gamma=0.5", TREES] * 2
    names = {path.name for path in (tmp_path / "kept").iterdir()}
    assert names == {
        "table.txt",
        "table.md",
        "table.tex",
        "table.csv",
        "table.json",
        "made.json",
        "history.csv",
        "convergence.svg",
        "convergence.png",
    }
    records = json.loads((tmp_path / "kept/table.json").read_text())
    skip, zero = (
        {(r["loss"], r["measure"]): r["trials"] for r in records if r["empty"] == empty}
        for empty in ("skip", "zero")
    )
    for key, values in skip.items():  # 12 of 16 queries have something to find
        assert np.array(values) * 12 / 16 == pytest.approx(zero[key])
    history = (tmp_path / "kept/history.csv").read_text().splitlines()
    assert len(history) == 1 + 2 * 2 * 3
    again = run("compare", *arguments, "--format", "json")
    assert json.loads(again[1]) == records


def test_folds_are_measured_together(letor: Path, tmp_path: Path) -> None:
    for fold in ("Fold1", "Fold2"):
        (tmp_path / fold).mkdir()
        for file in letor.glob("*.txt"):
            (tmp_path / fold / file.name).write_bytes(file.read_bytes())
    arguments = ("--losses", "listnet", "--trials", "1", *FAST, "--format", "json")
    code, both, err = run("compare", tmp_path, *arguments)
    assert code == 0, err
    one = run("compare", letor, *arguments)[1]
    assert [r["mean"] for r in json.loads(both)] == pytest.approx([r["mean"] for r in json.loads(one)])
    code, _, err = run("train", tmp_path, "--output", tmp_path / "m")
    assert code == 2 and "several folds" in err and "Fold1" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("train", "LETOR"), "--output"),
        (("train", "--output", "m"), "LETOR files"),
        (("train", "nowhere", "--output", "m"), "nowhere"),
        (("train", "LETOR", "--output", "m", "--loss", "no"), "unknown loss"),
        (("train", "LETOR", "--output", "m", "--loss", "mrr"), "accepted: spsa, fdsa"),
        (
            ("train", "LETOR", "--output", "m", "--loss", "song", "--optimizer", "fdsa"),
            "fdsa cannot minimise a loss that remembers",
        ),
        (("train", "LETOR", "--output", "m", "--loss", "song:gamma"), "NAME:OPTION=VALUE"),
        (("train", "LETOR", "--output", "m", "--loss", "lambdas"), "bad name of a lambda-function"),
        (("train", "LETOR", "--output", "m", "--loss", "lambdas:no.py:f"), "no.py: no such file"),
        (("train", "LETOR", "--output", "m", "--net", "b63"), "b64"),
        (("train", "LETOR", "--output", "m", "--normalise", "no"), "z-score"),
        (("train", "LETOR", "--output", "m", "--threads", "0"), "threads"),
        (("train", "LETOR", "--output", "m", "--validation", "1.5"), "share"),
        (("train", "LETOR", "--output", "m", "--device", "tpu"), "device"),
        (("compare", "LETOR", "--losses", "listnet,listnet"), "twice"),
        (("compare", "LETOR", "--trials", "0"), "trials"),
        (("compare", "LETOR", "--empty", "no"), "both"),
        (("compare", "LETOR", "--learning-rate", "fast"), "learning-rate"),
        (("compare", "LETOR", "--format", "no"), "markdown"),
        (("apply", "nowhere", "--run", "r", "--output", "o"), "no model"),
        (("apply", "LETOR"), "--run"),
    ],
)
def test_bad_input_is_one_line(letor: Path, tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    given = [str(letor) if word == "LETOR" else word for word in arguments]
    given = [str(tmp_path / word) if word == "m" else word for word in given]
    code, _, err = run(*given)
    last = err.splitlines()[-1]
    assert code == 2 and last.startswith("lmtune: ") and told in last
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["train x --output m", "apply m", "compare x"])
def test_without_the_extra(command: str, tmp_path: Path) -> None:
    text = (
        "import sys; sys.modules['torch'] = None; from lmtune.cli import main; "
        "sys.argv = ['lmtune', 'rerank', *sys.argv[1:]]; main()"
    )
    found = subprocess.run(
        [sys.executable, "-c", text, *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert found.returncode == 2
    assert found.stderr == (
        "lmtune: rerank needs the 'neural' extra, which is not installed; "
        "accepted: pip install 'lmtune[neural]'\n"
    )


def test_the_command_line_starts_without_torch() -> None:
    text = "import sys, lmtune.cli.main, lmtune; print('torch' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert found.stdout == "False\n"


def test_trees_are_grown_and_applied(home: Path, tmp_path: Path) -> None:
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
    code, out, err = run("train", *where, "--loss", TREES, "--output", tmp_path / "m")
    assert code == 0, err
    assert "trees, validation nDCG(dcg='exp-log2')@10" in out
    code, _, err = run("apply", tmp_path / "m", *where, "--output", tmp_path / "new.run")
    assert code == 0, err
    assert (tmp_path / "new.run").read_text().splitlines()[0].endswith(" lmtune-lambdamart")
    code, _, err = run("train", *where, "--loss", "lambdamart:no=1", "--output", tmp_path / "m")
    assert code == 2 and "rounds" in err.splitlines()[-1]


def test_features_become_a_letor_file(home: Path, tmp_path: Path) -> None:
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
    code, out, err = run(
        "features", *where, "--only-topics", "3,5", "--depth", "7", "--output", tmp_path / "f.txt"
    )
    assert code == 0, err
    data = read_letor(tmp_path / "f.txt")
    assert data.queries == ("3", "5") and data.docnos is not None
    assert list(data.docnos[:7]) == list(read_run(home / "base.run")["3"])[:7]
    assert data.labels.tolist() == [int(int(docno[1:]) < 12) for docno in data.docnos]
    described = [line.split("\t") for line in out.splitlines()]
    assert [int(number) for number, _, _ in described] == list(range(1, data.features.shape[1] + 1))
    code, _, err = run("features", *where, "--only-topics", "77", "--output", tmp_path / "f.txt")
    assert code == 2 and "'77'" in err.splitlines()[-1]
