"""What users import from lmtune.measures, and where it is."""

from .from_files import Evaluation as Evaluation
from .from_files import EvaluationOptions as EvaluationOptions
from .from_files import evaluations as evaluations
from .from_files import topic_values as topic_values
from .judged_ranking import JudgedRanking as JudgedRanking
from .judged_ranking import trec_eval_order as trec_eval_order
from .kinds import MeasureKind as MeasureKind
from .lists import LabelledLists as LabelledLists
from .lists import Measurer as Measurer
from .lists import ndcg as ndcg
from .measure import Measure as Measure
from .measure import parse_measure as parse_measure
from .measure import parse_measures as parse_measures
from .significance.comparison import compare as compare
from .significance.contrasts import Comparison as Comparison
from .significance.contrasts import Contrast as Contrast
from .significance.effects import confidence_interval as confidence_interval
from .significance.effects import effect_size as effect_size
from .significance.effects import equivalence_test as equivalence_test
from .significance.options import ComparisonOptions as ComparisonOptions
from .significance.run_files import compare_runs as compare_runs
from .significance.tests import paired_t_test as paired_t_test
from .significance.tests import randomization_test as randomization_test
from .significance.tests import wilcoxon_test as wilcoxon_test
