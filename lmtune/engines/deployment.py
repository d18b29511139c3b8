"""Translate a tuned setting into an engine's formula, parameter values and analysis."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import NamedTuple

from lmtune.errors import InputError
from lmtune.index.analysis import Analyzer
from lmtune.models.bm25 import BM25_PREFIX, VARIANTS, bm25_formula
from lmtune.models.model import find_model

README = "README.txt"
"""The file that lists what is exact and what is not."""

PYTHON = "search.py"
"""The file with the functions ``build`` and ``search``, if the engine is a Python package."""

BY_FIELD = "bm25-fields"
"""The formula that sums the weighted BM25 scores of several fields."""

COMBINED = "bm25f"
"""BM25F: BM25 of term frequencies that are summed over fields."""

INDEX, FIELD = "documents", "contents"
"""Default names of the index and its text field."""

_INDEX_NAME, _FIELD_NAME = re.compile("[a-z][a-z0-9_-]*"), re.compile("[A-Za-z][A-Za-z0-9_]*")
# The text of a document in each format, as `lmtune.io` reads it.
_CONTENTS = (
    "must have the text that was tuned on. JSON lines: contents, or the title, a line end and the text "
    "(BEIR). TREC documents: the elements TEXT, HEADLINE, TITLE, HL, HEAD, TTL, DD, DATE, LP and LEADPARA. "
    "id<TAB>text: the text after the identifier."
)

_LIKELIHOODS = ("two-stage", "dirichlet", "lucene-dirichlet", "jelinek-mercer")
_ROUNDED = "lucene-"


def fill_template(name: str, /, **values: object) -> str:
    """Return a file of the folder ``templates`` with its ``$names`` replaced by values."""
    text = files("lmtune.engines").joinpath("templates", f"{name}.tmpl").read_text(encoding="utf-8")
    return Template(text).substitute(values)


@dataclass(frozen=True)
class Names:
    """Names of the index and of its text field."""

    index: str = INDEX
    field: str = FIELD

    def __post_init__(self) -> None:
        if not _INDEX_NAME.fullmatch(self.index):
            accepted = "lower-case letters, digits, _ and -, a letter first"
            raise InputError("bad name in the engine", value=self.index, accepted=accepted)
        if not _FIELD_NAME.fullmatch(self.field):
            accepted = "letters, digits and _, a letter first"
            raise InputError("bad name of a field", value=self.field, accepted=accepted)

    def check_used(self, title: str, *, index: bool, field: bool = True) -> None:
        """Raise `InputError` for a changed name that an engine's files do not contain."""
        for flag, name, default, is_used in (
            ("--index-name", self.index, INDEX, index),
            ("--field-name", self.field, FIELD, index and field),
        ):
            if name != default and not is_used:
                raise InputError(f"the files of {title} have no such name", value=name, accepted=f"no {flag}")


USUAL_NAMES = Names()
"""Default names."""


class Deployment(NamedTuple):
    """A tuned setting in the terms of engines.

    Attributes
    ----------
    model : str
        The model that was tuned.
    formula : str
        ``"bm25"``, ``"bm25-fields"``, ``"bm25f"``, ``"dirichlet"`` or ``"jelinek-mercer"``.
    values : dict of str to float
        The formula's parameters: ``k1`` and ``b``; with fields ``k1`` and the fields' ``w_NAME`` and
        ``b_NAME``; ``mu``; or ``lambda``, the weight of the collection.
    analyzer : Analyzer
        The analysis that the model was tuned with.
    names : Names
        Names of the index and its text field.
    """

    model: str
    formula: str
    values: dict[str, float]
    analyzer: Analyzer
    names: Names = USUAL_NAMES

    @property
    def setting(self) -> str:
        """Names and values of the parameters, in full precision."""
        return ", ".join(f"{name} = {value!r}" for name, value in self.values.items())

    @property
    def fields(self) -> list[str]:
        """Names of the weighted fields."""
        return [name.removeprefix("w_") for name in self.values if name.startswith("w_")]

    @property
    def stopwords(self) -> list[str]:
        """The stopwords, sorted."""
        return sorted(self.analyzer.words or ())


class Engine(NamedTuple):
    """Description of a search engine.

    Attributes
    ----------
    title : str
        The engine's name in texts.
    formulas : mapping of str to str
        The supported formulas, each with a note on what is not exact; empty if the formula is exact.
    write : callable
        Returns the files of a `Deployment`: texts by file name.
    remarks : tuple of str
        Other differences from lmtune.
    fixed : mapping of str to float
        Parameters that the engine does not allow to set.
    variant : str
        The engine's BM25 variant, one of `lmtune.models.bm25.VARIANTS`.
    stemmers : mapping of str to str
        The stemmers of the engine's analysis, each with a note on differences. Empty if the script uses
        lmtune's analysis, and so any stemmer.
    install : str
        The command that installs the Python package; empty if there is none.
    is_named : bool
        Whether the files name an index and a field.
    """

    title: str
    formulas: Mapping[str, str]
    write: Callable[[Deployment], dict[str, str]]
    remarks: tuple[str, ...]
    fixed: Mapping[str, float] = {}
    variant: str = "lucene"
    stemmers: Mapping[str, str] = {}
    install: str = ""
    is_named: bool = False

    @property
    def computed(self) -> dict[str, str]:
        """The model of lmtune for each of the engine's formulas, language models first."""
        dirichlet = "lucene-dirichlet" if self.rounds else "dirichlet"
        named = {
            "dirichlet": dirichlet,
            "jelinek-mercer": "jelinek-mercer",
            "bm25": BM25_PREFIX + self.variant,
        }
        return {formula: name for formula, name in named.items() if formula in self.formulas}

    @property
    def models(self) -> list[str]:
        """The models that the engine computes exactly."""
        return [*self.computed.values()]

    @property
    def rounds(self) -> bool:
        """Whether the engine encodes a document's length in one byte, as Lucene does."""
        return VARIANTS[self.variant].rounded


def deploy(
    engine: Engine, model: str, setting: Mapping[str, float], analyzer: Analyzer, names: Names = USUAL_NAMES
) -> dict[str, str]:
    """Write a tuned setting as the files of an engine.

    Parameters
    ----------
    engine : Engine
        One of `lmtune.engines.catalogue.ENGINES`.
    model : str
        The model that was tuned, a name of `lmtune.models.model.MODELS`.
    setting : mapping of str to float
        The model's parameters. Two-stage smoothing is deployed as Dirichlet smoothing if lambda = 0, and as
        Jelinek-Mercer smoothing if mu = 0.
    analyzer : Analyzer
        The analysis that the model was tuned with.
    names : Names, optional
        Names of the index and its text field.

    Returns
    -------
    dict of str to str
        Texts by file name. The first is `README`, which lists what is exact and what is not.

    Raises
    ------
    InputError
        If the engine does not support the setting (the message names the nearest model that it supports), or
        the stemmer, or the names.
    """
    formula, values = _engine_formula(engine, model, setting)
    names.check_used(engine.title, index=engine.is_named, field=formula != BY_FIELD)
    if not supports_stemmer(engine, analyzer.stemmer):
        raise InputError(
            f"{engine.title}: no known filter for this stemmer",
            value=analyzer.stemmer,
            accepted=f"results of lmtune tune --stemmer {', '.join(engine.stemmers)}",
        )
    deployment = Deployment(model, formula, values, analyzer, names)
    return {README: _readme(engine, deployment), **engine.write(deployment)}


def nearest_model(engine: Engine, model: str, setting: Mapping[str, float]) -> tuple[str, dict[str, float]]:
    """Return the nearest model that an engine computes, and its setting.

    If the engine has the model's formula, the setting is the tuned one, except for parameters that the engine
    fixes. Otherwise the model is the engine's model with the most shared parameters; for ``bm25f``, it is the
    sum of the fields' BM25 scores if the engine has it. Shared parameters have the tuned values, the others
    their defaults.
    """
    values = {**setting, **engine.fixed}
    formula, formula_values = _translate(model, values)
    if formula in (BY_FIELD, COMBINED) and formula in engine.formulas:
        return model, formula_values
    nearest = engine.computed.get(formula) or _nearest_model_name(engine, model, setting)
    known = find_model(nearest)
    return nearest, {**known.default, **{n: values[n] for n in known.default if n in values}, **known.fixed}


def supports_setting(engine: Engine, model: str, setting: Mapping[str, float]) -> bool:
    """Return whether an engine has a tuned model's formula and allows these values."""
    formula, values = _translate(model, setting)
    return formula in engine.formulas and all(values[n] == value for n, value in engine.fixed.items())


def supports_stemmer(engine: Engine, stemmer: str) -> bool:
    """Return whether an engine has a stemmer, or uses lmtune's analysis."""
    return not engine.stemmers or stemmer in engine.stemmers


def _nearest_model_name(engine: Engine, model: str, setting: Mapping[str, float]) -> str:
    """Return the engine's model that shares the most parameters with a setting, the first one of several."""
    if BY_FIELD in engine.formulas and _translate(model, setting)[0] == COMBINED:
        return model.replace(COMBINED, BY_FIELD, 1)
    return max(engine.models, key=lambda name: len(find_model(name).default.keys() & setting.keys()))


def _engine_formula(engine: Engine, model: str, setting: Mapping[str, float]) -> tuple[str, dict[str, float]]:
    """Return the engine's formula for a model and its values; raise `InputError` if it has none."""
    formula, values = _translate(model, setting)
    fixed = " and ".join(f"{name} = {value:g}" for name, value in engine.fixed.items())
    if formula not in engine.formulas:
        nearest = _nearest_model_name(engine, model, setting)
        raise InputError(
            f"{engine.title} cannot express {model}",
            value=dict(setting),
            accepted=f"results of lmtune tune --model {nearest}, the nearest"
            + "".join(f", or {other}" for other in engine.models if other != nearest)
            + (f", with {fixed}" if fixed else ""),
        )
    wrong = {name: values[name] for name, value in engine.fixed.items() if values[name] != value}
    if wrong:
        raise InputError(
            f"{engine.title} has {fixed} fixed", value=wrong, accepted=f"{fixed}, or another engine"
        )
    return formula, values


def _translate(model: str, setting: Mapping[str, float]) -> tuple[str, dict[str, float]]:
    """Return the engines' formula that equals a model, and its values; or ``""`` if there is none."""
    if (model == "lucene-bm25" or model.partition(":")[0] == "bm25") and "+" not in model:
        variant = bm25_formula(model).variant
        if variant.shift or variant.bonus:
            return "", {}
        return "bm25", {name: float(setting[name]) for name in ("k1", "b")}
    if (kind := model.partition(":")[0]) in (BY_FIELD, COMBINED) and "+" not in model:
        return kind, {name: float(setting[name]) for name in find_model(model).default}
    if model in _LIKELIHOODS and setting["lambda"] == 0.0:
        return "dirichlet", {"mu": float(setting["mu"])}
    if model in _LIKELIHOODS and setting["mu"] == 0.0:
        return "jelinek-mercer", {"lambda": float(setting["lambda"])}
    return "", {}


def _readme(engine: Engine, deployment: Deployment) -> str:
    analyzer = deployment.analyzer
    words = f"{len(deployment.stopwords)} stopwords" if deployment.stopwords else "no stopwords"
    is_bm25 = deployment.formula == "bm25"
    differences = _variant_notes(engine, deployment) if is_bm25 else [_length_note(engine, deployment)]
    notes = [*filter(None, (engine.formulas[deployment.formula], *differences))]
    remarks = filter(None, (*engine.remarks, engine.stemmers.get(analyzer.stemmer), _contents(deployment)))
    lines = [
        f"{engine.title}: {deployment.formula} with {deployment.setting}",
        f"tuned by lmtune as --model {deployment.model}; analysis: Unicode words (UAX 29), possessives "
        f"removed, lower case, {words} ({analyzer.stopwords}), stemmer {analyzer.stemmer}",
        "",
        "Not exact:" if notes else "The formula is exact. Other notes:",
        *(f"- {note}" for note in (*notes, *remarks)),
        "- The engine orders documents of equal score in its own way; lmtune orders them as trec_eval does.",
    ]
    return "\n".join(lines) + "\n"


def _contents(deployment: Deployment) -> str:
    """Return a note on the text of the index's fields."""
    if deployment.fields:
        return f"The fields {', '.join(deployment.fields)} must have the texts of lmtune's fields so named."
    return f"The field {deployment.names.field} {_CONTENTS}"


def _variant_notes(engine: Engine, deployment: Deployment) -> list[str]:
    """Return notes on differences between the engine's BM25 and the tuned one."""
    differences = bm25_formula(deployment.model).variant.differences(VARIANTS[engine.variant])
    if not differences:
        return []
    return [
        *differences,
        f"The engine computes --model {BM25_PREFIX}{engine.variant}; tune that model for exact results.",
    ]


def _length_note(engine: Engine, deployment: Deployment) -> str:
    tuned_rounded = deployment.model.startswith(_ROUNDED)
    if engine.rounds == tuned_rounded:
        return ""
    if tuned_rounded:
        exact = deployment.model.removeprefix(_ROUNDED)
        return (
            "The engine has exact document lengths; the tuned model rounded them as Lucene does. "
            f"Tune --model {exact} for exact results."
        )
    name = _ROUNDED + deployment.formula
    instead = f" Tune --model {name} for exact results." if name in engine.models else ""
    return (
        "The engine rounds document lengths above 40 to fit in a byte (the mean length is exact); the tuned "
        f"model has exact lengths.{instead}"
    )
