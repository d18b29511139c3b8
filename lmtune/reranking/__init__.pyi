"""What users import from lmtune.reranking, and where it is."""

from .comparison import Outcome as Outcome
from .comparison import compare as compare
from .data import RankingData as RankingData
from .data import RankingSplit as RankingSplit
from .features import FEATURES as FEATURES
from .importance import permutation_importance as permutation_importance
from .learners.feature_networks import Trained as Trained
from .learners.feature_networks import fit as fit
from .learners.learner import FeatureScorer as FeatureScorer
from .learners.learner import Learner as Learner
from .learners.networks import make_network as make_network
from .learners.tree_settings import TreeSettings as TreeSettings
from .learners.trees import LambdaMart as LambdaMart
from .letor_folder import read_letor_folder as read_letor_folder
from .losses.names import Loss as Loss
from .losses.names import parse_loss as parse_loss
from .normalisation import Normalisation as Normalisation
from .normalisation import Normaliser as Normaliser
from .reranker import Reranker as Reranker
from .reranker import learn as learn
from .reranker import load_model as load_model
from .reranker import save_model as save_model
from .settings import Settings as Settings
from .sources import reranked as reranked
from .sources import run_data as run_data
