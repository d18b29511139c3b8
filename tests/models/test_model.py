"""The table of models, and what its rows say of themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmtune.errors import InputError
from lmtune.models.model import MODELS, describe_model, find_model, label_setting
from lmtune.tuning.space import ParameterSpace


@pytest.mark.parametrize("name", MODELS)
def test_ranges_and_defaults_are_in_the_models_domain(name: str) -> None:
    model = find_model(name)
    space = ParameterSpace.of(model)
    space.require(model)
    model.check(model.default)
    assert space.named(space.clip(space.vector(model.default))) == model.default
    assert name in label_setting(name, "x") or name == "two-stage"


def test_settings_are_named_by_their_free_parameters() -> None:
    setting = {"lambda": 0.4, "mu": 2500.0}
    names = [model.describe(setting) for model in MODELS.values() if [*model.default] == [*setting]]
    expected = "lambda0.4-mu2500 dirichlet-mu2500 jelinek-mercer-lambda0.4 lucene-dirichlet-mu2500"
    assert names == expected.split()


def test_only_two_stage_needs_no_word() -> None:
    assert describe_model("two-stage") == []
    assert describe_model("jelinek-mercer") == ["model: jelinek-mercer, two-stage smoothing with mu = 0"]


def test_unknown_models_are_named() -> None:
    with pytest.raises(InputError, match=r"'bm26'.*two-stage, dirichlet"):
        find_model("bm26")


@pytest.mark.parametrize("column", ["measure", "method", "train"])
def test_a_parameter_is_not_named_as_a_column_of_the_tables(column: str) -> None:
    known = find_model("bm25")
    parameters = (replace(known.parameters[0], name=column), known.parameters[1])
    with pytest.raises(InputError, match=f"a column of the result tables: '{column}'; accepted: any"):
        replace(known, parameters=parameters)
