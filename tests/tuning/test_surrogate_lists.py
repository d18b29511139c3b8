"""Lists of documents against ranking every document at every setting in mpmath."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf
from support import random_collection, random_pool

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.skyband import skyband
from lmtune.errors import InputError
from lmtune.tuning.pairs import Lists
from lmtune.tuning.space import ParameterSpace

SPACE = ParameterSpace.of("two-stage")
SETTINGS = 16


@pytest.fixture(scope="module")
def pool() -> CandidatePool:
    return CandidatePool.build(*random_collection(5, documents=80, topics=5, vocabulary=3, gains=3))


def exact_scores(pool: CandidatePool, t: int, seed: int) -> list[list[float]]:
    """Score a topic's candidates at the start and at 15 draws; equal to 14 digits is equal."""
    rng = np.random.default_rng(seed)
    settings = [SPACE.start, *(SPACE.random(rng) for _ in range(SETTINGS - 1))]
    rows, terms = pool.candidates.rows(t), pool.term_rows(t)
    block, lengths = pool.tf_block(pool.candidates, t), pool.candidates.length[rows].tolist()
    weights = list(zip(map(mpf, pool.value[terms].tolist()), pool.count[terms].tolist(), strict=True))
    table = []
    for lambda_, mu in np.array(settings).tolist():
        scores = []
        for tfs, length in zip(block.T.tolist(), lengths, strict=True):
            factors = [
                mp.power((1 - lambda_) * (tf + mu * p) / (mu + length) + lambda_ * p, count)
                for tf, (p, count) in zip(tfs, weights, strict=True)
            ]
            scores.append(float(mp.nstr(sum(map(mp.log, factors), mpf(0)), 14)))
        table.append(scores)
    return table


@pytest.mark.parametrize(("depth", "seed"), [(1, 0), (5, 0), (12, 3), (1000, 0)])
def test_lists_are_the_best_of_any_setting(pool: CandidatePool, depth: int, seed: int) -> None:
    lists = Lists.build(pool, SPACE, depth=depth, seed=seed)
    assert lists.depth == depth
    tied = 0
    for t in range(len(pool.topics)):
        rows = pool.candidates.rows(t)
        table = exact_scores(pool, t, seed)
        doc, gain = pool.candidates.doc[rows], pool.candidates.gain[rows]
        kept = set()
        for scores in table:
            # A stable sort leaves equal scores in tie order.
            order = sorted(range(len(scores)), key=lambda place: -scores[place])
            tied += len(order) > depth and scores[order[depth]] == scores[order[depth - 1]]
            kept |= set(order[:depth])
        want = sorted(kept, key=lambda place: (-gain[place], -table[0][place], place))
        own = lists.columns.rows(t)
        assert lists.columns.doc[own].tolist() == doc[want].tolist()
        assert lists.columns.gain[own].tolist() == gain[want].tolist()
        np.testing.assert_array_equal(
            pool.tf_block(lists.columns, t), pool.tf_block(pool.candidates, t)[:, want]
        )
    # Ties at the cut are there.
    assert depth == 1000 or tied


@pytest.mark.parametrize("mode", ["e", "tf"])
@pytest.mark.parametrize("depth", [3, 10])
def test_pruning_changes_no_list(depth: int, mode: str) -> None:
    whole = random_pool(4, documents=300, weights=((1,), (1, 1, 1), (2, 1)))
    pruned = skyband(whole, depth=10, mode=mode)
    assert pruned.candidates.doc.size < whole.candidates.doc.size
    one, other = (Lists.build(pool, SPACE, depth=depth).columns for pool in (whole, pruned))
    for name in ("start", "doc", "gain", "length", "tf"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_depths_that_cannot_be_are_refused(pool: CandidatePool) -> None:
    with pytest.raises(InputError, match="bad depth of lists"):
        Lists.build(pool, SPACE, depth=0)
    with pytest.raises(InputError, match="smaller run depth"):
        Lists.build(skyband(pool, depth=5), SPACE, depth=6)
