"""The style of all pictures, and how they are saved."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

from lmtune.errors import (
    InputError,
    MissingExtraError,
    PathLike,
    check_choice,
    install_command,
    require_modules,
    visible,
)
from lmtune.io.files import atomic_write
from lmtune.progress import note
from lmtune.report.table import short as short

if TYPE_CHECKING:
    from matplotlib import RcParams
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.4, 7.0
"""Widths in inches: a column of a two-column paper, and both."""

_EXTRA = "report"

LAMBDA, MU = "λ", "μ"
MU_LABEL = f"{MU} (tokens)"
_SYMBOLS = {"lambda": LAMBDA, "mu": MU}

_MOST_PANELS = 3
"""Panels side by side."""

FORMATS = ("png", "svg", "pdf")
FOLDER_FORMATS = ("png", "svg")
"""The formats of a picture in a results folder."""

_DOTS_PER_INCH, _DOTS_ON_SCREEN = 300, 120
_LARGER = 1.6  # scale of SVG files, since a point is small on screens
# Characters of a line, and of a vertical axis label.
_LONGEST, _LONGEST_UPRIGHT = 80, 48
_MANY_DECADES = 2.5
_STYLE = Path(__file__).with_name("lmtune.mplstyle")
_SVG_SIZE = re.compile(rb'(?<= )(width|height)="([\d.]+)pt"')
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


class Look(NamedTuple):
    """A system's colour, line style and marker; line and marker are distinct without colour too."""

    color: str
    line: str | tuple[int, tuple[int, ...]]
    marker: str

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of matplotlib's line functions."""
        return {"color": self.color, "ls": self.line, "marker": self.marker}


class ParameterAxis(NamedTuple):
    """The symbol, unit and scale of a parameter's axis.

    Attributes
    ----------
    name : str
        The parameter's name; lambda and mu have Greek letters as symbols.
    unit : str
        The unit, if any.
    is_log : bool
        Whether the axis is logarithmic, for positive numbers of any magnitude.
    """

    name: str
    unit: str = ""
    is_log: bool = False

    @property
    def symbol(self) -> str:
        """The symbol for sentences."""
        return _SYMBOLS.get(self.name, self.name)

    @property
    def label(self) -> str:
        """The symbol and the unit, for an axis."""
        return f"{self.symbol} ({self.unit})" if self.unit else self.symbol

    def text(self, value: float) -> str:
        """Format a value."""
        return tokens(value) if self.is_log else f"{value:.3f}"


TWO_STAGE = (ParameterAxis("lambda"), ParameterAxis("mu", "tokens", is_log=True))
"""The parameters of two-stage smoothing."""


# Okabe and Ito's colours, distinguishable with colour-vision deficiencies.
_LOOKS = {
    "Direct": Look("#0072B2", "-", "o"),
    "RankNet": Look("#D55E00", "--", "^"),
    "Approx": Look("#CC79A7", "-.", "D"),
    "RankNet-val": Look("#000000", (0, (3, 1, 1, 1)), "X"),
    "Bagged": Look("#882255", (0, (5, 2)), "h"),
    "Default": Look("#7F7F7F", (0, (1, 1)), "*"),
    "Optimal": Look("#009E73", ":", "s"),
    "SPSA": Look("#E69F00", (0, (5, 1, 1, 1, 1, 1)), "v"),
    "FDSA": Look("#56B4E9", (0, (3, 1)), "P"),
}
_FURTHER = (
    Look("#000000", "-", "o"),
    Look("#0072B2", "--", "^"),
    Look("#D55E00", "-.", "s"),
    Look("#009E73", ":", "D"),
    Look("#CC79A7", (0, (5, 1, 1, 1, 1, 1)), "v"),
    Look("#56B4E9", "-", "P"),
    Look("#E69F00", "--", "X"),
)


@dataclass(frozen=True)
class Picture:
    """A figure with its file name, caption and place on a page.

    Attributes
    ----------
    name : str
        The file name without suffix.
    title : str
        The caption.
    figure : matplotlib.figure.Figure
        The figure.
    group, part : str
        The collection; the measure and fold.
    lead : bool
        Whether the picture supports the recommendation, and is printed beside it.
    """

    name: str
    title: str
    figure: Figure
    group: str = ""
    part: str = ""
    lead: bool = False

    @property
    def alt(self) -> str:
        """The figure in words, with its main numbers."""
        return alt_text(self.figure)


def looks(names: Sequence[str]) -> dict[str, Look]:
    """Return the look of each system; the methods of tuning experiments have fixed looks."""
    others = [name for name in names if name not in _LOOKS]
    further = {name: _FURTHER[i % len(_FURTHER)] for i, name in enumerate(others)}
    return {name: _LOOKS.get(name) or further[name] for name in names}


def require_pictures(feature: str = "a picture") -> None:
    """Raise `MissingExtraError` unless pictures can be drawn."""
    require_modules(feature, _EXTRA, "matplotlib", "pandas")


def can_draw() -> bool:
    """Return whether pictures can be drawn; if not, log a note."""
    try:
        require_pictures()
    except MissingExtraError:
        note(f"no pictures: {install_command(_EXTRA)}")
        return False
    return True


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw in this style; the user's settings are ignored, and restored afterwards."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_settings())
        yield


@functools.cache
def _settings() -> RcParams:
    import matplotlib as mpl

    return mpl.rc_params_from_file(_STYLE, use_default_template=False)


_P = ParamSpec("_P")
_R = TypeVar("_R")


def in_style(draw: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a function draw in `styled`."""

    @functools.wraps(draw)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        require_pictures()
        import matplotlib as mpl

        with styled(), mpl.rc_context({"text.parse_math": False}):  # names may contain dollar signs
            return draw(*args, **kwargs)

    return wrapper


@dataclass
class Canvas:
    """The user's options of a picture.

    Attributes
    ----------
    ax : matplotlib.axes.Axes, optional
        Axes to draw on instead of a new figure.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.
    cmap : str or Colormap, optional
        Colour map of a surface; its last colour is for the best value.
    is_coloured : bool
        Whether the picture used `cmap`.
    """

    ax: Axes | None = None
    figsize: tuple[float, float] | None = None
    cmap: str | Colormap | None = None
    is_coloured: bool = False


_CANVAS: ContextVar[Canvas | None] = ContextVar("canvas", default=None)


def canvas() -> Canvas:
    """Return the options of the current picture."""
    return _CANVAS.get() or Canvas()


@contextlib.contextmanager
def drawn_on(asked: Canvas) -> Iterator[None]:
    """Draw a picture with a user's options.

    Raises
    ------
    InputError
        If `ax` is not matplotlib's axes, `ax` and `figsize` are both given, or a picture without a surface
        has a `cmap`.
    """
    require_pictures()
    from matplotlib.axes import Axes

    if not isinstance(asked.ax, Axes | None):
        raise InputError("bad ax", value=asked.ax, accepted="axes of matplotlib")
    if asked.ax is not None and asked.figsize is not None:
        raise InputError("figsize and ax exclude each other", value=asked.figsize, accepted="one of them")
    token = _CANVAS.set(asked)
    try:
        yield
    finally:
        _CANVAS.reset(token)
    if asked.cmap is not None and not asked.is_coloured:
        raise InputError("cmap is for surfaces; this picture has none", value=asked.cmap, accepted="no cmap")


def new_figure(
    width: float, height: float, *, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, list[list[Axes]]]:
    """Return a new figure of a size in inches, or the user's axes; options go to `Figure.subplots`."""
    from matplotlib.figure import Figure

    asked = canvas()
    if asked.ax is not None:
        if rows * columns > 1:
            raise InputError(
                "the picture has several panels, but ax is a single one",
                value=rows * columns,
                accepted="plot() without ax",
            )
        return cast("Figure", asked.ax.figure), [[asked.ax]]
    figure = Figure(figsize=asked.figsize or (width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options).tolist()


def new_panels(
    count: int,
    height: float,
    *,
    above: float = 0.9,
    width: float = 0.0,
    most: int = _MOST_PANELS,
    **options: Any,
) -> tuple[Figure, list[Axes], int]:
    """Return a figure, its panels of a height in inches, and the number of columns, at most `most`."""
    columns, rows = min(count, most), -(-count // most)
    width = width or (COLUMN if columns == 1 else PAGE)
    figure, grid = new_figure(width, above + height * rows, rows=rows, columns=columns, **options)
    panels = [ax for row in grid for ax in row]
    for ax in panels[count:]:
        ax.set_axis_off()
    return figure, panels[:count], columns


def legend_below(figure: Figure, columns: int, handles: dict[str, Any] | None = None) -> None:
    """Add one legend below all panels, of their labels or of the handles."""
    asked = canvas().ax
    if handles is None:
        handles = {}
        for ax in figure.axes if asked is None else [asked]:
            for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
                handles.setdefault(name, handle)
    if asked is not None:
        asked.legend(handles.values(), handles.keys())
        return
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)


def label_below(figure: Figure, text: str) -> None:
    """Add one label below the x axes of all panels."""
    asked = canvas().ax
    if asked is None:
        figure.supxlabel(text, fontsize="medium")
    else:
        asked.set_xlabel(text)


def finish(figure: Figure, alt: str, title: str = "") -> Figure:
    """Add the title, lay the figure out, and attach the text for `alt_text`.

    In a user's figure, only the user's axes are changed.
    """
    asked = canvas().ax
    if asked is not None:
        if title:
            asked.set_title("\n".join(filter(None, [title, asked.get_title("left")])), loc="left")
        _make_drawable(asked, [asked])
        return figure
    if title:
        figure.suptitle(title, fontsize="medium")
    _make_drawable(figure, figure.axes)
    figure.set_label(visible(" ".join(alt.split())))
    # Only once: each further layout would move the panels a little.
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)
    vars(figure)["_repr_png_"] = functools.partial(_on_screen, figure)  # shows it in notebooks
    return figure


def _make_drawable(artist: Artist, panels: Sequence[Axes]) -> None:
    """Make texts, which may contain the user's names, and tick labels drawable by any font."""
    from matplotlib.text import Text

    for text in cast("list[Text]", artist.findobj(Text)):
        text.set_text("\n".join(map(drawable, text.get_text().split("\n"))))
    for ax in panels:
        ax.set_ylabel("\n".join(drawable(line, _LONGEST_UPRIGHT) for line in ax.get_ylabel().split("\n")))
        for axis in (ax.xaxis, ax.yaxis):
            _write_plain_numbers(axis)


def _on_screen(figure: Figure) -> bytes:
    stream = io.BytesIO()
    with styled():
        figure.savefig(stream, format="png", dpi=_DOTS_ON_SCREEN)
    return stream.getvalue()


def drawable(line: str, longest: int = _LONGEST) -> str:
    """Escape control characters of a line, and shorten a long line in the middle.

    Examples
    --------
    >>> drawable("abcdefghij", 7)
    'abcd…ij'
    """
    line = visible(line)
    kept = longest - 1
    return line if len(line) <= longest else f"{line[: kept - kept // 3]}…{line[-(kept // 3) :]}"


def _write_plain_numbers(axis: Axis) -> None:
    """Replace matplotlib's powers of ten on a logarithmic axis, which need mathtext, by plain numbers."""
    from matplotlib.ticker import LogFormatterMathtext, NullFormatter

    if isinstance(axis.get_major_formatter(), LogFormatterMathtext):
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(NullFormatter())


def alt_text(figure: Figure) -> str:
    """Return the description of a figure of this package."""
    return str(figure.get_label())


def render(figure: Figure, format_: str) -> bytes:
    """Return a figure as PNG, SVG or PDF; equal figures give equal bytes.

    Raises
    ------
    InputError
        If the format is unknown.
    """
    check_choice("unknown picture format", format_, FORMATS)
    metadata = dict(_METADATA[format_])
    if alt_text(figure):
        metadata["Title" if format_ == "pdf" else "Description"] = alt_text(figure)
    stream = io.BytesIO()
    with styled():
        figure.savefig(stream, format=format_, dpi=_DOTS_PER_INCH, metadata=metadata)
    if format_ == "svg":
        return _SVG_SIZE.sub(
            lambda match: b'%s="%gpt"' % (match[1], _LARGER * float(match[2])), stream.getvalue(), 2
        )
    return stream.getvalue()


def rendered(name: str, figure: Figure) -> dict[str, bytes]:
    """Return the files of a figure in a results folder, by file name."""
    return {f"{name}.{format_}": render(figure, format_) for format_ in FOLDER_FORMATS}


def save(figure: Figure, path: PathLike) -> None:
    """Write a figure atomically; equal figures give equal bytes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Any figure.
    path : path-like
        The file; its suffix selects the format: ``.png`` (300 dots an inch), ``.svg`` or ``.pdf``.

    Raises
    ------
    InputError
        If the suffix is unknown.
    """
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise InputError("unknown picture format", file=path, value=suffix, accepted=", ".join(FORMATS))
    content = render(figure, suffix)
    with atomic_write(path, mode="binary") as stream:
        stream.write(content)


def setting(axes: Sequence[ParameterAxis], values: Iterable[float]) -> str:
    """Format a setting: ``λ = 0.400, μ = 2,500``."""
    return ", ".join(f"{axis.symbol} = {axis.text(value)}" for axis, value in zip(axes, values, strict=True))


def tokens(number: float) -> str:
    """Format a positive number of any magnitude, such as mu."""
    return f"{number:,.0f}" if number >= 1000.0 else f"{number:.4g}"


def log_ticks(axis: Axis, low: float, high: float, *, most: int = 12) -> None:
    """Label a logarithmic axis with plain numbers: powers of ten, with few also 2 and 5 times those."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    steps = (1.0,) if math.log10(high / low) > _MANY_DECADES else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=steps, numticks=most))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def thin_outline(width: float = 2.2) -> list[Any]:
    """Return path effects: a white outline that separates lines from the background."""
    from matplotlib import patheffects

    return [patheffects.withStroke(linewidth=width, foreground="white")]
