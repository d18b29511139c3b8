"""A laboratory of one experiment, in the process that imports this."""

from __future__ import annotations

from typing import Any

import toy_experiment

from lmtune.cli import lab
from lmtune.laboratory import catalogue

_catalogue: Any = catalogue
_commands: Any = lab
_catalogue.NAMES = ("toy",)
_catalogue.find_experiment = lambda _: toy_experiment.Powers
_commands.summary = lambda _: "Powers of a number"
