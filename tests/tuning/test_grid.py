"""What was measured is not measured again, and whoever measured it, the values are the same."""

import numpy as np
import pytest
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import cross_validation
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.tuning import direct
from lmtune.tuning.direct import CoordinateAscent, KnownValues, Surface, climb_together, group_by_speed
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.run import run_experiment
from lmtune.tuning.space import ParameterSpace

MEASURES = parse_measures(["AP", "Bpref", "P@5"])


@pytest.fixture(scope="module")
def pool() -> CandidatePool:
    return CandidatePool.build(*random_collection(5, documents=120, topics=20))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object, int]]:
    """Return the (measure, setting, topic)s that are measured from now on, but for grids', as they come."""
    seen: list[tuple[str, object, int]] = []

    def measure(pool, settings, measures, *, topics, depth, **of_grid):  # type: ignore[no-untyped-def]
        named = [str(measure) for measure in measures] if not of_grid else []
        seen.extend((m, tuple(s), t) for m in named for s in settings.tolist() for t in topics.tolist())
        return measure_settings(pool, settings, measures, topics=topics, depth=depth, **of_grid)

    monkeypatch.setattr(direct, "measure_settings", measure)
    return seen


def test_values_are_measured_once(pool: CandidatePool, measured: list[tuple[str, object, int]]) -> None:
    space, rng = ParameterSpace.of(), np.random.default_rng(1)
    surface = Surface.compute(pool, MEASURES, space=space, shape=(3, 3))
    known = KnownValues.from_surface(surface, pool, MEASURES[1:], 1000)
    some, others = pool.positions()[::2], pool.positions()[1:]
    drawn = [tuple(space.random(rng).tolist()) for _ in range(4)]
    grid = list(map(tuple, surface.settings[:2].tolist()))
    for settings, topics in ((grid + drawn[:2], some), (drawn, others), (drawn + grid, pool.positions())):
        values = known.values_at(settings, topics)
        expected = measure_settings(pool, np.array(settings), MEASURES[1:], topics=topics)
        np.testing.assert_array_equal(values, expected.transpose(2, 0, 1))
    assert not {setting for _, setting, _ in measured} & {*grid}
    before = len(measured)
    known.values_at(drawn[:2], some)
    assert len(measured) == before


def test_climbs_together_are_the_climbs_alone(pool: CandidatePool) -> None:
    topics = list(pool.topics[::2])
    alone = [CoordinateAscent(measure, seed=3).fit(pool, topics=topics) for measure in MEASURES]
    joint = [CoordinateAscent(measure, seed=3) for measure in MEASURES]
    shown: list[tuple[int, int]] = []
    known = KnownValues(pool, MEASURES)
    climb_together(joint, known, topics=topics, progress=lambda *counts: shown.append(counts))
    for one, other in zip(alone, joint, strict=True):
        assert one.best_params_ == other.best_params_
        assert one.results_.equals(other.results_)
        assert one.ends_.equals(other.ends_)
    assert shown[-1] == (15, 15)


def test_nothing_is_measured_twice(pool: CandidatePool, measured: list[tuple[str, object, int]]) -> None:
    plan = Plan(tuple(MEASURES), grid=(4, 5), approx=False, final=False)
    result = run_experiment(pool, cross_validation(pool.topics, 2), plan, traced=False)
    assert len(measured) == len(set(measured)) > 0
    assert result.surface is not None
    assert not {setting for _, setting, _ in measured} & {*map(tuple, result.surface.settings.tolist())}


def test_a_slow_measure_is_measured_where_it_is_asked_for() -> None:
    slow = parse_measures(["AP", "Rprec", "P@10"])
    assert [[str(m) for m in own] for own in group_by_speed(slow)] == [["AP", "P@10"], ["Rprec"]]
    assert group_by_speed(slow[1:2]) == [[slow[1]]]
