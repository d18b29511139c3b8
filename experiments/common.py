"""Command line, cached parallel calls, tables and figures of the experiments.

An experiment is a module with a function ``experiment`` and ``QUICK``, the options of a small run. The
function's arguments are the options of the command line: a dataclass contributes one option per field, and
an argument without a default is positional. It returns tables and figures by name. The last line of
the module calls `main`.
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
"""Tables (`pandas.DataFrame`) and figures (`matplotlib.figure.Figure`) by name."""

LONGEST_PRINTED = 60
_caches = [joblib.Memory(None, verbose=0)]


def main(spec: Any) -> None:
    """Run a module's experiment: parse its options, print its tables, write all results to a folder.

    Parameters
    ----------
    spec : importlib.machinery.ModuleSpec
        The ``__spec__`` of the module that runs as ``__main__``.
    """
    # Imported by name, because worker processes cannot find functions of `__main__`.
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
    parser.add_argument("--output", type=Path, help="folder for tables, figures and cached results")
    parser.add_argument("--quick", action="store_true", help="run a small version of the experiment")
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
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
    """Parse comma-separated values."""
    return tuple(map(kind, text.split(",")))


def _declared(function: Callable[..., Any]) -> Iterator[tuple[str, Any, str | None]]:
    """Yield each option of an experiment: its name, its default and the docstring with its description.

    Options are the function's arguments; an argument that is a dataclass yields its fields.
    """
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        if is_dataclass(default):
            for field in fields(default):
                yield field.name, getattr(default, field.name), default.__doc__
        else:
            yield name, default, function.__doc__


def call(function: Callable[..., Results], options: Mapping[str, Any]) -> Results:
    """Call an experiment with options by name, building its dataclass arguments."""
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
    """Call a function with each set of arguments, in parallel; cache the results in the output folder."""
    cached = joblib.delayed(_caches[0].cache(function))
    found: list[Any] = joblib.Parallel()(cached(**call) for call in calls)
    return found


def gather(results: Iterable[Mapping[str, Sequence[Mapping[str, Any]]]]) -> dict[str, pd.DataFrame]:
    """Concatenate the rows of several results, table by table."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        for name, own in result.items():
            rows.setdefault(name, []).extend(own)
    return {name: pd.DataFrame(own) for name, own in rows.items()}


def intervals(table: pd.DataFrame, keys: Sequence[str], column: str) -> pd.DataFrame:
    """Average a column by groups: mean, half width and ends of the 95% confidence interval, and count."""
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
    """Draw a figure with a panel for each value of one column and a line for each value of another.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per point.
    x, y, line, panel : str
        Column names; an empty `line` or `panel` draws a single one.
    between : tuple of str, optional
        Columns with the ends of a band around lines, or of error bars of points.
    dots : bool
        Draw points instead of lines.
    log : str
        Logarithmic axes: "x", "y" or "xy".
    levels : sequence of float
        Values of y to mark by horizontal lines.
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
    """Fit a power law y = c x^power in each group, to the medians of y at each x."""
    rows = []
    for values, group in table.groupby(keys, sort=False):
        medians = group.groupby(x)[y].median()
        if len(medians) > 1:
            rows.append((*values, np.polyfit(np.log(medians.index), np.log(medians), 1)[0]))
    return pd.DataFrame(rows, columns=[*keys, "power"])
