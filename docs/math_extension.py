"""Convert formulas of docstrings (LaTeX in reStructuredText) to MathML, which browsers render."""

from __future__ import annotations

import re

from griffe import Extension, Object
from latex2mathml.converter import convert

_BLOCK = re.compile(r"^( *)\.\. math::\s*(\S.*(?:\n\1 +\S.*)*)", re.MULTILINE)
_INLINE = re.compile(r":math:`([^`]+)`")


class Math(Extension):
    """Converts the formulas of each docstring to MathML."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Convert the formulas of an object's docstring."""
        if obj.docstring is not None and "math:" in obj.docstring.value:
            text = _BLOCK.sub(lambda match: match[1] + drawn(match[2], "block"), obj.docstring.value)
            obj.docstring.value = _INLINE.sub(lambda match: drawn(match[1], "inline"), text)


def drawn(latex: str, display: str) -> str:
    """Return a formula as MathML in a span; without it Markdown would make a paragraph."""
    return f"<span>{convert(' '.join(latex.split()), display=display)}</span>"
