"""``lmtune datasets``: what can be named."""

from __future__ import annotations


def datasets() -> None:
    """List what can be named.

    Examples
    --------
    lmtune datasets
    """
    from rich.console import Console
    from rich.table import Table

    from lmtune.datasets.loading import available
    from lmtune.datasets.names import Role, named_files
    from lmtune.errors import visible

    console = Console()
    if not console.is_terminal:
        console = Console(width=200, no_color=True, highlight=False)
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column in ("DATASET", "what it is"):
        table.add_column(column)
    for name, description in available():
        table.add_row(name, description)
    table.add_row("--documents PATH --topics NAME --qrels NAME", "files by name or path")
    console.print(table)
    console.print()
    roles: tuple[Role, ...] = ("topics", "qrels")
    for role in roles:
        names = ", ".join(named_files(role)) or f"none; {role}/{role}.NAME.txt gives a name"
        console.print(visible(f"--{role} names in this folder: {names}"), markup=False)
