"""The public docstrings of numpy, scipy and pandas, taken apart: summary, links, and everything else."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

# The namespaces that the three projects document as public. They are listed, not discovered: a
# walk over what is on disk or already imported would differ between machines, and would import
# deprecated, optional and test modules. Left out on purpose: numpy.dtypes (names depend on the C
# compiler), scipy.linalg.blas and lapack (depend on the build), pandas.io.formats.style (there
# only with jinja2). A version that lacks one of the namespaces goes without it.
_NUMPY = """
numpy numpy.char numpy.ctypeslib numpy.emath numpy.exceptions numpy.fft numpy.lib
numpy.lib.array_utils numpy.lib.format numpy.lib.introspect numpy.lib.mixins numpy.lib.npyio
numpy.lib.recfunctions numpy.lib.scimath numpy.lib.stride_tricks numpy.linalg numpy.ma
numpy.ma.extras numpy.ma.mrecords numpy.polynomial numpy.polynomial.chebyshev
numpy.polynomial.hermite numpy.polynomial.hermite_e numpy.polynomial.laguerre
numpy.polynomial.legendre numpy.polynomial.polynomial numpy.polynomial.polyutils numpy.random
numpy.rec numpy.strings numpy.testing numpy.typing
"""
_PANDAS = """
pandas pandas.api.executors pandas.api.extensions pandas.api.indexers pandas.api.interchange
pandas.api.types pandas.api.typing pandas.arrays pandas.errors pandas.io.json pandas.plotting
pandas.testing pandas.tseries.api pandas.tseries.frequencies pandas.tseries.holiday
pandas.tseries.offsets pandas.util
"""
_SCIPY = """
scipy scipy.cluster.hierarchy scipy.cluster.vq scipy.constants scipy.datasets
scipy.differentiate scipy.fft scipy.fftpack scipy.integrate scipy.interpolate scipy.io
scipy.io.arff scipy.io.matlab scipy.io.wavfile scipy.linalg scipy.linalg.interpolative
scipy.ndimage scipy.odr scipy.optimize scipy.optimize.elementwise scipy.signal
scipy.signal.windows scipy.sparse scipy.sparse.csgraph scipy.sparse.linalg scipy.spatial
scipy.spatial.distance scipy.spatial.transform scipy.special scipy.stats
scipy.stats.contingency scipy.stats.distributions scipy.stats.mstats scipy.stats.qmc
scipy.stats.sampling
"""
NAMESPACES: dict[str, tuple[str, ...]] = {
    "numpy": tuple(_NUMPY.split()),
    "pandas": tuple(_PANDAS.split()),
    "scipy": tuple(_SCIPY.split()),
}

_WITH_SHORT_ALL = frozenset({"pandas.api.types"})  # its __all__ lacks the is_*_dtype functions
# scipy's deprecation notes print a set of names, whose order goes with PYTHONHASHSEED.
_SET = re.compile(r"(Use of argument\(s\) ``)\{([^{}]*)\}")
# scipy adds this note to docstrings, to numpy's too, depending on SCIPY_ARRAY_API.
_ARRAY_API_NOTE = re.compile(r"\n\n+\*\*Array API Standard Support\*\*\n.*?dev-arrayapi[^\n]*", re.DOTALL)
_EMPTY_NOTES = re.compile(r"\n+Notes\n-----(?=\n+[^\n]+\n---|\s*\Z)")
_DEEPEST_ACCESSOR = 2  # pandas.Series.str, pandas.Series.plot: classes that are members


class _Member(NamedTuple):
    name: str
    value: Any
    docstring: str | None
    inherited: bool


def public_docstrings() -> dict[str, list[str]]:
    """Collect the docstrings of the public callables, and of their classes' public members.

    Returns
    -------
    dict of str to list of str
        The public names under which a docstring is found, by docstring (cleaned as
        `inspect.cleandoc` does). A name in the class that defines the member comes before names
        in classes that inherit it; then shorter names before longer ones; then alphabetically.
        The first is the canonical name; docstrings are in the order of their canonical names.

    Notes
    -----
    The result depends on the versions of the three packages alone: not on what else is
    installed or was imported before, nor on the platform. So members that a class takes from
    the standard library are left out (their text goes with the Python version), and so are
    numpy's concrete scalar types (which C type is ``int64`` differs between platforms, and
    their docstrings say which). scipy draws some examples at random when it is imported, and
    notes for some functions which array libraries they take if an environment variable says so:
    those docstrings and those notes are left out.
    """
    ranks: dict[str, dict[str, bool]] = {}
    members: dict[type, list[_Member]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some public names are deprecated and say so when looked at
        # All are imported before any is read: scipy changes some of numpy's docstrings.
        modules = {name: _find_module(name) for names in NAMESPACES.values() for name in names}
        for namespace, module in modules.items():
            for name, docstring, inherited in _module_docstrings(namespace, module, members):
                names = ranks.setdefault(docstring, {})
                names[name] = names.get(name, True) and inherited
    found = [
        (sorted(names, key=lambda name: (names[name], len(name), name)), docstring)
        for docstring, names in ranks.items()
    ]
    return {docstring: names for names, docstring in sorted(found)}


def _module_docstrings(
    namespace: str, module: ModuleType | None, members: dict[type, list[_Member]]
) -> Iterator[tuple[str, str, bool]]:
    if module is None:
        return
    listed = None if namespace in _WITH_SHORT_ALL else getattr(module, "__all__", None)
    for attribute in sorted(set(listed or dir(module))):
        if attribute.startswith("_"):
            continue
        found = getattr(module, attribute, None)
        if callable(found) and _is_ours(found) and not _is_concrete_scalar(found):
            yield from _object_docstrings(f"{namespace}.{attribute}", found, members, 0)


def _find_module(namespace: str) -> ModuleType | None:
    try:
        return importlib.import_module(namespace)
    except ImportError:
        parent, _, attribute = namespace.rpartition(".")
        found = getattr(importlib.import_module(parent), attribute, None) if parent else None
        return found if inspect.ismodule(found) else None


def _object_docstrings(
    name: str, found: Any, members: dict[type, list[_Member]], depth: int
) -> Iterator[tuple[str, str, bool]]:
    docstring = _own_docstring(found)
    if docstring is not None and not _is_drawn(found):
        yield name, docstring, False
    if not isinstance(found, type):
        return
    if found not in members:
        members[found] = list(_public_members(found))
    for member in members[found]:
        qualified = f"{name}.{member.name}"
        if isinstance(member.value, type):
            if depth < _DEEPEST_ACCESSOR and _is_ours(member.value):
                yield from _object_docstrings(qualified, member.value, members, depth + 1)
        elif member.docstring is not None:
            yield qualified, member.docstring, member.inherited


def _public_members(cls: type) -> Iterator[_Member]:
    for name in sorted(set(dir(cls))):
        if name.startswith("_"):
            continue
        definers = [base for base in cls.__mro__ if name in vars(base)]
        if not definers or not _is_ours(definers[0]):
            continue
        try:
            value = getattr(cls, name)
        except Exception:  # descriptors may raise anything when asked of the class
            continue
        is_documented = callable(value) or hasattr(type(value), "__get__")
        if not is_documented or _is_concrete_scalar(value):
            continue
        docstring, inherited = _own_docstring(value), cls is not definers[0]
        if docstring is None:  # then the one that it overrides speaks for it, as in help()
            overridden = (_own_docstring(vars(base)[name]) for base in definers if _is_ours(base))
            docstring, inherited = next((text for text in overridden if text), None), True
        yield _Member(name, value, docstring, inherited)


def _own_docstring(found: Any) -> str | None:
    docstring = getattr(found, "__doc__", None)
    # An instance without a docstring of its own shows that of its type.
    if not isinstance(docstring, str) or docstring is type(found).__doc__:
        return None
    return _settled(docstring) or None


@cache
def _settled(docstring: str) -> str:
    """Clean a docstring, which several classes may inherit, and undo what environment variables do to it."""
    docstring = inspect.cleandoc(docstring)
    if "**Array API Standard Support**" in docstring:
        docstring = _ARRAY_API_NOTE.sub("", docstring)
        docstring = _EMPTY_NOTES.sub("", docstring).strip()
    return _SET.sub(_in_order, docstring)


def _in_order(match: re.Match[str]) -> str:
    return f"{match[1]}{{{', '.join(sorted(match[2].split(', ')))}}}"


def _is_ours(found: Any) -> bool:
    import numpy as np

    if isinstance(found, np.ufunc):  # ufuncs do not say where they come from
        return True
    module = getattr(found, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] in NAMESPACES


def _is_drawn(found: Any) -> bool:
    """Tell scipy's distribution classes, whose examples are drawn at random on every import."""
    return isinstance(found, type) and any(
        base.__name__ == "UnivariateDistribution" for base in found.__mro__
    )


def _is_concrete_scalar(found: Any) -> bool:
    import numpy as np

    return isinstance(found, type) and issubclass(found, np.generic) and found is not np.generic


_RULE = re.compile(r"\s*-{3,}\s*")
_TITLE = re.compile(r"\s*[A-Za-z][A-Za-z ]*")
_SEE_ALSO = re.compile(r"\s*see\s?also\s*", re.IGNORECASE)
_DIRECTIVE = re.compile(r"\s*\.\.\s+seealso::.*", re.IGNORECASE)
_CALL = re.compile(r"(?:[A-Za-z_]\w*(?:, *[A-Za-z_]\w*)* = )?[A-Za-z_][\w.]*\(")
_RETURN_TYPE = re.compile(r"[ \t]*->[^\n]*")
_CLINIC_RULE = re.compile(r"\n--[ \t]*(?=\n|\Z)")
_LINK = re.compile(r"(?::[\w:+-]+:)?`?[~.]?([A-Za-z_][\w.]*)(?:\(\))?`?")
_BETWEEN_LINKS = re.compile(r"\s*,\s*")
_AFTER_LINKS = re.compile(r"\s*(:|\Z)")


class Docstring(NamedTuple):
    """A docstring's parts.

    Attributes
    ----------
    summary : str
        The first paragraph on one line, without the call signatures that builtins put before
        it; empty where the docstring begins with a section or a directive.
    body : str
        What follows the summary, without the See Also section, as it is written.
    links : tuple of str
        The names that the See Also section lists, in its order, each once.
    """

    summary: str
    body: str
    links: tuple[str, ...]


def split_docstring(docstring: str) -> Docstring:
    r"""Take a docstring apart.

    Parameters
    ----------
    docstring : str
        As `inspect.cleandoc` returns it.

    Returns
    -------
    Docstring

    Examples
    --------
    >>> split_docstring("add(a, b)\n\nAdd numbers.\n\nSee Also\n--------\nsubtract\n")
    Docstring(summary='Add numbers.', body='', links=('subtract',))
    """
    lines = _without_signatures(docstring).split("\n")
    end = _summary_end(lines)
    body, see_also = _cut_see_also(lines[end:])
    links = dict.fromkeys(link for line in see_also for link in _line_links(line))
    return Docstring(" ".join(" ".join(lines[:end]).split()), "\n".join(body).strip(), tuple(links))


def _without_signatures(docstring: str) -> str:
    """Drop leading call signatures, such as ``add(x1, x2, /, out=None)``, each on its lines."""
    text = docstring.strip()
    while (end := _signature_end(text)) is not None:
        text = text[end:].strip()
    return text


def _signature_end(text: str) -> int | None:
    opening = _CALL.match(text)
    if opening is None:
        return None
    depth, position = 1, opening.end()
    while depth and position < len(text):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        position += 1
    for tail in (_RETURN_TYPE, _CLINIC_RULE):
        if (found := tail.match(text, position)) is not None:
            position = found.end()
    # A sentence may begin like a call: "cos(x) - 1 for use when `x` is near zero."
    alone = depth == 0 and not text[position:].partition("\n")[0].strip()
    return position if alone else None


def _summary_end(lines: list[str]) -> int:
    if lines[0].startswith(".. "):
        return 0
    for number, line in enumerate(lines):
        if not line.strip() or _is_title(lines, number):
            return number
    return len(lines)


def _is_title(lines: list[str], number: int) -> bool:
    following = lines[number + 1] if number + 1 < len(lines) else ""
    # The first look spares nearly all lines a pattern.
    return "---" in following and bool(_RULE.fullmatch(following) and _TITLE.fullmatch(lines[number]))


def _cut_see_also(lines: list[str]) -> tuple[list[str], list[str]]:
    """Separate the See Also sections' lines from all others, which keep their order."""
    body: list[str] = []
    see_also: list[str] = []
    inside = False
    directive: int | None = None
    for number, line in enumerate(lines):
        if _is_title(lines, number):
            inside = _SEE_ALSO.fullmatch(line) is not None
            directive = None
        elif directive is not None and line.strip() and _indent(line) <= directive:
            directive = None
        if _DIRECTIVE.fullmatch(line):
            directive = _indent(line)
        if inside:
            see_also.append(line)
        elif directive is None:
            body.append(line)
    return body, _entries(see_also)


def _entries(section: list[str]) -> list[str]:
    """Keep the lines that name things: those that a section indents the least."""
    titles = [number for number in range(len(section)) if _is_title(section, number)]
    entries: list[str] = []
    for start, end in pairwise([*titles, len(section)]):
        lines = [line for line in section[start + 2 : end] if line.strip()]
        margin = min(map(_indent, lines), default=0)
        entries += [line.strip() for line in lines if _indent(line) == margin]
    return entries


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _line_links(line: str) -> list[str]:
    """Return the names at the start of an entry: ``a, b : what they do``; none in prose."""
    links: list[str] = []
    position = 0
    while (found := _LINK.match(line, position)) is not None:
        links.append(found[1].strip("."))
        comma = _BETWEEN_LINKS.match(line, found.end())
        if comma is None:
            return links if _AFTER_LINKS.match(line, found.end()) else []
        position = comma.end()
    return links if position == len(line) else []
