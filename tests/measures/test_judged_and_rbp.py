"""Judged@k against ir_measures, RBP against its formula in fractions."""

from __future__ import annotations

from fractions import Fraction

import ir_measures
import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.measures.from_files import topic_values
from lmtune.measures.measure import parse_measure


def test_judged_is_ir_measures() -> None:
    rng = np.random.default_rng(1)
    qrels = {str(t): {f"d{i}": int(rng.integers(0, 3)) for i in rng.permutation(30)[:12]} for t in range(20)}
    run = {t: {f"d{i}": float(-n) for n, i in enumerate(rng.permutation(30)[: 3 + int(t)])} for t in qrels}
    names = ["Judged@10", "Judged@5", "Judged@100"]
    found = topic_values(qrels, run, names)
    theirs = ir_measures.iter_calc([ir_measures.parse_measure(name) for name in names], qrels, run)
    for value in theirs:
        assert found.loc[value.query_id, str(value.measure)] == pytest.approx(value.value, abs=1e-15)


def test_a_document_that_was_passed_over_is_not_judged() -> None:
    found = topic_values(
        {"1": {"a": 1, "b": -1}}, {"1": {"a": 3.0, "b": 2.0, "c": 1.0}}, ["Judged@2", "Judged"]
    )
    assert found.iloc[0].tolist() == [0.5, 1 / 3]


def test_rbp_is_its_formula() -> None:
    qrels, run = (
        {"1": {"a": 2, "b": 0, "c": 1, "d": 2}},
        {"1": {"a": 9.0, "b": 8.0, "x": 7.0, "c": 6.0, "d": 5.0}},
    )
    for name, p, places in (
        ("RBP", Fraction(4, 5), (0, 3, 4)),
        ("RBP(p=0.5, rel=2)", Fraction(1, 2), (0, 4)),
        ("RBP(p=0.95)@4", Fraction(19, 20), (0, 3)),
    ):
        measure = parse_measure(name)
        value = topic_values(qrels, run, [measure]).loc["1", str(measure)]
        assert value == pytest.approx(float((1 - p) * sum(p**place for place in places)), rel=1e-14)
        assert parse_measure(str(measure)) == measure


@pytest.mark.parametrize("name", ["AP(p=0.5)", "RBP(p=.0)", "RBP(p=1.5)"])
def test_a_bad_persistence_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"p="):
        parse_measure(name)
