"""Pictures for papers and pages: functions of plain data that return matplotlib figures.

All are drawn without pyplot and without a display, in one style; `save` writes them as PNG, SVG or
PDF, byte for byte the same each time, and `alt_text` says what they show.

Examples
--------
>>> from lmtune.reporting.figures import alt_text, save, topic_differences
>>> figure = topic_differences([0.5, 0.2, 0.4], [0.3, 0.2, 0.5], measure="AP")
>>> alt_text(figure)
'AP of system minus baseline on 3 topics, sorted: 1 wins, 1 ties, 1 losses, mean ...'
>>> save(figure, "differences.pdf")  # doctest: +SKIP
"""

from lmtune.reporting.figures.convergence import Search, at_lowest, best_so_far, convergence
from lmtune.reporting.figures.profiles import cost_and_measure
from lmtune.reporting.figures.recall import recall_precision_curves
from lmtune.reporting.figures.results import draw
from lmtune.reporting.figures.spread import parameter_spread
from lmtune.reporting.figures.style import FORMATS, Picture, alt_text, render, save
from lmtune.reporting.figures.surface import SurfacePanel, surface
from lmtune.reporting.figures.topics import topic_differences
from lmtune.reporting.figures.training import Course, training_courses

__all__ = [
    "FORMATS",
    "Course",
    "Picture",
    "Search",
    "SurfacePanel",
    "alt_text",
    "at_lowest",
    "best_so_far",
    "convergence",
    "cost_and_measure",
    "draw",
    "parameter_spread",
    "recall_precision_curves",
    "render",
    "save",
    "surface",
    "topic_differences",
    "training_courses",
]
