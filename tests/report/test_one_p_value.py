"""The helper that collects p-values finds them in the JSON of each command."""

from __future__ import annotations

import numpy as np
from one_p_value import p_values_by_difference

import lmtune
from lmtune.measures.significance.comparison import ComparisonOptions
from lmtune.report.comparison_tables import comparison_records


def test_two_p_values_of_a_difference_are_found() -> None:
    row = {"measure": "AP", "held_out": 0.3, "in_sample": 0.3, "p_rrf": None, "p_equal": None}
    row |= {"p_best_single": None, "weights": {"a": 1.0}}
    single, worse = (
        row | {"method": "single"},
        row | {"method": "single", "held_out": 0.2, "weights": {"b": 1.0}},
    )
    equal, rrf = row | {"method": "equal", "p_rrf": 0.2, "p_best_single": 0.5}, row | {"method": "rrf"}
    rows = [worse, single, equal, rrf | {"p_equal": 0.2}]
    once = {("AP", "equal", "rrf"): {0.2}, ("AP", "a", "equal"): {0.5}}
    assert p_values_by_difference({"rows": rows}) == once
    rows[-1] = rrf | {"p_equal": 0.4}
    assert p_values_by_difference({"rows": rows})["AP", "equal", "rrf"] == {0.2, 0.4}


def test_tuned_methods_and_losses() -> None:
    tuned = {"collection": "c", "measure": "AP", "method": "Direct", "p_value_default": 0.1}
    assert p_values_by_difference([tuned]) == {("c", "", "AP", "Default", "Direct"): {0.1}}
    losses = [
        {"empty": "skip", "measure": "AP", "loss": one, "adjusted_p": {"queries": {other: p}}}
        for one, other, p in (("a", "b", 0.1), ("b", "a", 0.3))
    ]
    assert p_values_by_difference(losses) == {("skip", "AP", "queries", "a", "b"): {0.1, 0.3}}


def test_the_first_test_of_a_comparison_counts() -> None:
    rng = np.random.default_rng(0)
    options = ComparisonOptions(tests=("wilcoxon", "t"), pairwise=True)
    compared = lmtune.compare(rng.random(9), {"b": rng.random(9), "c": rng.random(9)}, options, baseline="a")
    content = {"tests": options.tests, "contrasts": comparison_records(compared)}
    expected = {
        ("value", *sorted((one.system, one.against))): {float(f"{one.adjusted['wilcoxon']:.12g}")}
        for one in compared.contrasts
    }
    assert p_values_by_difference(content) == expected and len(expected) == 3
