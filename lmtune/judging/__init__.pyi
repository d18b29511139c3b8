"""What users import from lmtune.judging, and where it is."""

from .judges import Judge as Judge
from .judges import JudgeOptions as JudgeOptions
from .judges import JudgesResult as JudgesResult
from .judges import cohen_kappa as cohen_kappa
from .judges import compare_judges as compare_judges
from .judges import kendall_tau as kendall_tau
from .judges import krippendorff_alpha as krippendorff_alpha
from .judges import tau_ap as tau_ap
from .prediction_powered import PoweredMean as PoweredMean
from .prediction_powered import PoweredResult as PoweredResult
from .prediction_powered import powered_mean as powered_mean
from .prediction_powered import powered_runs as powered_runs
from .selection import ToJudge as ToJudge
from .selection import pairs_to_judge as pairs_to_judge
