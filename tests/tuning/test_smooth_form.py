"""Smooth forms of measures, and their surfaces."""

from __future__ import annotations

import pytest

from lmtune.measures.measure import parse_measure
from lmtune.tuning.surrogate import smooth_form


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("AP", "approx-AP"),
        ("P(rel=2)@5", "approx-P(rel=2)@5"),
        ("nDCG@10", "approx-nDCG@10"),
        ("Success@3", "approx-AP"),
        ("Success(rel=2)@3", "approx-AP(rel=2)"),
    ],
)
def test_a_measure_has_its_own_smooth_form_or_that_of_ap(name: str, form: str) -> None:
    assert str(smooth_form(parse_measure(name))) == form
