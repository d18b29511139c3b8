"""Named models: a formula, which of its parameters are free, and where to look for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lmtune.errors import InputError, perhaps
from lmtune.index.windows import WINDOW_KINDS
from lmtune.models.bm25 import BM25_PREFIX, K1, VARIANTS, B, bm25_formula
from lmtune.models.fields import BM25F, FieldFormula, Fields, SummedBM25
from lmtune.models.formula import Formula
from lmtune.models.parameter import Parameter, as_settings
from lmtune.models.sdm import SDM
from lmtune.models.two_stage import LAMBDA, LUCENE_DIRICHLET, MU, TWO_STAGE
from lmtune.models.weighted import WEIGHTS, Weighted, weighted

TABLE_COLUMNS = (
    *("collection", "measure", "method", "fold", "train", "test", "estimate", "evaluations", "at_edge"),
    *("bound", "ridge", "line", "position", "start", "step", "cost", "alpha"),
)
"""Columns of the files of a results folder that stand beside parameters."""


@dataclass(frozen=True)
class Model:
    """A formula with the ranges in which to look for its parameters.

    Attributes
    ----------
    name : str
        What ``--model`` says.
    what : str
        The same for a reader who does not know the name.
    formula : Formula
        What candidates are extracted and ranked by.
    parameters : tuple of Parameter
        The formula's, with this model's ranges and defaults; equal bounds where the model fixes one.

    Raises
    ------
    InputError
        For a parameter that is named as a column of the result tables.
    """

    name: str
    what: str
    formula: Formula
    parameters: tuple[Parameter, ...]

    def __post_init__(self) -> None:
        for parameter in self.parameters:
            if parameter.name in TABLE_COLUMNS:
                raise InputError(
                    f"a parameter of {self.name} is named as a column of the result tables",
                    value=parameter.name,
                    accepted=f"any name except {', '.join(TABLE_COLUMNS)}",
                )

    @property
    def fixed(self) -> dict[str, float]:
        """The values of the parameters that the model fixes, by name."""
        return {own.name: own.low for own in self.parameters if own.is_fixed and not own.is_counted}

    def check(self, setting: Mapping[str, float]) -> None:
        """Raise `InputError` unless a setting is in the formula's domain."""
        self.formula.check(as_settings(self.parameters, setting))

    @property
    def default(self) -> dict[str, float]:
        """The setting to search with where none is given."""
        return {parameter.name: parameter.default for parameter in self.parameters}

    def describe(self, setting: Mapping[str, float]) -> str:
        """Name a setting: ``lambda0.4-mu2500``, ``dirichlet-mu1000``."""
        free = [f"{name}{value:g}" for name, value in setting.items() if name not in self.fixed]
        return label_setting(self.name, "-".join(free))


_NO_LAMBDA = replace(LAMBDA, low=0.0, high=0.0)
_NO_MU = replace(MU, low=0.0, high=0.0, default=0.0)

# Jelinek-Mercer's default is what Zhai and Lafferty (TOIS 2004) found best for title queries;
# 0.7 for long ones.
_JELINEK_MERCER = replace(LAMBDA, low=0.01, high=0.99, default=0.1, source="Zhai and Lafferty's, for titles")

MODELS = {
    model.name: model
    for model in (
        Model("two-stage", "Zhai and Lafferty's two-stage smoothing", TWO_STAGE, (LAMBDA, MU)),
        Model("dirichlet", "two-stage smoothing with lambda = 0", TWO_STAGE, (_NO_LAMBDA, MU)),
        Model("jelinek-mercer", "two-stage smoothing with mu = 0", TWO_STAGE, (_JELINEK_MERCER, _NO_MU)),
        Model(
            "lucene-dirichlet",
            "Lucene's LMDirichletSimilarity",
            LUCENE_DIRICHLET,
            LUCENE_DIRICHLET.parameters,
        ),
        Model(
            "bm25",
            "BM25 with exact document lengths; Lucene and Elasticsearch keep them in a byte: lucene-bm25",
            bm25_formula("bm25"),
            (K1, B),
        ),
        Model(
            "sdm",
            "Metzler and Croft's sequential dependence, Dirichlet smoothing",
            SDM,
            tuple(
                replace(own, low=0.0, high=0.0) if own.name.startswith(LAMBDA.name) else own
                for own in SDM.parameters
            ),
        ),
        Model(
            "sdm-two-stage",
            "Metzler and Croft's sequential dependence, two-stage smoothing",
            SDM,
            SDM.parameters,
        ),
        Model("lucene-bm25", "Lucene's BM25Similarity", bm25_formula("lucene-bm25"), (K1, B)),
    )
}
"""All models by name, but for mixtures of fields, which say of which, and variants of BM25."""

OF_FIELDS: dict[str, type[FieldFormula]] = {own.kind: own for own in (Fields, SummedBM25, BM25F)}
"""The formulas of several fields, by what stands before the fields in a model's name."""

NAMES = (
    f"{', '.join(MODELS)}, {'|'.join(OF_FIELDS)}:title,body, {BM25_PREFIX} with {'|'.join(VARIANTS)}; "
    f"each also with +rm3 and +{WEIGHTS}"
)
"""What models are called, for a reader."""


def find_model(model: str | Model | Formula) -> Model:
    """Return the model of a name, or a formula's with the ranges of its own.

    Raises
    ------
    InputError
        Naming the models there are.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, Formula):
        return Model(model.name, model.name, model, tuple(model.parameters))
    found = known_model(model)
    if found is None:
        names = [*MODELS, *OF_FIELDS, *(f"{BM25_PREFIX}{variant}" for variant in VARIANTS)]
        raise InputError("unknown model", value=model, accepted=perhaps(model, names, NAMES))
    if isinstance(found.formula, Weighted):
        found.formula.read()
    return found


def known_model(name: str) -> Model | None:
    """Return the model of a name, None for one that only its user knows."""
    base, *parts = name.split("+")
    if parts:
        known = known_model(base)
        if known is None:
            return None
        formula = weighted(known.formula, parts)
        own = (*known.parameters, *formula.parameters[len(known.parameters) :])
        return Model(name, f"{known.what}, with weights of the query's terms", formula, own)
    if name.startswith(BM25_PREFIX):
        variant = bm25_formula(name)
        return Model(name, variant.variant.what, variant, (K1, B))
    kind, colon, fields = name.partition(":")
    if not (colon and kind in OF_FIELDS):
        return MODELS.get(name)
    of_fields = OF_FIELDS[kind](fields.split(","))
    return Model(name, of_fields.what, of_fields, of_fields.parameters)


def named_model(name: str, fields: Sequence[str]) -> str:
    """Return the name of the model that is asked for, with the fields that it mixes.

    Raises
    ------
    InputError
        For ``fields`` without fields, fields beside another model, and windows among them.
    """
    if windows := WINDOW_KINDS.keys() & fields:
        raise InputError(
            "windows are no fields to mix",
            value=",".join(sorted(windows)),
            accepted="--model sdm weighs them",
        )
    if name in OF_FIELDS and fields:
        return OF_FIELDS[name](fields).name
    if name in OF_FIELDS or fields:
        raise InputError(
            f"--fields goes with --model {', '.join(OF_FIELDS)}, and these with it",
            value=name,
            accepted=f"--model {name if name in OF_FIELDS else 'bm25f'} --fields title,contents",
        )
    return name


def described(name: str) -> list[str]:
    """Say which model a result is of, for its reader; nothing of two-stage smoothing."""
    if name == TWO_STAGE.name:
        return []
    known = known_model(name)
    return [f"model: {name}, {known.what}" if known else f"model: {name}"]


def label_setting(model: str, text: str) -> str:
    """Put a model's name before a text, but for two-stage smoothing, the usual one."""
    return text if model == TWO_STAGE.name else f"{model}-{text}"
