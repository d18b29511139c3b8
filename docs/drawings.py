"""The site's picture, drawn from the embedded collection as the site is built."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.figure import Figure
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import lmtune

TOPIC, RELEVANT, OTHER = "126", "numpy.hamming", "scipy.signal.get_window"
MUS = (10.0, 2000.0)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the picture."""
    files.append(File.generated(config, "concepts/terms.svg", content=terms()))
    return files


def terms() -> str:
    """Draw what each term adds to the difference of two documents' scores, at two values of mu."""
    data = lmtune.load("pydocs")
    index = lmtune.index_for(data.documents)
    pool = lmtune.CandidatePool.build(index, {TOPIC: data.topics[TOPIC]}, data.qrels)
    rows, p = pool.candidates.rows(0), pool.value[pool.term_rows(0)]
    names = index.docnos(pool.candidates.doc[rows])
    pair = [names.index(RELEVANT), names.index(OTHER)]
    tf, length = np.asarray(pool.tf_block(pool.candidates, 0))[:, pair], pool.candidates.length[rows][pair]
    figure = Figure((7, 2.6), layout="constrained")
    figure.patch.set_facecolor("white")
    for place, (ax, mu) in enumerate(zip(figure.subplots(1, 2, sharey=True, sharex=True), MUS, strict=True)):
        each = [
            np.subtract(*lmtune.score(tf[[i]], length, p[[i]], lambda_=0.0, mu=mu)) for i in range(len(p))
        ]
        bars = [*each, np.subtract(*lmtune.score(tf, length, p, lambda_=0.0, mu=mu))]
        ax.barh([*pool.terms[0], "sum"], bars, color=["#26a69a" if bar > 0 else "#d95f02" for bar in bars])
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_title(f"$\\mu$ = {mu:,.0f}")
        ax.set_xlabel("difference of scores (nats)")
        if not place:
            ax.invert_yaxis()
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
