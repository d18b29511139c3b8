"""The look that all pictures share, and how they are saved."""

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

from lmtune.errors import InputError, PathLike, check_choice, visible
from lmtune.io.files import atomic_write
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

LAMBDA, MU = "λ", "μ"
MU_LABEL = f"{MU} (tokens)"
_SYMBOLS = {"lambda": LAMBDA, "mu": MU}

_MOST_PANELS = 3
"""Panels side by side."""

FORMATS = ("png", "svg", "pdf")
FOLDER_FORMATS = ("png", "svg")
"""Those of a picture in a results folder."""

_DOTS_PER_INCH, _DOTS_ON_SCREEN = 300, 120
_LARGER = 1.6  # on a screen, where a point is a small one: an SVG file's own size
# Characters of a line that is drawn, and of one that stands upright beside an axis.
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
    """How a system is drawn: told apart by colour, and by line and marker without colour."""

    color: str
    line: str | tuple[int, tuple[int, ...]]
    marker: str

    def options(self) -> dict[str, Any]:
        """Return the options that matplotlib's functions of lines take."""
        return {"color": self.color, "ls": self.line, "marker": self.marker}


class ParameterAxis(NamedTuple):
    """How a parameter is shown: by its symbol, on a scale of its own.

    Attributes
    ----------
    name : str
        The parameter's name; lambda and mu are shown as letters.
    unit : str
        What it is counted in, if anything.
    is_log : bool
        Whether its axis is logarithmic, for a positive number of any magnitude.
    """

    name: str
    unit: str = ""
    is_log: bool = False

    @property
    def symbol(self) -> str:
        """The symbol that stands for it in a sentence."""
        return _SYMBOLS.get(self.name, self.name)

    @property
    def label(self) -> str:
        """The symbol and the unit, for an axis."""
        return f"{self.symbol} ({self.unit})" if self.unit else self.symbol

    def text(self, value: float) -> str:
        """Print a value."""
        return tokens(value) if self.is_log else f"{value:.3f}"


TWO_STAGE = (ParameterAxis("lambda"), ParameterAxis("mu", "tokens", is_log=True))
"""The parameters of two-stage smoothing."""


# Okabe and Ito's colours, which the colour-blind can tell apart.
_LOOKS = {
    "Direct": Look("#0072B2", "-", "o"),
    "RankNet": Look("#D55E00", "--", "^"),
    "Approx": Look("#CC79A7", "-.", "D"),
    "RankNet-val": Look("#000000", (0, (3, 1, 1, 1)), "X"),
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
    """A figure with what a page needs to show it.

    Attributes
    ----------
    name : str
        Fit for a file name, without suffix.
    title : str
        A caption.
    figure : matplotlib.figure.Figure
        The figure.
    group, part : str
        The collection, and within it the measure and fold that it belongs to.
    lead : bool
        Whether it supports the recommendation, and stands beside it.
    """

    name: str
    title: str
    figure: Figure
    group: str = ""
    part: str = ""
    lead: bool = False

    @property
    def alt(self) -> str:
        """The figure in a sentence or two, with the main numbers."""
        return alt_text(self.figure)


def looks(names: Sequence[str]) -> dict[str, Look]:
    """Give each system a look; the methods of a tuning experiment always have the same ones."""
    others = [name for name in names if name not in _LOOKS]
    further = {name: _FURTHER[i % len(_FURTHER)] for i, name in enumerate(others)}
    return {name: _LOOKS.get(name) or further[name] for name in names}


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw in this style, whatever the user's own settings, which are as before afterwards."""
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
        import matplotlib as mpl

        with styled(), mpl.rc_context({"text.parse_math": False}):  # a name may hold dollars
            return draw(*args, **kwargs)

    return wrapper


@dataclass
class Canvas:
    """What a user has asked of a picture.

    Attributes
    ----------
    ax : matplotlib.axes.Axes, optional
        Draw here, in place of a new figure.
    figsize : (float, float), optional
        The width and height of a new figure, in inches.
    cmap : str or Colormap, optional
        Colours of a surface, the last for the best.
    is_coloured : bool
        Whether the picture has used `cmap`.
    """

    ax: Axes | None = None
    figsize: tuple[float, float] | None = None
    cmap: str | Colormap | None = None
    is_coloured: bool = False


_CANVAS: ContextVar[Canvas | None] = ContextVar("canvas", default=None)


def canvas() -> Canvas:
    """Return what was asked of the picture that is being drawn."""
    return _CANVAS.get() or Canvas()


@contextlib.contextmanager
def drawn_on(asked: Canvas) -> Iterator[None]:
    """Draw a picture as it is asked for.

    Raises
    ------
    InputError
        For something else than axes, a size beside them, and colours of a picture without a surface.
    """
    from matplotlib.axes import Axes

    if not isinstance(asked.ax, Axes | None):
        raise InputError("bad ax", value=asked.ax, accepted="axes of matplotlib")
    if asked.ax is not None and asked.figsize is not None:
        raise InputError("figsize beside ax", value=asked.figsize, accepted="one of them")
    token = _CANVAS.set(asked)
    try:
        yield
    finally:
        _CANVAS.reset(token)
    if asked.cmap is not None and not asked.is_coloured:
        raise InputError("this picture has no surface", value=asked.cmap, accepted="no cmap")


def new_figure(
    width: float, height: float, *, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, list[list[Axes]]]:
    """Make a figure, in inches, or take the axes asked for; options go to `Figure.subplots`."""
    from matplotlib.figure import Figure

    asked = canvas()
    if asked.ax is not None:
        if rows * columns > 1:
            raise InputError("several panels for one ax", value=rows * columns, accepted="plot() without ax")
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
    """Make panels of a height in inches, at most so many side by side; return how many that are, too."""
    columns, rows = min(count, most), -(-count // most)
    width = width or (COLUMN if columns == 1 else PAGE)
    figure, grid = new_figure(width, above + height * rows, rows=rows, columns=columns, **options)
    panels = [ax for row in grid for ax in row]
    for ax in panels[count:]:
        ax.set_axis_off()
    return figure, panels[:count], columns


def legend_below(figure: Figure, columns: int, handles: dict[str, Any] | None = None) -> None:
    """Explain below all panels what is labelled in any of them, or the handles given."""
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
    """Label the x axes of all panels together."""
    asked = canvas().ax
    if asked is None:
        figure.supxlabel(text, fontsize="medium")
    else:
        asked.set_xlabel(text)


def finish(figure: Figure, alt: str, title: str = "") -> Figure:
    """Put a title above all panels, lay a figure out, and attach the text that `alt_text` gives back.

    Of a figure of the user's nothing but the axes asked for is changed.
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
    # Once and for all: laying out what is laid out already would move it a little each time.
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)
    vars(figure)["_repr_png_"] = functools.partial(_on_screen, figure)  # shows it in notebooks
    return figure


def _make_drawable(artist: Artist, panels: Sequence[Axes]) -> None:
    """Write texts, which may hold names of the user's, and numbers as any font can."""
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
    """Return a line that may hold a name of the user's, fit to be drawn.

    Control characters are written as escapes, and of a long line the middle is left out.

    Examples
    --------
    >>> drawable("abcdefghij", 7)
    'abcd…ij'
    """
    line = visible(line)
    kept = longest - 1
    return line if len(line) <= longest else f"{line[: kept - kept // 3]}…{line[-(kept // 3) :]}"


def _write_plain_numbers(axis: Axis) -> None:
    """Take matplotlib's powers of ten, which only mathematics can write, from a logarithmic axis."""
    from matplotlib.ticker import LogFormatterMathtext, NullFormatter

    if isinstance(axis.get_major_formatter(), LogFormatterMathtext):
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(NullFormatter())


def alt_text(figure: Figure) -> str:
    """Return a figure of this package in words."""
    return str(figure.get_label())


def render(figure: Figure, format_: str) -> bytes:
    """Return a figure as PNG, SVG or PDF; the same figure always gives the same bytes.

    Raises
    ------
    InputError
        For another format.
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
    """Return the files of a figure in a results folder, by their names."""
    return {f"{name}.{format_}": render(figure, format_) for format_ in FOLDER_FORMATS}


def save(figure: Figure, path: PathLike) -> None:
    """Write a figure whole or not at all; equal figures give equal bytes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        From any function of this package, or another.
    path : path-like
        Its suffix, ``.png`` (300 dots an inch), ``.svg`` or ``.pdf``, is the format.

    Raises
    ------
    InputError
        For another suffix.
    """
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise InputError("unknown picture format", file=path, value=suffix, accepted=", ".join(FORMATS))
    content = render(figure, suffix)
    with atomic_write(path, mode="binary") as stream:
        stream.write(content)


def setting(axes: Sequence[ParameterAxis], values: Iterable[float]) -> str:
    """Print a setting: ``λ = 0.400, μ = 2,500``."""
    return ", ".join(f"{axis.symbol} = {axis.text(value)}" for axis, value in zip(axes, values, strict=True))


def tokens(number: float) -> str:
    """Print a positive number of any magnitude, such as a mu."""
    return f"{number:,.0f}" if number >= 1000.0 else f"{number:.4g}"


def log_ticks(axis: Axis, low: float, high: float, *, most: int = 12) -> None:
    """Put plain numbers on a logarithmic axis: powers of ten, and 2 and 5 times those if few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    steps = (1.0,) if math.log10(high / low) > _MANY_DECADES else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=steps, numticks=most))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def thin_outline(width: float = 2.2) -> list[Any]:
    """Return path effects that set lines off from whatever is below them."""
    from matplotlib import patheffects

    return [patheffects.withStroke(linewidth=width, foreground="white")]
