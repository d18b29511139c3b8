"""Command line, cached parallel work, tables and pictures of the experiments.

An experiment is a module with a function ``experiment`` and ``QUICK``, the options of a small run. The
arguments of the function are the options (a dataclass stands for its fields; an argument without a default
has no flag); it returns its tables and pictures by name. The last line of the module calls `main`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pandas as pd

import lmtune
from lmtune.measures import confidence_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Results = dict[str, Any]
"""Tables (`pandas.DataFrame`) and pictures (`matplotlib.figure.Figure`) by name."""

LONGEST_PRINTED = 60
_caches = [joblib.Memory(None, verbose=0)]


def main(spec: Any) -> None:
    """Run the experiment of a module: read its options, print its tables, write all to a folder.

    Parameters
    ----------
    spec : importlib.machinery.ModuleSpec
        The ``__spec__`` of the module that runs as ``__main__``.
    """
    # Worker processes find its functions by the name of the module, not in `__main__`.
    module = import_module(spec.name)
    parser = _parser(module, f"python -m {spec.name.removesuffix('.__main__')}")
    given: dict[str, Any] = {
        name: tuple(chain(*value)) if isinstance(value, list) else value
        for name, value in vars(parser.parse_args()).items()
    }
    output, workers, quick = (given.pop(name) for name in ("output", "workers", "quick"))
    options = {**(module.QUICK if quick else {}), **given}
    if output is not None:
        output = output.resolve()
        output.mkdir(parents=True, exist_ok=True)
        _caches[0] = joblib.Memory(output / "cache", verbose=0)
    try:
        with joblib.parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
            results = call(module.experiment, options)
    except lmtune.InputError as error:
        sys.exit(f"error: {error}")
    _caches[0] = joblib.Memory(None, verbose=0)
    _print(results)
    if output is not None:
        made = {"command": [parser.prog, *sys.argv[1:]], "lmtune": lmtune.__version__}
        (output / "made.json").write_text(json.dumps(made, indent=1))
        _write(output, results)


def _parser(module: Any, program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(program, description=(module.__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, help="folder of tables, pictures and cached work")
    parser.add_argument("--quick", action="store_true", help="a small run of the same shape")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    for name, default, doc in _declared(module.experiment):
        helps = dict(re.findall(r"^ {4}(\w+) : .*\n {8}(.*)", doc or "", re.MULTILINE))
        flag, text = f"--{name.replace('_', '-')}", helps.get(name, "")
        how: dict[str, Any] = {"default": argparse.SUPPRESS, "help": f"{text} (default: {default})"}
        if isinstance(default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, **how)
        elif isinstance(default, tuple):
            parser.add_argument(flag, nargs="+", type=partial(_values, type(default[0])), **how)
        elif default is inspect.Parameter.empty:
            many = inspect.signature(module.experiment).parameters[name].annotation == "tuple[str, ...]"
            read: dict[str, Any] = {"nargs": "+", "type": lambda one: (one,)} if many else {}
            parser.add_argument(name, help=text, **read)
        else:
            parser.add_argument(flag, type=str if default is None else type(default), **how)
    return parser


def _values(kind: type, text: str) -> tuple[Any, ...]:
    """Read values with commas between; spaces may separate them as well."""
    return tuple(map(kind, text.split(",")))


def _declared(function: Callable[..., Any]) -> Iterator[tuple[str, Any, str | None]]:
    """Yield the options of an experiment with their defaults and the docstring that describes them.

    Options are the function's arguments, and the fields of an argument that is a dataclass.
    """
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        if is_dataclass(default):
            for field in fields(default):
                yield field.name, getattr(default, field.name), default.__doc__
        else:
            yield name, default, function.__doc__


def call(function: Callable[..., Results], options: Mapping[str, Any]) -> Results:
    """Call an experiment with options by name; see `_declared`."""
    arguments = dict(options)
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        if is_dataclass(default) and not isinstance(default, type):
            own = {one.name: arguments.pop(one.name) for one in fields(default) if one.name in arguments}
            arguments[name] = replace(default, **own)
    return function(**arguments)


def _print(results: Results) -> None:
    for name, table in results.items():
        if isinstance(table, pd.DataFrame) and len(table) <= LONGEST_PRINTED:
            print(f"{name}\n{table.to_string(index=False, float_format='{:.4g}'.format)}\n")


def _write(folder: Path, results: Results) -> None:
    for name, result in results.items():
        if isinstance(result, pd.DataFrame):
            result.to_csv(folder / f"{name}.csv", index=False)
        else:
            result.savefig(folder / f"{name}.png", dpi=200)


def each(function: Callable[..., Any], calls: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Call a function with each set of arguments, in processes; results are cached in the output folder."""
    cached = joblib.delayed(_caches[0].cache(function))
    found: list[Any] = joblib.Parallel()(cached(**call) for call in calls)
    return found


def gather(results: Iterable[Mapping[str, Sequence[Mapping[str, Any]]]]) -> dict[str, pd.DataFrame]:
    """Put the rows of several results together, table by table."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        for name, own in result.items():
            rows.setdefault(name, []).extend(own)
    return {name: pd.DataFrame(own) for name, own in rows.items()}


def intervals(table: pd.DataFrame, keys: Sequence[str], column: str) -> pd.DataFrame:
    """Average a column by some others: mean, half of the 95% interval, its ends, and the count."""
    rows = []
    for values, group in table.groupby([*keys], sort=False):
        mean, half = confidence_interval(group[column].tolist())
        rows.append((*values, mean, half, mean - half, mean + half, len(group)))
    return pd.DataFrame(rows, columns=[*keys, "mean", "half", "low", "high", "count"])


def chart(
    table: pd.DataFrame,
    x: str,
    y: str,
    *,
    line: str = "",
    panel: str = "",
    between: tuple[str, str] | None = None,
    dots: bool = False,
    log: str = "",
    levels: Sequence[float] = (),
) -> Figure:
    """Draw a panel for each value of a column, and in it a line for each value of another.

    Parameters
    ----------
    table : pandas.DataFrame
        A row a point.
    x, y, line, panel : str
        Columns.
    between : tuple of str, optional
        Columns of a band about the lines, or of intervals about points.
    dots : bool
        Draw points instead of lines.
    log : str
        The logarithmic axes: "x", "y" or "xy".
    levels : sequence of float
        Heights that are marked.
    """
    from matplotlib.figure import Figure

    parts = dict(list(table.groupby(panel, sort=False))) if panel else {"": table}
    wide = min(3, len(parts))
    high = -(-len(parts) // wide)
    figure = Figure(figsize=(4.0 * wide, 3.0 * high), layout="constrained")
    axes: list[Axes] = list(figure.subplots(high, wide, squeeze=False).flat)
    for ax, (title, part) in zip(axes, parts.items(), strict=False):
        for name, own in part.groupby(line, sort=False) if line else [(None, part)]:
            _draw(ax, own, x, y, name, between, dots=dots)
        for height in levels:
            ax.axhline(height, color="0.5", lw=0.7, ls="--")
        ax.set(title=str(title), xlabel=x, ylabel=y)
        ax.set(**{f"{axis}scale": "log" for axis in log})
        if line and len(ax.lines) <= 5:
            ax.legend(fontsize="x-small")
        elif line and ax is axes[0]:
            figure.legend(
                *ax.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="x-small"
            )
    for ax in axes[len(parts) :]:
        ax.remove()
    return figure


def _draw(
    ax: Axes, points: pd.DataFrame, x: str, y: str, name: Any, between: tuple[str, str] | None, *, dots: bool
) -> None:
    at, ends = points[x], points[[*between]].to_numpy(float).T if between else None
    if dots:
        error = None if ends is None else np.abs(ends - points[y].to_numpy(float))
        ax.errorbar(at, points[y], yerr=error, fmt="o", ms=4, lw=1, label=name)
        return
    ax.plot(at, points[y], lw=1, label=name)
    if ends is not None:
        ax.fill_between(at, *ends, alpha=0.2, lw=0)


def power_law(table: pd.DataFrame, keys: list[str], x: str, y: str) -> pd.DataFrame:
    """Fit y as x to a power, group by group, to the medians at each x."""
    rows = []
    for values, group in table.groupby(keys, sort=False):
        medians = group.groupby(x)[y].median()
        if len(medians) > 1:
            rows.append((*values, np.polyfit(np.log(medians.index), np.log(medians), 1)[0]))
    return pd.DataFrame(rows, columns=[*keys, "power"])
