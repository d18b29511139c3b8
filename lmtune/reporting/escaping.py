"""Names of others inside our tables."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Put single spaces for all white space."""
    return " ".join(text.split())


def markdown_escape(text: str) -> str:
    """Make text fit for a cell of a Markdown table."""
    return one_line(text).replace("|", r"\|")


def latex_escape(text: str) -> str:
    """Make text fit for LaTeX."""
    text = one_line(text)
    for character in "\\&%$#_{}":
        text = text.replace(character, rf"\{character}" if character != "\\" else r"\textbackslash ")
    for character in "^~":
        text = text.replace(character, rf"\{character}{{}}")
    for character in "<>|":
        text = text.replace(character, f"${character}$")
    return text
