"""Pictures for papers and pages: functions of plain data that return matplotlib figures.

All are drawn without pyplot and without a display, in one style; `save` writes them as PNG, SVG or
PDF, byte for byte the same each time, and `alt_text` says what they show.

Examples
--------
>>> from lmtune.report.figures import alt_text, save, topic_differences
>>> figure = topic_differences([0.5, 0.2, 0.4], [0.3, 0.2, 0.5], measure="AP")
>>> alt_text(figure)
'AP of system minus baseline on 3 topics, sorted: 1 wins, 1 ties, 1 losses, mean ...'
>>> save(figure, "differences.pdf")  # doctest: +SKIP
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
