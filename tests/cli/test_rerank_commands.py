"""``lmtune rerank``: train, apply, compare."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from made_folder import write_folder
from made_lists import made_lists
from scripts import run_command, run_python
from support import read_answer

from lmtune.collections.folds import cross_validation
from lmtune.io.letor import read_letor, write_letor
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.measures.lists import mean_over_lists, ndcg
from lmtune.rerank.data import RankingData

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
torch.set_num_threads(1)

TREES = "lambdamart:rounds=5:threads=1:min_rows=2:min_hessian=0.001"
FAST = "--net mlp:8 --epochs 3 --batch-size 8 --learning-rate 0.01"
run = partial(run_command, "rerank")


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
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(12)]
    documents = {f"d{d}": " ".join(rng.choice(words, 5 + d)) for d in range(60)}
    topics = {t: " ".join(rng.choice(words, 3)) for t in range(1, 13)}
    gains = ((t, f"d{d}", int(d < 12)) for t in topics for d in range(60))
    write_folder(folder / "c", documents, topics, gains)
    run_command("search", folder / "c", "--output", folder / "base.run", "--indexes", folder / "indexes")
    return folder


def test_a_run_is_reranked_by_what_was_learnt(home: Path) -> None:
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
    learning = "--train-topics 1-8 --depth 50 --loss listnet --validation 0.25"
    out = run("train", *where, "--output", home / "m", FAST, learning, "--epochs 10").out
    assert out.startswith("best epoch ")
    assert ("more --epochs may be better" in out) == out.startswith("best epoch 10 of 10, ")
    files = {path.name for path in (home / "m").iterdir()}
    assert files == {"model.safetensors", "model.json", "history.csv", "seconds.csv", "made.json"}
    made = json.loads((home / "m/made.json").read_text())
    assert made["versions"]["torch"] and made["documents"] == 60 and "--output" not in str(made)
    err = run("apply", home / "m", *where, "--all-topics --output", home / "new.run").err
    assert "trained on 6 of the run's topics and validated on 2: evaluate it on the others" in err
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
    run("apply", home / "m", *where, "--only-topics 9-12 --depth 5 --output", home / "some.run")
    some = read_run(home / "some.run")
    assert list(some) == ["9", "10", "11", "12"]
    assert list(some["9"])[5:] == list(base["9"])[5:]
    err = run("apply", home / "m", *where, "--output", home / "honest.run").err
    assert "they keep the run's order without --all-topics" in err
    honest = read_run(home / "honest.run")
    assert list(honest) == list(base)
    for topic, before in base.items():
        assert list(honest[topic]) == list(before if int(topic) < 9 else new[topic])
        assert int(topic) > 8 or honest[topic] == before
    err = run("apply", home / "m", *where, "--only-topics 1-8 --output", home / "no.run", status=2).err
    assert "trained or validated on every topic" in err.splitlines()[-1]
    assert len(err.splitlines()) == 1


def test_the_first_stage_is_added_with_a_weight_from_validation_topics(home: Path, tmp_path: Path) -> None:
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
    learning = ("--train-topics", "1-8", "--depth", "50", "--loss", "listnet", "--validation", "6-8")
    run("train", *where, *learning, "--output", tmp_path / "m", FAST)

    def applied(*more: str | Path) -> tuple[dict[str, dict[str, float]], str]:
        asked = ("apply", tmp_path / "m", *where, "--all-topics", *more, "--output", tmp_path / "new.run")
        err = run(*asked).err
        return read_run(tmp_path / "new.run"), err

    base, (model, _) = read_run(home / "base.run"), applied()

    def mixed(weight: float) -> dict[str, dict[str, float]]:
        found = {}
        for topic, own in base.items():
            docnos = list(own)[:50]
            columns = np.array([[run[topic][docno] for docno in docnos] for run in (base, model)])
            columns = (columns - columns.min(axis=1)[:, None]) / np.ptp(columns, axis=1)[:, None]
            scores = (1.0 - weight) * columns[0] + weight * columns[1]
            found[topic] = dict(zip(docnos, scores.tolist(), strict=True))
        return found

    half, _ = applied("--interpolate", "0.5")
    for topic, own in mixed(0.5).items():
        assert {docno: half[topic][docno] for docno in own} == pytest.approx(own, abs=1e-5)
        assert list(half[topic])[50:] == list(base[topic])[50:]

    chosen, err = applied("--interpolate", "AP")
    said = next(line for line in err.splitlines() if "model weight" in line)
    assert "optimal on the 3 validation topics" in said
    weight = json.loads((tmp_path / "new.run.made.json").read_text())["model_weight"]
    held = {t: own for t, own in read_qrels(home / "c/qrels.txt").items() if t in ("6", "7", "8")}

    def value(run: dict[str, dict[str, float]]) -> float:
        return float(ir_measures.calc_aggregate([ir_measures.AP], held, run)[ir_measures.AP])

    assert f"AP {value(chosen):.4f}" in said
    assert value(chosen) == pytest.approx(value(mixed(weight)), abs=1e-9)
    assert value(chosen) >= max(value(mixed(other)) for other in np.linspace(0.0, 1.0, 41)) - 1e-9
    # Judgments of other topics have no influence.
    (tmp_path / "q.txt").write_text(
        "".join(f"{t} 0 {d} {g}\n" for t, o in held.items() for d, g in o.items())
    )
    assert applied("--interpolate", "AP", "--qrels", tmp_path / "q.txt")[0] == chosen
    (tmp_path / "q.txt").write_text("12 0 d1 1\n6 0 d1 0\n")
    asked = ("apply", tmp_path / "m", *where, "--interpolate", "AP", "--qrels", tmp_path / "q.txt")
    err = run(*asked, "--output", tmp_path / "no.run", status=2).err
    assert "cannot select a weight" in err.splitlines()[-1]
    assert not (tmp_path / "no.run").exists()


def test_each_topic_is_reranked_by_a_model_that_never_saw_it(home: Path, tmp_path: Path) -> None:
    where = ("--indexes", home / "indexes", "--depth", "50")
    trained = (FAST, "--loss", "listnet", "--normalise", "z-score", "--measure", "ap")
    asked = ("crossval", home / "c", "--run", home / "base.run", *where, "--folds", "3", *trained)
    kept = ("--models", tmp_path / "models", "--checkpoint", tmp_path / "state")
    out, err = run(*asked, *kept, "--output", tmp_path / "cv.run")
    assert "3-fold cross-validation (topics shuffled with seed 0)" in err
    base, crossed = read_run(home / "base.run"), read_run(tmp_path / "cv.run")
    assert list(crossed) == list(base)
    folds = cross_validation(list(base), 3)
    for number, fold in enumerate(folds, 1):
        model = tmp_path / "models" / f"fold{number}"
        topics = json.loads((model / "model.json").read_text())["facts"]["topics"]
        assert sorted([*topics["train"], *topics["validation"]]) == sorted(fold.train)
        alone = ("apply", model, home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
        run(*alone, "--output", tmp_path / "fold.run")
        applied = read_run(tmp_path / "fold.run")
        for topic in base:
            assert applied[topic] == (crossed if topic in fold.test else base)[topic]
    shown = run_command("compare", home / "c/qrels.txt", home / "base.run", tmp_path / "cv.run").out
    *said, trusted = out.splitlines()
    table = shown.splitlines()
    table = table[table.index("") + 6 :]
    assert said[-len(table) :] == table
    judged = next(line for line in said if line.strip().startswith("cv ")).split()[-1]  # its judged@10
    assert trusted.startswith(f"Judged@10: {judged} (cv), ")
    [recommended] = [line for line in said if line.startswith("  Recommended")]
    assert recommended.split(maxsplit=1)[1] in ("rerank", "keep base")
    # Judgments of the test topics have no influence on their ranking, nor has going on from a checkpoint.
    changed = tmp_path / "changed.txt"
    lines = (home / "c/qrels.txt").read_text().splitlines()
    swapped = [
        line[:-1] + "10"[int(line[-1])] if line.split()[0] in folds[1].test else line for line in lines
    ]
    changed.write_text("\n".join(swapped))
    run(*asked, *kept[2:], "--output", tmp_path / "again.run")
    assert (tmp_path / "again.run").read_bytes() == (tmp_path / "cv.run").read_bytes()
    run(*asked, "--qrels", changed, "--output", tmp_path / "changed.run")
    other = read_run(tmp_path / "changed.run")
    assert all(other[topic] == crossed[topic] for topic in folds[1].test)
    assert any(other[topic] != crossed[topic] for topic in folds[0].test)


def test_topics_without_judgments_are_reranked_too(home: Path, tmp_path: Path) -> None:
    qrels = tmp_path / "qrels.txt"
    lines = (home / "c/qrels.txt").read_text().splitlines(keepends=True)
    qrels.write_text("".join(line for line in lines if line.split()[0] not in ("4", "7")))
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes", "--qrels", qrels)
    err = run("crossval", *where, "--folds 2", FAST, "--output", tmp_path / "cv.run").err
    assert "2 topics are in no fold and not trained on; the first fold's model reranks them" in err
    base, crossed = read_run(home / "base.run"), read_run(tmp_path / "cv.run")
    assert list(crossed) == list(base)
    assert list(crossed["4"]) != list(base["4"])


def test_letor_files_are_learnt_from_and_measured(letor: Path, tmp_path: Path) -> None:
    train = (
        "train",
        letor,
        "--output",
        tmp_path / "m",
        "--loss k-song:theoretical=true:cutoff=5 --warm-up 1",
    )
    lines = run(*train, FAST, "--checkpoint", tmp_path / "state").out.splitlines()
    assert ("more --epochs may be better" in lines[0]) == lines[0].startswith("best epoch 3 of 3, ")
    assert len(lines) == 3 and "left out: nDCG@1 " in lines[1] and "count 0: nDCG@1 " in lines[2]
    kept = json.loads((tmp_path / "m/model.json").read_text())
    assert kept["settings"]["loss_options"] == {"theoretical": True, "cutoff": 5}
    assert kept["features"] == ["1", "2", "3", "4", "5", "6"]
    assert (tmp_path / "state/checkpoint.json").is_file()
    first = (tmp_path / "m/model.safetensors").read_bytes()
    run(*train, FAST)
    assert (tmp_path / "m/model.safetensors").read_bytes() == first


def test_a_lambda_function_is_trained_by(letor: Path, tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "experiments" / "lambdas" / "examples.py"
    mine = tmp_path / "mine.py"
    mine.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    train = ("train", letor, FAST, "--loss", f"lambdas:{mine}:squared_hinge", "--output")
    assert "nDCG@10 (gains 2^g - 1) " in run(*train, tmp_path / "m").out
    kept = json.loads((tmp_path / "m/model.json").read_text())["settings"]
    assert kept["loss"] == "lambdas"
    assert kept["loss_options"]["function"] == f"{mine}:squared_hinge"
    # A model can be read when the function's file is gone.
    mine.unlink()
    from lmtune.rerank.reranker import load_model

    assert load_model(tmp_path / "m").scorer.label == "lambdas-mlp:8"
    err = run(*train, tmp_path / "m2", status=2).err
    assert err.splitlines()[-1].startswith(f"lmtune: {mine}: no such file")


def test_a_model_of_other_features_is_refused(letor: Path, home: Path, tmp_path: Path) -> None:
    run("train", letor, "--output", tmp_path / "m", "--loss listnet", FAST)
    apply = ("apply", tmp_path / "m", home / "c", "--run", home / "base.run")
    err = run(*apply, "--output", tmp_path / "new.run", status=2).err
    assert "other features (6, here" in err and len(err.splitlines()) == 1
    assert not (tmp_path / "new.run").exists()


def test_a_file_of_other_features_is_refused(letor: Path, home: Path, tmp_path: Path) -> None:
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
    for model, names in (("one", "length,bm25"), ("two", "length,log_length")):
        run("train", *where, "--ranker", TREES, "--only-features", names, "--output", tmp_path / model)
        run("features", *where, "--only-features", names, "--output", tmp_path / f"{model}.txt")
    run("train", letor, "--ranker", TREES, "--output", tmp_path / "letor")
    file, record = tmp_path / "one.txt", tmp_path / "one.txt.made.json"
    assert json.loads(record.read_text())["features"] == ["bm25", "length"]
    out = ("--output", tmp_path / "out")
    for model in ("one", "letor"):  # LETOR's features have no names
        run("apply", tmp_path / model, file, *out)
    export = ("export", "--to lightgbm --output", tmp_path / "exported")
    for command in (
        ("apply", tmp_path / "two", file, *out),
        ("importance", tmp_path / "two", file),
        (*export, tmp_path / "two", "--check", file),
    ):
        err = run(*command, status=2).err
        assert "one.txt: the model was trained on other features (2, here 2): 'bm25'" in err
    record.write_text("[")
    assert "one.txt.made.json: damaged record" in run("apply", tmp_path / "two", file, *out, status=2).err
    record.unlink()
    run("apply", tmp_path / "two", file, *out)


def test_losses_are_compared(letor: Path, tmp_path: Path) -> None:
    arguments = (
        letor,
        f"--losses listnet,song:gamma=0.5,{TREES} --trials 2 {FAST} --learning-rate 0.001,0.01",
    )
    out, err = run("compare", *arguments, "--output", tmp_path / "kept")
    assert "16 test queries, 4 without a relevant document" in err
    title, answer = read_answer(out)
    assert title.startswith("3 systems, ") and any("listnet" in text for text in answer.values())
    lines = out.splitlines()[7:]
    assert lines[0].split()[:3] == ["Empty", "queries", "System"]
    assert [line.split()[3] for line in lines[1:7]] == ["listnet", "song:gamma=0.5", TREES] * 2
    assert "Holm's correction over 3 pairs" in out
    names = {path.name for path in (tmp_path / "kept").iterdir()}
    tables = {f"table.{suffix}" for suffix in ("txt", "md", "tex", "csv", "json")}
    assert names == tables | {"made.json", "history.csv", "convergence.svg", "convergence.png"}
    records = json.loads((tmp_path / "kept/table.json").read_text())
    skip, zero = (
        {(r["loss"], r["measure"]): r["trials"] for r in records if r["empty"] == empty}
        for empty in ("skip", "zero")
    )
    for key, values in skip.items():  # 12 of 16 queries have something to find
        assert np.array(values) * 12 / 16 == pytest.approx(zero[key])
    history = (tmp_path / "kept/history.csv").read_text().splitlines()
    assert len(history) == 1 + 2 * 2 * 3
    assert json.loads(run("compare", *arguments, "--format json").out) == records


def test_folds_are_measured_together(letor: Path, tmp_path: Path) -> None:
    for fold in ("Fold1", "Fold2"):
        (tmp_path / fold).mkdir()
        for file in letor.glob("*.txt"):
            (tmp_path / fold / file.name).write_bytes(file.read_bytes())
    arguments = ("--losses", "listnet", "--trials", "1", FAST, "--format", "json")
    both = run("compare", tmp_path, *arguments).out
    one = run("compare", letor, *arguments).out
    assert [r["mean"] for r in json.loads(both)] == pytest.approx([r["mean"] for r in json.loads(one)])


def test_a_model_of_each_fold_scores_its_test_lists(tmp_path: Path) -> None:
    tests = []
    for fold in (1, 2):
        (tmp_path / f"Fold{fold}").mkdir()
        for seed, name in enumerate(["train", "vali", "test"]):
            made = made_lists(10 * fold + seed, queries=8)
            names = tuple(f"{fold}-{query}" for query in made.queries)
            docnos = tuple(f"d{row}" for row in range(made.labels.size))
            tests.append(replace(made, queries=names, docnos=docnos if name == "test" else None))
            write_letor(tmp_path / f"Fold{fold}" / f"{name}.txt", tests[-1])
    options = (FAST, "--measure", "ndcg@4")
    out = run("train", tmp_path, *options, "--output", tmp_path / "m").out
    assert [line.split(":")[0] for line in out.splitlines()[:2]] == ["Fold1", "Fold2"]
    report = out.splitlines()[-1]
    crossed = run("crossval", tmp_path, *options, "--output", tmp_path / "cv.run", "--models", tmp_path / "m")
    assert crossed.out.splitlines() == out.splitlines()[2:]
    assert all(line in crossed.err for line in out.splitlines()[:2])
    found, means = read_run(tmp_path / "cv.run"), []
    for fold, data in ((1, tests[2]), (2, tests[5])):
        scored, test = tmp_path / f"scores{fold}", tmp_path / f"Fold{fold}/test.txt"
        run("apply", tmp_path / f"m/Fold{fold}", test, "--output", scored)
        assert {topic: list(own) for topic, own in read_run(scored).items()} == {
            topic: list(found[topic]) for topic in data.queries
        }
        bare = tmp_path / "bare.txt"
        write_letor(bare, replace(data, docnos=None))
        run("apply", tmp_path / f"m/Fold{fold}", bare, "--output", scored)
        scores = np.array([float(line) for line in scored.read_text().splitlines()])
        means += np.nan_to_num(ndcg(scores, data, [4])[:, 0]).tolist()
    assert f"nDCG@4 {np.mean(means):.4f} " in report
    seen = run("apply", tmp_path / "m/Fold1", tmp_path / "Fold1/train.txt", "--output", scored)
    assert "8 of 8 queries have identifiers of the model's training queries" in seen.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("train", "LETOR"), "--output"),
        (("train", "--output", "m"), "LETOR files"),
        (("train", "nowhere", "--output", "m"), "nowhere"),
        (("train", "LETOR", "--output", "m", "--loss", "no"), "unknown loss"),
        (("train", "LETOR", "--output", "m", "--loss", "mrr"), "unknown loss: 'mrr'"),
        (("train", "LETOR", "--output", "m", "--loss", "song:gamma"), "NAME:OPTION=VALUE"),
        (("train", "LETOR", "--output", "m", "--loss", "lambdas"), "cannot parse the lambda function's name"),
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
        (("apply", "LETOR"), "--output"),
        (("apply", "LETOR", "--output", "m"), "--run"),
        (("apply", "FILE", "FILE", "--output", "o", "--interpolate", "AP"), "--interpolate without --run"),
        (("apply", "FILE", "LETOR", "--run", "FILE", "--output", "o", "--interpolate", "1.5"), "from 0 to 1"),
        (
            ("apply", "FILE", "LETOR", "--run", "FILE", "--output", "o", "--interpolate", "ERR@10"),
            "no exact line",
        ),
        (
            ("apply", "FILE", "LETOR", "--run", "FILE", "--output", "o", "--qrels", "q"),
            "--qrels has no effect",
        ),
        (("crossval", "--output", "m"), "LETOR files"),
        (("crossval", "LETOR", "--output", "m"), "no folds"),
        (("crossval", "LETOR", "--output", "m", "--from", "tuned"), "--from"),
        (("crossval", "LETOR", "--output", "m", "--folds", "3"), "the LETOR files' own folds"),
        (("train", "LETOR", "--output", "m", "--measure", "wta"), "the measure is a cost"),
        *(
            (("train", "LETOR", "--output", "m", *words), f"{words[-2]} has no effect with {name}")
            for words, name in (
                (("--ranker", "lambdamart", "--net", "attention"), "lambdamart"),
                (("--ranker", "lambdamart", "--dropout", "0.5"), "lambdamart"),
                (("--warm-up-loss", "cross-entropy"), "network"),
                (("--negatives", "3-6"), "network"),
                (("--max-length", "99"), "mlp:64-32"),
            )
        ),
    ],
)
def test_bad_input_is_one_line(letor: Path, tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    paths = {"LETOR": letor, "FILE": letor / "test.txt", "m": tmp_path / "m", "o": tmp_path / "o"}
    given = [str(paths.get(word, word)) for word in arguments]
    last = run(given, status=2).err.splitlines()[-1]
    assert last.startswith("lmtune: ") and told in last
    assert not list(tmp_path.iterdir())


@pytest.mark.first_case
@pytest.mark.parametrize("command", ["train x --output m", "apply m", "compare x"])
def test_without_the_extra(command: str, tmp_path: Path) -> None:
    text = (
        "import sys; sys.modules['torch'] = None; from lmtune.cli import main; "
        "sys.argv = ['lmtune', 'rerank', *sys.argv[1:]]; main()"
    )
    assert run_python("-c", text, *command.split(), status=2, cwd=tmp_path).err == (
        "lmtune: rerank needs the 'neural' extra, which is not installed; "
        "accepted: pip install -c constraints.txt '.[neural]' in a checkout of lmtune\n"
    )


def test_missing_inputs_are_reported_before_torch_is_imported(home: Path, letor: Path) -> None:
    of_run, output = f"{home / 'c'} --run {home / 'base.run'}", f"--output {home / 'out'}"
    commands = {
        f"{command} {where} {output}": message
        for command in ("train", "crossval", "compare")
        for where, message in (
            ("none", "none: no such folder"),
            (f"none --run {home / 'base.run'}", "no such collection: 'none'"),
            (f"{home / 'c'} --run none", "none: cannot read"),
            (f"{of_run} --teacher none", "none: cannot read"),
        )
    }
    commands |= {
        f"{command} {output}": "none: no model here"
        for command in (
            f"apply none {of_run}",
            f"importance none {of_run}",
            f"compare {letor} --also none",
            "export none --to onnx",
        )
    }
    model = letor / "test.txt"  # any file
    commands |= {
        f"{command} {output}": "none: cannot read"
        for command in (
            f"apply {model} none",
            f"importance {model} none",
            f"export {model} --to onnx --check none",
            f"export {model} --to onnx --feature-names none",
        )
    }
    text = (
        "import sys; from lmtune.cli.main import app\n"
        "for line in sys.argv[1:]:\n"
        "    status = app.main(['rerank', *line.split()], standalone_mode=False)\n"
        "    print(status, 'torch' in sys.modules)\n"
    )
    out, err = run_python("-c", text, *commands)
    assert out == "2 False\n" * len(commands)
    for (command, message), line in zip(commands.items(), err.splitlines(), strict=True):
        assert line.startswith(f"lmtune: {message}"), command


@pytest.mark.parametrize(
    "more", ["--depth 5", "--all-topics", "--only-topics 1", "--bf16", "--interpolate 0.5", "--text {title}"]
)
def test_options_of_runs_are_refused_for_letor_files(letor: Path, tmp_path: Path, more: str) -> None:
    file, out = letor / "test.txt", ("--output", tmp_path / "out")
    err = run("apply", file, file, more, *out, status=2).err
    assert err.startswith(f"lmtune: {more.split()[0]} without --run; ")


def test_trees_are_grown_and_applied(home: Path, tmp_path: Path) -> None:
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
    out = run("train", *where, "--ranker", TREES, "--output", tmp_path / "m").out
    old = run("train", *where, "--loss", TREES, "--output", tmp_path / "old")
    assert old.out == out and "--ranker" in old.err
    assert "trees, validation nDCG@10 (gains 2^g - 1)" in out
    run("apply", tmp_path / "m", *where, "--all-topics --output", tmp_path / "new.run")
    assert (tmp_path / "new.run").read_text().splitlines()[0].endswith(" lmtune-lambdamart")
    asked = ("importance", tmp_path / "m", *where, "--all-topics", "--measure", "ap", "--repeats", "2")
    out = run(*asked, "--output", tmp_path / "worth").out
    assert out.splitlines()[0].split() == ["Feature", "AP", "lost", "95%", "CI", "adjusted", "p", "gain"]
    rows = json.loads((tmp_path / "worth/table.json").read_text())
    assert sum(row["gain"] for row in rows) == pytest.approx(1.0)
    assert rows[0]["loss"] == max(row["loss"] for row in rows) > 0.0
    assert (tmp_path / "worth/importance.svg").is_file()
    err = run(*asked[:7], "--output", tmp_path / "none", status=2).err
    assert "trained or validated on every topic" in err and not (tmp_path / "none").exists()
    err = run("train", *where, "--ranker lambdamart:no=1 --output", tmp_path / "m", status=2).err
    assert "rounds" in err.splitlines()[-1]


def test_features_become_a_letor_file(home: Path, tmp_path: Path) -> None:
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
    out = run("features", *where, "--only-topics 3,5 --depth 7 --output", tmp_path / "f.txt").out
    data = read_letor(tmp_path / "f.txt")
    assert data.queries == ("3", "5") and data.docnos is not None
    assert list(data.docnos[:7]) == list(read_run(home / "base.run")["3"])[:7]
    assert data.labels.tolist() == [int(int(docno[1:]) < 12) for docno in data.docnos]
    described = [line.split("\t") for line in out.splitlines()]
    assert [int(number) for number, _, _ in described] == list(range(1, data.features.shape[1] + 1))
    err = run("features", *where, "--only-topics 77 --output", tmp_path / "f.txt", status=2).err
    assert "'77'" in err.splitlines()[-1]


def test_windows_of_neighbouring_query_terms_are_learnt_from(home: Path, tmp_path: Path) -> None:
    """The index gets positions on demand, and the model knows which windows it needs."""
    where = (home / "c", "--run", home / "base.run", "--indexes", tmp_path / "indexes")
    windows = ("--fields", "#1,#uw8")
    out = run("features", *where, *windows, "--output", tmp_path / "f.txt").out
    names = [line.split("\t")[1] for line in out.splitlines()]
    counts = read_letor(tmp_path / "f.txt").features[
        :, [names.index("#1_tf_sum"), names.index("#uw8_tf_sum")]
    ]
    assert (counts[:, 0] <= counts[:, 1]).all() and (counts[:, 0] < counts[:, 1]).any()
    run("train", *where, *windows, "--train-topics 1-8", FAST, "--output", tmp_path / "m")
    run("apply", tmp_path / "m", *where, "--output", tmp_path / "new.run")
    err = run("features", *where, "--fields #1,#1 --output", tmp_path / "twice.txt", status=2).err
    assert "bad field of documents: '#1'" in err
    err = run_command("tune", home / "c", "--model fields --fields #1", status=2).err
    assert "--model sdm weights windows" in err


def write_teacher(path: Path, topics: range, *, short_first: bool) -> Path:
    """Write the run of a teacher that puts short documents first, or last."""
    ranks = [(t, d, 30.0 - d if short_first else d - 30.0) for t in topics for d in range(60)]
    path.write_text("".join(f"{t} Q0 d{d} 1 {score} teacher\n" for t, d, score in ranks))
    return path


@pytest.mark.slow
def test_a_network_learns_a_teachers_order_whatever_the_labels_say(home: Path, tmp_path: Path) -> None:
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes", "--folds", "3")
    means = {}
    for short_first in (True, False):
        teacher = write_teacher(tmp_path / f"{short_first}.run", range(1, 13), short_first=short_first)
        for loss in ("margin-mse@teacher", "ranknet@teacher", "listnet@teacher:temperature=4"):
            output = tmp_path / f"{loss}-{short_first}.run"
            learning = ("--teacher", teacher, "--loss", loss, FAST, "--epochs", "25")
            run("crossval", *where, *learning, "--output", output)
            ranked, qrels = read_run(output), read_qrels(home / "c/qrels.txt")
            measured = ir_measures.calc_aggregate([ir_measures.AP], qrels, ranked)
            means[loss, short_first] = measured[ir_measures.AP]
    for loss, _ in means:
        assert means[loss, True] > 0.7 > 0.3 > means[loss, False], means


def test_a_teachers_loss_goes_beside_one_on_labels(home: Path, tmp_path: Path) -> None:
    teacher = write_teacher(tmp_path / "t.run", range(1, 13), short_first=False)
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes", "--teacher", teacher)
    losses = "listnet,listnet@teacher:weight=1e-9:beside=listnet,listnet@teacher:weight=0.5:beside=listnet"
    out = run("compare", *where, "--losses", losses, "--trials 1", FAST, "--format json").out
    rows = [row for row in json.loads(out) if row["measure"].endswith("@10")]
    labels, almost, half = (row["mean"] for row in rows)
    assert almost == pytest.approx(labels, abs=1e-3)
    assert half != pytest.approx(labels, abs=1e-3)
    out = run("compare", *where, "--losses listnet --trials 1", FAST).out
    assert out.splitlines()[-1].startswith("Judged@10: ")
    assert f"({home / 'base.run'}, which the losses rerank)" in out


def test_topics_count_by_their_weights(home: Path, tmp_path: Path) -> None:
    """Half the topics' teacher likes short documents, half long ones: the heavier half is followed."""
    half = [
        write_teacher(tmp_path / f"{short}.run", range(*ends), short_first=short)
        for short, ends in ((True, (1, 7)), (False, (7, 13)))
    ]
    teacher = tmp_path / "both.run"
    teacher.write_text("".join(path.read_text() for path in half))
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes", "--folds", "3")
    learning = ("--teacher", teacher, "--loss", "ranknet@teacher", FAST, "--epochs", "25")
    means = {}
    for heavy in (1, 7):
        weights = tmp_path / f"{heavy}.tsv"
        weights.write_text("".join(f"{t}\t{1000 if heavy <= t < heavy + 6 else 1}\n" for t in range(1, 13)))
        output = tmp_path / f"{heavy}.out.run"
        out = run("crossval", *where, *learning, "--topic-weights", weights, "--output", output).out
        assert "topic weights apply to fitting, not to means" in out
        measured = ir_measures.calc_aggregate(
            [ir_measures.AP], read_qrels(home / "c/qrels.txt"), read_run(output)
        )
        means[heavy] = measured[ir_measures.AP]
    assert means[1] > 0.7 > 0.3 > means[7], means


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--loss", "song", "--topic-weights", "{all}"), "the loss does not support topic weights: 'song'"),
        (("--topic-weights", "{some}"), "topic 12 has no weight"),
        (("--loss", "ranknet@teacher"), "the loss needs a teacher's scores: 'ranknet@teacher'"),
        (("--loss", "song@teacher"), "unknown loss: 'song@teacher'"),
        (("--loss", "ranknet@teacher:weight=0"), "weight"),
        (
            ("--loss", "ranknet@teacher:beside=song:weight=0.5", "--teacher", "{teacher}"),
            "bad option beside of ranknet@teacher",
        ),
        (("--loss", "ranknet@teacher", "--teacher", "{few}"), "the teacher lacks a topic: '12'"),
        (("--negatives", "0-10"), "bad range of ranks: '0-10'; accepted: FIRST-LAST, from 1, such as 10-100"),
    ],
)
def test_refused_options(arguments: tuple[str, ...], message: str, home: Path, tmp_path: Path) -> None:
    files = {"teacher": range(1, 13), "few": range(1, 12)}
    named = {n: write_teacher(tmp_path / n, topics, short_first=True) for n, topics in files.items()}
    where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
    for name, last in (("all", 12), ("some", 11)):
        named[name] = tmp_path / f"{name}.tsv"
        named[name].write_text("".join(f"{t}\t{t}\n" for t in range(1, last + 1)))
    given = [argument.format(**named) for argument in arguments]
    assert message in run("train", *where, *given, FAST, "--output", tmp_path / "m", status=2).err
    assert not (tmp_path / "m").exists()


class TestExport:
    def test_from_a_run_to_an_engine(self, home: Path, tmp_path: Path) -> None:
        where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
        run("train", *where, "--ranker", TREES, "--output", tmp_path / "trees")
        text = (tmp_path / "trees" / "trees.txt").read_text()
        assert "feature_names=ql_tuned " in text
        run("features", *where, "--output", tmp_path / "rows.txt")
        output = ("--output", tmp_path / "plugin", "--check", tmp_path / "rows.txt")
        out, err = run("export", tmp_path / "trees", "--to elasticsearch", *output)
        assert out.startswith("scores match, by the plugin's rules: ")
        assert "such as ql_tuned: see README.txt" in err
        files = {path.name for path in (tmp_path / "plugin").iterdir()}
        assert files == {"featureset.json", "model.json", "README.txt", "made.json"}
        assert "ql_tuned: log query likelihood" in (tmp_path / "plugin/README.txt").read_text()
        # What LightGBM reads is read back, and reranks the run in the same order.
        run("export", tmp_path / "trees", "--to lightgbm --output", tmp_path / "l")
        for number, model in enumerate([tmp_path / "trees", tmp_path / "l/model.txt"]):
            how = ("--all-topics", "--run-tag", "a", "--output", tmp_path / f"{number}.run")
            run("apply", model, *where, *how)
        assert (tmp_path / "0.run").read_bytes() == (tmp_path / "1.run").read_bytes()

    def test_names_of_letor_features(self, letor: Path, tmp_path: Path) -> None:
        run("train", letor, "--ranker", TREES, "--output", tmp_path / "m")
        (tmp_path / "names").write_text("bm25\nlength\na\nb\nc\nd\n")
        named = ("--feature-names", tmp_path / "names", "--model-name", "mine")
        to = ("--to", "solr", "--output", tmp_path / "s", "--check", letor / "test.txt")
        out, err = run("export", tmp_path / "m", *to, *named)
        assert out[:12] == "scores match", err
        made = json.loads((tmp_path / "s/model.json").read_text())
        assert made["name"] == "mine"
        assert {"name": "bm25"} in made["features"]

    def test_refuse_an_unknown_target(self, tmp_path: Path) -> None:
        (tmp_path / "m").touch()
        err = run("export", tmp_path / "m", "--to sphinx --output", tmp_path / "o", status=2).err
        assert "unknown target: 'sphinx'; accepted: onnx, lightgbm" in err

    def test_models_of_other_programs_are_compared(self, letor: Path, tmp_path: Path) -> None:
        weights = "## Coordinate Ascent\n1:1.0 2:0.0 6:0.0\n"
        (tmp_path / "weights.txt").write_text(weights)
        (tmp_path / "reversed.txt").write_text(weights.replace("1:1.0", "1:-1.0"))
        also = f"{tmp_path / 'weights.txt'},{tmp_path / 'reversed.txt'}"
        losses = ("--losses", "listnet", "--trials", "2", "--empty", "skip", "--format", "csv")
        out = run("compare", letor, *losses, "--also", also, "--net mlp:8 --epochs 3").out
        test = read_letor(letor / "test.txt")
        data = RankingData.from_lengths(test.features, test.labels, np.diff(test.starts))
        expected = mean_over_lists(ndcg(data.features[:, 0], data, [10]))[0]
        rows = [line.split(",") for line in out.splitlines()]
        values = [float(row[-1]) for row in rows if row[1] == "weights.txt" and row[2].endswith("@10")]
        assert values == pytest.approx([expected] * 2)
        (tmp_path / "weights.txt").write_text("no model")
        err = run("compare", letor, *losses, "--also", also, "--net mlp:8 --epochs 3", status=2).err
        assert "weights.txt: not a model: 'no model'" in err

    def test_folders_of_models_are_compared(self, letor: Path, home: Path, tmp_path: Path) -> None:
        trained = run("train", letor, "--ranker", TREES, "--output", tmp_path / "m").out
        how = "--losses listnet --trials 1 --empty skip --format csv --net mlp:8 --epochs 3 --also"
        out = run("compare", letor, how, tmp_path / "m").out
        [value] = [row.split(",")[-1] for row in out.splitlines() if "skip,m," in row and "@10" in row]
        assert f"nDCG@10 {float(value):.4f}" in trained.splitlines()[1]
        where = (home / "c", "--run", home / "base.run", "--indexes", home / "indexes")
        err = run("compare", *where, how, tmp_path / "m", status=2).err
        assert "m: the model was trained on other features (6, here 36)" in err
        run("train", *where, "--ranker", TREES, "--output", tmp_path / "of-run")
        err = run("compare", *where, how, tmp_path / "of-run").err
        assert "12 of 12 queries have identifiers of of-run's training queries" in err
        (tmp_path / "m").rename(tmp_path / "listnet")
        err = run("compare", letor, how, tmp_path / "listnet", status=2).err
        assert "a name is listed twice: 'listnet'" in err
        assert "the model reads text" in run("compare", letor, how, "text:some", status=2).err

    @pytest.mark.parametrize(
        ("names", "message"),
        [("", "wrong number of feature names: 0; accepted: 6"), ("\xff", "names:1: invalid UTF-8")],
    )
    def test_refuse_bad_names_of_features(
        self, letor: Path, tmp_path: Path, names: str, message: str
    ) -> None:
        run("train", letor, "--ranker", TREES, "--output", tmp_path / "m")
        (tmp_path / "names").write_bytes(names.encode("latin-1"))
        named = ("--to lightgbm --feature-names", tmp_path / "names", "--output", tmp_path / "l")
        assert message in run("export", tmp_path / "m", *named, status=2).err
        assert not (tmp_path / "l").exists()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a prior that shows the relevant documents, without one for d59, and a run."""
    folder = tmp_path_factory.mktemp("custom")
    (folder / "prior.tsv").write_text("".join(f"d{d}\t{int(d < 12)}\n" for d in range(59)))
    (folder / "other.run").write_text("".join(f"{t} Q0 d7 1 {t + 0.5} a\n" for t in range(1, 13)))
    return folder


class TestCustomFeatures:
    def where(self, home: Path, files: Path) -> tuple[str | Path, ...]:
        prior, other = f"prior={files / 'prior.tsv'}", f"other={files / 'other.run'}"
        custom = ("--feature", prior, "--feature", other)
        return (home / "c", "--run", home / "base.run", "--indexes", home / "indexes", *custom)

    def test_a_model_learns_from_them(self, home: Path, files: Path) -> None:
        where, split = self.where(home, files), ("--train-topics", "1-8", "--ranker", TREES)
        run("train", *where, *split, "--output", files / "m")
        assert " run_log_rank prior other\n" in (files / "m/trees.txt").read_text()
        model = json.loads((files / "m/model.json").read_text())
        assert model["facts"]["custom"] == {"prior": "documents", "other": "run"}
        run("apply", files / "m", *where, "--output", files / "better.run")
        better = read_run(files / "better.run")
        best = [max(better[topic], key=better[topic].__getitem__) for topic in ("9", "10", "11", "12")]
        assert all(int(docno[1:]) < 12 for docno in best)
        err = run("apply", files / "m", *where[:-2], "--output", files / "better.run", status=2).err
        accepted = "--feature prior=FILE (documents) --feature other=FILE (run)"
        assert f"other custom features: 'prior'; accepted: {accepted}" in err

    def test_values_are_in_the_file_of_features(self, home: Path, files: Path) -> None:
        out, err = run("features", *self.where(home, files), "--output", files / "f.txt")
        assert f"\n37\tprior\tof {files / 'prior.tsv'}\n38\tother\tof " in out
        assert "documents have no value of prior in" in err
        rows = read_letor(files / "f.txt")
        numbers = [int(docno[1:]) for docno in rows.docnos or ()]
        assert rows.features[:, 36].tolist() == [float(number < 12) for number in numbers]
        # A document that the run lacks has the topic's lowest score: here its only one.
        topics = np.repeat([int(query) for query in rows.queries], np.diff(rows.starts))
        assert (rows.features[:, 37] == topics + 0.5).all()

    def test_crossval_takes_them(self, home: Path, files: Path) -> None:
        how = ("--folds", "2", "--ranker", TREES, "--output", files / "crossed.run", "--format", "csv")
        run("crossval", *self.where(home, files), *how)

    @pytest.mark.parametrize(
        ("custom", "message"),
        [
            ("bm25=prior.tsv", "a feature of this name exists: 'bm25'"),
            ("prior", "bad --feature: 'prior'; accepted: NAME=FILE"),
            ("a=text.txt", "text.txt: not a file of a feature: 'some words'"),
            ("a=short.run", "short.run: the run of feature a lacks a topic: '2'"),
        ],
    )
    def test_refuse(
        self, home: Path, files: Path, monkeypatch: pytest.MonkeyPatch, custom: str, message: str
    ) -> None:
        monkeypatch.chdir(files)
        Path("text.txt").write_text("some words\n")
        Path("short.run").write_text("1 Q0 d7 1 2.0 a\n")
        where = self.where(home, files)[:5]
        assert message in run("train", *where, "--feature", custom, "--output out", status=2).err

    def test_refuse_with_a_model_of_text(self) -> None:
        from lmtune.errors import InputError
        from lmtune.rerank.settings import Settings, TextOptions
        from lmtune.rerank.sources import FeatureSettings
        from lmtune.rerank.text.training import TextLearner

        learner = TextLearner(Settings(network="text:some"))
        with pytest.raises(InputError, match="--feature has no effect with text:some"):
            learner.source(FeatureSettings(custom=("a=b",)), TextOptions())

    def test_refuse_without_a_run(self, letor: Path, files: Path) -> None:
        err = run("train", letor, "--feature a=b --output", files / "n", status=2).err
        assert "--feature without --run" in err
