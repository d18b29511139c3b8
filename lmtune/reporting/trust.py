"""How far a table's judgements reach: what they cover of the first ranks, and whose they are."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import PathLike, visible
from lmtune.fusion.fusing import FusionResult
from lmtune.fusion.methods import Chosen, fused_pool
from lmtune.fusion.runs import RunSet
from lmtune.models.parameter import Setting, as_settings
from lmtune.reporting.table import short
from lmtune.tuning.experiment.preparation import Prepared
from lmtune.tuning.experiment.result import DEFAULT, CollectionResult

_RANKS = 10


def judged_share(pool: CandidatePool, setting: Setting, ranks: int = _RANKS) -> float:
    """Return Judged@k: the part of each topic's first documents that has a judgement, topics' mean."""
    [vector] = as_settings(pool.formula.parameters, setting)
    shares = []
    for t in range(len(pool.topics)):
        gains = pool.candidates.gain[pool.candidates.rows(t)][pool.top(t, vector, ranks)]
        shares.append((gains >= 0).mean() if gains.size else 0.0)
    return float(np.mean(shares))


def tuning_trust(prepared: Prepared, result: CollectionResult, depth: int) -> str:
    """Say it of the recommended setting and the default, to a run depth; nothing where there is none."""
    row = result.recommended
    if row is None or row.setting is None:
        return ""
    default = next((own for own in result.rows if own.method == DEFAULT), row)
    settings = {"the setting": row.setting.params, "the default": default.fits[0].params}
    pool = prepared.pool
    ranks = min(_RANKS, depth)
    shares = {
        name: judged_share(pool.drawn_at(setting), setting, ranks) for name, setting in settings.items()
    }
    return _line(ranks, shares, prepared.dataset.qrels_file, weighted=pool.topic_weights is not None)


def fusion_trust(
    fused: FusionResult, runs: RunSet, qrels: Mapping[str, Mapping[str, int]], file: PathLike
) -> str:
    """Say it of what is recommended for the first measure, and of reciprocal rank fusion."""
    shares = {}
    for row in filter(None, (fused.recommended, fused.baselines(fused.rows[0].measure)["rrf"])):
        alone = Chosen("equal", {name: float(name == row.name) for name in runs.names})
        chosen = alone if row.is_single else row.chosen
        pool = fused_pool(runs, chosen, fused.options, qrels, fused.topics)
        shares[row.name] = judged_share(pool, chosen.setting)
    return _line(_RANKS, shares, file, weighted=fused.options.topic_weights is not None)


def _line(ranks: int, shares: Mapping[str, float], file: PathLike | None, *, weighted: bool) -> str:
    told = ", ".join(f"{short(share)} by {name}" for name, share in shares.items())
    source = "" if file is None else f"; judgements: {visible(os.fspath(file))}"
    counted = "; topics are weighted in fits, and count alike in means" if weighted else ""
    return f"Judged of the first {ranks}: {told}{source}{counted}\n"
