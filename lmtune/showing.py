"""Base classes of results that can be shown as tables, data frames and pictures.

A class names the functions of `lmtune.report` that show it. They are imported at their first use, because
`lmtune.report` itself imports the modules of results.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from lmtune.errors import require_modules

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

_MOST_ROWS = 60  # of an HTML table; a data frame has all rows


def data_frame(content: Any, *, index: Any = None) -> pd.DataFrame:
    """Return columns by name, or records, as a data frame.

    Raises
    ------
    MissingExtraError
        If pandas is not installed.
    """
    require_modules("a data frame", "report", "pandas")
    import pandas as pd

    return pd.DataFrame(content, index=index)


class Framed:
    """An attribute that returns the columns in another attribute as a new data frame.

    Parameters
    ----------
    columns : str
        The attribute with a dictionary of columns.
    """

    def __init__(self, columns: str) -> None:
        self.columns = columns

    def __get__(self, owner: object, _: type) -> pd.DataFrame:
        return data_frame(getattr(owner, self.columns))


class Shown:
    """Results that are shown as tables when printed, or at the end of a notebook cell.

    ``class Result(Shown, by="MODULE.NAME")`` uses these functions of ``lmtune.report.MODULE``:
    ``NAME_tables``, ``NAME_records``, and, if there are records by topic, ``NAME_topics``. ``NAME_picture``
    of `lmtune.report.summaries` draws it.
    """

    __slots__ = ()
    _by: ClassVar[str]

    def __init_subclass__(cls, by: str = "", **options: Any) -> None:
        """Set the names of the functions that show the class; subclasses inherit them."""
        super().__init_subclass__(**options)
        if by:
            cls._by = by

    def _build(self, what: str, *fallbacks: str, **options: Any) -> Any:
        module, _, name = self._by.partition(".")
        module = "summaries" if what == "picture" else module
        functions = vars(import_module(f"lmtune.report.{module}"))
        build = next(build for end in (what, *fallbacks) if (build := functions.get(f"{name}_{end}")))
        return build(self, **options)

    def __repr__(self) -> str:
        """Return the table as plain text."""
        return "\n".join(table.text() for table in self._build("tables")).rstrip("\n")

    def _repr_html_(self) -> str:
        return "".join(table.first(_MOST_ROWS).html() for table in self._build("tables"))

    def to_latex(self) -> str:
        """Return the tables as LaTeX code for the package booktabs."""
        return "\n".join(table.latex() for table in self._build("tables"))

    def to_frame(self, *, per_topic: bool = False) -> pd.DataFrame:
        """Return a tidy data frame with full precision.

        Parameters
        ----------
        per_topic : bool
            Return one row per topic instead of means, if there are values by topic.

        Returns
        -------
        pandas.DataFrame
        """
        return data_frame(self._build(*(["topics"] if per_topic else []), "records"))


class Plotted(Shown):
    """Results that can be drawn too."""

    __slots__ = ()

    def plot(
        self,
        *,
        ax: Axes | None = None,
        figsize: tuple[float, float] | None = None,
        cmap: str | Colormap | None = None,
        **options: Any,
    ) -> Figure:
        """Draw the picture.

        - A fitted tuner with a grid of two parameters: the surface; other tuners: the best value so far.
        - The result of an experiment: the parameters of each fold.
        - Categorical parameters: their interactions.
        - A comparison: mean differences with intervals, or the differences by topic of one contrast.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes for a picture with one panel; by default a new figure.
        figsize : (float, float), optional
            Width and height of a new figure, in inches.
        cmap : str or Colormap, optional
            Colours of a surface.
        **options
            ``title``; for a contrast ``system``, ``against`` and ``measure``.

        Returns
        -------
        matplotlib.figure.Figure
            The figure of `ax`, or a new one; `lmtune.report.figures.save` writes it for a paper.

        Raises
        ------
        InputError
            For a tuner that is not fitted, an unknown system or measure, or several panels with `ax`.
        """
        style = import_module("lmtune.report.figures.style")
        with style.drawn_on(style.Canvas(ax, figsize, cmap)):
            figure: Figure = self._build("picture", **options)
        return figure
