"""Measures of smooth ranks and their gradients against mpmath, trec_eval and brute force."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.typing import NDArray
from pytrec_eval import RelevanceEvaluator
from smooth_brute import Smooth, derivatives
from support import COLLECTIONS

from lmtune.losses.approx_kernels import SmoothMeasure, approx_queries
from lmtune.losses.packing_kernels import ByLabel
from lmtune.measures.kinds import Code

KINDS = {
    "DCG": int(Code.DCG),
    "AP": int(Code.AP),
    "P": int(Code.PRECISION),
    "Bpref": int(Code.BPREF),
    "RR": int(Code.RECIPROCAL_RANK),
}


class Form(NamedTuple):
    """A smooth measure of lists of any grades."""

    kind: str
    k: int = 0
    hinge: bool = False
    exponential: bool = False
    alpha_k: float = 0.8

    def of(self, grades: NDArray[np.int64]) -> Smooth:
        """Grades of 1 and more are relevant, 0 is judged nonrelevant, -1 is not judged."""
        relevant, others = grades > 0, grades == 0
        gains = np.where(relevant, grades if self.kind == "DCG" else 1, 0).astype(float)
        if self.exponential:
            gains = np.exp2(gains) - 1.0
        ideal = float(relevant.sum())
        if self.kind == "DCG":
            best = np.sort(gains)[::-1][: self.k or None]
            ideal = float((best / np.log2(np.arange(2, best.size + 2))).sum())
        elif self.kind in ("P", "RR"):
            ideal = self.k if self.kind == "P" else 1.0
        bound = float(max(1, min(relevant.sum(), others.sum())))
        return Smooth(
            self.kind, gains.tolist(), others.tolist(), ideal, self.k, self.alpha_k, self.hinge, bound
        )


FORMS = [
    Form("DCG"),
    Form("DCG", exponential=True),
    Form("DCG", k=3, exponential=True),
    Form("DCG", hinge=True, exponential=True),
    Form("AP"),
    Form("AP", k=4),
    Form("P", k=3),
    Form("Bpref"),
    Form("RR"),
    Form("RR", k=3),
]
every_form = pytest.mark.parametrize("form", FORMS, ids=str)


def losses_of(
    form: Form, lists: list[tuple[NDArray[Any], NDArray[np.int64]]], alpha: float, dtype: str = "float64"
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the losses of lists of (scores, grades) and their gradients, padded together."""
    shape = len(lists), max(s.size for s, _ in lists) + 2
    scores, labels, gains = np.full(shape, np.nan, dtype), np.zeros(shape, dtype), np.zeros(shape, dtype)
    order, part = np.tile(np.arange(shape[1]), (shape[0], 1)), np.zeros((shape[0], 2), np.int64)
    smooth = [form.of(grades) for _, grades in lists]
    for q, (s, grades) in enumerate(lists):
        scores[q, : s.size], labels[q, : s.size], gains[q, : s.size] = s, grades, smooth[q].gains
        order[q, : s.size] = np.argsort(-grades, kind="stable")
        found, judged = (grades > 0).sum(), (grades >= 0).sum()
        part[q] = {"AP": (0, found), "Bpref": (found, judged)}.get(form.kind, (0, 0))
    measure = SmoothMeasure(
        KINDS[form.kind],
        form.k,
        form.alpha_k,
        form.hinge,
        gains,
        np.array([own.ideal for own in smooth]),
        part,
        np.array([own.bound for own in smooth], np.float64),
    )
    losses, gradients = np.full(shape[0], 7.0, dtype), np.zeros(shape, dtype)
    by_label = ByLabel(scores, labels, order, np.array([s.size for s, _ in lists]))
    approx_queries(0, shape[0], by_label, measure, scores.dtype.type(alpha), losses, gradients)
    return losses, gradients


def made_lists(seed: int, count: int, *, ties: bool = False) -> list[tuple[NDArray[Any], NDArray[np.int64]]]:
    """Make lists of 1 to 8 items, a relevant one in each, scores exact in single precision."""
    rng = np.random.default_rng(seed)
    lists = []
    for _ in range(count):
        size = int(rng.integers(1, 9))
        scores = rng.normal(size=size).astype(np.float32).astype(np.float64)
        grades = rng.integers(-1, 4, size)
        grades[rng.integers(size)] = 2
        lists.append((scores.round(1) if ties else scores, grades))
    return lists


def minus(smooth: Smooth, alpha: Any, s: list[Any]) -> Any:
    return -smooth(s, alpha)


@pytest.mark.parametrize("ties", [False, True])
@every_form
def test_values_and_gradients_are_the_formulas(form: Form, ties: bool) -> None:
    lists = made_lists(3, 5, ties=ties)
    for alpha in (0.7, 6.0):
        losses, gradients = losses_of(form, lists, alpha)
        for q, (s, grades) in enumerate(lists):
            cost = partial(minus, form.of(grades), mpf(alpha))
            assert losses[q] == pytest.approx(float(cost(s.tolist())), rel=1e-12)
            slopes = [float(slope) for slope in derivatives(cost, s.tolist())]
            np.testing.assert_allclose(gradients[q, : s.size], slopes, rtol=1e-11, atol=1e-12 * alpha)
            assert (gradients[q, s.size :] == 0.0).all()


@every_form
def test_single_precision_is_nearly_double(form: Form) -> None:
    lists = made_lists(4, 60)
    wide, narrow = losses_of(form, lists, 2.0), losses_of(form, lists, 2.0, "float32")
    np.testing.assert_allclose(narrow[0], wide[0], rtol=3e-6)
    np.testing.assert_allclose(narrow[1], wide[1], rtol=1e-4, atol=3e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [64, 1025, 5000])
def test_items_far_apart_are_skipped_within_the_error_promised(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    alpha = 10.0
    # In bands, so that blocks of 1,024 lie together: some beyond any doubt, some on the brink of it.
    distances = np.sort(
        np.concatenate((rng.uniform(-8, 8, size // 2), rng.uniform(30, 48, size - size // 2)))
    )
    for way in (1.0, -1.0):
        scores, grades = np.append(0.0, way * distances / alpha), np.append(1, np.zeros(size, np.int64))
        losses, gradients = losses_of(Form("RR"), [(scores, grades)], alpha)
        with mp.workdps(40):
            shares = [1 / (1 + mp.exp(-mpf(alpha) * mpf(float(s)))) for s in scores[1:]]
            rank = 1 + sum(shares)
            allowed = 2e-16 * size + 8 * np.spacing(float(rank))
            assert abs(float(-1 / mpf(float(losses[0])) - rank)) <= allowed
            slopes = [alpha * share * (1 - share) / rank**2 for share in shares]
        np.testing.assert_allclose(gradients[0, 1 : size + 1], [float(v) for v in slopes], atol=2e-15 * alpha)
        if size == 5000:
            assert (gradients[0, 1 : size + 1] == 0.0).sum() >= 5001 - 4 * 1024  # the last block


def test_hinges_of_long_lists_are_skipped_where_they_are_nothing() -> None:
    rng = np.random.default_rng(5)
    scores, grades = np.sort(rng.normal(size=300)), np.append(np.zeros(290, np.int64), np.full(10, 2))
    for s in (scores, scores[::-1].copy()):
        losses, gradients = losses_of(Form("DCG", hinge=True), [(s, grades)], 3.0)
        smooth = Form("DCG", hinge=True).of(grades)
        assert losses[0] == pytest.approx(-float(smooth([mpf(float(x)) for x in s], mpf(3))), rel=1e-12)
        assert abs(gradients[0].sum()) < 1e-14


@pytest.mark.parametrize(
    ("form", "name"),
    [
        (Form("AP"), "map"),
        (Form("AP", k=5), "map_cut_5"),
        (Form("P", k=5), "P_5"),
        (Form("RR"), "recip_rank"),
        (Form("Bpref"), "bpref"),
        (Form("DCG"), "ndcg"),
        (Form("DCG", k=5), "ndcg_cut_5"),
        (Form("DCG", exponential=True), "ndcg"),
    ],
    ids=lambda value: str(value),
)
def test_steep_measures_are_those_of_trec_eval(form: Form, name: str) -> None:
    rng = np.random.default_rng(6)
    lists = [(rng.permutation(100).astype(np.float64), rng.integers(-1, 4, 100)) for _ in range(20)]
    lists += [
        (rng.permutation(9).astype(np.float64), np.append(rng.integers(-1, 2, 8), 1)) for _ in range(20)
    ]
    alpha = 1e4
    losses, _ = losses_of(form._replace(alpha_k=100.0), lists, alpha)
    for q, (s, grades) in enumerate(lists):
        gains = np.exp2(grades) - 1 if form.exponential else grades
        judged = {f"d{i}": int(gain) for i, gain in enumerate(gains) if grades[i] >= 0}
        run = {f"d{i}": float(score) for i, score in enumerate(s)}
        value = RelevanceEvaluator({"q": judged}, {name}).evaluate({"q": run})["q"][name]
        # Bpref's corner is rounded by log 2 / alpha; recall of an empty list is 0 / 0.
        assert -losses[q] == pytest.approx(value, abs=1e-10 if form.kind != "Bpref" else 1e-4)


@settings(max_examples=COLLECTIONS, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-20, 20), st.integers(0, 3)), min_size=1, max_size=20),
    st.floats(0.01, 100.0),
)
def test_songs_bound_is_below_ndcg_in_any_order_of_ties(items: list[tuple[float, int]], alpha: float) -> None:
    scores, grades = np.array([s for s, _ in items]), np.array([y for _, y in items])
    grades[0] = max(grades[0], 1)
    form = Form("DCG", hinge=True, exponential=True)
    losses, _ = losses_of(form, [(scores, grades)], alpha)
    gains = np.exp2(grades) - 1
    last = (scores >= scores[:, None]).sum(axis=1)
    assert -losses[0] <= (gains / np.log2(1 + last)).sum() / form.of(grades).ideal + 1e-12


def test_lists_without_relevant_items_cost_nothing_and_bad_scores_show() -> None:
    nothing = np.arange(4.0), np.zeros(4, np.int64)
    spoiled = np.array([0.0, np.inf, 1.0]), np.array([1, 0, 0])
    losses, gradients = losses_of(Form("AP"), [nothing, spoiled, made_lists(1, 1)[0]], 2.0)
    assert losses[0] == 0.0
    assert (gradients[0] == 0.0).all()
    assert np.isnan(losses[1])
    assert np.isnan(gradients[1, :3]).all()
    assert losses[2] < 0.0
