"""What a page is told, against lmtune's own measures, the formula, and brute force."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel
from scripts import run_command
from support import random_collection

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.cli import explore as cli_explore
from lmtune.collections.collection import Collection
from lmtune.errors import InputError
from lmtune.explorer import answers, background
from lmtune.explorer.background import OutdatedError, Surfaces, Turns, coarse_first
from lmtune.explorer.opening import Shown, open_collection, open_runs, way_up
from lmtune.explorer.server import exported
from lmtune.explorer.view import Mark, View
from lmtune.index.analysis import Analyzer
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.measures.significance.near_best import loss_bounds
from lmtune.models.model import find_model
from lmtune.tuning.space import ParameterSpace

SETTING = {"lambda": 0.3, "mu": 40.0}
PINNED = {"lambda": 0.05, "mu": 900.0}


def view_of(model: str, documents: int = 120, topics: int = 6) -> View:
    index, queries, qrels = random_collection(3, documents=documents, topics=topics)
    pool = CandidatePool.build(index, queries, qrels, model=model)
    measures = tuple(parse_measures(["AP", "P@5"]))
    default = Mark("default", "", find_model(model).default)
    return View(pool, ParameterSpace.of(model), measures, model, queries, (default,), ("c",))


@pytest.fixture(scope="module")
def view() -> View:
    return view_of("two-stage")


def test_values_are_those_of_measure(view: View) -> None:
    found = answers.measured(view, SETTING)
    expected = lmtune.measure(view.pool, SETTING, measures=["AP", "P@5"])
    assert np.array_equal(found["values"], expected.to_numpy())
    assert found["means"] == expected.mean().tolist()
    assert found["command"] == "lmtune search c --model two-stage --set lambda=0.3 --set mu=40.0"
    assert found["changed"] is False


@pytest.mark.parametrize(
    ("setting", "said"),
    [({"lambda": 2}, "lambda"), ({"mu": -1}, "mu"), ({"nu": 1}, "nu"), ({"mu": float("nan")}, "mu")],
)
def test_a_setting_outside_its_range_is_refused(setting: dict[str, float], said: str, view: View) -> None:
    with pytest.raises(InputError, match=said):
        answers.measured(view, setting)


def test_rankings_are_those_of_rank(view: View) -> None:
    found = answers.ranked(view, view.pool.topics[2], SETTING, PINNED)
    for side, setting in (("setting", SETTING), ("pinned", PINNED)):
        [own] = rank(view.pool, setting, topics=[view.pool.topics[2]], hits=50)
        assert [row["docno"] for row in found[side]] == list(own.docnos)
        assert [row["score"] for row in found[side]] == pytest.approx(list(own.scores), rel=1e-15)
    then = [row["docno"] for row in found["pinned"]]
    for row in found["setting"]:
        assert row["other"] == (then.index(row["docno"]) + 1 if row["docno"] in then else row["other"])
    assert {row["gain"] for row in found["setting"]} <= {-1, 0, 1, 2, 3}


def test_terms_add_up_to_the_score_by_the_formula(view: View) -> None:
    topic = view.pool.topics[1]
    docno = answers.ranked(view, topic, SETTING, PINNED)["setting"][0]["docno"]
    found = answers.explained(view, topic, docno, SETTING, PINNED)
    assert found["isSum"]
    for own in found["terms"]:
        [tf], [p] = own["tf"], own["value"]
        smoothed = 0.7 * (tf + 40 * p) / (found["length"] + 40) + 0.3 * p
        assert own["contribution"] == pytest.approx(own["times"] * np.log(smoothed), rel=1e-12)
    assert sum(own["contribution"] for own in found["terms"]) == pytest.approx(found["score"], rel=1e-12)
    other = answers.explained(view, topic, docno, PINNED, SETTING)
    assert [own["pinned"] for own in found["terms"]] == [own["contribution"] for own in other["terms"]]
    assert (found["pinned"], found["score"]) == (other["score"], other["pinned"])
    assert found["pinned"] != found["score"]


@pytest.mark.parametrize("model", ["bm25", "jelinek-mercer", "lucene-dirichlet"])
def test_every_models_terms_add_up(model: str) -> None:
    view = view_of(model)
    topic = view.pool.topics[0]
    top = answers.ranked(view, topic, view.default, view.default)["setting"]
    assert answers.explained(view, topic, top[3]["docno"], view.default, view.default)["isSum"]


def test_a_document_that_is_no_candidate_is_refused(view: View) -> None:
    with pytest.raises(InputError, match="not among the topic's candidates"):
        answers.explained(view, view.pool.topics[0], "nowhere", SETTING, PINNED)


def test_a_comparison_is_that_of_compare(view: View) -> None:
    found = answers.compared(view, SETTING, PINNED, "")
    values = [lmtune.measure(view.pool, own, measures=["AP", "P@5"]) for own in (PINNED, SETTING)]
    expected = lmtune.compare(values[0], {"s": values[1]}).contrasts
    for own, contrast in zip(found["contrasts"], expected, strict=True):
        assert own["difference"] == contrast.difference
        assert own["p"] == contrast.tested["t"].p_value
        assert own["interval"] == list(contrast.interval)
    itself = answers.compared(view, PINNED, PINNED, "")
    assert all((own["difference"], own["p"]) == (0.0, None) for own in itself["contrasts"])
    assert itself["notes"] == []


def test_halves_are_dealt_evenly_and_a_comparison_is_of_the_topics_that_count(view: View) -> None:
    half = answers.description(view)["half"]
    topics = view.pool.topics
    assert len(half) == len(topics)
    assert half.count("1") == len(topics) // 2
    others = half.translate(str.maketrans("01", "10"))
    found = answers.compared(view, SETTING, PINNED, others)
    [now, then] = (
        lmtune.measure(view.pool, own, measures=["AP"])["AP"].to_numpy()[[mark == "1" for mark in others]]
        for own in (SETTING, PINNED)
    )
    assert found["contrasts"][0]["p"] == pytest.approx(ttest_rel(now, then).pvalue, rel=1e-12)
    assert found["contrasts"][0]["difference"] == pytest.approx((now - then).mean(), abs=1e-15)
    few = view_of("two-stage", documents=30, topics=5)
    assert answers.description(few)["half"] == ""  # two topics cannot be tested


def test_a_setting_is_not_tested_against_itself(view: View) -> None:
    found = answers.compared(view, SETTING, dict(SETTING), "")
    assert [(own["p"], own["interval"]) for own in found["contrasts"]] == [(None, [None, None])] * 2
    assert [(own["better"], own["difference"]) for own in found["contrasts"]] == [(0, 0.0)] * 2


@pytest.mark.first_case
@pytest.mark.parametrize("chosen", ["", "110" * 8])
def test_the_near_optimal_region_of_the_topics(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MARGIN", 0.025)
    view = view_of("two-stage", documents=60, topics=24)
    surfaces = Surfaces(view, Turns())
    found = wait_for(
        surfaces, view, setting=view.default, measure="AP", smooth=False, topics=chosen, plane="lambda,mu"
    )
    surfaces.end()
    which = [own == "1" for own in chosen or "1" * 24]
    values = measure_settings(view.pool, np.array(found["settings"]), view.measures)[which, :, 0]
    assert found["values"] == pytest.approx(values.mean(axis=0).tolist(), rel=1e-15)
    bounds = loss_bounds(values)
    assert found["near"] == (bounds <= 0.025).tolist()
    assert (found["least"], found["margin"]) == (pytest.approx(bounds.min()), 0.025)
    assert 0 < sum(found["near"]) < len(bounds)


def wait_for(surfaces: Surfaces, view: View, **asked: Any) -> dict[str, Any]:
    for _ in range(3000):
        found = answers.surface(view, surfaces, **asked)
        if found["done"] >= 1:
            assert not found["error"]
            return found
        time.sleep(0.01)
    raise AssertionError("the surface was never done")


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("model", "plane"), [("two-stage", "lambda,mu"), ("sdm", ""), ("sdm", "unordered,mu_ordered")]
)
def test_surfaces_hold_every_settings_value(model: str, plane: str) -> None:
    view = view_of(model, documents=60)
    surfaces = Surfaces(view, Turns())
    found = wait_for(
        surfaces, view, setting=view.default, measure="P@5", smooth=False, topics="", plane=plane
    )
    settings = np.array(found["settings"])
    expected = measure_settings(view.pool, settings, view.measures)[:, :, 1].mean(axis=0)
    assert found["values"] == pytest.approx(expected.tolist(), rel=1e-15)
    assert settings.shape[0] == found["shape"][0] * found["shape"][1]
    smooth = wait_for(surfaces, view, setting=view.default, measure="AP", smooth=True, topics="", plane=plane)
    assert np.ptp(smooth["values"]) > 0


def test_runs_keep_the_names_they_are_given(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 0 d 1\n")
    for name in ("one", "two"):
        (tmp_path / name).write_text("1 Q0 d 1 2 x\n1 Q0 e 2 1 x\n")
    view = open_runs([tmp_path / "qrels", Path(f"LM={tmp_path / 'one'}"), tmp_path / "two"], Shown())
    assert set(view.space.names) == {"LM", "two"}


@pytest.mark.parametrize(("names", "plane"), [("abc", "a,b"), ("abcd", "b,d")])
def test_a_triangle_holds_every_mixture_of_runs(names: str, plane: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    scores = {name: rng.random((5, 30)) for name in names}
    for name, own in scores.items():
        rows = [f"{t} Q0 d{d} 0 {own[t, d].item()!r} x\n" for t in range(5) for d in range(30)]
        (tmp_path / f"{name}.run").write_text("".join(rows))
    relevant = rng.random((5, 30)) < 0.3
    rows = [f"{t} 0 d{d} {relevant[t, d]:d}\n" for t in range(5) for d in range(30)]
    (tmp_path / "qrels").write_text("".join(rows))
    files = [tmp_path / name for name in ("qrels", *(f"{name}.run" for name in names))]
    view = open_runs(files, Shown(measures=("P@5",)))
    surfaces = Surfaces(view, Turns())
    setting = dict(zip(names, (0.4, 0.3, 0.2, 0.1), strict=False))
    found = wait_for(surfaces, view, setting=setting, measure="P@5", smooth=False, topics="", plane=plane)
    surfaces.end()
    each = found["shape"][0]
    known = [at for at, value in enumerate(found["values"]) if value is not None]
    assert len(known) == each * (each + 1) // 2
    settings = np.array(found["settings"])[known]
    assert settings.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    chosen = [names.index(name) for name in plane.split(",")]
    assert len(np.unique(settings[:, chosen].round(9), axis=0)) == len(known)
    rest = [place for place in range(len(names)) if place not in chosen]
    part = setting[names[rest[0]]] / sum(setting[names[place]] for place in rest)
    assert settings[:, rest[0]] == pytest.approx(part * settings[:, rest].sum(axis=1), abs=1e-9)
    # Fused by hand: of scores between 0 and 1 in each topic and run.
    unit = {name: (own - own.min(1, keepdims=True)) / np.ptp(own, 1)[:, None] for name, own in scores.items()}
    for place in known[:: len(known) // 7]:
        weights = found["settings"][place]
        fused = sum(weight * unit[name] for weight, name in zip(weights, names, strict=True))
        top = np.argsort(-fused, axis=1)[:, :5]
        expected = np.take_along_axis(relevant, top, 1).mean()
        assert found["values"][place] == pytest.approx(expected, abs=1e-12)


def test_shares_that_are_all_nothing_are_refused(tmp_path: Path) -> None:
    view = opened_of(tmp_path, model="fields:title,contents")
    with pytest.raises(InputError, match="the shares add up to 0"):
        answers.measured(view, {"w_title": 0.0, "w_contents": 0.0})
    alone = answers.measured(view, {"w_title": 1e-9, "w_contents": 0.999})
    assert sum(alone["setting"][name] for name in ("w_title", "w_contents")) == pytest.approx(1.0)


def test_points_are_measured_coarse_first() -> None:
    order = coarse_first((9, 9))
    assert sorted(order) == list(range(81))
    assert {divmod(at, 9) for at in order[:4]} == {(0, 0), (0, 8), (8, 0), (8, 8)}


def test_a_question_that_was_overtaken_is_dropped() -> None:
    turns, begun, go = Turns(), Event(), Event()
    said: list[str] = []

    def slow() -> str:
        begun.set()
        go.wait(10)
        return "first"

    def second() -> None:
        try:
            turns.take("page", "measured", 2, lambda: "second")
        except OutdatedError:
            said.append("dropped")

    first = Thread(target=lambda: said.append(turns.take("page", "measured", 1, slow)))
    first.start()
    begun.wait(10)
    other = Thread(target=second)
    other.start()
    third = Thread(target=lambda: said.append(turns.take("page", "measured", 3, lambda: "third")))
    while turns._latest.get(("page", "measured")) != 2:
        time.sleep(0.001)
    third.start()
    while turns._latest[("page", "measured")] != 3:
        time.sleep(0.001)
    go.set()
    for thread in (first, other, third):
        thread.join(10)
    assert sorted(said) == ["dropped", "first", "third"]


def test_the_way_up_is_that_of_the_best_start() -> None:
    rows = {"start": [0, 0, 1, 1, 1, 1], "mu": [1.0, 2, 3, 4, 5, 6], "AP": [0.1, 0.5, 0.2, 0.1, 0.6, 0.6]}
    columns = {name: np.array(row) for name, row in rows.items()}
    assert way_up(columns, ["mu"], "AP") == [{"mu": 3.0}, {"mu": 5.0}]
    costs = columns | {"cost": np.array([5.0, 1, 4, 3, 2, 9])}
    assert way_up(costs, ["mu"], "AP") == [{"mu": 1.0}, {"mu": 2.0}]


def test_runs_have_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        rows = [f"t{t} Q0 d{d} 0 {rng.normal()} x\n" for t in range(4) for d in range(30)]
        (tmp_path / f"{name}.run").write_text("".join(rows))
    judged = [f"t{t} 0 d{d} {d % 3 == t % 3:d}\n" for t in range(4) for d in range(30)]
    (tmp_path / "qrels").write_text("".join(judged))
    view = open_runs([tmp_path / name for name in ("qrels", "one.run", "two.run")], Shown(measures=("AP",)))
    alone = answers.measured(view, {"one": 1.0, "two": 0.0})["means"][0]
    expected = lmtune.evaluate(tmp_path / "qrels", tmp_path / "one.run", ["AP"])["AP"].item()
    assert alone == pytest.approx(expected, abs=1e-12)
    top = answers.ranked(view, "t0", view.default, view.default)["setting"][0]["docno"]
    found = answers.explained(view, "t0", top, view.default, view.default)
    assert found["isSum"]
    assert [own["term"] for own in found["terms"]] == ["one", "two"]
    setting = {"one": 0.3, "two": 0.7}
    shown = answers.measured(view, setting)
    assert shown["command"].startswith("lmtune fuse ")
    output = tmp_path / "fused.run"
    [program, *words] = shlex.split(shown["command"])
    assert program == "lmtune"
    out = run_command(words, "--format json --output", output).out
    methods = {row["method"]: row for row in json.loads(out)["rows"]}
    assert methods["linear"]["in_sample"] == pytest.approx(shown["means"][0], abs=1e-12)
    assert methods["linear"]["weights"] == setting
    own = lmtune.evaluate(tmp_path / "qrels", output, ["AP"])
    assert own["AP"].item() == pytest.approx(shown["means"][0], abs=1e-12)
    with pytest.raises(InputError, match="--model does not apply to runs"):
        open_runs([tmp_path / "qrels"], Shown(model="bm25"))


def test_lines_follow_a_drag_of_many_parameters() -> None:
    view = view_of("sdm", documents=60)
    surfaces = Surfaces(view, Turns())
    dragged = [{**view.default, "mu": float(mu)} for mu in range(100, 2000, 20)]
    for setting in dragged:
        answers.surface(view, surfaces, setting, "AP", False, "", "")
    found = wait_for(surfaces, view, setting=dragged[-1], measure="AP", smooth=False, topics="", plane="")
    assert found["settings"][0] == list(view.vector({**dragged[-1], "ordered": 0.0}))
    assert len(surfaces._known) <= 64
    surfaces.end()


@pytest.mark.parametrize("error", [RuntimeError("of its own"), SystemExit(3), InputError("no such thing")])
def test_an_error_of_the_worker_is_reported(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of("two-stage", documents=60)
    surfaces = Surfaces(view, Turns())

    def fail(*_: object) -> None:
        raise error

    asked: dict[str, Any] = {
        "setting": view.default,
        "measure": "AP",
        "smooth": False,
        "topics": "",
        "plane": "",
    }
    with monkeypatch.context() as broken:
        broken.setattr(background, "_fill_next", fail)
        answers.surface(view, surfaces, **asked)
        points = surfaces.ask(view.vector(view.default))
        for _ in range(1000):
            if points.error:
                break
            time.sleep(0.01)
    assert str(error) in points.error
    assert ("internal error" in points.error) == (not isinstance(error, InputError))
    wait_for(surfaces, view, **asked)
    surfaces.end()


MADE = "The communication of results, communicated. Communicating vessels, comma; O'Neill's vessel."


def test_a_word_is_marked_if_its_term_is_the_querys(tmp_path: Path) -> None:
    view = opened_of(tmp_path, model="bm25", text=MADE)
    found = answers.explained(view, "1", "made", view.default, view.default)
    assert "".join(found["text"]) == MADE
    marked = ["communication", "communicated", "Communicating", "vessels", "O'Neill's", "vessel"]
    assert found["text"][1::2] == marked


@given(st.text() | st.text(alphabet="bB.'’ İΣßK日本😀é_1\r\n", max_size=60))
def test_pieces_of_any_text_are_the_text(text: str) -> None:
    view: Any = SimpleNamespace(index=Analyzer())
    pieces = answers.marked(view.index, text, ["é", "b 1"])
    assert "".join(pieces) == text
    assert [Analyzer().analyze(piece) for piece in pieces[1::2]] == [
        [term] for term in Analyzer().analyze(text) if term in ("é", "b", "1")
    ]


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        ("two-stage", ["times", "tf", "P(w|C)", "P(w|D)"]),
        ("bm25", ["times", "tf", "idf"]),
        ("sdm", ["times", "tf", "P(w|C)"]),
        ("lucene-dirichlet", ["times", "tf", "P(w|C)"]),
        ("fields:title,contents", ["times", "tf", "P(w|C)", "P(w|D)"]),
        ("bm25f:title,contents", ["times", "tf", "idf"]),
        ("bm25-fields:title,contents", ["times", "tf", "idf"]),
        ("bm25+rm3+weights:length", ["weight", "tf", "idf", "made of"]),
    ],
)
def test_an_account_has_the_columns_of_its_model(model: str, columns: list[str], tmp_path: Path) -> None:
    view = opened_of(tmp_path, model=model)
    topic = view.pool.topics[0]
    docno = answers.ranked(view, topic, view.default, view.default)["setting"][0]["docno"]
    found = answers.explained(view, topic, docno, view.default, view.default)
    assert list(found["columns"].values()) == columns
    if "made of" in columns:
        assert found["terms"]
        assert all(own["made"].startswith(("query 0.5", "expansion ")) for own in found["terms"])
    assert found["isSum"]
    for own in found["terms"]:
        assert all(own[key] not in (None, "", []) for key in found["columns"])
        if "P(w|D)" in columns:
            assert own["times"] * np.log(own["probability"]) == pytest.approx(own["contribution"])
    if "title" in model:
        [one, *_] = found["terms"]
        assert one["of"] == ["title", "contents"]


def write_collection(folder: Path, text: str = MADE) -> None:
    rng = np.random.default_rng(2)
    words = ["communication", "vessels", "water", "The", "running", "ran", "O'Neill", "tank"]
    rows = [{"id": f"d{d}", "title": " ".join(rng.choice(words, 3))} for d in range(60)]
    rows = [row | {"contents": " ".join(rng.choice(words, rng.integers(4, 40)))} for row in rows]
    rows.append({"id": "made", "title": "made", "contents": text})
    folder.mkdir(exist_ok=True)
    (folder / "docs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    topics = ["1\tcommunications vessels O'Neill", "2\trunning water", "3\tthe tank running vessels"]
    (folder / "topics.tsv").write_text("".join(f"{topic}\n" for topic in topics))
    judged = [f"{t} 0 {row['id']} {rng.integers(0, 2)}\n" for t in (1, 2, 3) for row in rows[::2]]
    (folder / "qrels.txt").write_text("".join(judged))


def opened_of(
    tmp_path: Path, *, text: str = MADE, measures: tuple[str, ...] = ("AP", "P@5"), **shown: Any
) -> View:
    write_collection(tmp_path / "c c", text)
    collection = Collection(str(tmp_path / "c c"), indexes=tmp_path / "i")
    return open_collection(collection, Shown(measures=measures, **shown), lambda _: {})


def test_a_page_stays_whole_where_another_model_is_opened(tmp_path: Path) -> None:
    first = opened_of(tmp_path, model="two-stage")
    before = answers.measured(first, SETTING)
    for model in ("sdm", "fields:title", "bm25"):
        opened_of(tmp_path, model=model)
    assert answers.measured(first, SETTING) == before
    assert before["changed"] is False
    top = answers.ranked(first, "1", SETTING, PINNED)["setting"][0]["docno"]
    assert answers.explained(first, "1", top, SETTING, PINNED)["text"]


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        ([], SETTING),
        (["--indexes", "other place", "--stemmer", "none", "--stopwords", "none"], SETTING),
        (["--model", "bm25", "--depth", "7"], {"k1": 2.5, "b": 0.9}),
        (["--model", "sdm", "--range", "mu=300,300"], {"ordered": 0.4}),
        (["--model", "fields", "--fields", "title,contents"], {"w_title": 0.9, "w_contents": 0.1}),
        (["--topics", "c c/topics.tsv", "--qrels", "c c/qrels.txt", "--stopwords", "stop.txt"], SETTING),
        (["--from", "tuned"], SETTING),
    ],
)
def test_the_copied_command_gives_the_pages_numbers(
    words: list[str], setting: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_collection(tmp_path / "c c")
    Path("stop.txt").write_text("water\nran\n")
    if "--from" in words:
        tune = "tune 'c c' -m AP --stemmer none --output tuned --no-approx"
        run_command(tune, "--folds 3 --grid 2x2 --restarts 0")
    opened: list[View] = []
    monkeypatch.setattr(cli_explore, "serve_page", lambda session, _: opened.append(session.view))
    run_command("explore 'c c' -m AP,P@5", words)
    [view] = opened
    shown = answers.measured(view, setting)
    run_command(shlex.split(shown["command"])[1:], "--output copied.run")
    found = lmtune.evaluate("c c/qrels.txt", "copied.run", ["AP", "P@5"])
    assert found.to_numpy().ravel().tolist() == pytest.approx(shown["means"], abs=1e-12)


def test_a_page_begins_inside_the_ranges(tmp_path: Path) -> None:
    write_collection(tmp_path / "c c")
    collection = Collection(str(tmp_path / "c c"), indexes=tmp_path / "i")
    view = open_collection(collection, Shown(measures=("AP",)), lambda _: {"mu": (1.0, 100.0)})
    assert view.marks[0].name == "start"
    assert answers.measured(view, view.default)["setting"]["mu"] == 100.0


def test_a_copy_holds_the_same_values(view: View) -> None:
    html = exported(
        view, Turns(), {"setting": SETTING, "pinned": PINNED, "measure": "AP", "plane": "lambda,mu"}
    )
    begin = html.index('id="exported">') + len('id="exported">')
    content = json.loads(html[begin : html.index("</script>", begin)])
    kept = [own["measured"] for own in content["answers"]]
    for place, setting in enumerate((SETTING, PINNED, view.default)):
        assert kept[place] == answers.measured(view, setting)
    picture = content["pictures"]["lambda,mu"]
    assert len(kept) == picture["first"] + picture["shape"][0] * picture["shape"][1]
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
