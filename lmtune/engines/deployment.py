"""What an engine gets of a tuned setting: its formula, the values, the analysis; or why it cannot."""

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
"""The file that says what is exact and what is not."""

PYTHON = "search.py"
"""The file that has ``build`` and ``search``, where the engine is a library."""

BY_FIELD = "bm25-fields"
"""The formula of a query of several fields: the weighted sum of their BM25."""

COMBINED = "bm25f"
"""BM25 of frequencies that are summed over fields."""

INDEX, FIELD = "documents", "contents"
"""What the index and its field of text are called in the files by default."""

_INDEX_NAME, _FIELD_NAME = re.compile("[a-z][a-z0-9_-]*"), re.compile("[A-Za-z][A-Za-z0-9_]*")
# What is indexed of each format's documents: see `lmtune.io`.
_CONTENTS = (
    "holds the text that was tuned on: of JSON lines contents, or else the title, a line end and the text "
    "(BEIR); of TREC's documents the text of the elements TEXT, HEADLINE, TITLE, HL, HEAD, TTL, DD, DATE, LP "
    "and LEADPARA; of id<TAB>text all that follows the identifier."
)

_LIKELIHOODS = ("two-stage", "dirichlet", "lucene-dirichlet", "jelinek-mercer")
_ROUNDED = "lucene-"


def fill_template(name: str, /, **values: object) -> str:
    """Return a file of the folder ``templates``, with values for its ``$names``."""
    text = files("lmtune.engines").joinpath("templates", f"{name}.tmpl").read_text(encoding="utf-8")
    return Template(text).substitute(values)


@dataclass(frozen=True)
class Names:
    """What an engine calls the index and its field of text."""

    index: str = INDEX
    field: str = FIELD

    def __post_init__(self) -> None:
        if not _INDEX_NAME.fullmatch(self.index):
            accepted = "lower-case letters, digits, _ and -, a letter first"
            raise InputError("bad name of an index", value=self.index, accepted=accepted)
        if not _FIELD_NAME.fullmatch(self.field):
            accepted = "letters, digits and _, a letter first"
            raise InputError("bad name of a field", value=self.field, accepted=accepted)

    def check_used(self, title: str, *, index: bool, field: bool = True) -> None:
        """Raise `InputError` for a name that an engine's files do not have."""
        for flag, name, usual, has in (
            ("--index-name", self.index, INDEX, index),
            ("--field-name", self.field, FIELD, index and field),
        ):
            if name != usual and not has:
                raise InputError(f"{title}: its files have no such name", value=name, accepted=f"no {flag}")


USUAL_NAMES = Names()
"""Those of the files by default."""


class Deployment(NamedTuple):
    """A setting as engines name it.

    Attributes
    ----------
    model : str
        The model that was tuned.
    formula : str
        ``"bm25"``, ``"bm25-fields"``, ``"bm25f"``, ``"dirichlet"`` or ``"jelinek-mercer"``.
    values : dict of str to float
        The formula's parameters: k1 and b; of fields k1, and each one's weight and b; mu; lambda, the weight
        of the collection.
    analyzer : Analyzer
        The analysis that it was tuned with.
    names : Names
        Those of the index and its field.
    """

    model: str
    formula: str
    values: dict[str, float]
    analyzer: Analyzer
    names: Names = USUAL_NAMES

    @property
    def setting(self) -> str:
        """Names and values, to the last digit."""
        return ", ".join(f"{name} = {value!r}" for name, value in self.values.items())

    @property
    def fields(self) -> list[str]:
        """Those that have a weight of their own."""
        return [name.removeprefix("w_") for name in self.values if name.startswith("w_")]

    @property
    def stopwords(self) -> list[str]:
        """The words that are dropped."""
        return sorted(self.analyzer.words or ())


class Engine(NamedTuple):
    """A search engine, declared.

    Attributes
    ----------
    title : str
        Its name for a reader.
    formulas : mapping of str to str
        Those that it has, each with what is not exact in it; empty where all is.
    write : callable
        Gives the files of a deployment, texts by names.
    remarks : tuple of str
        What else differs from lmtune.
    fixed : mapping of str to float
        Parameters that it has no way to set.
    variant : str
        The BM25 that it computes, one of `lmtune.models.bm25.VARIANTS`.
    stemmers : mapping of str to str
        Those of its own analysis, each with what else differs there; empty where it takes lmtune's terms.
    install : str
        What brings it to Python; empty where nothing does.
    is_named : bool
        Whether its files name an index and a field.
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
        """The model that it computes by each of its formulas, the nearest to query likelihood first."""
        dirichlet = "lucene-dirichlet" if self.rounds else "dirichlet"
        named = {
            "dirichlet": dirichlet,
            "jelinek-mercer": "jelinek-mercer",
            "bm25": BM25_PREFIX + self.variant,
        }
        return {formula: name for formula, name in named.items() if formula in self.formulas}

    @property
    def models(self) -> list[str]:
        """What to tune for it."""
        return [*self.computed.values()]

    @property
    def rounds(self) -> bool:
        """Whether it keeps a document's length in a byte."""
        return VARIANTS[self.variant].rounded


def deploy(
    engine: Engine, model: str, setting: Mapping[str, float], analyzer: Analyzer, names: Names = USUAL_NAMES
) -> dict[str, str]:
    """Write a tuned setting as an engine's own files.

    Parameters
    ----------
    engine : Engine
        One of `lmtune.engines.catalogue.ENGINES`.
    model : str
        The model that was tuned, a name of `lmtune.models.model.MODELS`.
    setting : mapping of str to float
        Its parameters; two-stage smoothing with lambda = 0 is Dirichlet's, with mu = 0 Jelinek-Mercer's.
    analyzer : Analyzer
        The analysis that it was tuned with.
    names : Names, optional
        Those of the index and its field of text.

    Returns
    -------
    dict of str to str
        Texts by the files' names, `README` first: what is exact and what is not.

    Raises
    ------
    InputError
        For what the engine cannot express, naming the nearest model that it can, and for bad names.
    """
    formula, values = _expressed(engine, model, setting)
    names.check_used(engine.title, index=engine.is_named, field=formula != BY_FIELD)
    if not stems(engine, analyzer.stemmer):
        raise InputError(
            f"{engine.title}: no filter is known to stem so",
            value=analyzer.stemmer,
            accepted=f"results of lmtune tune --stemmer {', '.join(engine.stemmers)}",
        )
    deployment = Deployment(model, formula, values, analyzer, names)
    return {README: _readme(engine, deployment), **engine.write(deployment)}


def nearest_model(engine: Engine, model: str, setting: Mapping[str, float]) -> tuple[str, dict[str, float]]:
    """Return the model that an engine computes in place of a tuned one, and its setting.

    The setting is the tuned one, but for what the engine fixes. Where it has no such formula, the model is
    the one of its own that shares most parameters, with the tuned values of those and the usual ones of
    others: of ``bm25f`` the fields' summed BM25, where it has that.
    """
    values = {**setting, **engine.fixed}
    formula, expressed = _express(model, values)
    if formula in (BY_FIELD, COMBINED) and formula in engine.formulas:
        return model, expressed
    computed = engine.computed.get(formula) or _alike(engine, model, setting)
    known = find_model(computed)
    return computed, {**known.default, **{n: values[n] for n in known.default if n in values}, **known.fixed}


def expresses(engine: Engine, model: str, setting: Mapping[str, float]) -> bool:
    """Say whether an engine has a tuned model's formula, with these values."""
    formula, values = _express(model, setting)
    return formula in engine.formulas and all(values[n] == value for n, value in engine.fixed.items())


def stems(engine: Engine, stemmer: str) -> bool:
    """Say whether an engine can have terms that are stemmed so."""
    return not engine.stemmers or stemmer in engine.stemmers


def _alike(engine: Engine, model: str, setting: Mapping[str, float]) -> str:
    """Return the engine's model of most parameters that a setting has too, the first of several."""
    if BY_FIELD in engine.formulas and _express(model, setting)[0] == COMBINED:
        return model.replace(COMBINED, BY_FIELD, 1)
    return max(engine.models, key=lambda name: len(find_model(name).default.keys() & setting.keys()))


def _expressed(engine: Engine, model: str, setting: Mapping[str, float]) -> tuple[str, dict[str, float]]:
    """Return which of an engine's formulas a setting is, and the formula's values; raise as `deploy`."""
    formula, values = _express(model, setting)
    fixed = " and ".join(f"{name} = {value:g}" for name, value in engine.fixed.items())
    if formula not in engine.formulas:
        alike = _alike(engine, model, setting)
        raise InputError(
            f"{engine.title} cannot express {model}",
            value=dict(setting),
            accepted=f"results of lmtune tune --model {alike}, the nearest"
            + "".join(f", or {other}" for other in engine.models if other != alike)
            + (f", with {fixed}" if fixed else ""),
        )
    wrong = {name: values[name] for name, value in engine.fixed.items() if values[name] != value}
    if wrong:
        raise InputError(
            f"{engine.title} has {fixed} fixed", value=wrong, accepted=f"{fixed}, or another engine"
        )
    return formula, values


def _express(model: str, setting: Mapping[str, float]) -> tuple[str, dict[str, float]]:
    """Return the formula that engines have and its values; an empty one where none is the model."""
    if (model == "lucene-bm25" or model.partition(":")[0] == "bm25") and "+" not in model:
        own = bm25_formula(model).variant
        if own.shift or own.bonus:
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
    own = deployment.analyzer
    words = f"{len(deployment.stopwords)} stopwords" if deployment.stopwords else "no stopwords"
    is_bm25 = deployment.formula == "bm25"
    others = _variants(engine, deployment) if is_bm25 else [_lengths(engine, deployment)]
    notes = [*filter(None, (engine.formulas[deployment.formula], *others))]
    remarks = filter(None, (*engine.remarks, engine.stemmers.get(own.stemmer), _contents(deployment)))
    lines = [
        f"{engine.title}: {deployment.formula} with {deployment.setting}",
        f"tuned by lmtune as --model {deployment.model}; its analysis: Unicode words (UAX 29), possessives "
        f"off, lower case, {words} ({own.stopwords}), stemmer {own.stemmer}",
        "",
        "Not exact:" if notes else "The formula is exact. Besides:",
        *(f"- {note}" for note in (*notes, *remarks)),
        "- Documents of equal score come in the engine's own order; lmtune has trec_eval's.",
    ]
    return "\n".join(lines) + "\n"


def _contents(deployment: Deployment) -> str:
    """Say what the index's text is made of."""
    if deployment.fields:
        return f"The fields {', '.join(deployment.fields)} hold what lmtune indexed of the same names."
    return f"The field {deployment.names.field} {_CONTENTS}"


def _variants(engine: Engine, deployment: Deployment) -> list[str]:
    """Say where the engine's BM25 differs from the one that was tuned."""
    differences = bm25_formula(deployment.model).variant.differences(VARIANTS[engine.variant])
    if not differences:
        return []
    return [
        *differences,
        f"It computes --model {BM25_PREFIX}{engine.variant}: tune that to tune what is run.",
    ]


def _lengths(engine: Engine, deployment: Deployment) -> str:
    tuned_rounded = deployment.model.startswith(_ROUNDED)
    if engine.rounds == tuned_rounded:
        return ""
    if tuned_rounded:
        return "It has exact lengths; those of the tuned model were rounded as Lucene's are: --model " + (
            deployment.model.removeprefix(_ROUNDED) + " tunes what is run."
        )
    name = _ROUNDED + deployment.formula
    instead = f" --model {name} tunes with them." if name in engine.models else ""
    return (
        f"It keeps each length in a byte, exact up to 40, the mean exactly; tuned with exact ones.{instead}"
    )
