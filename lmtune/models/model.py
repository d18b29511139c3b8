"""Named models: a scoring formula with the ranges and defaults of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lmtune.errors import InputError, with_closest
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
"""Columns of the tables in a results folder that are not parameters."""


@dataclass(frozen=True)
class Model:
    """A formula with the ranges and defaults of its parameters.

    Attributes
    ----------
    name : str
        The name, as in ``--model``.
    what : str
        A short description.
    formula : Formula
        The scoring function, which also extracts the candidates.
    parameters : tuple of Parameter
        The formula's parameters with this model's ranges and defaults. A fixed parameter has equal bounds.

    Raises
    ------
    InputError
        If a parameter has the name of a column of the result tables.
    """

    name: str
    what: str
    formula: Formula
    parameters: tuple[Parameter, ...]

    def __post_init__(self) -> None:
        for parameter in self.parameters:
            if parameter.name in TABLE_COLUMNS:
                raise InputError(
                    f"a parameter of {self.name} has the name of a column of the result tables",
                    value=parameter.name,
                    accepted=f"any name except {', '.join(TABLE_COLUMNS)}",
                )

    @property
    def fixed(self) -> dict[str, float]:
        """The values of the parameters that the model fixes, by name.

        Means and standard deviations of custom features are not among them: each fit computes these.
        """
        return {each.name: each.low for each in self.parameters if each.is_fixed and not each.is_counted}

    def check(self, setting: Mapping[str, float]) -> None:
        """Raise `InputError` unless a setting is in the formula's domain."""
        self.formula.check(as_settings(self.parameters, setting))

    @property
    def default(self) -> dict[str, float]:
        """The default values of all parameters, by name."""
        return {parameter.name: parameter.default for parameter in self.parameters}

    def describe(self, setting: Mapping[str, float]) -> str:
        """Return a label for a setting in tags of runs: ``lambda0.4-mu2500``, ``dirichlet-mu1000``."""
        free = [f"{name}{value:g}" for name, value in setting.items() if name not in self.fixed]
        return label_setting(self.name, "-".join(free))


_NO_LAMBDA = replace(LAMBDA, low=0.0, high=0.0)
_NO_MU = replace(MU, low=0.0, high=0.0, default=0.0)

# Zhai and Lafferty (TOIS 2004) recommend 0.1 for title queries and 0.7 for long queries.
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
                replace(each, low=0.0, high=0.0) if each.name.startswith(LAMBDA.name) else each
                for each in SDM.parameters
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
"""Models by name, without field models and BM25 variants, whose names have parts after a colon."""

OF_FIELDS: dict[str, type[FieldFormula]] = {each.kind: each for each in (Fields, SummedBM25, BM25F)}
"""Field models by the prefix of their names."""

NAMES = (
    f"{', '.join(MODELS)}; {BM25_PREFIX}VARIANT ({', '.join(VARIANTS)}); {', '.join(OF_FIELDS)} followed by "
    f":title,body; any of these with +rm3 or +{WEIGHTS}"
)
"""All accepted model names, for messages."""


def find_model(model: str | Model | Formula) -> Model:
    """Return the model with a name, or wrap a formula with its own parameter ranges.

    Raises
    ------
    InputError
        If the name is unknown; the message lists the accepted names.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, Formula):
        return Model(model.name, model.name, model, tuple(model.parameters))
    named = known_model(model)
    if named is None:
        names = [*MODELS, *OF_FIELDS, *(f"{BM25_PREFIX}{variant}" for variant in VARIANTS)]
        raise InputError("unknown model", value=model, accepted=with_closest(model, names, NAMES))
    if isinstance(named.formula, Weighted):
        named.formula.read()  # so that an invalid file of features is an error here
    return named


def known_model(name: str) -> Model | None:
    """Return the model with a name, or None for an unknown name, such as that of a custom formula."""
    base, *parts = name.split("+")
    if parts:
        known = known_model(base)
        if known is None:
            return None
        formula = weighted(known.formula, parts)
        parameters = (*known.parameters, *formula.parameters[len(known.parameters) :])
        return Model(name, f"{known.what}, with weights of the query's terms", formula, parameters)
    if name.startswith(BM25_PREFIX):
        variant = bm25_formula(name)
        return Model(name, variant.variant.what, variant, (K1, B))
    kind, colon, fields = name.partition(":")
    if not (colon and kind in OF_FIELDS):
        return MODELS.get(name)
    of_fields = OF_FIELDS[kind](fields.split(","))
    return Model(name, of_fields.what, of_fields, of_fields.parameters)


def named_model(name: str, fields: Sequence[str]) -> str:
    """Return the full name of a model: a field model's name includes its fields.

    Raises
    ------
    InputError
        If a field model has no fields, another model has fields, or a field is a kind of window.
    """
    if windows := WINDOW_KINDS.keys() & fields:
        raise InputError(
            "windows cannot be mixed as fields",
            value=",".join(sorted(windows)),
            accepted="document fields; --model sdm weights windows",
        )
    if name in OF_FIELDS and fields:
        return OF_FIELDS[name](fields).name
    if name in OF_FIELDS or fields:
        raise InputError(
            f"--fields and the models {', '.join(OF_FIELDS)} require each other",
            value=name,
            accepted=f"--model {name if name in OF_FIELDS else 'bm25f'} --fields title,contents",
        )
    return name


def describe_model(name: str) -> list[str]:
    """Return a line that names and describes a model; no line for two-stage smoothing."""
    if name == TWO_STAGE.name:
        return []
    known = known_model(name)
    return [f"model: {name}, {known.what}" if known else f"model: {name}"]


def label_setting(model: str, text: str) -> str:
    """Put the model's name before a text, except for two-stage smoothing."""
    return text if model == TWO_STAGE.name else f"{model}-{text}"
