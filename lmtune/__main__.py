"""``python -m lmtune``: the command line."""

from lmtune.cli import main

main()
