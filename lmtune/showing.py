"""How results become frames, tables and pictures: their classes say that they do, not how.

Results stand below what draws them. `lmtune/__init__.py` names the module that does; nothing else
has to know it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

_PRESENTER: list[str] = []


def present_by(module: str) -> None:
    """Name the module whose ``text``, ``html``, ``to_frame`` and ``plot`` show results."""
    _PRESENTER[:] = [module]


def _presenter() -> Any:
    return import_module(_PRESENTER[0])


class Shown:
    """Results that are a table where they are printed or end a cell of a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the table as plain text."""
        return str(_presenter().text(self))

    def _repr_html_(self) -> str:
        return str(_presenter().html(self))

    def to_latex(self) -> str:
        """Return the tables in LaTeX, with the rules of the package booktabs."""
        return str(_presenter().latex(self))

    def to_frame(self, *, per_topic: bool = False) -> pd.DataFrame:
        """Return a tidy frame, every figure at full precision.

        Parameters
        ----------
        per_topic : bool
            A row a topic where there are topics' values, instead of their means.
        """
        frame: pd.DataFrame = _presenter().to_frame(self, per_topic)
        return frame


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
        """Draw the picture; see `lmtune.reporting.presentation.plot` for what it shows, and the options."""
        figure: Figure = _presenter().plot(self, ax=ax, figsize=figsize, cmap=cmap, **options)
        return figure
