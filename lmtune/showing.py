"""How results become tables, frames and pictures: a class names the functions of `lmtune.report` that do.

Results stand below what draws them, so that these functions are imported when they are first needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

_MOST_ROWS = 60  # of an HTML table; a frame has them all


class Shown:
    """Results that are a table where they are printed or end a cell of a notebook.

    ``class Result(Shown, by="MODULE.NAME")`` is shown by ``NAME_tables`` and ``NAME_records`` of that module
    of `lmtune.report`, by ``NAME_topics`` where topics have records of their own, and drawn by
    ``NAME_picture`` of `lmtune.report.summaries`.
    """

    __slots__ = ()
    _by: ClassVar[str]

    def __init_subclass__(cls, by: str = "", **options: Any) -> None:
        """Name the functions that show the class; a subclass is shown as its base by default."""
        super().__init_subclass__(**options)
        if by:
            cls._by = by

    def _made(self, what: str, *otherwise: str, **options: Any) -> Any:
        module, _, name = self._by.partition(".")
        module = "summaries" if what == "picture" else module
        functions = vars(import_module(f"lmtune.report.{module}"))
        made = next(made for own in (what, *otherwise) if (made := functions.get(f"{name}_{own}")))
        return made(self, **options)

    def __repr__(self) -> str:
        """Return the table as plain text."""
        return "\n".join(table.text() for table in self._made("tables")).rstrip("\n")

    def _repr_html_(self) -> str:
        return "".join(table.first(_MOST_ROWS).html() for table in self._made("tables"))

    def to_latex(self) -> str:
        """Return the tables in LaTeX, with the rules of the package booktabs."""
        return "\n".join(table.latex() for table in self._made("tables"))

    def to_frame(self, *, per_topic: bool = False) -> pd.DataFrame:
        """Return a tidy frame, every figure at full precision.

        Parameters
        ----------
        per_topic : bool
            A row a topic where there are topics' values, instead of their means.
        """
        import pandas as pd

        return pd.DataFrame(self._made(*(["topics"] if per_topic else []), "records"))


class Plotted(Shown):
    """Results that have a picture, too."""

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

        A fitted tuner is drawn over two parameters as its grid's surface, else as the growth of the best
        value; an experiment's result as the parameters of every fold; choices as how they act together; a
        comparison as mean differences with their intervals, or one contrast's differences by topic.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Draw a picture of one panel here, in place of a new figure.
        figsize : (float, float), optional
            The width and height of a new figure, in inches.
        cmap : str or Colormap, optional
            Colours of a surface.
        **options
            ``title``; ``system``, ``against`` and ``measure`` of a contrast.

        Returns
        -------
        matplotlib.figure.Figure
            That of `ax`, or a new one; `lmtune.report.figures.save` writes it for a paper.

        Raises
        ------
        InputError
            For a tuner that is not fitted, an unknown system or measure, several panels for one `ax`.
        """
        style = import_module("lmtune.report.figures.style")
        with style.drawn_on(style.Canvas(ax, figsize, cmap)):
            figure: Figure = self._made("picture", **options)
        return figure
