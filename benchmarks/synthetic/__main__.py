"""Write a synthetic collection: ``python -m benchmarks.synthetic NAME FOLDER`` makes ``FOLDER/NAME``."""

import sys
from pathlib import Path

from .source import collection

if len(sys.argv) != 3:
    sys.exit(__doc__)
print(collection(sys.argv[1], Path(sys.argv[2])))
