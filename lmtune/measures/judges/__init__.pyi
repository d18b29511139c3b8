"""Public names of lmtune.measures.judges and their modules."""

from .agreement import Judge as Judge
from .agreement import JudgeOptions as JudgeOptions
from .agreement import JudgesResult as JudgesResult
from .agreement import cohen_kappa as cohen_kappa
from .agreement import compare_judges as compare_judges
from .agreement import kendall_tau as kendall_tau
from .agreement import krippendorff_alpha as krippendorff_alpha
from .agreement import tau_ap as tau_ap
from .prediction_powered import PoweredMean as PoweredMean
from .prediction_powered import PoweredResult as PoweredResult
from .prediction_powered import powered_mean as powered_mean
from .prediction_powered import powered_runs as powered_runs
from .selection import ToJudge as ToJudge
from .selection import pairs_to_judge as pairs_to_judge
