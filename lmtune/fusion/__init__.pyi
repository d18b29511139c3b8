"""Public names of lmtune.fusion and their modules."""

from .fusing import FusedRow as FusedRow
from .fusing import FusionResult as FusionResult
from .fusing import fuse_runs as fuse_runs
from .methods import Chosen as Chosen
from .methods import FusionOptions as FusionOptions
from .methods import fused_pool as fused_pool
from .methods import rankings as rankings
from .runs import RunSet as RunSet
