"""Tuners in scikit-learn's manner, and the record that each leaves of its search."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.base import clone
from support import random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.direct import CoordinateAscent, GridSearch
from lmtune.tuning.gradient import RankNetTuner
from lmtune.tuning.gradient_free import FDSA, SPSA, Gains
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import SurrogateTuner

SPACE = ParameterSpace.of("two-stage", {"lambda": (0.1, 0.9), "mu": (2.0, 200.0)})
START = {"lambda": 0.3, "mu": 20.0}
TUNERS: list[tuple[Any, dict[str, Any]]] = [
    (GridSearch, {"measure": "map", "shape": (3, 4)}),
    (CoordinateAscent, {"measure": "P_5", "starts": [START], "restarts": 1, "steps": {"mu": 0.2}}),
    (SPSA, {"evaluations": 20, "start": START, "gains": Gains(a=0.1, c=0.2), "seed": 3}),
    (FDSA, {"evaluations": 20, "start": START}),
    (RankNetTuner, {"measures": ["map"], "starts": 2, "optimizer": "l-bfgs"}),
    (SurrogateTuner, {"objective": "approx-p@5", "alpha": (4.0, 16.0), "starts": 2, "measures": ["map"]}),
    (CertifiedOptimum, {"tolerance": 0.05, "starts": [START], "workers": 1}),
]
every_tuner = pytest.mark.parametrize(("kind", "given"), TUNERS)


@pytest.fixture(scope="module")
def pool() -> CandidatePool:
    return CandidatePool.build(*random_collection(5, documents=60, topics=8))


@every_tuner
def test_scikit_learn_clones_them(kind: Any, given: dict[str, Any], pool: CandidatePool) -> None:
    given = {**given, "space": SPACE}
    tuner = kind(**given)
    for name, value in given.items():
        assert tuner.get_params()[name] is value
    copy = clone(tuner)
    assert copy is not tuner
    assert copy.get_params() == tuner.get_params()
    assert copy.fit(pool).results_.equals(tuner.fit(pool).results_)
    # A fit changes no argument, so that a clone of what is fitted starts afresh.
    assert not hasattr(clone(tuner), "results_")


@every_tuner
def test_arguments_can_be_set(kind: Any, given: dict[str, Any]) -> None:
    assert kind().set_params(**given).get_params() == kind(**given).get_params()
    with pytest.raises(InputError, match=r"'nothing'.*space"):
        kind().set_params(nothing=1)


@every_tuner
def test_they_show_what_was_given(kind: Any, given: dict[str, Any]) -> None:
    assert repr(kind()) == f"{kind.__name__}()"
    assert eval(repr(kind(**given))).get_params() == kind(**given).get_params()


@every_tuner
def test_every_record_has_one_form(kind: Any, given: dict[str, Any], pool: CandidatePool) -> None:
    tuner = kind(**given, space=SPACE).fit(pool)
    table = tuner.results_
    assert list(table.columns[:4]) == ["start", "step", "lambda", "mu"]
    value = table.columns[4]
    assert value == {"map": "AP", "P_5": "P@5"}.get(given.get("measure", ""), value)
    # Costs of different steepness do not compare.
    final = table[table["alpha"] == table["alpha"].max()] if "alpha" in table else table
    best = final[value].idxmin() if value == "cost" else final[value].idxmax()
    assert tuner.best_value_ == table[value][best]
    assert tuner.best_params_ == table.loc[best, ["lambda", "mu"]].to_dict()
    assert tuner.at_edge_ == SPACE.at_edge(list(tuner.best_params_.values()))
    assert len(tuner.seconds_) == len(table)
    assert tuner.seconds_ == sorted(tuner.seconds_)
    assert tuner.n_evaluations_ >= len(table)
    assert table["lambda"].between(0.1, 0.9).all()
    assert table["mu"].between(2.0, 200.0).all()


@pytest.mark.parametrize("kind", [kind for kind, _ in TUNERS if kind is not CertifiedOptimum])
def test_progress_counts_up(kind: Any, pool: CandidatePool) -> None:
    shown: list[tuple[int, int]] = []
    kind().fit(pool, progress=lambda done, total: shown.append((done, total)))
    assert shown == sorted(shown)
    done, total = shown[-1]
    # FDSA leaves what no longer makes a step.
    assert total - 4 * (kind is FDSA) < done + 1 <= total + 1


def test_a_space_of_other_parameters_is_refused(pool: CandidatePool) -> None:
    with pytest.raises(InputError, match=r"lacks the parameters of two-stage.*'mu'"):
        GridSearch(space=ParameterSpace(SPACE.parameters[1:])).fit(pool)
