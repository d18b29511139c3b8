"""Files of engines that are Python packages: ``build(documents)`` and ``search(index, query)``."""

from __future__ import annotations

from functools import partial

from lmtune.engines.deployment import COMBINED, PYTHON, Deployment, fill

# Terrier's models by ours, with their controls: what older versions call c has a name in newer ones.
# k_3 makes a word count as often as the query has it; Hiemstra's lambda is the document's share.
_CONTROLS = {
    "bm25": ("BM25", '{"bm25.k_1": K1, "bm25.b": B, "bm25.k_3": 1e9}'),
    "dirichlet": ("DirichletLM", '{"c": MU, "dirichletlm.mu": MU}'),
    "jelinek-mercer": ("Hiemstra_LM", '{"c": 1.0 - LAMBDA, "hiemstra_lm.lambda": 1.0 - LAMBDA}'),
}


def _write(deployment: Deployment, name: str, constants: str = "") -> dict[str, str]:
    values = [f"{name.upper()} = {value!r}" for name, value in deployment.values.items()]
    text = fill(
        f"{name}.py",
        formula=deployment.formula,
        setting=deployment.setting,
        analysis=deployment.analyzer.settings,
        constants="\n".join([*values, constants]),
    )
    return {PYTHON: text}


bm25s, duckdb, sqlite, tantivy, xapian = (
    partial(_write, name=name) for name in ("bm25s", "duckdb", "sqlite", "tantivy", "xapian")
)


def pyterrier(deployment: Deployment) -> dict[str, str]:
    """Write Python for PyTerrier."""
    if deployment.formula == COMBINED:
        return _pyterrier_fields(deployment)
    model, controls = _CONTROLS[deployment.formula]
    return _write(deployment, "pyterrier", f"MODEL = {model!r}\nCONTROLS = {controls}\n")


def _pyterrier_fields(deployment: Deployment) -> dict[str, str]:
    """Write Python for Terrier's BM25F, whose fields have numbers and whose k1 = 1.2 the weights change."""
    values, fields = deployment.values, deployment.fields
    controls = "".join(
        f'    "w.{n}": {len(fields)} * {values["w_" + own]!r} * 1.2 / K1, "c.{n}": {values["b_" + own]!r},\n'
        for n, own in enumerate(fields)
    )
    constants = f'FIELDS = {fields!r}\nMODEL = "BM25F"\nCONTROLS = {{\n{controls}}}\n'
    return _write(deployment._replace(values={"k1": values["k1"]}), "pyterrier_fields", constants)
