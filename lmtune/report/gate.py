"""Results of requirements for continuous integration: annotations of GitHub, and JUnit's XML."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from lmtune.measures.significance.requirements import Check
from lmtune.report.table import one_line


def github_text(checks: Sequence[Check]) -> str:
    """Return a workflow command a requirement, failures first: ``::error`` or ``::notice``.

    Format and escapes are those of "Workflow commands for GitHub Actions" and of ``command.ts`` in
    actions/toolkit.
    """
    lines = []
    for check in sorted(checks, key=lambda check: check.is_met):
        title = _escaped(one_line(str(check.requirement)), ":,")
        kind = "notice" if check.is_met else "error"
        lines.append(f"::{kind} title={title}::{_escaped(one_line(str(check)))}\n")
    return "".join(lines)


def _escaped(text: str, further: str = "") -> str:
    """Replace characters with a meaning in a workflow command by their code, the percent sign first."""
    for character in ["%", "\r", "\n", *further]:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def junit_text(checks: Sequence[Check]) -> str:
    """Return JUnit's XML: a test case a requirement, slice and run, with the measure as its class."""
    counts = {"tests": str(len(checks)), "failures": str(sum(not check.is_met for check in checks))}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "lmtune compare", **counts})
    for check in checks:
        name = one_line(f"{check.system}: {check.requirement}")
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": check.requirement.measure, "name": name}
        )
        what = "system-out" if check.is_met else "failure"
        result = ElementTree.SubElement(case, what, {} if check.is_met else {"message": one_line(str(check))})
        result.text = one_line(str(check))
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'
