"""Choices of analysis and model: read, made in each fold, bounded over their union."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_choices import write_collection
from scipy import stats

from lmtune.collections.collection import Collection
from lmtune.collections.folds import cross_validation
from lmtune.errors import InputError
from lmtune.io.file_documents import FileDocuments
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.report.figures import alt_text
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.choices.experiment import (
    INTERACTIONS,
    Case,
    ChoiceResult,
    beaten,
    decompose,
    effects,
    halve,
    look,
    make_cases,
    tune_choices,
)
from lmtune.tuning.direct import GridSearch
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.experiment.preparation import Prepared, prepare
from lmtune.tuning.experiment.result import DEFAULT, DIRECT, OPTIMAL
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.space import Choice, ParameterSpace

CHOICES = [Choice("stemmer", ("none", "porter")), Choice("model", ("bm25", "two-stage"))]
QUICK: dict[str, Any] = {"measures": ("AP",), "grid": (16,), "ascents": 1, "restarts": 0, "starts": 1}
SPLIT = Split(folds="3")
TOLERANCE = 0.01


def cases_of(collection: Collection, choices: list[Choice]) -> list[Case]:
    return make_cases(choices, collection, QUICK, baseline=lambda _: {})


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    home = tmp_path_factory.mktemp("choices")
    return Collection(name=str(write_collection(home / "c")), indexes=home / "indexes")


@pytest.fixture(scope="module")
def found(collection: Collection) -> tuple[ChoiceResult, Prepared]:
    return tune_choices(CHOICES, cases_of(collection, CHOICES), SPLIT, certify=TOLERANCE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stemmer", "bad choice of stemmer"),
        ("stemmer=porter", "two or more different values"),
        ("stemmer=porter,porter", "two or more different values"),
        ("stemmer=porter,", "two or more different values"),
        ("stem=porter,none", "no such choice: 'stem'"),
        ("expand=none,rm4", "no such expansion: 'rm4'"),
    ],
)
def test_a_bad_choice_is_told(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Choice.parse(text)


def test_cases_are_all_combinations_the_usual_one_first(collection: Collection) -> None:
    choices = [*CHOICES, Choice("expand", ("none", "rm3"))]
    cases = cases_of(collection, choices)
    assert [tuple(case.values.values()) for case in cases][:3] == [
        ("none", "bm25", "none"),
        ("none", "bm25", "rm3"),
        ("none", "two-stage", "none"),
    ]
    assert len(cases) == 8
    assert [case.plan.model for case in cases[:4]] == ["bm25", "bm25+rm3", "two-stage", "two-stage+rm3"]
    assert {case.collection.stemmer for case in cases[:4]} == {"none"}


@pytest.mark.parametrize(
    ("choices", "changed", "plan"),
    [
        ([Choice("stemmer", ("none", "porter"))], {"stemmer": "krovetz"}, {}),
        ([Choice("model", ("bm25", "two-stage"))], {}, {"model": "bm25"}),
        ([Choice("stemmer", ("none", "porter"))] * 2, {}, {}),
    ],
)
def test_what_is_said_twice_is_refused(
    collection: Collection, choices: list[Choice], changed: dict[str, Any], plan: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="is given twice"):
        make_cases(choices, replace(collection, **changed), QUICK | plan)


def test_spaces_have_choices_too(collection: Collection, found: tuple[ChoiceResult, Prepared]) -> None:
    analysed = Choice("stemmer", ("none", "porter"))
    space = ParameterSpace.of("bm25", {"b": (0.2, 0.8)}, [analysed])
    cases = make_cases(space, collection, QUICK | {"model": "bm25"})
    by_hand = make_cases([analysed], collection, QUICK | {"model": "bm25", "ranges": space.ranges})
    assert cases == by_hand
    assert [case.plan.space.ranges for case in cases] == [space.ranges] * 2
    with pytest.raises(
        InputError,
        match=r"a tuner searches numeric parameters only: 'stemmer'; accepted: lmtune.tune_choices",
    ):
        GridSearch(space=space).fit(found[1].pool)
    with pytest.raises(InputError, match="parameters depend on this choice, so no space has it: 'model'"):
        ParameterSpace.of("bm25", choices=[CHOICES[1]])


def test_what_a_value_is_wrong_for_is_told_before_anything_is_read() -> None:
    nowhere = Collection(name="no-such-folder")
    for choice in (Choice("stemmer", ("porter", "snow")), Choice("model", ("bm25", "bm26"))):
        with pytest.raises(InputError, match=r"unknown (stemmer|model)"):
            cases_of(nowhere, [choice])
    many = [Choice("topic-fields", tuple(map(str, range(20)))), Choice("fields", tuple(map(str, range(20))))]
    with pytest.raises(InputError, match="256 at most"):
        cases_of(nowhere, many)


def test_each_fold_takes_the_best_on_its_training_topics(
    collection: Collection, found: tuple[ChoiceResult, Prepared]
) -> None:
    """The procedure, written out once more from the experiments on each case."""
    result, _ = found
    alone = []
    for case in cases_of(collection, CHOICES):
        ready = prepare(case.collection, SPLIT, case.plan)
        alone.append(run_experiment(ready.pool, ready.folds, case.plan, traced=False))
    assert {one.row.method for one in result.rows} == {"Default", "Direct", "RankNet", "Approx"}
    for one in result.rows:
        rows = [next(r for r in own.rows if r.method == one.row.method) for own in alone]
        values: dict[str, float] = {}
        for number, fold in enumerate(alone[0].folds):
            best = max(range(len(rows)), key=lambda case: rows[case].fits[number].train_value)
            assert one.picks[number] == best
            known = dict(zip(rows[best].topics, rows[best].values.tolist(), strict=True))
            values |= {topic: known[topic] for topic in fold.test}
        assert one.row.values.tolist() == [values[topic] for topic in one.row.topics]
    recommended = result.recommended
    assert recommended is not None
    assert result.cases[recommended.final].values["stemmer"] == "porter"  # the collection is made so
    assert recommended is result.tuned and recommended.row.method == DIRECT
    gain, default = result.gains[recommended.row.measure, DIRECT], result.default.row
    expected = stats.ttest_rel(recommended.row.values, default.values).pvalue
    assert gain.p_value == pytest.approx(expected, rel=1e-10) and expected < 0.05


@pytest.mark.slow
def test_test_topics_have_no_say(tmp_path: Path, collection: Collection) -> None:
    """With other judgments of a fold's test topics it chooses the same, and tunes it the same."""
    before, ready = tune_choices(CHOICES, cases_of(collection, CHOICES), SPLIT)
    held = set(ready.folds[0].test)
    lines = (Path(collection.name or "") / "qrels.txt").read_text().splitlines()
    turned = [f"{line[:-1]}{1 - int(line[-1])}" if line.split()[0] in held else line for line in lines]
    (tmp_path / "qrels.txt").write_text("\n".join(turned) + "\n")
    other = replace(collection, qrels=str(tmp_path / "qrels.txt"))
    after, _ = tune_choices(CHOICES, cases_of(other, CHOICES), SPLIT)
    for one, two in zip(before.rows, after.rows, strict=True):
        assert one.picks[0] == two.picks[0]
        assert one.row.fits[0].params == two.row.fits[0].params
        assert one.row.fits[0].train_value == two.row.fits[0].train_value
        assert one.row.fits[0].test_value != two.row.fits[0].test_value


@pytest.mark.slow
def test_inner_folds_compare_cases_held_out(collection: Collection) -> None:
    choices = CHOICES[:1]
    result, ready = tune_choices(choices, cases_of(collection, choices), SPLIT, inner=2)
    one = next(row for row in result.rows if row.row.method == "Direct")
    inner = []
    for case in result.cases:
        pool = prepare(case.collection, SPLIT, case.plan).pool
        parts = cross_validation(ready.folds[0].train, 2, seed=0)
        rows = run_experiment(pool, parts, replace(case.plan, final=False), traced=False).rows
        inner.append(next(row.mean for row in rows if row.method == "Direct"))
    assert one.picks[0] == int(np.argmax(inner))
    with pytest.raises(InputError, match="inner-folds"):
        tune_choices(choices, result.cases, SPLIT, inner=1)


def test_the_bound_holds_for_every_case_and_setting(found: tuple[ChoiceResult, Prepared]) -> None:
    """Against many settings of each case, and each case's own certificate."""
    result, _ = found
    measure = result.cases[0].plan.measures[0]
    bound, best = result.bound(measure), result.best_value(measure)
    assert bound is not None
    assert bound <= best + TOLERANCE
    rng = np.random.default_rng(0)
    reached = []
    for number, case in enumerate(result.cases):
        pool, space = prepare(case.collection, SPLIT, case.plan).pool, case.plan.space
        settings = rng.uniform(space.low, space.high, size=(400, len(space.names)))
        reached.append(float(measure_settings(pool, settings, [measure])[:, :, 0].mean(axis=0).max()))
        assert reached[-1] <= result.proofs[measure, number].bound
        own = CertifiedOptimum(measure, tolerance=TOLERANCE, space=space).fit(pool)
        assert own.best_value_ <= result.proofs[measure, number].bound
        assert result.proofs[measure, number].boxes <= own.n_boxes_
    assert max(reached) <= bound


def test_a_value_reached_elsewhere_ends_a_certificate_early(found: tuple[ChoiceResult, Prepared]) -> None:
    _, ready = found
    fine = 1e-4
    alone = CertifiedOptimum("AP", tolerance=fine).fit(ready.pool)
    elsewhere = alone.best_value_ + 0.01
    beaten = CertifiedOptimum("AP", tolerance=fine, beat=elsewhere).fit(ready.pool)
    assert beaten.certified_
    assert alone.best_value_ <= beaten.bound_ <= elsewhere + fine
    assert beaten.n_boxes_ < alone.n_boxes_
    assert len(beaten.results_) < len(alone.results_)


def test_effects_are_those_of_least_squares() -> None:
    """Each factor's share is R squared of its dummies, as the design is balanced."""
    rng = np.random.default_rng(1)
    levels = {"a": ("x", "y", "z"), "b": ("u", "v"), "parameters": ("tuned", "default")}
    values = rng.random((3, 2, 2, 9))
    values[1] += 0.4
    cells = values.mean(axis=-1).ravel()
    found = {effect.factor: effect for effect in decompose(values, levels)}
    for axis, factor in enumerate(levels):
        level = np.indices((3, 2, 2))[axis].ravel()
        dummies = (level[:, None] == np.arange(level.max() + 1)).astype(float)
        residual = cells - dummies @ np.linalg.lstsq(dummies, cells, rcond=None)[0]
        share = 1.0 - residual.var() / cells.var()
        assert found[factor].share == pytest.approx(share, rel=1e-12)
    assert sum(effect.share for effect in found.values()) == pytest.approx(1.0)
    assert found[INTERACTIONS].share > 0.0
    assert (found["a"].best, found["a"].difference > 0.3) == ("y", True)
    difference = values[1].mean(axis=(0, 1)) - values[levels["a"].index(found["a"].worst)].mean(axis=(0, 1))
    assert found["a"].difference == pytest.approx(difference.mean())
    half = 2.306004135204166 * difference.std(ddof=1) / 3.0  # t of 8 degrees of freedom, 0.975
    assert found["a"].interval == pytest.approx((difference.mean() - half, difference.mean() + half))


def test_equal_cells_have_no_effects() -> None:
    levels = {"a": ("x", "y"), "parameters": ("tuned", "default")}
    assert all(e.share == 0.0 for e in decompose(np.full((2, 2, 4), 0.5), levels))


def test_stemming_moves_this_collection(found: tuple[ChoiceResult, Prepared]) -> None:
    result, _ = found
    own = {effect.factor: effect for effect in effects(result, (result.cases[0].plan.measures[0], "Direct"))}
    assert own["stemmer"].best == "porter"
    assert own["stemmer"].share == max(effect.share for effect in own.values())
    assert own["stemmer"].interval[0] > 0.0
    assert OPTIMAL not in {one.row.method for one in result.rows}
    assert isinstance(result.cases[0].plan, Plan)


def test_results_are_tables_and_frames(found: tuple[ChoiceResult, Prepared]) -> None:
    result, _ = found
    assert "Chosen" in repr(result)
    frame = result.to_frame()
    assert len(frame) == 4 * (len(result.cases) + 1)  # methods
    chosen = frame[frame["stemmer"] == "chosen"].set_index("method")["held_out"]
    assert chosen.to_dict() == {one.row.method: one.row.mean for one in result.rows}
    topics = result.to_frame(per_topic=True)
    own = topics[topics["case"] == "chosen"].groupby("method")["value"].mean()
    assert own.to_dict() == pytest.approx(chosen.to_dict())
    assert "By stemmer and model: " in alt_text(result.plot(title="mine"))


def same_choices(one: ChoiceResult, two: ChoiceResult) -> bool:
    return all(
        (a.picks, a.final, a.row.values.tolist()) == (b.picks, b.final, b.row.values.tolist())
        for a, b in zip(one.rows, two.rows, strict=True)
    )


def test_what_a_bound_excludes_is_never_chosen(found: tuple[ChoiceResult, Prepared]) -> None:
    """Raced by bounds, choices and values are those of a full search; excluded cases reach no goal."""
    full, _ = found
    raced, ready = tune_choices(CHOICES, full.cases, SPLIT, certify=TOLERANCE, race=True)
    assert same_choices(raced, full)
    measure = raced.cases[0].plan.measures[0]
    methods = {one.row.method for one in raced.rows} - {DEFAULT}
    left = set(range(4)) - set(raced.known_rows((measure, "Direct")))
    assert left
    rng = np.random.default_rng(0)
    for number in left:
        case = raced.cases[number]
        pool, space = prepare(case.collection, SPLIT, case.plan).pool, case.plan.space
        values = measure_settings(pool, rng.uniform(space.low, space.high, size=(400, 2)), [measure])[:, :, 0]
        tuned = CertifiedOptimum(measure, tolerance=1e-3, space=space).fit(pool)
        proven = raced.proofs[measure, number].bound
        assert max(tuned.best_value_, values.mean(axis=0).max()) <= proven
        assert proven < min(max(full.case_row((measure, m), c).in_sample for c in range(4)) for m in methods)
        for place, fold in enumerate(ready.folds):
            reached = values[pool.positions(fold.train)].mean(axis=0).max()
            for method in methods:
                known = raced.known_rows((measure, method)).values()
                assert reached < max(row.fits[place].train_value for row in known)
    assert raced.bound(measure) == full.bound(measure)
    assert full.recommended is not None
    assert effects(raced, (measure, "Direct")) == []
    with pytest.raises(InputError, match="a race dropped some"):
        raced.plot()


@pytest.mark.slow
def test_documents_read_once(tmp_path: Path, collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, batches = [], FileDocuments.batches

    def counted(own: FileDocuments) -> Any:
        reads.append(own.name)
        return batches(own)

    monkeypatch.setattr(FileDocuments, "batches", counted)
    choices = [Choice("stemmer", ("none", "porter", "german")), Choice("stopwords", ("lucene", "none"))]
    tune_choices(choices, cases_of(replace(collection, indexes=tmp_path), choices), SPLIT)
    assert len(reads) == 1
    assert len(list(tmp_path.iterdir())) == 6


def test_nothing_is_excluded_that_some_fold_may_choose(collection: Collection) -> None:
    """A goal that a setting reaches on one fold alone cannot be proven out of reach."""
    case = cases_of(collection, CHOICES)[3]
    ready = prepare(case.collection, SPLIT, case.plan)
    reached = look(ready, case, 64)
    for place in range(4):
        goals = {measure: np.where(np.arange(4) == place, own, 2.0) for measure, own in reached.items()}
        assert beaten(ready.pool, ready.folds, case, goals) is None
    assert beaten(ready.pool, ready.folds, case, {m: np.full(4, 2.0) for m in reached}) is not None


@pytest.mark.parametrize("cases", [2, 3, 4, 7, 12])
def test_halving_keeps_the_better_half_of_each_fold(cases: int) -> None:
    """Against rounds written out once more; each round measures what any fold has left, on as many again."""
    measure = parse_measure("AP")
    rng = np.random.default_rng(cases)
    table = {(case, 16 << r): rng.random(3) for case in range(cases) for r in range(6)}
    asked: list[tuple[int, int]] = []

    def look_at(case: int, settings: int) -> dict[Any, Any]:
        asked.append((case, settings))
        return {measure: table[case, settings]}

    alive = halve(cases, look_at)[measure]
    for place in range(3):
        left, settings = list(range(cases)), 16
        while len(left) > 2:
            left = sorted(left, key=lambda case: -table[case, settings][place])
            left, settings = left[: max(2, math.ceil(len(left) / 2))], settings * 2
        assert alive[place] == set(left)
    rounds = {settings for _, settings in asked}
    assert len(rounds) == max(1, math.ceil(math.log2(cases)) - 1)
    assert len(asked) == len(set(asked))


def test_halving_leaves_the_choice_to_training_topics(collection: Collection) -> None:
    """A fold's choice is the best of what its own race left; the first is tuned in any case."""
    cases = cases_of(collection, CHOICES)
    result, ready = tune_choices(CHOICES, cases, SPLIT, race=True)
    measure = cases[0].plan.measures[0]
    pools = [prepare(case.collection, SPLIT, case.plan) for case in cases]
    figures = [look(own, case)[measure] for own, case in zip(pools, cases, strict=True)]
    for place in range(len(ready.folds)):
        best_two = np.argsort([-own[place] for own in figures], kind="stable")[:2].tolist()
        for one in result.rows:
            rows = result.known_rows((measure, one.row.method))
            among = range(4) if one.row.method == DEFAULT else sorted(best_two)
            assert one.picks[place] == max(among, key=lambda c: rows[c].fits[place].train_value)
    tuned = result.known_rows((measure, "Direct"))
    assert 0 in tuned
    assert len(tuned) < 4
    assert len(result.known_rows((measure, DEFAULT))) == 4
    assert result.bound(measure) is None
