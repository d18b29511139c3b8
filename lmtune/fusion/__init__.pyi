"""What users import from lmtune.fusion, and where it is."""

from .fusing import Chosen as Chosen
from .fusing import FusedRow as FusedRow
from .fusing import FusionOptions as FusionOptions
from .fusing import FusionResult as FusionResult
from .fusing import fuse_runs as fuse_runs
from .fusing import fused_pool as fused_pool
from .fusing import rankings as rankings
from .runs import RunSet as RunSet
