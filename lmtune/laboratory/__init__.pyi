"""Public names of lmtune.laboratory, and where they are."""

from .catalogue import NAMES as NAMES
from .catalogue import find_experiment as find_experiment
from .data import artificial_data as artificial_data
from .experiment import Experiment as Experiment
from .experiment import Unit as Unit
from .lambdas.examine import Examination as Examination
from .lambdas.examine import RebuiltCost as RebuiltCost
from .lambdas.examine import check_cost as check_cost
from .lambdas.examine import examine as examine
from .lambdas.examine import needed_alpha as needed_alpha
from .lambdas.examine import rebuild_cost as rebuild_cost
from .lambdas.examine import regularise as regularise
from .running import Result as Result
from .running import run as run
from .running import run_all as run_all
