"""Pictures for papers and pages: functions that take plain data and return matplotlib figures.

They use neither pyplot nor a display, and share one style. `save` writes PNG, SVG or PDF, with the same
bytes each time; `alt_text` describes a picture.

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
