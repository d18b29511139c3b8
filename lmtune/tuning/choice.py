"""Settings that are no numbers."""

from __future__ import annotations

from dataclasses import dataclass

from lmtune.errors import InputError, check_choice
from lmtune.models.feedback import EXPANSIONS

MODEL, EXPAND, NONE = "model", "expand", "none"
ANALYSIS = ("stemmer", "stopwords", "lengths", "fields", "topic-fields")
"""Choices that are options of `Collection`; those of several fields have ``+`` between them."""
CHOICES = (*ANALYSIS, MODEL, EXPAND)


@dataclass(frozen=True)
class Choice:
    """A setting that is no number, and the values that it may have.

    Attributes
    ----------
    name : str
        Of `CHOICES`.
    values : tuple of str
        The first is the usual one, which the others are compared with.

    Raises
    ------
    InputError
        For another name, fewer than two values, and one that comes twice.

    Examples
    --------
    >>> Choice.parse("stemmer=porter,krovetz")
    Choice(name='stemmer', values=('porter', 'krovetz'))
    """

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        check_choice("no such choice", self.name, CHOICES)
        object.__setattr__(self, "values", tuple(self.values))
        if len(set(self.values)) < max(2, len(self.values)) or not all(self.values):
            raise InputError(
                f"bad choice of {self.name}",
                value=",".join(self.values),
                accepted="two values or more, each once, with commas between",
            )
        if self.name == EXPAND:
            for value in self.values:
                check_choice("no such expansion", value, (NONE, *EXPANSIONS))

    @classmethod
    def parse(cls, text: str) -> Choice:
        """Read what the command line says: a name, ``=``, and values with commas between."""
        name, _, values = text.partition("=")
        return cls(name.strip(), tuple(value.strip() for value in values.split(",")))
