"""Public names of lmtune.laboratory, and where they are."""

from .catalogue import NAMES as NAMES
from .catalogue import find_experiment as find_experiment
from .data import artificial_data as artificial_data
from .experiment import Experiment as Experiment
from .experiment import Unit as Unit
from .lambdas.cost import RebuiltCost as RebuiltCost
from .lambdas.cost import check_cost as check_cost
from .lambdas.cost import needed_alpha as needed_alpha
from .lambdas.cost import rebuild_cost as rebuild_cost
from .lambdas.cost import regularise as regularise
from .lambdas.examine import Examination as Examination
from .lambdas.examine import examine as examine
from .running import Result as Result
from .running import run as run
from .running import run_all as run_all
