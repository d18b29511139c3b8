"""Public docstrings of numpy, scipy and pandas, parsed into summary, body and links."""

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

# The namespaces that the three projects document as public. A fixed list gives the same result on all
# machines, and avoids importing deprecated, optional and test modules. The list omits numpy.dtypes (names
# depend on the C compiler), scipy.linalg.blas and lapack (depend on the build), and pandas.io.formats.style
# (requires jinja2). Namespaces that an installed version does not have are skipped.
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
scipy scipy.cluster.hierarchy scipy.cluster.vq scipy.constants scipy.datasets scipy.differentiate
scipy.fft scipy.fftpack scipy.integrate scipy.interpolate scipy.io scipy.io.arff scipy.io.matlab

scipy.io.wavfile scipy.linalg scipy.linalg.interpolative scipy.ndimage scipy.odr scipy.optimize
scipy.optimize.elementwise scipy.signal scipy.signal.windows scipy.sparse scipy.sparse.csgraph

scipy.sparse.linalg scipy.spatial scipy.spatial.distance scipy.spatial.transform scipy.special
scipy.stats scipy.stats.contingency scipy.stats.distributions scipy.stats.mstats scipy.stats.qmc
scipy.stats.sampling
"""
NAMESPACES: dict[str, tuple[str, ...]] = {
    "numpy": tuple(_NUMPY.split()),
    "pandas": tuple(_PANDAS.split()),
    "scipy": tuple(_SCIPY.split()),
}

_INCOMPLETE_ALL = frozenset({"pandas.api.types"})  # its __all__ does not have the is_*_dtype functions
# scipy's deprecation notes print a set of names, in an order that depends on PYTHONHASHSEED.
_SET = re.compile(r"(Use of argument\(s\) ``)\{([^{}]*)\}")
# scipy adds this note to its and numpy's docstrings, depending on SCIPY_ARRAY_API.
_ARRAY_API_NOTE = re.compile(r"\n\n+\*\*Array API Standard Support\*\*\n.*?dev-arrayapi[^\n]*", re.DOTALL)
_EMPTY_NOTES = re.compile(r"\n+Notes\n-----(?=\n+[^\n]+\n---|\s*\Z)")
_DEEPEST_ACCESSOR = 2  # for classes that are members, such as pandas.Series.str and pandas.Series.plot


class _Member(NamedTuple):
    name: str
    value: Any
    docstring: str | None
    inherited: bool


def public_docstrings() -> dict[str, list[str]]:
    """Collect the docstrings of public callables and of the public members of classes.

    Returns
    -------
    dict of str to list of str
        The public names of the objects with a docstring, by docstring (cleaned by `inspect.cleandoc`). Names
        in the class that defines a member precede names in classes that inherit it; then names are sorted by
        length and alphabetically. The first name is the canonical one. Docstrings are sorted by their
        canonical names.

    Notes
    -----
    The result depends only on the versions of the three packages, not on other installed or imported packages
    or the platform. Therefore these are left out:

    - members inherited from the standard library, because their text depends on the Python version;
    - numpy's concrete scalar types, because their docstrings depend on the platform's C types;
    - docstrings with examples that scipy generates at random on import;
    - notes on array libraries that scipy adds depending on an environment variable.
    """
    ranks: dict[str, dict[str, bool]] = {}
    members: dict[type, list[_Member]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # access to deprecated public names warns
        # Import everything before reading docstrings, because scipy changes some of numpy's.
        modules = {name: _find_module(name) for names in NAMESPACES.values() for name in names}
        for namespace, module in modules.items():
            for name, docstring, inherited in _module_docstrings(namespace, module, members):
                names = ranks.setdefault(docstring, {})
                names[name] = names.get(name, True) and inherited
    sorted_names = [
        (sorted(names, key=lambda name: (names[name], len(name), name)), docstring)
        for docstring, names in ranks.items()
    ]
    return {docstring: names for names, docstring in sorted(sorted_names)}


def _module_docstrings(
    namespace: str, module: ModuleType | None, members: dict[type, list[_Member]]
) -> Iterator[tuple[str, str, bool]]:
    if module is None:
        return
    listed = None if namespace in _INCOMPLETE_ALL else getattr(module, "__all__", None)
    for attribute in sorted(set(listed or dir(module))):
        if attribute.startswith("_"):
            continue
        value = getattr(module, attribute, None)
        if callable(value) and _is_of_namespaces(value) and not _is_concrete_scalar(value):
            yield from _object_docstrings(f"{namespace}.{attribute}", value, members, 0)


def _find_module(namespace: str) -> ModuleType | None:
    try:
        return importlib.import_module(namespace)
    except ImportError:
        parent, _, attribute = namespace.rpartition(".")
        value = getattr(_find_module(parent), attribute, None) if parent else None
        return value if inspect.ismodule(value) else None


def _object_docstrings(
    name: str, value: Any, members: dict[type, list[_Member]], depth: int
) -> Iterator[tuple[str, str, bool]]:
    docstring = _own_docstring(value)
    if docstring is not None and not _has_random_examples(value):
        yield name, docstring, False
    if not isinstance(value, type):
        return
    if value not in members:
        members[value] = list(_public_members(value))
    for member in members[value]:
        qualified = f"{name}.{member.name}"
        if isinstance(member.value, type):
            if depth < _DEEPEST_ACCESSOR and _is_of_namespaces(member.value):
                yield from _object_docstrings(qualified, member.value, members, depth + 1)
        elif member.docstring is not None:
            yield qualified, member.docstring, member.inherited


def _public_members(cls: type) -> Iterator[_Member]:
    for name in sorted(set(dir(cls))):
        if name.startswith("_"):
            continue
        definers = [base for base in cls.__mro__ if name in vars(base)]
        if not definers or not _is_of_namespaces(definers[0]):
            continue
        try:
            value = getattr(cls, name)
        except Exception:  # descriptors may raise any exception on access through the class
            continue
        is_documented = callable(value) or hasattr(type(value), "__get__")
        if not is_documented or _is_concrete_scalar(value):
            continue
        docstring, inherited = _own_docstring(value), cls is not definers[0]
        if docstring is None:  # use the docstring of the overridden member, as help() does
            overridden = (_own_docstring(vars(base)[name]) for base in definers if _is_of_namespaces(base))
            docstring, inherited = next((text for text in overridden if text), None), True
        yield _Member(name, value, docstring, inherited)


def _own_docstring(value: Any) -> str | None:
    docstring = getattr(value, "__doc__", None)
    # An instance without its own docstring returns that of its type.
    if not isinstance(docstring, str) or docstring is type(value).__doc__:
        return None
    return _normalise(docstring) or None


# Cached, because several classes may inherit a docstring.
@cache
def _normalise(docstring: str) -> str:
    """Clean a docstring, and remove the parts that depend on environment variables."""
    docstring = inspect.cleandoc(docstring)
    if "**Array API Standard Support**" in docstring:
        docstring = _ARRAY_API_NOTE.sub("", docstring)
        docstring = _EMPTY_NOTES.sub("", docstring).strip()
    return _SET.sub(_sort_names, docstring)


def _sort_names(match: re.Match[str]) -> str:
    return f"{match[1]}{{{', '.join(sorted(match[2].split(', ')))}}}"


def _is_of_namespaces(value: Any) -> bool:
    import numpy as np

    if isinstance(value, np.ufunc):  # ufuncs have no __module__
        return True
    module = getattr(value, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] in NAMESPACES


def _has_random_examples(value: Any) -> bool:
    """Return whether a value is a distribution class of scipy, with new random examples on each import."""
    return isinstance(value, type) and any(
        base.__name__ == "UnivariateDistribution" for base in value.__mro__
    )


def _is_concrete_scalar(value: Any) -> bool:
    import numpy as np

    return isinstance(value, type) and issubclass(value, np.generic) and value is not np.generic


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
    """The parts of a docstring.

    Attributes
    ----------
    summary : str
        The first paragraph on one line, without the preceding call signatures of builtins; empty if the
        docstring begins with a section or a directive.
    body : str
        The unchanged text after the summary, without the See Also section.
    links : tuple of str
        The names in the See Also section, in its order, each once.
    """

    summary: str
    body: str
    links: tuple[str, ...]


def split_docstring(docstring: str) -> Docstring:
    r"""Parse a docstring.

    Parameters
    ----------
    docstring : str
        A docstring cleaned by `inspect.cleandoc`.

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
    """Remove leading call signatures, such as ``add(x1, x2, /, out=None)``, on lines of their own."""
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
        if (match := tail.match(text, position)) is not None:
            position = match.end()
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
    # The substring test avoids the regular expressions for nearly all lines.
    return "---" in following and bool(_RULE.fullmatch(following) and _TITLE.fullmatch(lines[number]))


def _cut_see_also(lines: list[str]) -> tuple[list[str], list[str]]:
    """Separate the body's lines from those of See Also sections."""
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
    """Return the lines with names: those with the least indentation in each section."""
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
    """Return the names of an entry such as ``a, b : description``; an empty list for prose."""
    links: list[str] = []
    position = 0
    while (link := _LINK.match(line, position)) is not None:
        links.append(link[1].strip("."))
        comma = _BETWEEN_LINKS.match(line, link.end())
        if comma is None:
            return links if _AFTER_LINKS.match(line, link.end()) else []
        position = comma.end()
    return links if position == len(line) else []
